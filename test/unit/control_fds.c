/* SPDX-License-Identifier: Apache-2.0 */
/* A context whose process has no descriptors left tells diallers that it is full, and takes them
 * again when there are some; its own dials say what the limit is. */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "control_rig.h"

#define STRANGERS 16

/* Leaves room for eight more descriptors. */
static void lower_limit(void)
{
	int next = fcntl(0, F_DUPFD_CLOEXEC, 0);
	struct rlimit limit = {(rlim_t)next + 8, (rlim_t)next + 8};

	CHECK(next >= 0);
	close(next);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void child(int out)
{
	struct urccl_params p = rig_params();
	struct side s;

	side_open(&s, &p);
	side_accept(&s, 1);
	lower_limit();
	CHECK_EQ(write(out, s.blob, s.blob_len), s.blob_len);
	for (;;)
		(void)side_next(&s);
}

static void crowd(uint16_t port)
{
	struct wire_refuse r = {.code = 0};
	int fd[STRANGERS], refused = 0, i;
	uint8_t body[WIRE_BUF];
	struct wire_header head;

	for (i = 0; i < STRANGERS; i++)
		fd[i] = stranger_dial(port);
	/* The first ones are guests now; the last is told. */
	head = stranger_frame(fd[STRANGERS - 1], body, 0);
	CHECK_EQ(head.type, WIRE_REFUSE);
	CHECK_EQ(wire_get_refuse(body, head.len, &r), 0);
	CHECK_EQ(r.code, WIRE_FULL);
	for (i = 0; i < STRANGERS; i++)
		refused += !close(fd[i]);
	CHECK_EQ(refused, STRANGERS);
}

/* Who dials with none left is told how many there may be. */
static void dials_without(struct side *a, const uint8_t *blob, uint32_t len)
{
	struct rlimit was, none;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = was;
	none.rlim_cur = 3;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	side_cannot_connect(a, blob, len, -EMFILE, "may have 3 descriptors, see ulimit -n");
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
}

int case_control_fds(void)
{
	struct urccl_params p = rig_params();
	uint8_t blob[URCCL_METADATA_MAX];
	struct metadata m;
	struct side a;
	int fds[2], status;
	int64_t res;
	ssize_t n;
	pid_t pid;

	CHECK_EQ(pipe(fds), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		child(fds[1]);
	n = read(fds[0], blob, sizeof(blob));
	CHECK(n > 0);
	CHECK_EQ(metadata_get(blob, (uint64_t)n, &m), 0);
	crowd((uint16_t)m.port);

	side_open(&a, &p);
	dials_without(&a, blob, (uint32_t)n);
	do {
		side_connect(&a, blob, (uint32_t)n, 2000000, 1);
		res = side_end_of(&a, 1);
		CHECK(!res || res == -EMFILE);
	} while (res);
	side_close(&a);
	CHECK_EQ(waitpid(pid, &status, WNOHANG), 0);
	kill(pid, SIGKILL);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return 0;
}
