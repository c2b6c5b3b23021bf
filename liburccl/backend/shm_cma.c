/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One copy instead of two, where both sides allow it: the owner of the destination reads the other
 * process with process_vm_readv. Nothing is ever written into another process.
 *
 * Who is read is certain twice over: the pid is the kernel's word on the link, and the pages that
 * both sides share must be mapped where the peer says, before the first read and at each: the
 * frame's seal, a number no one else knows, is read there by the same call, behind the bytes. In
 * front of them it reads the peer's gate, which the peer closes to calls that come late.
 * A process that has the pid by luck, one that called exec() and a child (a fork does not inherit
 * these pages) have no seal there.
 */
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "backend/shm.h"

#define PIECES 16u /* of the destination, in one call */

/* Bytes of one call: as many as a chunk has, fewer while something urgent comes now and then. */
#define FETCH	     (1u << 20)
#define FETCH_BESIDE (32u << 10)

/* A call costs about a microsecond beside its copy; shorter ones are as well off in the ring. */
#define LEAST (64u << 10)

/* For a peer to finish what it began when that was taken back, before the gate is closed to it; and
 * before that is tried again, for it may take its time. */
#define PATIENCE_NS NSEC_PER_MSEC
#define AGAIN_NS    NSEC_PER_SEC

#define OPEN_TRIES  50u /* ticks */

static int alive(const struct shm_cma *c)
{
	struct pollfd p = {.fd = c->pidfd, .events = POLLIN};

	return poll(&p, 1, 0) <= 0; /* a signal may have come between */
}

/* The peer has our common pages where it said. */
static int probe(const struct shm_ep *e)
{
	uint64_t name = 0;
	struct iovec to = {&name, sizeof(name)};
	struct iovec from = {(void *)(uintptr_t)(e->cma.seals + offsetof(struct shm_seals, name)),
			     sizeof(name)};

	return process_vm_readv(e->cma.pid, &to, 1, &from, 1, 0) == (ssize_t)sizeof(name) &&
	       name == e->far.peer_seed;
}

static uint64_t seed_of(const struct shm_addr *addr)
{
	uint64_t seed;

	memcpy(&seed, addr->cookie, sizeof(seed));
	return seed | 1;
}

/* 0: the process at the other end cannot be told from others, as one of another PID namespace: its
 * death would not be seen. */
static int peer_find(struct shm_ep *e)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(e->sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) || cred.pid <= 0)
		return 0;
	e->cma.pid = cred.pid;
	e->cma.pidfd = (int)syscall(SYS_pidfd_open, cred.pid, 0);
	return e->cma.pidfd >= 0;
}

uint64_t shm_cma_begin(struct shm_ep *e)
{
	struct shm_seals *seals = e->pages.seals[0];

	if (!e->dev->cma || e->version < SHM_GATES || !peer_find(e) ||
	    shm_gate_make(&e->cma.gate)) {
		shm_cma_close(e);
		return 0;
	}
	seals->gate = (uintptr_t)e->cma.gate.at;
	e->far.seed = seals->name = seed_of(&e->addr);
	e->far.writes = seals->writes;
	e->far.answers = seals->answers;
	e->far.least = &e->pages.side[1]->least;
	e->far.fetching = &e->pages.side[1]->fetching;
	e->streams[SHM_BULK].far = &e->far;
	return (uintptr_t)seals;
}

void shm_cma_meet(struct shm_ep *e, uint64_t seals)
{
	if (!e->streams[SHM_BULK].far || !seals)
		return;
	e->cma.seals = seals;
	e->far.peer_seed = seed_of(&e->peer);
	if (probe(e) && alive(&e->cma))
		store_release(&e->pages.side[0]->least, LEAST);
	else
		e->far.peer_seed = 0;
}

void shm_cma_leave(struct shm_ep *e)
{
	uint32_t i;

	if (!e->streams[SHM_BULK].far)
		return;
	__atomic_store_n(&e->pages.seals[0]->name, 0, __ATOMIC_SEQ_CST);
	for (i = 0; i < STREAM_READS; i++)
		__atomic_store_n(&e->far.answers[i], 0, __ATOMIC_SEQ_CST);
}

static uint64_t word_of(const struct shm_ep *e)
{
	return e->far.fetching ? load_acquire(e->far.fetching) : 0;
}

/* Somebody may be stopped before our gate, for whom it was closed. */
static int is_besieged(const struct shm_ep *e)
{
	return e->cma.gate.closed && word_of(e) == e->cma.stuck;
}

void shm_cma_close(struct shm_ep *e)
{
	struct shm_cma *c = &e->cma;

	if (is_besieged(e))
		shm_gate_leave(&c->gate);
	else
		shm_gate_drop(&c->gate);
	if (c->pidfd >= 0)
		close(c->pidfd);
	c->pidfd = -1;
	e->far.fetching = NULL;
	e->far.peer_seed = 0;
	e->streams[SHM_BULK].far = NULL;
}

/* ---- what was taken back and may be fetched ---- */

/* With a tick it opens again: other fetches of the peer fail at it until then. */
static int gate_close(struct shm_ep *e)
{
	if (e->state == SHM_UP && list_empty(&e->waiting))
		shm_wait_tick(e);
	return shm_gate_close(&e->cma.gate);
}

static void wait_for(struct shm_cma *c, uint64_t word, uint64_t ns)
{
	c->waited = word;
	c->until_ns = clock_ns() + ns;
}

/* Who is dead fetches nothing, and who is stopped before its call will find the gate closed. One
 * that is past it is in the kernel, which copies and does not stop there. */
static void press(struct shm_ep *e)
{
	struct shm_cma *c = &e->cma;
	uint64_t word = word_of(e);

	if (!alive(c)) {
		e->far.fetching = NULL;
	} else if (word != c->waited) {
		wait_for(c, word, PATIENCE_NS);
	} else if (word && clock_ns() >= c->until_ns) {
		c->stuck = word;
		if (!gate_close(e))
			wait_for(c, word, AGAIN_NS);
		else if (!load_acquire(&e->pages.side[1]->inside))
			e->far.stopped = word;
	}
}

int shm_cma_behind(struct shm_ep *e, const struct exposure *x)
{
	const struct stream *s = &e->streams[SHM_BULK];

	if (e->settled || !stream_far_behind(s, x))
		return 0;
	press(e);
	return stream_far_behind(s, x);
}

int shm_cma_settle(struct shm_ep *e)
{
	struct stream *s = &e->streams[SHM_BULK];

	if (!stream_far_settle(s))
		press(e);
	if (!stream_far_settle(s) || shm_cma_behind(e, NULL))
		return 0;
	e->cma.waited = 0;
	return 1;
}

int shm_cma_tick(struct shm_ep *e)
{
	struct shm_cma *c = &e->cma;

	if (c->shut)
		shm_ep_warm(e);
	c->shut = 0;
	if (is_besieged(e))
		return 0;
	if (c->gate.closed && shm_gate_open(&c->gate))
		return ++c->tries < OPEN_TRIES ? 0 : -EIO;
	c->tries = 0;
	e->far.stopped = 0;
	return 1;
}

/* ---- fetching ---- */

/* One call, and what came of it: the kernel's answer, and its words. */
struct fetch {
	const uint64_t *theirs; /* where the peer has the seal, */
	uint64_t seal;		/* and what it is while it is whole */
	uint32_t len;
	ssize_t got;
};

/* Why bytes did not come. -EAGAIN: the gate is closed, for something else's sake; -ECONNRESET: the
 * peer is no more, or leaves: what it takes back then was not revoked. */
static int reason(struct shm_ep *e, const struct fetch *f, int broken)
{
	const struct shm_side *us = e->pages.side[0];

	if (f->got < 0 && errno == EPERM) {
		/* It was allowed before: from now on the ring. */
		store_release(&e->pages.side[0]->least, 0);
		return -EACCES;
	}
	if (!alive(&e->cma) || !probe(e))
		return -ECONNRESET;
	if (load_acquire(f->theirs) != f->seal)
		return broken;
	return load_acquire(&us->inside) ? -EFAULT : -EAGAIN;
}

/* Where the peer has what is here at that place of its seals. */
static void *at_peer(const struct shm_ep *e, const uint64_t *seal)
{
	uint64_t off = (uint64_t)((const char *)seal - (const char *)e->pages.seals[1]);

	return (void *)(uintptr_t)(e->cma.seals + off);
}

/* 1: the peer sees that it is fetched, and had not broken the seal. */
static int announce(struct shm_side *us, const struct fetch *f)
{
	store_release(&us->inside, 0);
	__atomic_store_n(&us->fetching, ~f->seal, __ATOMIC_SEQ_CST);
	return __atomic_load_n(f->theirs, __ATOMIC_SEQ_CST) == f->seal;
}

/* to[1] and the n - 1 behind it are of the destination. The gate goes over the one word, and the
 * seal, behind the bytes, over the other. */
static int fetch(struct shm_ep *e, struct fetch *f, struct iovec *to, uint32_t n)
{
	struct shm_side *us = e->pages.side[0];
	uint64_t gate = load_acquire(&e->pages.seals[1]->gate);
	struct iovec from[3] = {
		{(void *)(uintptr_t)gate, sizeof(us->inside)},
		{(void *)(uintptr_t)e->streams[SHM_BULK].rx.far, f->len},
		{at_peer(e, f->theirs), sizeof(*f->theirs)},
	};

	to[0] = (struct iovec){&us->inside, sizeof(us->inside)};
	to[n + 1] = (struct iovec){&us->fetching, sizeof(us->fetching)};
	f->got = 0;
	if (!announce(us, f))
		return 0;
	f->got = process_vm_readv(e->cma.pid, to, n + 2, from, ARRAY_SIZE(from), 0);
	return f->got == (ssize_t)(sizeof(us->inside) + f->len + sizeof(us->fetching)) &&
	       load_acquire(&us->fetching) == f->seal;
}

uint32_t shm_cma_fetch(struct shm_ep *e, enum shm_way w)
{
	uint32_t max = e->dev->beside ? FETCH_BESIDE : FETCH;
	struct stream *s = &e->streams[w];
	struct iovec to[PIECES + 2];
	struct fetch f = {0};
	uint32_t n, i, index, staging;
	int answer, err = 0;

	if (e->state != SHM_UP || e->cma.shut)
		return 0;
	n = stream_into(s, to + 1, PIECES, max, &staging);
	if (!n) {
		stream_fetch_end(s, 0);
		return 1;
	}
	for (i = 1; i <= n; i++)
		f.len += (uint32_t)to[i].iov_len;
	f.seal = stream_far_seal(s, &answer, &index);
	f.theirs = answer ? &e->pages.seals[1]->answers[index] : &e->pages.seals[1]->writes[index];
	if (!fetch(e, &f, to, n))
		err = reason(e, &f, answer ? -EACCES : -ECANCELED);
	__atomic_store_n(&e->pages.side[0]->fetching, 0, __ATOMIC_SEQ_CST);
	if (err == -ECONNRESET) {
		shm_ep_lost(e, err);
		return 0;
	}
	if (err == -EAGAIN) {
		e->cma.shut = 1;
		shm_wait_tick(e);
		return 0;
	}
	if (err)
		stream_fetch_end(s, err);
	else
		stream_placed(s, f.len);
	return f.len;
}
