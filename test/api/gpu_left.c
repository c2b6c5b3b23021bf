/* SPDX-License-Identifier: Apache-2.0 */
/* An importer whose GPU is still at its owner's memory when the link between them has ended: the
 * memory stays the owner's to give until the importer says that it is done, or its process ends. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "itself.h"
#include "meet.h"
#include "cuda/device.h"

#define LEN	(1u << 20)
#define RIGHTS	(URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)
#define WAIT_US 300000u /* more than a peer has to let go */
#define WRITER	"--writer="

/* What the writer is told to do. */
enum { GO_ON = 'g', CLOSE = 'c', HANG_UP = 'h', COPY = 'u' };

struct hello {
	struct urccl_advert advert;
	uint8_t blob[URCCL_METADATA_MAX];
	uint32_t len;
};

static struct pair p;
static uint64_t device;

/* ---- the writer: its context works while it calls it ---- */

/* As if it had died, but that its GPU goes on. */
static void hang_up(int but)
{
	struct sockaddr addr;
	socklen_t len;
	int fd;

	for (fd = 0; fd < 1024; fd++) {
		len = sizeof(addr);
		if (fd != but && !getsockname(fd, &addr, &len) && addr.sa_family == AF_UNIX)
			close(fd);
	}
}

static void submit_close(struct side *s, uint32_t peer)
{
	struct urccl_sqe *sqe = side_sqe(s);

	urccl_prep_close(sqe, (struct urccl_peer){peer});
	CHECK_EQ(urccl_submit(s->ring), 1);
}

static void obey(int fd)
{
	struct urccl_cqe cqe;
	ssize_t n;
	char c;

	for (;;) {
		n = recv(fd, &c, 1, MSG_DONTWAIT);
		if (!n)
			test_end(0);
		if (n > 0 && c == CLOSE)
			submit_close(&p.a, p.a.peer.id);
		if (n > 0 && c == COPY)
			device_set("hold=none");
		if (n > 0 && c == HANG_UP) {
			hang_up(fd);
			CHECK_EQ(write(fd, "", 1), 1);
			pause();
		}
		(void)side_take_within(&p.a, NULL, 1000000, &cqe, NULL);
	}
}

/* Stops to work while its GPU's copy is issued. */
__attribute__((noreturn)) static void writer(int fd, int argc, char **argv)
{
	struct urccl_remote remote;
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	struct hello h;
	uint64_t local;
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	device_load();
	pair_options(&p, argc, argv);
	p.params.flags |= URCCL_OPEN_INLINE;
	side_open(&p, &p.a);
	local = device_alloc(LEN, 0);
	side_register(&p.a, (void *)(uintptr_t)local, LEN, 0);
	CHECK_EQ(read(fd, &h, sizeof(h)), sizeof(h));
	cqe = side_dialled(&p.a, NULL, h.blob, h.len, 20000000);
	CHECK_EQ(cqe.res, 0);
	p.a.peer.id = (uint32_t)cqe.handle;
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &h.advert, 1, &remote), 0);
	device_set("hold=memcpy");
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, remote, (void *)(uintptr_t)local, LEN, 0);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	while (!device_calls(NULL, "cuMemcpy"))
		side_turn(&p.a);
	CHECK_EQ(write(fd, "", 1), 1);
	CHECK_EQ(recv(fd, &c, 1, MSG_PEEK), 1);
	obey(fd);
	abort();
}

/* ---- the owner ---- */

static int taken_back(struct urccl_region r, uint64_t us)
{
	struct urccl_sqe *sqe = side_sqe(&p.b);

	urccl_prep_unregister(sqe, r);
	urccl_sqe_set_deadline_us(sqe, us);
	urccl_sqe_set_data64(sqe, 9);
	CHECK_EQ(urccl_submit(p.b.ring), 1);
	return (int)side_end(&p.b, NULL, 9).res;
}

static void byte_of(int fd)
{
	char c;

	while (recv(fd, &c, 1, MSG_DONTWAIT) != 1)
		side_turn(&p.b);
}

static void tell(int fd, char c)
{
	CHECK_EQ(write(fd, &c, 1), 1);
}

/* Its CLOSE, behind the news that it is gone. */
static void close_ends(uint32_t peer, int by_it)
{
	struct urccl_cqe cqe;
	int end;

	side_event(&p.b, NULL, URCCL_KIND_LOST, NULL);
	if (by_it)
		submit_close(&p.b, peer);
	for (end = 0; !end; end = urccl_cqe_kind(&cqe) == URCCL_KIND_OP)
		side_take(&p.b, NULL, &cqe, NULL);
	CHECK_EQ(cqe.res, 0);
}

static void one(int how, int argc, char **argv)
{
	struct urccl_region r = side_register(&p.b, (void *)(uintptr_t)device, LEN, RIGHTS);
	struct hello h;
	uint32_t peer;
	int fd[2], n;
	pid_t pid;

	CHECK_EQ(urccl_advertise(p.b.ctx, r, 0, LEN, RIGHTS, 0, &h.advert), 0);
	n = urccl_metadata(p.b.ctx, h.blob, sizeof(h.blob));
	CHECK_GE(n, 1);
	h.len = (uint32_t)n;
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	pid = itself_start(WRITER, fd[1], argc, argv);
	close(fd[1]);
	CHECK_EQ(write(fd[0], &h, sizeof(h)), sizeof(h));
	peer = side_event(&p.b, NULL, URCCL_KIND_PEER, NULL).peer;
	byte_of(fd[0]);
	if (how == CLOSE) {
		tell(fd[0], CLOSE);
	} else {
		submit_close(&p.b, peer);
		close_ends(peer, 0);
		CHECK_EQ(taken_back(r, WAIT_US), -ETIMEDOUT);
		tell(fd[0], (char)how);
	}
	if (how == HANG_UP)
		byte_of(fd[0]);
	CHECK_EQ(taken_back(r, WAIT_US), -ETIMEDOUT);
	if (how == HANG_UP)
		kill(pid, SIGKILL);
	else
		tell(fd[0], COPY);
	if (how == CLOSE)
		close_ends(peer, 1);
	CHECK_EQ(taken_back(r, 20000000), 0);
	device_free(device);
	device = device_alloc(LEN, 0);
	close(fd[0]);
	CHECK_EQ(waitpid(pid, &n, 0), pid);
	CHECK(how == HANG_UP || (WIFEXITED(n) && !WEXITSTATUS(n)));
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strncmp(argv[1], WRITER, strlen(WRITER)))
		writer(atoi(argv[1] + strlen(WRITER)), argc - 1, argv + 1);
	device_load();
	device_set("hold=none"); /* skips the test on a GPU */
	pair_options(&p, argc, argv);
	side_open(&p, &p.b);
	side_watch(&p.b, (struct urccl_peer){0}, 2);
	side_accept(&p.b, 1);
	device = device_alloc(LEN, 0);
	one(GO_ON, argc, argv);
	one(HANG_UP, argc, argv);
	one(CLOSE, argc, argv);
	side_close(&p.b);
	device_free(device);
	return 0;
}
