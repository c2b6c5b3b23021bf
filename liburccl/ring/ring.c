/* SPDX-License-Identifier: Apache-2.0 */
/* A ring's memory, and the engine's side of it. */
#include <sys/mman.h>
#include <unistd.h>

#include "ring/ring.h"

#define EVENT_SLOTS_MAX 32768u
#define SPIN_NS_DEFAULT (20 * NSEC_PER_USEC)

static int power_of_two(uint32_t n)
{
	return n && !(n & (n - 1));
}

int ring_entries_check(uint32_t entries)
{
	if (entries < 2 || entries > RING_ENTRIES_MAX || !power_of_two(entries))
		return fail(-EINVAL, "entries is %u: a power of two from 2 to %u is possible",
			    entries, RING_ENTRIES_MAX);
	return 0;
}

static int ring_check(const struct urccl_ring_params *p)
{
	if (p->reserved)
		return fail(-EINVAL, "reserved field of the ring's parameters is %u, not 0",
			    p->reserved);
	if (ring_entries_check(p->entries))
		return -EINVAL;
	if (p->event_slots < 1 || p->event_slots > EVENT_SLOTS_MAX)
		return fail(-EINVAL, "event_slots is %u: from 1 to %u is possible", p->event_slots,
			    EVENT_SLOTS_MAX);
	return 0;
}

/* Two slots per entry, for its end and for an earlier outcome, and the events'. */
static uint32_t cq_slots(const struct urccl_ring_params *p)
{
	uint32_t n = 2;

	while (n < 2 * p->entries + p->event_slots)
		n *= 2;
	return n;
}

/* Offsets of the arrays behind struct ring, which has its own pages. */
struct layout {
	uint64_t sqes, exts, cqes, is_event, notes, end;
};

static uint64_t round_up(uint64_t at, uint64_t to)
{
	return (at + to - 1) / to * to;
}

static struct layout ring_layout(uint32_t sq, uint32_t cq)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct layout l;

	l.sqes = round_up(sizeof(struct ring), page);
	l.exts = l.sqes + (uint64_t)sq * sizeof(struct urccl_sqe);
	l.cqes = l.exts + (uint64_t)sq * sizeof(struct urccl_ext);
	l.is_event = l.cqes + (uint64_t)cq * sizeof(struct urccl_cqe);
	l.notes = round_up(l.is_event + cq, 64);
	l.end = round_up(l.notes + (uint64_t)cq * URCCL_NOTE_MAX, page);
	return l;
}

/* MADV_WIPEONFORK needs private anonymous pages. In a forked child the head of the ring is zero, so
 * that its flags tell every call to fail. */
static int ring_map(uint64_t len, uint64_t head, void **mem)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err;

	if (p == MAP_FAILED)
		return fail(-ENOMEM, "no memory for a ring of %llu bytes", (unsigned long long)len);
	err = wipe_on_fork(p, head, "a ring");
	if (err) {
		munmap(p, len);
		return err;
	}
	*mem = p;
	return 0;
}

static void ring_point(struct ring *r, const struct layout *l)
{
	struct urccl_ring *pub = &r->pub;
	uint8_t *base = (uint8_t *)r;

	pub->sqes = (struct urccl_sqe *)(void *)(base + l->sqes);
	pub->exts = (struct urccl_ext *)(void *)(base + l->exts);
	pub->cqes = (struct urccl_cqe *)(void *)(base + l->cqes);
	pub->notes = base + l->notes;
	pub->sq_head = &r->own.sq_head;
	pub->sq_tail = &r->producer_line.sq_tail;
	pub->sq_flags = &r->engine_line.sq_flags;
	pub->sq_done = &r->publish_line.sq_done;
	pub->sq_wake_at = &r->arm_line.sq_wake_at;
	pub->cq_head = &r->consumer_line.cq_head;
	pub->cq_tail = &r->publish_line.cq_tail;
	pub->cq_arm = &r->arm_line.cq_arm;
	pub->cq_wake_at = &r->arm_line.cq_wake_at;
	pub->ended = &r->consumer_line.ended;
	pub->skipped = &r->engine_line.skipped;
	r->own.is_event = base + l->is_event;
	r->own.notes = base + l->notes;
}

int ring_open(const struct urccl_ring_params *p, uint32_t flags, uint32_t id, struct ring **ring)
{
	struct layout l;
	struct ring *r;
	uint32_t cq;
	void *mem = NULL;
	int err, fd = -1;

	err = ring_check(p);
	if (err)
		return err;
	if (!(flags & URCCL_RING_INLINE)) {
		fd = wake_open();
		if (fd < 0)
			return fail_errno(fd, "no eventfd for the ring");
	}
	cq = cq_slots(p);
	l = ring_layout(p->entries, cq);
	err = ring_map(l.end, l.sqes, &mem);
	if (err)
		goto close_fd;

	r = mem;
	ring_point(r, &l);
	r->map_len = l.end;
	r->event_slots = p->event_slots;
	r->spin_ns = SPIN_NS_DEFAULT;
	r->pub.sq_mask = p->entries - 1;
	r->pub.cq_mask = cq - 1;
	r->pub.entries = p->entries;
	r->pub.fd = fd;
	r->pub.id = id;
	r->pub.flags = flags | URCCL_RING_LIVE;
	*ring = r;
	return 0;

close_fd:
	fd_close(fd);
	return err;
}

void ring_close(struct ring *r)
{
	/* An INLINE ring's fd is the engine's. */
	if (!(r->pub.flags & URCCL_RING_INLINE))
		close(r->pub.fd);
	munmap(r, r->map_len);
}

/* Takes back the credits of events that were seen. A slot that was posted to again gave its credit
 * back then, so slots more than one round behind are skipped. */
static void events_walk(struct ring *r)
{
	uint32_t head = load_acquire(&r->consumer_line.cq_head);
	uint32_t held = r->pub.cq_mask + 1 - (r->own.tail - head);
	uint32_t n = head - r->own.walked;

	for (n = n < held ? n : held; n; n--) {
		uint8_t *is_event = &r->own.is_event[(head - n) & r->pub.cq_mask];

		r->own.events_unseen -= *is_event;
		*is_event = 0;
	}
	r->own.walked = head;
}

struct urccl_cqe *ring_post_event(struct ring *r, void **note)
{
	uint32_t slot = r->own.tail & r->pub.cq_mask;
	struct urccl_cqe *cqe;

	if (r->own.events_unseen >= r->event_slots)
		events_walk(r);
	if (r->own.events_unseen >= r->event_slots)
		return NULL;
	cqe = ring_post(r, 0);
	r->own.is_event[slot] = 1;
	r->own.events_unseen++;
	*note = r->own.notes + (uint64_t)slot * URCCL_NOTE_MAX;
	return cqe;
}

int ring_arm_slots(struct ring *r)
{
	if (r->own.events_unseen < r->event_slots)
		return 0;
	sleep_announce(&r->engine_line.wants_slots, 1);
	if (__atomic_load_n(&r->consumer_line.cq_head, __ATOMIC_SEQ_CST) == r->own.walked)
		return 0;
	sleep_take(&r->engine_line.wants_slots);
	events_walk(r);
	return 1;
}

static void ring_notify(struct ring *r, uint32_t how)
{
	if (how == URCCL_ARM_FD)
		wake_write(r->pub.fd);
	else
		futex_wake(&r->arm_line.cq_arm);
}

/* 1: a counter has reached a wake-up mark of the program. wake_tail: behind the last CQE of this
 * burst that wakes; earlier bursts have done their wake-ups. */
static int ring_wanted(const struct ring *r, int wakes, uint32_t wake_tail, uint32_t done)
{
	if (wakes && (int32_t)(wake_tail - load_relaxed(&r->arm_line.cq_wake_at)) >= 0)
		return 1;
	return (int32_t)(done - load_relaxed(&r->arm_line.sq_wake_at)) >= 0;
}

int ring_publish(struct ring *r)
{
	uint32_t tail = r->own.tail, wake_tail = r->own.wake_tail, done = r->own.done, how;
	int wakes;

	assert(r->own.pending);
	r->own.pending = 0;
	if (r->pub.flags & URCCL_RING_INLINE) {
		/* This thread is the consumer too, and never sleeps on these words. */
		store_relaxed(&r->publish_line.sq_done, done);
		store_relaxed(&r->publish_line.cq_tail, tail);
		return 0;
	}
	wakes = (int32_t)(wake_tail - r->own.announced) > 0;
	r->own.announced = tail;
	r->own.wake_tail = tail;
	/* A sleeper that sees this cq_tail, which it loads first, also sees sq_done. */
	store_release(&r->publish_line.sq_done, done);
	__atomic_store_n(&r->publish_line.cq_tail, tail, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&r->arm_line.cq_arm, __ATOMIC_SEQ_CST))
		return 0;
	if (!ring_wanted(r, wakes, wake_tail, done))
		return 0;
	how = sleep_take(&r->arm_line.cq_arm);
	if (!how)
		return 0;
	ring_notify(r, how);
	return 1;
}
