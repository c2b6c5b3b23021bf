/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One copy instead of two, where both sides allow it: the owner of the destination reads the other
 * process with process_vm_readv. Nothing is ever written into another process.
 *
 * Who is read is certain twice over: the pid is the kernel's word on the link, and the pages that
 * both sides share must be mapped where the peer says, before the first read and at each: the
 * frame's seal, a number no one else knows, is read there by the same call, behind the bytes.
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

static int alive(const struct shm_cma *c)
{
	struct pollfd p = {.fd = c->pidfd, .events = POLLIN};

	return poll(&p, 1, 0) == 0;
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

uint64_t shm_cma_begin(struct shm_ep *e)
{
	struct shm_seals *seals = e->pages.seals[0];

	if (!e->dev->cma)
		return 0;
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
	struct ucred cred;
	socklen_t len = sizeof(cred);

	/* No pid: it lives in another PID namespace. */
	if (!e->dev->cma || !seals || getsockopt(e->sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) ||
	    cred.pid <= 0)
		return;
	e->cma.pid = cred.pid;
	e->cma.seals = seals;
	e->far.peer_seed = seed_of(&e->peer);
	e->cma.pidfd = (int)syscall(SYS_pidfd_open, cred.pid, 0);
	if (e->cma.pidfd >= 0 && probe(e) && alive(&e->cma))
		store_release(&e->pages.side[0]->least, LEAST);
	else
		e->far.peer_seed = 0;
}

void shm_cma_leave(struct shm_ep *e)
{
	if (e->pages.side[0])
		__atomic_store_n(&e->pages.seals[0]->name, 0, __ATOMIC_SEQ_CST);
}

void shm_cma_close(struct shm_ep *e)
{
	if (e->cma.pidfd >= 0)
		close(e->cma.pidfd);
	e->cma.pidfd = -1;
}

int shm_cma_settle(struct shm_ep *e)
{
	if (e->far.held && e->cma.pidfd >= 0 && !alive(&e->cma))
		e->far.fetching = NULL;
	return stream_far_settle(&e->streams[SHM_BULK]);
}

/* Why bytes did not come; got is what the kernel said. -ECONNRESET: the peer is no more, or leaves:
 * what it takes back then was not revoked. */
static int reason(struct shm_ep *e, ssize_t got, int whole, int broken)
{
	if (got < 0 && errno == EPERM) {
		/* It was allowed before: from now on the ring. */
		store_release(&e->pages.side[0]->least, 0);
		return -EACCES;
	}
	if (!alive(&e->cma) || !probe(e))
		return -ECONNRESET;
	return whole ? broken : -EFAULT;
}

/* Where the peer has what is here at that place of its seals. */
static void *at_peer(const struct shm_ep *e, const uint64_t *seal)
{
	uint64_t off = (uint64_t)((const char *)seal - (const char *)e->pages.seals[1]);

	return (void *)(uintptr_t)(e->cma.seals + off);
}

/* 1: the peer sees that it is fetched, and had not broken the seal. Who is stopped between that and
 * the call holds the peer up until it goes on: so all is prepared before, and the seal looked at
 * once, with which it is in the cache. */
static int announce(uint64_t *word, const uint64_t *theirs, uint64_t seal)
{
	if (load_acquire(theirs) != seal)
		return 0;
	__atomic_store_n(word, ~seal, __ATOMIC_SEQ_CST);
	return __atomic_load_n(theirs, __ATOMIC_SEQ_CST) == seal;
}

uint32_t shm_cma_fetch(struct shm_ep *e, enum shm_way w)
{
	uint32_t max = e->dev->beside ? FETCH_BESIDE : FETCH;
	struct stream *s = &e->streams[w];
	struct iovec to[PIECES + 1];
	uint64_t *word = &e->pages.side[0]->fetching, seal;
	struct iovec from[2];
	const uint64_t *theirs;
	uint32_t n, i, index, staging, len = 0;
	int answer, err, got = 0, whole = 1;

	if (e->state != SHM_UP)
		return 0;
	n = stream_into(s, to, PIECES, max, &staging);
	if (!n) {
		stream_fetch_end(s, 0);
		return 1;
	}
	for (i = 0; i < n; i++)
		len += (uint32_t)to[i].iov_len;
	seal = stream_far_seal(s, &answer, &index);
	theirs = answer ? &e->pages.seals[1]->answers[index] : &e->pages.seals[1]->writes[index];
	err = answer ? -EACCES : -ECANCELED;
	/* The bytes, and the seal over the word. */
	from[0] = (struct iovec){(void *)(uintptr_t)s->rx.far, len};
	from[1] = (struct iovec){at_peer(e, theirs), sizeof(*theirs)};
	to[n] = (struct iovec){word, sizeof(*word)};
	if (announce(word, theirs, seal)) {
		got = (int)process_vm_readv(e->cma.pid, to, n + 1, from, 2, 0);
		whole = got == (int)(len + sizeof(*word));
		if (whole && load_acquire(word) == seal)
			err = 0;
	}
	if (err)
		err = reason(e, got, whole, err);
	__atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
	if (err == -ECONNRESET) {
		shm_ep_lost(e, err);
		return 0;
	}
	if (err)
		stream_fetch_end(s, err);
	else
		stream_placed(s, len);
	return len;
}
