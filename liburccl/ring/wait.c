/* SPDX-License-Identifier: Apache-2.0 */
/* The program's side of a ring: waiting, arming, waking the engine. */
#include "ring/ring.h"

/* A wait ends when *cq_tail reaches cq_at or *sq_done reaches sq_at. No counter advances by NEVER
 * during a wait. */
#define NEVER 0x7fffffffu
struct goal {
	uint32_t cq_at, sq_at;
};

static struct ring *ring_of(struct urccl_ring *ring)
{
	return container_of(ring, struct ring, pub);
}

static int fail_dead(void)
{
	return fail(-EPERM,
		    "this process was forked off the ring's: open a context and a ring here");
}

static int reached(const struct ring *r, const struct goal *g)
{
	uint32_t tail = __atomic_load_n(&r->publish_line.cq_tail, __ATOMIC_SEQ_CST);

	if ((int32_t)(tail - g->cq_at) >= 0)
		return 1;
	return (int32_t)(__atomic_load_n(&r->publish_line.sq_done, __ATOMIC_SEQ_CST) - g->sq_at) >=
	       0;
}

static void goal_cqes(const struct ring *r, struct goal *g, uint32_t n)
{
	g->cq_at = load_relaxed(&r->consumer_line.cq_head) + n;
}

/* Counts room as if all posted CQEs had been seen. With n 0 it does not read sqe_tail, which may be
 * another thread's. */
static void goal_room(const struct ring *r, struct goal *g, uint32_t n)
{
	if (n)
		g->sq_at = r->pub.sqe_tail - r->pub.entries + n;
	else
		g->sq_at = load_relaxed(&r->publish_line.sq_done) + NEVER;
}

/* Wakes an engine that sleeps for lack of event slots, as this thread is about to sleep. The other
 * half of the handshake in ring_arm_slots(): the inlines store cq_head with less than seq_cst, so
 * it is stored again. */
static void slots_given(struct ring *r)
{
	uint32_t head = load_relaxed(&r->consumer_line.cq_head);

	__atomic_store_n(&r->consumer_line.cq_head, head, __ATOMIC_SEQ_CST);
	if (sleep_take(&r->engine_line.wants_slots))
		wake_write(r->home->fd);
}

/* Announces the consumer's sleep. 1: the goal is reached, not announced; if the engine saw the
 * announcement first, the next call drains its wake-up. */
static int announce(struct ring *r, const struct goal *g, uint32_t how)
{
	if (reached(r, g))
		return 1;
	slots_given(r);
	sleep_take(&r->arm_line.cq_arm);
	if (how == URCCL_ARM_FD)
		wake_drain(r->pub.fd);
	store_relaxed(&r->arm_line.cq_wake_at, g->cq_at);
	store_relaxed(&r->arm_line.sq_wake_at, g->sq_at);
	sleep_announce(&r->arm_line.cq_arm, how);
	if (!reached(r, g))
		return 0;
	sleep_take(&r->arm_line.cq_arm);
	return 1;
}

/* INLINE: the fd covers all that the engine sleeps on, so nothing is announced. */
static int arm_inline(struct ring *r, const struct goal *g)
{
	if (reached(r, g))
		return 1;
	r->drive(r->arg);
	if (reached(r, g))
		return 1;
	return r->sleep(r->arg, 0) > 0;
}

int urccl_arm(struct urccl_ring *ring, uint32_t what, uint32_t n)
{
	struct ring *r = ring_of(ring);
	struct goal g;

	if (!ring->flags)
		return fail_dead();
	if (!what || what & ~(uint32_t)(URCCL_ARM_FOR_CQE | URCCL_ARM_FOR_ROOM))
		return fail(-EINVAL,
			    "urccl_arm() for 0x%x: URCCL_ARM_FOR_CQE, URCCL_ARM_FOR_ROOM or both "
			    "are possible",
			    what);
	if (what & URCCL_ARM_FOR_ROOM && n > ring->entries)
		return fail(-EINVAL, "room for %u entries in a ring of %u", n, ring->entries);
	goal_cqes(r, &g, what & URCCL_ARM_FOR_CQE ? 1 : NEVER);
	goal_room(r, &g, what & URCCL_ARM_FOR_ROOM ? (n ? n : 1) : 0);
	ring_export_unsubmitted(r);
	ring_check_wait(r);
	if (ring->flags & URCCL_RING_INLINE)
		return arm_inline(r, &g);
	return announce(r, &g, URCCL_ARM_FD);
}

/* Spins until the time `until`. 1: the goal is reached. */
static int ring_spin(struct ring *r, const struct goal *g, uint64_t until)
{
	uint32_t is_inline = r->pub.flags & URCCL_RING_INLINE;
	int i;

	do {
		for (i = 0; i < 16; i++) {
			if (is_inline)
				r->drive(r->arg);
			else
				cpu_relax();
			if (reached(r, g))
				return 1;
		}
	} while (until == NEVER_NS || clock_now(r->clock) < until);
	return 0;
}

/* 0, or -EINTR. May wake early: the caller checks again. */
static int sleep_until(struct ring *r, const struct goal *g, uint64_t now, uint64_t until)
{
	uint64_t ns = until == NEVER_NS ? NEVER_NS : until - now;
	int err;

	if (r->pub.flags & URCCL_RING_INLINE)
		return r->sleep(r->arg, ns) == -EINTR ? -EINTR : 0;
	if (announce(r, g, URCCL_ARM_FUTEX))
		return 0;
	err = futex_wait(&r->arm_line.cq_arm, URCCL_ARM_FUTEX, ns);
	sleep_take(&r->arm_line.cq_arm);
	return err == -EINTR ? -EINTR : 0;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The sum, or NEVER_NS on overflow. */
static uint64_t add_ns(uint64_t at, uint64_t by)
{
	return by > NEVER_NS - at ? NEVER_NS : at + by;
}

static int is_there(struct ring *r, const struct goal *g)
{
	if (reached(r, g))
		return 1;
	if (!(r->pub.flags & URCCL_RING_INLINE))
		return 0;
	r->drive(r->arg);
	return reached(r, g);
}

/* 0, -ETIME or -EINTR. */
static int wait_for(struct ring *r, struct goal *g, uint64_t timeout_ns, uint64_t min_wait_ns)
{
	uint64_t now, until, deadline, gathered, spun;

	if (is_there(r, g))
		return 0;
	ring_export_unsubmitted(r);
	ring_check_wait(r);
	slots_given(r);
	now = clock_now(r->clock);
	deadline = add_ns(now, timeout_ns);
	gathered = min_wait_ns ? add_ns(now, min_wait_ns) : NEVER_NS;
	spun = add_ns(now, r->spin_ns);
	for (;;) {
		if (now >= gathered) { /* min_wait_ns is over: one will do */
			goal_cqes(r, g, 1);
			gathered = NEVER_NS;
		}
		if (is_there(r, g))
			return 0;
		if (now >= deadline)
			return -ETIME;
		until = earlier(deadline, gathered);
		if (now < spun && ring_spin(r, g, earlier(until, spun)))
			return 0;
		now = clock_now(r->clock);
		if (now >= until)
			continue;
		if (sleep_until(r, g, now, until) == -EINTR)
			return is_there(r, g) ? 0 : -EINTR;
		now = clock_now(r->clock);
	}
}

/* Copies the program's arguments, of this or an older or newer header. */
static int wait_args(struct urccl_wait_args *a, const struct urccl_wait_args *args,
		     const struct urccl_ring *ring)
{
	*a = (struct urccl_wait_args){.size = sizeof(*a), .timeout_ns = NEVER_NS};
	if (args) {
		int err = copy_sized(a, sizeof(*a), args, "struct urccl_wait_args");

		if (err)
			return err;
	}
	if (!a->min_n)
		a->min_n = 1;
	if (a->min_n > ring->cq_mask + 1)
		return fail(-EINVAL,
			    "a wait for %u completions of a ring that holds %u: wait for less",
			    a->min_n, ring->cq_mask + 1);
	return 0;
}

int urccl_wait(struct urccl_ring *ring, struct urccl_cqe **cqe, const struct urccl_wait_args *args)
{
	struct ring *r = ring_of(ring);
	struct urccl_wait_args a;
	struct goal g;
	uint32_t ready;
	int err;

	if (cqe)
		*cqe = NULL;
	if (!ring->flags)
		return fail_dead();
	err = wait_args(&a, args, ring);
	if (err)
		return err;
	goal_cqes(r, &g, a.min_n);
	goal_room(r, &g, 0);
	err = wait_for(r, &g, a.timeout_ns, a.min_wait_ns);
	ready = urccl_cq_ready(ring);
	if (cqe && ready)
		*cqe = &ring->cqes[load_relaxed(&r->consumer_line.cq_head) & ring->cq_mask];
	return err ? err : (int)ready;
}

int urccl_wait_room(struct urccl_ring *ring, uint32_t n, uint64_t timeout_ns)
{
	struct ring *r = ring_of(ring);
	struct goal g;
	int err;

	if (!ring->flags)
		return fail_dead();
	if (n > ring->entries)
		return fail(-EINVAL,
			    "a wait for room for %u entries in a ring of %u: wait for less", n,
			    ring->entries);
	goal_cqes(r, &g, NEVER);
	goal_room(r, &g, n ? n : 1);
	err = wait_for(r, &g, timeout_ns, 0);
	if (err)
		return err;
	return (int)(ring->entries - (ring->sqe_tail - load_acquire(&r->publish_line.sq_done)));
}

int urccl_submit_and_wait(struct urccl_ring *ring, uint32_t n)
{
	struct urccl_wait_args a = {.size = sizeof(a), .min_n = n, .timeout_ns = NEVER_NS};
	struct urccl_wait_args checked;
	int submitted, err;

	if (!ring->flags)
		return fail_dead();
	err = wait_args(&checked, &a, ring);
	if (err)
		return err;
	submitted = urccl_submit(ring);
	if (!n)
		return submitted;
	err = urccl_wait(ring, NULL, &a);
	return err < 0 && !submitted ? err : submitted;
}

void __urccl_ring_wake(struct urccl_ring *ring)
{
	struct ring *r = ring_of(ring);

	if (ring->flags && sleep_take(&r->engine_line.sq_flags))
		wake_write(r->home->fd);
}

void __urccl_ring_drive(struct urccl_ring *ring)
{
	struct ring *r = ring_of(ring);

	if (ring->flags & URCCL_RING_INLINE)
		r->drive(r->arg);
}
