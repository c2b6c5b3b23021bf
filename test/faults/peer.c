/* SPDX-License-Identifier: Apache-2.0 */
/* The peer: this program once more, with a context that accepts everybody, memory for all, and a
 * socket to be asked by. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include "faults.h"

#define RIGHTS	(URCCL_RIGHT_READ | URCCL_RIGHT_WRITE | URCCL_RIGHT_ATOMIC)
#define TALK_FD 3
#define MEM_FD	4

struct hello {
	uint8_t blob[URCCL_METADATA_MAX];
	uint32_t blob_len;
	struct urccl_advert advert;
};

/* ---- in the peer ---- */

static struct pair p;
static struct urccl_region region;
static uint8_t *memory;
static int8_t notes[N_MAX];
static uint32_t lost;

static void all(int fd, void *buf, size_t len, int out)
{
	char *at = buf;
	ssize_t n;

	for (; len; at += n, len -= (size_t)n) {
		n = out ? send(fd, at, len, MSG_NOSIGNAL) : read(fd, at, len);
		if (n <= 0) {
			fprintf(stderr, "the other process is gone\n");
			test_end(1);
		}
	}
}

static void advertise(struct urccl_advert *advert)
{
	region = side_register(&p.b, memory, MEMORY, RIGHTS);
	CHECK_EQ(urccl_advertise(p.b.ctx, region, 0, MEMORY, RIGHTS, 0, advert), 0);
}

static void serve_open(const struct settings *s)
{
	struct hello hello = {0};
	void *m;
	int n;

	CHECK_EQ(urccl_open(&p.params, &p.b.ctx), 0);
	CHECK_EQ(urccl_ring_open(p.b.ctx, &p.ring_params, &p.b.ring), 0);
	side_accept(&p.b, 1);
	side_watch(&p.b, (struct urccl_peer){0}, 2);
	if (s->mapped)
		CHECK_EQ(urccl_alloc(p.b.ctx, MEMORY, &m), 0);
	else
		m = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, MEM_FD, 0);
	CHECK(m != MAP_FAILED);
	memory = m;
	pattern_fill(memory, MEMORY, 0, THEIRS);
	advertise(&hello.advert);
	n = urccl_metadata(p.b.ctx, hello.blob, sizeof(hello.blob));
	CHECK_GE(n, 1);
	hello.blob_len = (uint32_t)n;
	all(TALK_FD, &hello, sizeof(hello), 1);
	if (s->dial[0])
		side_dial(&p.b, s->dial, (uint32_t)strlen(s->dial), 20000000, 3);
}

static void take_events(void)
{
	struct urccl_cqe *cqe;

	while ((cqe = urccl_peek_cqe(p.b.ring))) {
		if (urccl_cqe_kind(cqe) == URCCL_KIND_NOTE && cqe->tag < N_MAX) {
			int8_t *note = &notes[cqe->tag];

			*note = (int8_t)(*note ? 2 : cqe->res < 0 ? -1 : 1);
		}
		lost += urccl_cqe_kind(cqe) == URCCL_KIND_LOST;
		urccl_cqe_seen(p.b.ring, cqe);
	}
}

static void answer(char c)
{
	uint8_t places[PLACES];
	int64_t res = 0;
	uint32_t i;

	switch (c) {
	case 'H': {
		struct held held = held_now();

		all(TALK_FD, &held, sizeof(held), 1);
		return;
	}
	case 'R':
		res = urccl_revoke(p.b.ctx, region);
		break;
	case 'A': {
		struct urccl_advert advert;

		CHECK_EQ(urccl_unregister(p.b.ctx, region), 0);
		advertise(&advert);
		break;
	}
	case 'L':
		res = lost;
		break;
	case 'T':
		res = pattern_holds(memory, MEMORY, 0, THEIRS);
		break;
	case 'N':
		all(TALK_FD, notes, sizeof(notes), 1);
		return;
	default:
		for (i = 0; i < PLACES; i++)
			places[i] = (uint8_t)pattern_holds(memory + i * PLACE_LEN, PLACE_LEN,
							   i * PLACE_LEN, OURS);
		all(TALK_FD, places, sizeof(places), 1);
		return;
	}
	all(TALK_FD, &res, sizeof(res), 1);
}

__attribute__((noreturn)) static void serve(void)
{
	struct pollfd fds[2] = {{.fd = TALK_FD, .events = POLLIN},
				{.fd = urccl_ring_fd(p.b.ring), .events = POLLIN}};
	char c;

	for (;;) {
		do
			take_events();
		while (urccl_arm(p.b.ring, URCCL_ARM_FOR_CQE, 0));
		poll(fds, 2, -1);
		if (!(fds[0].revents & (POLLIN | POLLHUP)))
			continue;
		if (read(TALK_FD, &c, 1) != 1)
			test_end(0);
		take_events();
		answer(c);
	}
}

void peer_main(int argc, char **argv)
{
	struct settings s;

	if (argc != 2 || strcmp(argv[1], "--peer"))
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	all(TALK_FD, &s, sizeof(s), 0);
	p.params.size = sizeof(p.params);
	urccl_params_init(&p.params);
	p.ring_params.size = sizeof(p.ring_params);
	p.params.transport = s.transport;
	p.params.tcp_driver = s.tcp_driver;
	if (!strcmp(s.transport, "ib"))
		p.params.rdma_dev = RAIL_PEER;
	p.params.listen = s.listen[0] ? s.listen : NULL;
	p.params.socket_dir = s.dir[0] ? s.dir : NULL;
	p.params.dead_after_ms = s.dead_after_ms;
	serve_open(&s);
	serve();
}

/* ---- of the peer ---- */

static void become(int talk, int memfd, int in_net)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (in_net)
		net_enter_peers();
	/* Above both, so that neither lands on the other's number. */
	talk = fcntl(talk, F_DUPFD, 16);
	memfd = fcntl(memfd, F_DUPFD, 16);
	if (dup2(talk, TALK_FD) < 0 || dup2(memfd, MEM_FD) < 0)
		_exit(1);
	close(talk);
	close(memfd);
	execl("/proc/self/exe", "faults", "--peer", (char *)NULL);
	_exit(1);
}

static int lies_at(const struct settings *s, const char *place)
{
	return !strncmp(s->listen, place, strlen(place));
}

void peer_start(struct peer *peer, const struct settings *s)
{
	int fds[2], in_net = lies_at(s, NET_PEER);
	struct settings copy = *s;
	struct hello hello;

	memset(peer, 0, sizeof(*peer));
	peer->memfd = memfd_create("peer", MFD_CLOEXEC);
	CHECK(peer->memfd >= 0);
	CHECK_EQ(ftruncate(peer->memfd, MEMORY), 0);
	peer->memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, peer->memfd, 0);
	CHECK(peer->memory != MAP_FAILED);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	fflush(stdout);
	peer->pid = fork();
	CHECK(peer->pid >= 0);
	if (!peer->pid)
		become(fds[1], peer->memfd, in_net);
	close(fds[1]);
	peer->fd = fds[0];
	all(peer->fd, &copy, sizeof(copy), 1);
	all(peer->fd, &hello, sizeof(hello), 0);
	memcpy(peer->blob, hello.blob, sizeof(hello.blob));
	peer->blob_len = hello.blob_len;
	peer->advert = hello.advert;
}

void peer_kill(struct peer *peer)
{
	CHECK_EQ(kill(peer->pid, SIGKILL), 0);
	CHECK_EQ(waitpid(peer->pid, NULL, 0), peer->pid);
	peer->pid = 0;
}

void peer_end(struct peer *peer)
{
	if (peer->pid)
		peer_kill(peer);
	close(peer->fd);
	close(peer->memfd);
	munmap(peer->memory, MEMORY);
	memset(peer, 0, sizeof(*peer));
}

void peer_stop(const struct peer *peer)
{
	int status;

	CHECK_EQ(kill(peer->pid, SIGSTOP), 0);
	CHECK_EQ(waitpid(peer->pid, &status, WUNTRACED), peer->pid);
	CHECK(WIFSTOPPED(status));
}

void peer_go_on(const struct peer *peer)
{
	CHECK_EQ(kill(peer->pid, SIGCONT), 0);
}

static void ask(const struct peer *peer, char c, void *answer, size_t len)
{
	all(peer->fd, &c, 1, 1);
	all(peer->fd, answer, len, 0);
}

void peer_revoke(const struct peer *peer)
{
	char c = 'R';

	all(peer->fd, &c, 1, 1);
}

int64_t peer_revoked(const struct peer *peer)
{
	int64_t res;

	all(peer->fd, &res, sizeof(res), 0);
	return res;
}

int64_t peer_lost(const struct peer *peer)
{
	int64_t res;

	ask(peer, 'L', &res, sizeof(res));
	return res;
}

int peer_is_untouched(const struct peer *peer)
{
	int64_t res;

	ask(peer, 'T', &res, sizeof(res));
	return res == 1;
}

void peer_registers_anew(const struct peer *peer)
{
	int64_t res;

	ask(peer, 'A', &res, sizeof(res));
}

struct held peer_holds(const struct peer *peer)
{
	struct held held;

	ask(peer, 'H', &held, sizeof(held));
	return held;
}

void peer_notes(const struct peer *peer, int8_t out[N_MAX])
{
	ask(peer, 'N', out, N_MAX);
}

void peer_places(const struct peer *peer, uint8_t places[PLACES])
{
	ask(peer, 'P', places, PLACES);
}
