/* SPDX-License-Identifier: Apache-2.0 */
/* A peer whose process is killed is lost at once, one that is stopped when it was awaited for
 * dead_after; the entries on it end, the handle stays until it is closed. */
#include <signal.h>
#include <sys/wait.h>

#include "control_rig.h"

#define DEAD_AFTER_MS 1000

/* Listens, tells its metadata, accepts, and lives until it is ended. */
static void child(int out)
{
	struct urccl_params p = rig_params();
	struct side s;

	side_open(&s, &p);
	side_accept(&s, 1);
	CHECK_EQ(write(out, s.blob, s.blob_len), s.blob_len);
	(void)side_next(&s);
	for (;;)
		pause();
}

static pid_t spawn(uint8_t *blob, uint32_t *len)
{
	int fds[2];
	ssize_t n;
	pid_t pid;

	CHECK_EQ(pipe(fds), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		close(fds[0]);
		child(fds[1]);
	}
	close(fds[1]);
	n = read(fds[0], blob, URCCL_METADATA_MAX);
	CHECK(n > 0);
	*len = (uint32_t)n;
	close(fds[0]);
	return pid;
}

static void loses(int sig, const char *words)
{
	struct urccl_params p = rig_params();
	uint8_t blob[URCCL_METADATA_MAX];
	uint32_t len, peer;
	pid_t pid = spawn(blob, &len);
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	char text[512];
	struct side a;

	p.dead_after_ms = DEAD_AFTER_MS;
	side_open(&a, &p);
	side_connect(&a, blob, len, 0, 1);
	cqe = side_next(&a);
	CHECK_EQ(cqe.res, 0);
	peer = (uint32_t)cqe.handle;
	sqe = urccl_get_sqe(a.ring);
	urccl_prep_watch(sqe, (struct urccl_peer){peer});
	urccl_sqe_set_data64(sqe, 2);
	/* Nobody watches there, so it waits. */
	sqe = urccl_get_sqe(a.ring);
	urccl_prep_notify(sqe, (struct urccl_peer){peer}, 7, NULL, 0);
	urccl_sqe_set_data64(sqe, 3);
	urccl_submit(a.ring);
	CHECK_EQ(kill(pid, sig), 0);

	cqe = side_next(&a);
	CHECK_EQ(cqe.user_data, 3);
	CHECK_EQ(cqe.res, -ECONNRESET);
	cqe = side_next(&a);
	CHECK_EQ(cqe.user_data, 2);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_LOST);
	CHECK_EQ(cqe.res, -ECONNRESET);
	CHECK(urccl_explain(a.ctx, &cqe, text, sizeof(text)) > 0);
	CHECK_SAYS(text, words);
	side_hang_up(&a, peer, 4);
	CHECK_EQ(side_end_of(&a, 4), 0);
	side_close(&a);
	kill(pid, SIGKILL);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

int case_control_lost(void)
{
	loses(SIGKILL, "connection broke");
	loses(SIGSTOP, "nothing was heard");
	return 0;
}
