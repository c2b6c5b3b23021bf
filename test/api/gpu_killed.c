/* SPDX-License-Identifier: Apache-2.0 */
/* Processes are killed while copies of GPUs between their memory and ours are under way, by copies
 * of one side alone or (--owner, and over tcp) by the relay: the owner of the memory, and who
 * writes to it. Entries end, the peer is lost, its memory and ours can be given back, and the next
 * process finds all as it was. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "child.h"
#include "itself.h"
#include "meet.h"
#include "cuda/device.h"

#define LEN    (8u << 20)
#define PART   (256u << 10)
#define PARTS  (LEN / PART)
#define ROUNDS (device_cuda.set ? 2u : 25u) /* fewer by the stand-in */
#define WRITER "--writer="

static struct pair p;
static uint64_t device;

static void *at(uint64_t off)
{
	return (void *)(uintptr_t)(device + off);
}

static uint32_t fds(void)
{
	uint32_t n = 0;
	int fd;

	for (fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void close_peer(void)
{
	side_drop(&p.a, NULL, p.a.peer.id);
}

/* ---- the owner is killed ---- */

static void submit_all(struct urccl_remote remote)
{
	uint32_t i;

	for (i = 0; i < PARTS; i++) {
		struct urccl_sqe *sqe = side_sqe(&p.a);

		if (i & 1)
			urccl_prep_write(sqe, remote, at(i * PART), PART, i * PART);
		else
			urccl_prep_read(sqe, remote, at(i * PART), PART, i * PART);
	}
	CHECK_EQ(urccl_submit(p.a.ring), (int)PARTS);
}

/* Kills it after some have ended. How many did. */
static uint32_t owner_killed(struct child *c, uint32_t after)
{
	struct urccl_cqe cqe;
	uint32_t ended = 0, well = 0;
	int lost = 0;

	while (ended < PARTS || !lost) {
		if (ended == after && c->pid) {
			child_kill(c);
			c->pid = 0;
		}
		side_take(&p.a, NULL, &cqe, NULL);
		if (urccl_cqe_kind(&cqe) == URCCL_KIND_LOST)
			lost = 1;
		if (urccl_cqe_kind(&cqe) != URCCL_KIND_OP || cqe.flags & URCCL_CQE_MORE)
			continue;
		ended++;
		well += cqe.res == PART;
		CHECK(cqe.res == PART || cqe.res == -ECONNRESET);
	}
	return well;
}

static void owners(void)
{
	struct urccl_remote remote;
	uint32_t i, open = 0;
	struct child c;

	for (i = 0; i < ROUNDS; i++) {
		child_start(&p, &c, LEN, NULL);
		child_connect(&p, &c);
		CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &c.advert, 1, &remote), 0);
		submit_all(remote);
		CHECK_GE(owner_killed(&c, i % PARTS), i % PARTS);
		close_peer();
		if (i == 1)
			open = fds();
	}
	CHECK(fds() <= open + 1);
}

/* ---- who writes is killed ---- */

struct hello {
	struct urccl_advert advert;
	uint8_t blob[URCCL_METADATA_MAX];
	uint32_t len;
};

/* Writes for ever; a byte to the other once all is under way. */
__attribute__((noreturn)) static void writer(int fd, int argc, char **argv)
{
	struct urccl_remote remote;
	struct hello h;
	struct urccl_cqe cqe;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	device_load();
	pair_options(&p, argc, argv);
	p.params.flags = 0;
	side_open(&p, &p.a);
	device = device_alloc(LEN, 0);
	side_register(&p.a, at(0), LEN, 0);
	CHECK_EQ(read(fd, &h, sizeof(h)), sizeof(h));
	cqe = side_dialled(&p.a, NULL, h.blob, h.len, 20000000);
	CHECK_EQ(cqe.res, 0);
	p.a.peer.id = (uint32_t)cqe.handle;
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &h.advert, 1, &remote), 0);
	for (;;) {
		uint32_t i;

		submit_all(remote);
		CHECK_EQ(write(fd, "", 1), 1);
		for (i = 0; i < PARTS; i++)
			side_take(&p.a, NULL, &cqe, NULL);
	}
}

/* While it is watched the region stays as long as the writer is there, and then it goes. */
static void writer_killed(int argc, char **argv, uint32_t round)
{
	const uint32_t rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE;
	struct urccl_region r = side_register(&p.a, at(0), LEN, rights);
	struct hello h;
	struct urccl_cqe cqe;
	uint32_t i;
	int fd[2], n;
	pid_t pid;
	char byte;

	CHECK_EQ(urccl_advertise(p.a.ctx, r, 0, LEN, rights, 0, &h.advert), 0);
	n = urccl_metadata(p.a.ctx, h.blob, sizeof(h.blob));
	CHECK_GE(n, 1);
	h.len = (uint32_t)n;
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	pid = itself_start(WRITER, fd[1], argc, argv);
	close(fd[1]);
	CHECK_EQ(write(fd[0], &h, sizeof(h)), sizeof(h));
	cqe = side_event(&p.a, NULL, URCCL_KIND_PEER, NULL);
	for (i = 0; i < 1 + round % 3; i++) {
		while (recv(fd[0], &byte, 1, MSG_DONTWAIT) != 1)
			side_turn(&p.a);
	}
	kill(pid, SIGKILL);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	CHECK_EQ(urccl_unregister(p.a.ctx, r), 0);
	device_fill(device, LEN, 0, round);
	close(fd[0]);
	cqe = side_event(&p.a, NULL, URCCL_KIND_LOST, NULL);
	CHECK(device_check(device, LEN, 0, round));
	side_drop(&p.a, NULL, cqe.peer);
}

int main(int argc, char **argv)
{
	uint32_t i, open = 0;

	child_memory = device_memory;
	if (argc > 1 && !strncmp(argv[1], WRITER, strlen(WRITER)))
		writer(atoi(argv[1] + strlen(WRITER)), argc - 1, argv + 1);
	child_main(argc, argv);
	device_load();
	if (device_cuda.set)
		device_set("delay=200");
	pair_options(&p, argc, argv);
	side_open(&p, &p.a);
	side_watch(&p.a, (struct urccl_peer){0}, 2);
	side_accept(&p.a, 1);
	device = device_alloc(LEN, 0);
	for (i = 0; i < ROUNDS; i++) {
		writer_killed(argc, argv, i);
		if (i == 1)
			open = fds();
	}
	CHECK(fds() <= open + 1);
	side_register(&p.a, at(0), LEN, 0);
	owners();
	side_close(&p.a);
	return 0;
}
