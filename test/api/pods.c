/* SPDX-License-Identifier: Apache-2.0 */
/* Two pods of one host: processes with network, PID, mount and IPC namespaces of their own, and a
 * pair of interfaces between them. With a directory that both have they meet over shm; without one,
 * over tcp, and a dump says why. */
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include "pair.h"
#include "ns.h"

static struct pair p;
static int to_b[2], from_b[2];

static int run(const char *format, int pid)
{
	char command[512];

	snprintf(command, sizeof(command), format, pid);
	return system(command) == 0;
}

/* As root of a user namespace one may have all the others. */
static int become_root(void)
{
	return !ns_enter(CLONE_NEWNET, 1);
}

/* What it is for happens in a child: only children are in the new PID namespace. */
static pid_t enter(int flags)
{
	pid_t child;

	if (unshare(flags | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC))
		test_end(77);
	child = fork();
	if (!child)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return child;
}

static void finish(pid_t child)
{
	int status;

	CHECK_EQ(waitpid(child, &status, 0), child);
	test_end(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static void serve(void)
{
	uint8_t blob[URCCL_METADATA_MAX];
	struct urccl_cqe cqe;
	struct urccl_sqe *sqe;
	int len;

	p.params.listen = "10.79.0.2:0";
	side_open(&p, &p.b);
	sqe = side_sqe(&p.b);
	urccl_prep_accept(sqe);
	sqe = side_sqe(&p.b);
	urccl_prep_watch(sqe, (struct urccl_peer){0});
	CHECK_EQ(urccl_submit(p.b.ring), 2);
	len = urccl_metadata(p.b.ctx, blob, sizeof(blob));
	CHECK_EQ(write(from_b[1], blob, (size_t)len), len);
	do
		side_take(&p.b, NULL, &cqe, NULL);
	while (urccl_cqe_kind(&cqe) != URCCL_KIND_LOST);
	side_close(&p.b);
	test_end(0);
}

/* Asks for its interface, then serves. */
static void pod_b(void)
{
	char byte = 'r';
	pid_t child = enter(CLONE_NEWNET);

	if (!child) {
		CHECK_EQ(write(from_b[1], &byte, 1), 1);
		CHECK_EQ(read(to_b[0], &byte, 1), 1);
		CHECK(run("ip link set lo up && ip addr add 10.79.0.2/24 dev uvb && "
			  "ip link set uvb up",
			  0));
		serve();
	}
	finish(child);
}

static void dump_says(const char *words)
{
	static char text[65536];
	FILE *f = tmpfile();
	size_t n;

	CHECK(f);
	CHECK_EQ(urccl_dump(p.a.ctx, fileno(f)), 0);
	rewind(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = 0;
	fclose(f);
	CHECK_SAYS(text, words);
}

static void meet(uint32_t transport)
{
	struct urccl_peer_info info = {.size = sizeof(info)};
	uint8_t blob[URCCL_METADATA_MAX];
	ssize_t len = read(from_b[0], blob, sizeof(blob));
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	struct urccl_peer b;

	CHECK(len > 1);
	p.params.listen = "";
	side_open(&p, &p.a);
	sqe = side_sqe(&p.a);
	urccl_prep_connect(sqe, blob, (uint32_t)len);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, 0);
	b.id = (uint32_t)cqe.handle;
	CHECK_EQ(urccl_get_peer_info(p.a.ctx, b, &info), 0);
	CHECK_EQ(info.transport, transport);
	sqe = side_sqe(&p.a);
	urccl_prep_notify(sqe, b, 1, NULL, 0);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, 0);
	CHECK_EQ(cqe.path & URCCL_PATH_TRANSPORT, transport);
	if (transport == URCCL_TRANSPORT_TCP)
		dump_says("not over shm");
	side_close(&p.a);
	test_end(0);
}

static void pods(uint32_t transport)
{
	pid_t b, child;
	char byte;
	int status;

	if (!become_root())
		test_end(77);
	CHECK_EQ(pipe(to_b), 0);
	CHECK_EQ(pipe(from_b), 0);
	b = fork();
	if (!b) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(from_b[0]);
		pod_b();
	}
	close(from_b[1]);
	if (read(from_b[0], &byte, 1) != 1)
		test_end(77);
	/* Its network namespace is that of the process that made the one that asks. */
	if (!run("{ ip link set lo up && ip link add uva type veth peer name uvb && "
		 "ip link set uvb netns %d && ip addr add 10.79.0.1/24 dev uva && "
		 "ip link set uva up; } 2>/dev/null",
		 b))
		test_end(77);
	child = enter(0);
	if (!child) {
		CHECK_EQ(write(to_b[1], "g", 1), 1);
		meet(transport);
	}
	CHECK_EQ(waitpid(b, &status, 0), b);
	CHECK_EQ(status, 0);
	finish(child);
}

static int apart(uint32_t transport)
{
	pid_t child = fork();
	int status;

	if (!child)
		pods(transport);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/urccl-test-XXXXXX";
	int with, without;

	pair_options(&p, argc, argv);
	p.params.transport = "shm,tcp";
	CHECK(mkdtemp(dir));
	p.params.socket_dir = dir;
	with = apart(URCCL_TRANSPORT_SHM);
	CHECK_EQ(rmdir(dir), 0);
	p.params.socket_dir = NULL;
	without = apart(URCCL_TRANSPORT_TCP);
	if (with == 77 || without == 77)
		SKIP("no namespaces, or no ip(8) to make interfaces with");
	return with || without;
}
