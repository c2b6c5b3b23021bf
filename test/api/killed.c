/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "killed.h"

#define RW (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

enum stage { STARTED = 1, HELD };

void killed_possible(void)
{
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	if (fd < 0)
		SKIP("no descriptor of a process can be had here");
	close(fd);
}

void killed_open(const struct pair *p, struct killed *k)
{
	memset(k, 0, sizeof(*k));
	k->pair = *p;
	k->pair.params.flags = 0;
	memset(&k->pair.a, 0, sizeof(k->pair.a));
	k->page = mmap(NULL, sizeof(*k->page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	CHECK(k->page != MAP_FAILED);
}

/* ---- the peer ---- */

static void memory_open(const struct killed *k, struct side *s)
{
	struct urccl_region region;
	void *m;

	if (k->plain)
		m = mmap(NULL, KILLED_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
	else
		CHECK_EQ(urccl_alloc(s->ctx, KILLED_LEN, &m), 0);
	CHECK(m != MAP_FAILED);
	region = side_register(s, m, KILLED_LEN, RW);
	CHECK_EQ(urccl_advertise(s->ctx, region, 0, KILLED_LEN, RW, 0, &k->page->advert), 0);
}

/* It has a copy of every descriptor of its parent's. */
static void hold(int life)
{
	char byte;

	if (fork())
		return;
	while (read(life, &byte, 1) < 0 && errno == EINTR)
		;
	_exit(0);
}

static void stage_set(const struct killed *k, enum stage stage)
{
	__atomic_store_n(&k->page->stage, stage, __ATOMIC_RELEASE);
}

__attribute__((noreturn)) static void peer_main(struct killed *k, int life)
{
	struct side *s = &k->pair.b;
	struct urccl_cqe cqe;
	int n;

	side_open(&k->pair, s);
	side_accept(s, 1);
	side_watch(s, (struct urccl_peer){0}, 2);
	memory_open(k, s);
	n = urccl_metadata(s->ctx, k->page->blob, sizeof(k->page->blob));
	CHECK_GE(n, 1);
	k->page->blob_len = (uint32_t)n;
	stage_set(k, STARTED);
	s->peer.id = side_event(s, NULL, URCCL_KIND_PEER, NULL).peer;
	while (!__atomic_load_n(&k->page->dialled, __ATOMIC_ACQUIRE)) {
		side_turn(s);
		sched_yield();
	}
	if (k->use)
		k->use(s, k->page);
	hold(life);
	stage_set(k, HELD);
	if (k->serve)
		k->serve(s, k->page);
	for (;;)
		side_take_within(s, NULL, PAIR_LATE_NS, &cqe, NULL);
}

/* ---- ours ---- */

static void stage_await(struct pair *p, const struct killed *k, enum stage stage)
{
	uint64_t until = now_ns() + PAIR_LATE_NS;

	while (__atomic_load_n(&k->page->stage, __ATOMIC_ACQUIRE) < (uint32_t)stage) {
		CHECK(!is_late(until));
		CHECK_EQ(waitpid(k->pid, NULL, WNOHANG), 0);
		side_turn(&p->a);
		sched_yield();
	}
}

void killed_start(struct pair *p, struct killed *k)
{
	struct urccl_cqe cqe;
	int life[2];

	CHECK_EQ(pipe(life), 0);
	k->page->stage = k->page->dialled = 0;
	fflush(stdout);
	k->pid = fork();
	CHECK(k->pid >= 0);
	if (!k->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(life[1]);
		peer_main(k, life[0]);
	}
	close(life[0]);
	k->life = life[1];
	stage_await(p, k, STARTED);
	cqe = side_dialled(&p->a, NULL, k->page->blob, k->page->blob_len, 20000000);
	CHECK_EQ(cqe.res, 0);
	__atomic_store_n(&k->page->dialled, 1, __ATOMIC_RELEASE);
	p->a.peer.id = (uint32_t)cqe.handle;
	side_watch(&p->a, p->a.peer, 2);
	stage_await(p, k, HELD);
}

uint64_t killed_signal(const struct killed *k, int signal)
{
	uint64_t now = now_ns();

	CHECK_EQ(kill(k->pid, signal), 0);
	return now;
}

void killed_end(struct killed *k)
{
	CHECK_EQ(waitpid(k->pid, NULL, 0), k->pid);
	close(k->life);
}

struct urccl_cqe killed_next(struct side *s, int by_fd)
{
	struct urccl_wait_args args = {.size = sizeof(args), .min_n = 1};
	struct pollfd fd = {.fd = urccl_ring_fd(s->ring), .events = POLLIN};
	struct urccl_cqe *cqe, copy;

	args.timeout_ns = PAIR_LATE_NS;
	while (!(cqe = urccl_peek_cqe(s->ring))) {
		if (!by_fd)
			CHECK_GE(urccl_wait(s->ring, &cqe, &args), 1);
		else if (!urccl_arm(s->ring, URCCL_ARM_FOR_CQE, 0))
			CHECK_EQ(poll(&fd, 1, (int)(PAIR_LATE_NS / 1000000)), 1);
	}
	copy = *cqe;
	urccl_cqe_seen(s->ring, cqe);
	settle();
	return copy;
}

uint64_t killed_lost(struct side *s, int by_fd, const char *sentence)
{
	struct urccl_cqe cqe = killed_next(s, by_fd);
	uint64_t now = now_ns();

	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_LOST);
	CHECK_EQ(cqe.res, -ECONNRESET);
	check_sentence(s, &cqe, sentence);
	return now;
}
