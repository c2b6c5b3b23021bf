/* SPDX-License-Identifier: Apache-2.0 */
/* Payloads that the peer fetches: one copy where both sides allow it, and nothing is fetched, or
 * counts as fetched, after it was taken back. The sides are polled by hand, and who fetches passes
 * by here as it enters the kernel, so each moment can be met. */
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <backend/shm.h>
#include "shm_rig.h"

#define LEN (1u << 18)
/* Far more than a peer is given to finish what it began. */
#define HELD_NS (5 * NSEC_PER_MSEC)
#define BOUNCE	(URCCL_PATH_BOUNCE_LOCAL | URCCL_PATH_BOUNCE_REMOTE)

static struct shm_rig r;
static uint8_t *local, *memory; /* of side 0, of side 1 */
static struct memory *m;
static struct exposure x;
static struct rkey rkey;

/* What happens while who fetches is stopped before its call; once. */
static void (*meanwhile)(void);

ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long nto,
			 const struct iovec *from, unsigned long nfrom, unsigned long flags)
{
	void (*f)(void) = nfrom > 1 ? meanwhile : NULL;

	if (f) {
		meanwhile = NULL;
		f();
	}
	return syscall(SYS_process_vm_readv, pid, to, nto, from, nfrom, flags);
}

static uint8_t *map(void)
{
	void *p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

/* Side 0 uses the memory of side 1. */
static void begin(uint8_t cma0, uint8_t cma1)
{
	local = map();
	memory = map();
	memset(&r, 0, sizeof(r));
	for (uint32_t i = 0; i < 2; i++) {
		rig_cma = i ? cma1 : cma0;
		rig_device(&r.dev[i], NULL);
		CHECK_EQ(backend_shm.ep_open(r.dev[i], &r.ep[i], r.addr[i], &r.addr_len[i]), 0);
	}
	rig_connect(&r);
	m = rig_memory(&r, 1, memory, LEN, -1);
	rig_expose(&r, 1, m, URCCL_RIGHT_READ | URCCL_RIGHT_WRITE, &x, &rkey);
}

static void end(void)
{
	CHECK_EQ(backend_shm.unexpose(&x), 0);
	rig_memory_free(&r, 1, m);
	rig_close(&r);
	munmap(local, LEN);
	munmap(memory, LEN);
}

static struct shm_ep *side(uint32_t i)
{
	return container_of(r.ep[i], struct shm_ep, ep);
}

static int are(const uint8_t *p, uint32_t len, uint8_t value)
{
	uint32_t i;

	for (i = 0; i < len; i++)
		if (p[i] != value)
			return 0;
	return 1;
}

static int all(const uint8_t *p, uint8_t value)
{
	return are(p, LEN, value);
}

static struct chunk start(enum chunk_kind kind)
{
	return rig_chunk(kind, local, LEN, &rkey, 0);
}

static void moves(uint8_t cma0, uint8_t cma1, uint32_t path)
{
	struct chunk c;

	begin(cma0, cma1);
	memset(local, 1, LEN);
	c = start(CHUNK_WRITE);
	CHECK_EQ(rig_do(&r, 0, &c), 0);
	CHECK(c.flags & CHUNK_QUIET);
	CHECK_EQ(c.path, path);
	CHECK(all(memory, 1));
	memset(memory, 2, LEN);
	c = start(CHUNK_READ);
	CHECK_EQ(rig_do(&r, 0, &c), 0);
	CHECK_EQ(c.path, path);
	CHECK(all(local, 2));
	end();
}

/* The peer has the request and was never heard of again: the buffer is ours at once. */
static void cancelled_before(void)
{
	struct chunk c;

	begin(URCCL_ALLOW_YES, URCCL_ALLOW_YES);
	memset(local, 1, LEN);
	c = start(CHUNK_WRITE);
	rig_post(&r, 0, &c);
	rig_poll(&r, 0);
	backend_shm.cancel(&c, CANCEL_NOW);
	rig_poll(&r, 0);
	CHECK(c.op);
	CHECK_EQ(c.res, -ECANCELED);
	memset(local, 3, LEN);
	while (rig_poll(&r, 1) || shm_rings_busy(side(1)))
		;
	CHECK(all(memory, 0));
	/* The next one is as good as ever. */
	c = start(CHUNK_WRITE);
	CHECK_EQ(rig_do(&r, 0, &c), 0);
	CHECK(all(memory, 3));
	end();
}

/* Side 0 has closed its ep. */
static void end_without_0(void)
{
	CHECK_EQ(backend_shm.unexpose(&x), 0);
	rig_memory_free(&r, 1, m);
	rig_end(&r, 1);
	munmap(local, LEN);
	munmap(memory, LEN);
}

/* The peer is fetching: the buffer is not ours until it says that it is not. */
static void cancelled_within(int closing)
{
	struct shm_side *us;
	struct chunk c;
	uint64_t until;
	uint32_t i;

	begin(URCCL_ALLOW_YES, URCCL_ALLOW_YES);
	us = side(1)->pages.side[0];
	c = start(CHUNK_WRITE);
	rig_post(&r, 0, &c);
	rig_poll(&r, 0);
	store_release(&us->inside, 1);
	store_release(&us->fetching, ~side(0)->far.writes[0]);
	if (closing)
		backend_shm.ep_close(r.ep[0]);
	else
		backend_shm.cancel(&c, CANCEL_NOW);
	for (until = rig_ns() + HELD_NS; rig_ns() < until;) {
		rig_poll(&r, 0);
		CHECK(!c.op && !r.closed[0]);
		CHECK_EQ(backend_shm.arm(r.dev[0]), 1);
	}
	CHECK(side(0)->cma.gate.closed);
	store_release(&us->fetching, 0);
	for (i = 0; i < 10; i++)
		rig_poll(&r, 0);
	CHECK(c.op);
	CHECK_EQ(c.res, -ECANCELED);
	CHECK_EQ(r.closed[0], closing);
	if (!closing) {
		RIG_UNTIL(&r, !side(0)->cma.gate.closed);
		end();
		return;
	}
	backend_shm.ep_free(r.ep[0]);
	backend_shm.close(r.dev[0]);
	end_without_0();
}

/* ---- the peer is stopped as it is about to fetch ---- */

static struct chunk first, second;

static struct chunk half(uint32_t i)
{
	return rig_chunk(CHUNK_WRITE, local + i * LEN / 2, LEN / 2, &rkey, i * LEN / 2);
}

/* The buffer is ours in time, and the program's again. */
static void is_out(const struct chunk *c)
{
	uint64_t until = rig_ns() + 10 * NSEC_PER_SEC;

	while (!c->op) {
		CHECK(rig_ns() < until);
		CHECK(!c->op && backend_shm.arm(r.dev[0]));
		rig_poll(&r, 0);
	}
	CHECK_EQ(c->res, -ECANCELED);
	memset(local, 3, LEN);
}

static void cancel_first(void)
{
	backend_shm.cancel(&first, CANCEL_NOW);
	is_out(&first);
	CHECK(!second.op);
}

/* And the next one, which finds the gate closed at first, is as good as ever. */
static void cancelled_before_the_call(void)
{
	uint32_t i;

	begin(URCCL_ALLOW_YES, URCCL_ALLOW_YES);
	memset(local, 1, LEN);
	first = half(0);
	second = half(1);
	rig_post(&r, 0, &first);
	rig_post(&r, 0, &second);
	meanwhile = cancel_first;
	RIG_UNTIL(&r, second.op);
	CHECK(first.op && !meanwhile);
	CHECK_EQ(second.res, 0);
	CHECK_EQ(second.path, 0);
	CHECK(are(memory, LEN / 2, 0));
	CHECK(are(memory + LEN / 2, LEN / 2, 3));
	for (i = 0; i < 3; i++) {
		first = half(0);
		CHECK_EQ(rig_do(&r, 0, &first), 0);
		CHECK_EQ(first.path, 0);
	}
	CHECK(all(memory, 3));
	end();
}

static void *gate;

/* What stands before the memory is in the way even when all that is ours has gone. */
static void close_0(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint64_t until = rig_ns() + 10 * NSEC_PER_SEC;
	void *p;

	gate = side(0)->cma.gate.at;
	backend_shm.ep_close(r.ep[0]);
	is_out(&first);
	while (!r.closed[0]) {
		CHECK(rig_ns() < until);
		rig_poll(&r, 0);
	}
	backend_shm.ep_free(r.ep[0]);
	backend_shm.close(r.dev[0]);
	p = mmap(gate, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	CHECK(p == MAP_FAILED && errno == EEXIST);
}

static void closed_before_the_call(void)
{
	begin(URCCL_ALLOW_YES, URCCL_ALLOW_YES);
	memset(local, 1, LEN);
	first = half(0);
	rig_post(&r, 0, &first);
	rig_poll(&r, 0);
	meanwhile = close_0;
	while (!r.down[1])
		rig_poll(&r, 1);
	CHECK(first.op && !meanwhile);
	CHECK(all(memory, 0));
	end_without_0();
}

/* It is not taken for quiet before. */
static void withdraw(void)
{
	CHECK_EQ(backend_shm.unexpose(&x), -EINPROGRESS);
	while (backend_shm.unexpose(&x)) {
		CHECK_EQ(backend_shm.arm(r.dev[1]), 1);
		rig_poll(&r, 1);
	}
	memset(memory, 4, LEN);
}

static void revoked_before_the_call(void)
{
	struct chunk c;

	begin(URCCL_ALLOW_YES, URCCL_ALLOW_YES);
	c = start(CHUNK_READ);
	rig_post(&r, 0, &c);
	meanwhile = withdraw;
	RIG_UNTIL(&r, c.op);
	CHECK(!meanwhile);
	CHECK_EQ(c.res, -EACCES);
	CHECK(all(local, 0));
	rig_expose(&r, 1, m, URCCL_RIGHT_READ, &x, &rkey);
	c = start(CHUNK_READ);
	CHECK_EQ(rig_do(&r, 0, &c), 0);
	CHECK_EQ(c.path, 0);
	CHECK(all(local, 4));
	end();
}

/* The peer has answered, and withdraws what it answered from. */
static void revoked(void)
{
	struct chunk c;

	begin(URCCL_ALLOW_YES, URCCL_ALLOW_YES);
	c = start(CHUNK_READ);
	rig_post(&r, 0, &c);
	rig_poll(&r, 0);
	rig_poll(&r, 1);
	CHECK_EQ(backend_shm.unexpose(&x), 0);
	memset(memory, 4, LEN);
	RIG_UNTIL(&r, c.op);
	CHECK_EQ(c.res, -EACCES);
	CHECK(all(local, 0));
	rig_expose(&r, 1, m, URCCL_RIGHT_READ, &x, &rkey);
	c = start(CHUNK_READ);
	CHECK_EQ(rig_do(&r, 0, &c), 0);
	CHECK(all(local, 4));
	end();
}

/* Memory that is gone at either side fails what needs it and nothing else. */
static void unmapped(enum chunk_kind kind, uint8_t **which)
{
	struct chunk c;

	begin(URCCL_ALLOW_YES, URCCL_ALLOW_YES);
	CHECK_EQ(mprotect(*which + LEN / 2, LEN / 2, PROT_NONE), 0);
	c = start(kind);
	CHECK_EQ(rig_do(&r, 0, &c), -EFAULT);
	c.len = LEN / 2;
	CHECK_EQ(rig_do(&r, 0, &c), 0);
	CHECK_EQ(c.path, 0);
	CHECK(!r.down[0] && !r.down[1]);
	end();
}

int main(void)
{
	uint8_t from = 1, to = 0;
	struct iovec there = {&from, 1}, here = {&to, 1};

	if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 1)
		SKIP("process_vm_readv is denied here");
	moves(URCCL_ALLOW_YES, URCCL_ALLOW_YES, 0);
	moves(URCCL_ALLOW_YES, URCCL_ALLOW_NO, BOUNCE);
	moves(URCCL_ALLOW_DEFAULT, URCCL_ALLOW_YES, BOUNCE);
	cancelled_before();
	cancelled_within(0);
	cancelled_within(1);
	revoked();
	cancelled_before_the_call();
	closed_before_the_call();
	revoked_before_the_call();
	unmapped(CHUNK_WRITE, &local);
	unmapped(CHUNK_READ, &memory);
	unmapped(CHUNK_WRITE, &memory);
	return 0;
}
