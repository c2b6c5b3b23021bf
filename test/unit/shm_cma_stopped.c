/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that is stopped as it is about to fetch holds up nothing, and when it goes on it reads
 * nothing of what was taken back meanwhile. */
#include <poll.h>
#include "shm_cma_rig.h"

#define TICKS_NS (50 * NSEC_PER_MSEC) /* in which what comes by ticks has come */
#define TELLS_NS (10 * NSEC_PER_SEC)

static struct chunk first, second, reads[STREAM_READS];

/* Mappings of a place that are refused. */
static uint32_t maps_denied;

void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
	if (flags & MAP_FIXED && !(flags & MAP_FIXED_NOREPLACE) && maps_denied) {
		maps_denied--;
		errno = EAGAIN;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mmap, at, len, prot, flags, fd, off);
}

/* Looks that a signal cuts short. */
static uint32_t interrupts;

int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	struct timespec none = {0};

	CHECK_EQ(timeout, 0);
	if (!interrupts)
		return (int)syscall(SYS_ppoll, fds, n, &none, NULL, 0);
	interrupts--;
	errno = EINTR;
	return -1;
}

static struct chunk half(uint32_t i)
{
	return rig_chunk(CHUNK_WRITE, local + i * LEN / 2, LEN / 2, &rkey, i * LEN / 2);
}

/* The words are not as they are when nothing was fetched before. */
static void begin_again(void)
{
	struct chunk c;

	begin(URCCL_ALLOW_YES, URCCL_ALLOW_YES);
	c = start(CHUNK_WRITE);
	CHECK_EQ(rig_do(&r, 0, &c), 0);
	c = start(CHUNK_READ);
	CHECK_EQ(rig_do(&r, 0, &c), 0);
	memset(local, 1, LEN);
	memset(memory, 0, LEN);
	first = half(0);
	second = half(1);
}

static void poll_for(uint32_t number, uint64_t ns)
{
	uint64_t until = rig_ns() + ns;

	while (rig_ns() < until)
		rig_poll(&r, number);
}

/* The buffer is ours in time, and the program's again, for as long as it takes the other. */
static void is_out(void)
{
	uint64_t until = rig_ns() + TELLS_NS;

	while (!first.op) {
		CHECK(rig_ns() < until);
		CHECK(backend_shm.arm(r.dev[0]));
		rig_poll(&r, 0);
	}
	CHECK_EQ(first.res, -ECANCELED);
	memset(local, 3, LEN);
}

static void cancel_first(void)
{
	backend_shm.cancel(&first, CANCEL_NOW);
	is_out();
	poll_for(0, TICKS_NS);
	CHECK(!second.op && side(0)->cma.gate.closed);
}

/* The next one finds the gate closed at first, which is waited for without haste. */
static void next_waits(void)
{
	uint64_t until = rig_ns() + TELLS_NS;

	while (!side(1)->cma.shut)
		rig_poll(&r, 1);
	CHECK(!second.op);
	while (backend_shm.arm(r.dev[1])) {
		CHECK(rig_ns() < until);
		rig_poll(&r, 1);
	}
}

/* Of two that were asked for, the peer is stopped before the first. */
static void stops(void (*how)(void))
{
	begin_again();
	rig_post(&r, 0, &first);
	rig_post(&r, 0, &second);
	rig_poll(&r, 0);
	meanwhile = how;
	next_waits();
	CHECK(first.op && !meanwhile);
}

static void cancelled(void (*how)(void))
{
	uint32_t i;

	stops(how);
	RIG_UNTIL(&r, second.op);
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

static void cancel_first_beside_signals(void)
{
	interrupts = 2;
	cancel_first();
	CHECK_EQ(interrupts, 0);
}

/* Its pages are short: it is tried again, and the link is as it was. */
static void cancel_first_short(void)
{
	maps_denied = 1;
	cancel_first();
	CHECK_EQ(maps_denied, 0);
}

/* It cannot be opened at once. */
static void cancel_first_late(void)
{
	cancel_first();
	gates_denied = 3;
}

/* It cannot be opened at all. */
static void cancelled_for_good(void)
{
	stops(cancel_first);
	gates_denied = UINT32_MAX;
	RIG_UNTIL(&r, r.down[0] && second.op);
	gates_denied = 0;
	CHECK_EQ(r.down[0], -EIO);
	CHECK_EQ(second.res, -EIO);
	CHECK(all(memory, 0));
	end();
}

static void close_gate(void)
{
	CHECK_EQ(shm_gate_close(&side(0)->cma.gate), 1);
}

/* Nor is what was placed before kept from its sender, though more came in. */
static void told_meanwhile(void)
{
	struct chunk third;

	begin_again();
	third = half(1);
	rig_post(&r, 0, &first);
	rig_poll(&r, 0);
	rig_post(&r, 0, &second);
	rig_post(&r, 0, &third);
	rig_poll(&r, 0);
	calls_before = 1;
	meanwhile = close_gate;
	next_waits();
	poll_for(0, TICKS_NS);
	CHECK(first.op && !second.op && !third.op);
	CHECK_EQ(first.res, 0);
	CHECK_EQ(shm_gate_open(&side(0)->cma.gate), 0);
	RIG_UNTIL(&r, second.op && third.op);
	CHECK(!second.res && !third.res);
	CHECK(all(memory, 1));
	end();
}

static void close_side(uint32_t number)
{
	uint64_t until = rig_ns() + TELLS_NS;

	backend_shm.ep_close(r.ep[number]);
	while (!r.closed[number]) {
		CHECK(rig_ns() < until);
		CHECK(backend_shm.arm(r.dev[number]));
		rig_poll(&r, number);
	}
}

/* What stands before the memory is in the way even when all that is ours has gone. */
static void close_0(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *gate = side(0)->cma.gate.at, *p;

	close_side(0);
	is_out();
	backend_shm.ep_free(r.ep[0]);
	backend_shm.close(r.dev[0]);
	p = mmap(gate, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	CHECK(p == MAP_FAILED && errno == EEXIST);
}

static void closed(void)
{
	begin_again();
	rig_post(&r, 0, &first);
	rig_poll(&r, 0);
	meanwhile = close_0;
	while (!r.down[1])
		rig_poll(&r, 1);
	CHECK(first.op && !meanwhile);
	CHECK(all(memory, 0));
	end_without_0();
}

/* ---- who answers ---- */

/* It is not taken for quiet before; what is of other memory is not held up. */
static void withdraw(void)
{
	struct exposure other;
	struct rkey key;

	rig_expose(&r, 1, m, URCCL_RIGHT_READ, &other, &key);
	CHECK_EQ(backend_shm.unexpose(&x), -EINPROGRESS);
	CHECK_EQ(backend_shm.unexpose(&other), 0);
	while (backend_shm.unexpose(&x)) {
		CHECK_EQ(backend_shm.arm(r.dev[1]), 1);
		rig_poll(&r, 1);
	}
	memset(memory, 4, LEN);
	poll_for(1, TICKS_NS);
	CHECK(side(1)->cma.gate.closed);
}

static void revoked(void)
{
	struct chunk c;

	begin_again();
	c = start(CHUNK_READ);
	rig_post(&r, 0, &c);
	meanwhile = withdraw;
	RIG_UNTIL(&r, c.op);
	CHECK(!meanwhile);
	CHECK_EQ(c.res, -EACCES);
	CHECK(all(local, 1));
	rig_expose(&r, 1, m, URCCL_RIGHT_READ, &x, &rkey);
	c = start(CHUNK_READ);
	CHECK_EQ(rig_do(&r, 0, &c), 0);
	CHECK_EQ(c.path, 0);
	CHECK(all(local, 4));
	end();
}

/* Of as many as may be asked for, all of which are answered, the peer is at the first. */
static void withdraw_all(void)
{
	const struct stream *s = &side(1)->streams[SHM_BULK];

	CHECK_EQ(s->tx.replied, 1 + STREAM_READS);
	withdraw();
}

static void revoked_many(void)
{
	uint32_t i;

	begin_again();
	for (i = 0; i < STREAM_READS; i++) {
		reads[i] = rig_chunk(CHUNK_READ, local + i % 4 * LEN / 4, LEN / 4, &rkey, 0);
		rig_post(&r, 0, &reads[i]);
	}
	rig_poll(&r, 0);
	poll_for(1, TICKS_NS);
	meanwhile = withdraw_all;
	for (i = 0; i < STREAM_READS; i++) {
		RIG_UNTIL(&r, reads[i].op);
		CHECK_EQ(reads[i].res, -EACCES);
	}
	CHECK(!meanwhile);
	CHECK(all(local, 1));
	rig_expose(&r, 1, m, URCCL_RIGHT_READ, &x, &rkey);
	end();
}

/* An end that closes waits for it, too, whether that was taken back before or not. */
static void close_1(void)
{
	close_side(1);
	CHECK(side(1)->cma.gate.closed);
	CHECK_EQ(backend_shm.unexpose(&x), 0);
	memset(memory, 4, LEN);
}

static void close_1_revoked(void)
{
	CHECK_EQ(backend_shm.unexpose(&x), -EINPROGRESS);
	close_1();
}

static void closed_by_owner(void (*how)(void))
{
	struct chunk c;

	begin_again();
	c = start(CHUNK_READ);
	rig_post(&r, 0, &c);
	meanwhile = how;
	RIG_UNTIL(&r, c.op && r.down[0]);
	CHECK(!meanwhile);
	CHECK(c.res < 0);
	CHECK(all(local, 1));
	rig_memory_free(&r, 1, m);
	backend_shm.ep_free(r.ep[1]);
	backend_shm.close(r.dev[1]);
	rig_end(&r, 0);
	end_memory();
}

/* ---- what a peer may say ---- */

static uint64_t *word; /* of side 0 */

static int believed(uint64_t number)
{
	int is;

	store_release(word, ~(side(1)->far.seed + (1ull << 32) + number));
	is = shm_cma_behind(side(1), NULL);
	store_release(word, 0);
	return is;
}

/* That it fetches what nobody left for it, or is long over; and when all is. */
static void lies(void)
{
	struct chunk c;
	uint32_t i;

	begin_again(); /* answer 0 */
	word = &side(0)->pages.side[0]->fetching;
	c = start(CHUNK_READ);
	CHECK_EQ(rig_do(&r, 0, &c), 0);
	c.len = 32768; /* it is sent */
	CHECK_EQ(rig_do(&r, 0, &c), 0);
	CHECK(!believed(1));
	CHECK_EQ(backend_shm.unexpose(&x), 0);
	CHECK(believed(1));
	CHECK(!believed(2));
	CHECK(!believed(1 + STREAM_READS));
	rig_expose(&r, 1, m, URCCL_RIGHT_READ, &x, &rkey);
	for (i = 3; i <= 1 + STREAM_READS; i++)
		CHECK_EQ(rig_do(&r, 0, &c), 0);
	CHECK(!believed(1 + STREAM_READS));
	CHECK_EQ(backend_shm.unexpose(&x), 0);
	CHECK(!believed(1 + STREAM_READS));
	store_release(word, ~(side(1)->far.seed + (1ull << 32) + 2));
	close_side(1);
	store_release(word, ~(side(1)->far.seed + (1ull << 32) + 1));
	CHECK_EQ(backend_shm.unexpose(&x), 0);
	backend_shm.ep_free(r.ep[1]);
	poll_for(1, TICKS_NS);
	rig_memory_free(&r, 1, m);
	backend_shm.close(r.dev[1]);
	rig_end(&r, 0);
	end_memory();
}

int main(void)
{
	need_cma();
	cancelled(cancel_first);
	cancelled(cancel_first_beside_signals);
	cancelled(cancel_first_short);
	cancelled(cancel_first_late);
	cancelled_for_good();
	told_meanwhile();
	closed();
	revoked();
	revoked_many();
	closed_by_owner(close_1);
	closed_by_owner(close_1_revoked);
	lies();
	return 0;
}
