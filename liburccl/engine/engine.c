/* SPDX-License-Identifier: Apache-2.0 */
/* The main loop. One iteration checks each source of work once. A progress thread runs it, or the
 * thread of an INLINE ring. */
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "engine/post.h"
#include "engine/stats.h"

#define GRANTS_MAX (1u << HANDLE_SLOT_BITS) /* exports of all peers */
#define SLOW_EVERY 16u	 /* a busy engine checks everything once in so many iterations */
#define IDLE_EVERY 8u	 /* an idle one that spins reads the clock once in so many */
#define DUE_MAX	   1024u /* deadlines per iteration, so that other entries go on */
#define POLL_NS	   (1 * NSEC_PER_MSEC)	 /* longest sleep if a device has no descriptor, */
#define SLOTS_NS   (100 * NSEC_PER_MSEC) /* if a program may take CQEs without a wake-up, */
#define SLACK_NS   1000ul
#define WORD_NS	   (50 * NSEC_PER_USEC) /* and if an entry waits for a word */
#define WORDS_MAX  64u			/* words checked per iteration */

/* ---- one iteration ---- */

/* Handles due timers. If there are more than DUE_MAX, the next iterations handle the rest, and
 * each of them reads the clock. */
static uint32_t expire(struct engine *e)
{
	struct timer *t;
	uint32_t n;

	stats_iterated(e);
	for (n = 0; n < DUE_MAX && (t = wheel_expired(&e->wheel, e->now)); n++) {
		if (t->kind == TIMER_OP)
			op_expired(container_of(t, struct op, timer));
		else
			peer_awaited_expired(e, container_of(t, struct engine_peer, awaited));
	}
	e->slow_mask = e->config.clock || n == DUE_MAX ? 0 : SLOW_EVERY - 1;
	return n;
}

/* A busy engine reads the clock every SLOW_EVERY iterations, and for the deadlines of new
 * entries. */
__attribute__((noinline)) static uint32_t look_at_clock(struct engine *e, uint32_t due)
{
	if (!op_arm_fresh(e)) {
		if (!due)
			return 0;
		e->now = clock_now(e->config.clock);
	}
	e->given = 0;
	return expire(e);
}

/* Reads the tail of each SQ before the mailbox, and takes the entries after it. A command that
 * makes a handle is posted before the program can know the handle, so every handle of these
 * entries is known. */
static uint32_t engine_fetch(struct engine *e)
{
	struct list *pos = e->rings.next;
	uint32_t n, work = 0;

	e->immediate_left = IMMEDIATE_BYTES;
	if (pos == &e->rings)
		return load_relaxed(&e->mailbox.head) ? run_commands(e) : 0;
	for (; pos != &e->rings; pos = pos->next) {
		struct engine_ring *er = list_entry(pos, struct engine_ring, link);

		n = ring_submitted(er->ring);
		if (load_relaxed(&e->mailbox.head))
			work += run_commands(e);
		if (n)
			work += sq_fetch(e, er, n);
	}
	return work;
}

static void publish_all(struct engine *e)
{
	struct list *pos;

	list_for_each(pos, &e->rings) {
		struct engine_ring *er = list_entry(pos, struct engine_ring, link);

		if (!er->ring->own.pending)
			continue;
		stats_ended(er);
		if (ring_publish(er->ring))
			stat_add(&e->stats->count.wakes, 1);
	}
}

/* The slow path: work that most iterations do not have. Returns the amount that moved bytes. */
__attribute__((noinline)) static uint32_t engine_slow_path(struct engine *e)
{
	uint32_t work = 0;

	e->slow_work = 0;
	if (e->stage.njobs || e->stage.waiting.head || !list_empty(&e->relays.active))
		work = stage_look(e);
	if (!list_empty(&e->flushes))
		flush_all(e);
	if (e->sweep)
		sweep_chunks(e);
	if (!list_empty(&e->words))
		sync_look(e, WORDS_MAX);
	if (e->looking || !list_empty(&e->signals))
		sync_look_gpus(e);
	if (!list_empty(&e->device_rings))
		work += device_rings_pass(e);
	e->wants_slots = 0;
	if (!list_empty(&e->pending))
		e->wants_slots |= (uint32_t)notes_pending(e);
	if (!list_empty(&e->pending_accepts))
		e->wants_slots |= (uint32_t)accepts_pending(e);
	if (!list_empty(&e->messages))
		e->wants_slots |= (uint32_t)msg_rings_pending(e);
	if (!e->wants_slots)
		e->starved_ns = 0;
	if (!list_empty(&e->commands))
		retry_commands(e);
	e->slow_work |= !list_empty(&e->flushes) || !list_empty(&e->pending) ||
			!list_empty(&e->pending_accepts) || !list_empty(&e->messages) ||
			!list_empty(&e->words) || e->looking || !list_empty(&e->signals) ||
			!list_empty(&e->commands) || !list_empty(&e->device_rings) ||
			e->stage.njobs || e->stage.waiting.head || !list_empty(&e->relays.active);
	return work;
}

/* Devices without rails may only have unauthenticated connections to handle. Expired exports end
 * before devices are polled, or a late write could be placed before that. */
static uint32_t engine_move(struct engine *e, uint32_t slow)
{
	uint32_t work = 0;

	if (e->lanes_set)
		work += schedule(e);
	if (e->expiring.trees || e->expired_ns != NEVER_NS)
		exposures_expire(e);
	if (e->rails || slow)
		work += poll_devices(e, slow);
	if (e->slow_work | e->sweep)
		work += engine_slow_path(e);
	return work + op_run_ready(e);
}

static uint32_t engine_iterate(struct engine *e)
{
	uint32_t slow, work = engine_fetch(e);

	op_run_ready(e);
	slow = (e->iterations++ & e->slow_mask) == 0;
	if (e->lanes_set | e->rails | e->slow_work | e->sweep | slow)
		work += engine_move(e, slow);
	slow |= (!work && !e->clock_skips) || e->given >= LOOK_BYTES;
	if (slow || e->fresh)
		work += look_at_clock(e, slow);
	if (e->sweep) { /* deadlines have passed: report their chunks in this iteration */
		sweep_chunks(e);
		work += poll_devices(e, 0);
	}
	work += op_run_ready(e);
	stats_succeeded(e);
	publish_all(e);
	return work;
}

/* 1: the last steps of an iteration made work for its first steps. */
static int engine_has_more(const struct engine *e)
{
	return e->sweep || e->warming || !list_empty(&e->ready) ||
	       (e->stage.waiting.head && e->stage.nfree) ||
	       (!list_empty(&e->flushes) && !e->flush_full);
}

/* ---- sleep ---- */

static void disarm(struct engine *e)
{
	struct list *pos;

	e->armed = 0;
	stats_awake(e);
	sleep_take(&e->mailbox.asleep);
	list_for_each(pos, &e->rings) {
		struct ring *r = list_entry(pos, struct engine_ring, link)->ring;

		sleep_take(&r->engine_line.sq_flags);
		sleep_take(&r->engine_line.wants_slots);
	}
}

/* Records since when no program took CQEs while an event waits for a slot. */
static void note_starved(struct engine *e, uint64_t heads)
{
	if (e->starved_ns && heads == e->heads)
		return;
	e->starved_ns = e->now;
	e->heads = heads;
}

/* Announces sleep to all sources of wake-ups. 1: there is work, and not all of them were told. */
static int engine_arm(struct engine *e)
{
	uint64_t heads = 0;
	struct list *pos;
	uint32_t i;

	e->armed = 1;
	if (sync_look(e, UINT32_MAX) || sync_look_gpus(e) || mailbox_arm(&e->mailbox))
		return 1;
	list_for_each(pos, &e->rings) {
		struct ring *r = list_entry(pos, struct engine_ring, link)->ring;

		if (ring_arm_sq(r) || (e->wants_slots && ring_arm_slots(r)))
			return 1;
		if (e->wants_slots)
			heads += load_relaxed(&r->consumer_line.cq_head);
	}
	if (e->wants_slots)
		note_starved(e, heads);
	if (device_rings_busy(e))
		return 1;
	for (i = 0; i < e->config.ndevices; i++) {
		struct device *dev = e->config.devices[i];

		if (dev->fd >= 0 && dev->ops->arm(dev))
			return 1;
	}
	e->sleeps++;
	return 0;
}

/* A program that arms or waits reports free event slots (ring_arm_slots()). A program that only
 * peeks does not, since its inline functions wake nobody. So the engine checks again, each time
 * after as long as the program has taken no CQE so far (POLL_NS to SLOTS_NS). The engine thus adds
 * at most as much delay as the program. */
static uint64_t slots_ns(const struct engine *e)
{
	uint64_t ns = e->starved_ns ? e->now - e->starved_ns : 0;

	if (!e->wants_slots)
		return NEVER_NS;
	if (ns < POLL_NS || e->config.clock)
		return POLL_NS;
	return ns < SLOTS_NS ? ns : SLOTS_NS;
}

/* The longest time to sleep, given the deadlines and the sources that must be polled. */
static uint64_t sleep_ns(struct engine *e)
{
	uint64_t next = wheel_next(&e->wheel), ns = slots_ns(e), expires = exposures_next(e);
	uint32_t i;

	next = expires < next ? expires : next;
	if (next != NEVER_NS) {
		next = next > e->now ? next - e->now : 0;
		ns = next < ns ? next : ns;
	}
	if ((e->flush_full | e->lanes_set) && ns > POLL_NS)
		ns = POLL_NS;
	for (i = 0; i < e->config.ndevices; i++)
		if (e->config.devices[i]->fd < 0 && ns > POLL_NS)
			ns = POLL_NS;
	if (!list_empty(&e->words) && ns > WORD_NS)
		ns = WORD_NS;
	next = gpu_sleep_ns(e->config.gpu, e->now); /* polls while copies on any device are under
						     * way */
	return next < ns ? next : ns;
}

/* Old kernels (before 5.11), seccomp filters and emulators only offer milliseconds: deadlines are
 * later by that much. */
static int epoll_for(struct engine *e, struct epoll_event *events, int max, uint64_t ns)
{
	struct timespec ts = {(time_t)(ns / NSEC_PER_SEC), (long)(ns % NSEC_PER_SEC)};
	uint64_t ms = ns / NSEC_PER_MSEC + (ns % NSEC_PER_MSEC != 0);
	int n;

	if (!e->coarse) { /* glibc has had epoll_pwait2() since 2.35 */
		n = (int)syscall(SYS_epoll_pwait2, e->epfd, events, max,
				 ns == NEVER_NS ? NULL : &ts, NULL, (size_t)0);
		if (n >= 0 || (errno != ENOSYS && errno != EPERM))
			return n;
		e->coarse = 1;
	}
	if (ns == NEVER_NS)
		return epoll_wait(e->epfd, events, max, -1);
	return epoll_wait(e->epfd, events, max, ms < INT_MAX ? (int)ms : INT_MAX);
}

/* Drains the eventfd where it is seen, since a waker may write it after the sleep was taken
 * back. */
static int epoll_sleep(struct engine *e, uint64_t ns)
{
	struct epoll_event events[8];
	int i, n;

	PROBE(sleep, e->config.incarnation, ns, e->iterations);
	n = epoll_for(e, events, 8, ns);
	PROBE(wake, e->config.incarnation, n, e->iterations);
	e->now = clock_now(e->config.clock); /* entries that begin now have not waited */
	e->looked_ns = e->now;
	if (n < 0)
		return -errno;
	for (i = 0; i < n; i++) {
		if (events[i].data.fd == e->mailbox.fd)
			wake_drain(e->mailbox.fd);
		if (events[i].data.fd == e->timerfd) { /* set for an earlier sleep */
			wake_drain(e->timerfd);
			e->timer_set = 0;
		}
	}
	return n;
}

/* 0: it slept until its timer fired. Wake-ups that only find empty lanes do not end the sleep. */
static int thread_sleep(struct engine *e)
{
	uint64_t ns, until;
	int woken = 1;

	if (!engine_arm(e)) {
		ns = sleep_ns(e);
		until = ns < NEVER_NS - e->now ? e->now + ns : NEVER_NS;
		stats_asleep(e, ns);
		do
			woken = epoll_sleep(e, device_rings_sleep_ns(e, until)) != 0;
		while (!woken && e->now < until && device_rings_are_empty(e));
	}
	disarm(e);
	return woken;
}

/* While a progress thread spins, little time passes between two iterations, and reading the clock
 * is most of their cost. The first one, and the first one after a sleep, read it. */
static void idle_iterated(struct engine *e)
{
	if (!e->idle_since)
		e->idle_since = e->now;
	e->clock_skips = e->clock_skips ? e->clock_skips - 1 : IDLE_EVERY - 1;
}

/* The next entry comes in one cache line and the tail that announces it in another: both are on
 * their way at once, and not one after the other. */
static void prefetch_entries(const struct engine *e)
{
	struct list *pos;

	list_for_each(pos, &e->rings) {
		const struct engine_ring *er = list_entry(pos, struct engine_ring, link);

		__builtin_prefetch(ring_sqe(er->ring, 0));
	}
}

static void *thread_main(void *arg)
{
	struct engine *e = arg;

	(void)prctl(PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0); /* sleeps during GPU copies are short */
	while (!e->stopping) {
		if (engine_iterate(e) || engine_has_more(e)) {
			e->idle_since = e->clock_skips = 0;
			continue;
		}
		idle_iterated(e);
		if (e->device_busy || e->now - e->idle_since < e->spin_ns) {
			cpu_relax();
			prefetch_entries(e);
			continue;
		}
		/* An engine that wakes by its timer finds little to do: it does not spin then. */
		if (thread_sleep(e))
			e->idle_since = 0;
		e->clock_skips = 0;
	}
	msg_reply(&e->stop->msg, 0);
	return NULL;
}

/* ---- INLINE ---- */

/* With a simulated clock: the time of the next event. */
static uint64_t next_ns(struct engine *e)
{
	uint64_t ns = sleep_ns(e), next = ns < NEVER_NS - e->now ? e->now + ns : NEVER_NS,
		 of_device;
	uint32_t i;

	for (i = 0; i < e->config.ndevices; i++) {
		struct device *dev = e->config.devices[i];

		of_device = NEVER_NS;
		if (dev->ops->clock)
			dev->ops->clock(dev, &of_device);
		next = of_device < next ? of_device : next;
	}
	return next;
}

static int wait_for_keys(const struct engine *e)
{
	const struct list *pos;
	uint32_t i;

	for (i = 0; i < e->nremotes; i++)
		if (e->remotes[i] && !list_empty(&e->remotes[i]->waiters))
			return 1;
	list_for_each(pos, &e->relays.active)
		if (relay_lacks_key(list_entry(pos, struct relay, link)))
			return 1;
	return 0;
}

/* 1: a rail broke, and the control thread has not decided yet what follows. */
static int wait_for_verdict(const struct engine *e)
{
	const struct engine_peer *p;
	const struct list *pos;

	list_for_each(pos, &e->peers) {
		p = list_entry(pos, struct engine_peer, link);
		if (p->state != PEER_UP)
			continue;
		if (p->rail ? !p->rail->up : p->unfinished || p->notes_busy)
			return 1;
		if (p->requeued_chunks.head || !list_empty(&p->requeued_ops))
			return 1;
	}
	return 0;
}

/* The number of entries taken from all rings. */
static uint32_t entered(const struct engine *e)
{
	const struct list *pos;
	uint32_t n = 0;

	list_for_each(pos, &e->rings)
		n += list_entry(pos, struct engine_ring, link)->ring->own.sq_head;
	return n;
}

static void drive_clock(struct engine *e)
{
	uint32_t holds = wait_for_keys(e) || wait_for_verdict(e), taken = entered(e);

	if (holds && !e->holds)
		clock_hold(e->config.clock);
	if (!holds && e->holds)
		clock_release(e->config.clock);
	e->holds = holds;
	if (taken != e->entered)
		clock_taken(e->config.clock);
	e->entered = taken;
	if (e->worked || engine_has_more(e))
		clock_busy(e->config.clock);
	else
		clock_idle(e->config.clock, &e->member, next_ns(e));
}

void engine_pass(struct engine *e)
{
	if (e->config.clock && !e->worked && !engine_has_more(e))
		clock_sleep(e->config.clock, next_ns(e));
}

__attribute__((noinline)) static void drive_awake(struct engine *e)
{
	disarm(e);
	wake_drain(e->mailbox.fd); /* the program's own epoll may have seen it */
}

__attribute__((noinline)) static void drive_end(struct engine *e)
{
	if (e->config.clock)
		drive_clock(e);
	if (e->stop) {
		msg_reply(&e->stop->msg, 0);
		e->stop = NULL;
	}
}

void engine_drive(void *engine)
{
	struct engine *e = engine;

	if (e->armed)
		drive_awake(e);
	e->worked = engine_iterate(e);
	if (e->config.clock || e->stop)
		drive_end(e);
}

/* The program may sleep in its own epoll on our fd: a timerfd in it stands for the next
 * deadline. */
static void set_timerfd(struct engine *e, uint64_t ns)
{
	uint64_t at = ns == NEVER_NS ? 0 : e->config.clock ? 1 : e->now + (ns ? ns : 1);
	struct itimerspec its = {
		.it_value = {(time_t)(at / NSEC_PER_SEC), (long)(at % NSEC_PER_SEC)},
	};

	if (at == e->timer_set)
		return;
	e->timer_set = at;
	timerfd_settime(e->timerfd, TFD_TIMER_ABSTIME, &its, NULL);
}

/* Takes no real time if no other member of the clock must be waited for. */
static int simulated_sleep(struct engine *e, uint64_t ns)
{
	uint64_t until = ns < NEVER_NS - e->now ? e->now + ns : NEVER_NS, next = next_ns(e);

	until = next < until ? next : until;
	if (clock_sleep(e->config.clock, until))
		return 0;
	return epoll_sleep(e, until == NEVER_NS ? NEVER_NS : POLL_NS);
}

int engine_sleep(void *engine, uint64_t ns)
{
	struct engine *e = engine;
	uint64_t until = sleep_ns(e);
	int n;

	if (e->worked || engine_has_more(e) || engine_arm(e)) {
		disarm(e);
		return 1;
	}
	stats_asleep(e, until);
	if (!ns) {
		set_timerfd(e, e->config.clock && next_ns(e) != NEVER_NS ? 0 : until);
		return 0;
	}
	if (e->config.clock)
		n = simulated_sleep(e, ns);
	else
		n = epoll_sleep(e, until < ns ? until : ns);
	disarm(e);
	return n == -EINTR ? -EINTR : 0;
}

int engine_fd(const struct engine *e)
{
	return e->epfd;
}

/* ---- opening and closing ---- */

static int epoll_join(int epfd, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

static int engine_open_fds(struct engine *e)
{
	uint32_t i;
	int res, fd = wake_open();

	if (fd < 0)
		return fd;
	mailbox_init(&e->mailbox, fd);
	e->epfd = epoll_create1(EPOLL_CLOEXEC);
	e->timerfd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (e->epfd < 0 || e->timerfd < 0)
		return -errno;
	res = epoll_join(e->epfd, fd);
	if (!res && e->config.is_inline)
		res = epoll_join(e->epfd, e->timerfd);
	for (i = 0; i < e->config.ndevices && !res; i++)
		if (e->config.devices[i]->fd >= 0)
			res = epoll_join(e->epfd, e->config.devices[i]->fd);
	return res;
}

static void init_lists(struct engine *e)
{
	uint32_t i;

	list_init(&e->rings);
	list_init(&e->peers);
	list_init(&e->commands);
	list_init(&e->exposures);
	list_init(&e->expired);
	e->expired_ns = NEVER_NS;
	list_init(&e->ready);
	list_init(&e->flushes);
	list_init(&e->pending);
	list_init(&e->pending_accepts);
	list_init(&e->messages);
	list_init(&e->words);
	list_init(&e->signals);
	list_init(&e->device_rings);
	stage_init(&e->stage);
	relays_init(&e->relays);
	for (i = 0; i < LANES; i++)
		list_init(&e->lanes[i]);
	for (i = 0; i < CHUNKS_MAX; i++)
		e->chunks[i].next = i + 1 < CHUNKS_MAX ? &e->chunks[i + 1] : NULL;
	e->chunk_free = e->chunks;
}

static void init_times(struct engine *e)
{
	const struct urccl_params *p = e->config.params;

	e->spin_ns = p->spin_us == UINT32_MAX ? NEVER_NS : p->spin_us * NSEC_PER_USEC;
	e->default_timeout_ns = p->deadline_ms * NSEC_PER_MSEC;
	e->dead_after_ns = p->dead_after_ms * NSEC_PER_MSEC;
	e->now = clock_now(e->config.clock);
	wheel_init(&e->wheel, e->now);
}

int engine_open(const struct engine_config *config, struct engine **engine)
{
	struct engine *e = aligned_alloc(64, (sizeof(*e) + 63) & ~(size_t)63);
	uint32_t i;
	int res;

	if (!e)
		return fail(-ENOMEM, "no memory for an engine");
	memset(e, 0, sizeof(*e));
	e->config = *config;
	e->slow_mask =
		config->clock ? 0 : SLOW_EVERY - 1; /* with a simulated clock, each iteration must
						     * see the same time */
	e->epfd = e->timerfd = e->mailbox.fd = -1;
	e->chunks_max = config->params->max_inflight_ops;
	assert(e->chunks_max <= CHUNKS_SHARED); /* ensured by the range of the setting */
	e->chunks = calloc(CHUNKS_MAX, sizeof(*e->chunks));
	e->failed_notes.records = calloc(FAILED_NOTES_MAX, sizeof(*e->failed_notes.records));
	if (!e->chunks || !e->failed_notes.records ||
	    handles_init(&e->grants, GRANTS_MAX, HANDLE_INTERNAL)) {
		free(e->chunks);
		free(e->failed_notes.records);
		free(e);
		return fail(-ENOMEM, "no memory for an engine of %u chunks", CHUNKS_MAX);
	}
	init_lists(e);
	init_times(e);
	if (e->config.clock)
		clock_join(e->config.clock, &e->member);
	res = engine_open_fds(e);
	if (res) {
		engine_close(e);
		return fail(res, "engine: no file descriptor for its wake-ups: %s",
			    errno_text(-res));
	}
	if (stats_open(e)) {
		engine_close(e);
		return fail(-ENOMEM, "no memory for the engine's statistics");
	}
	for (i = 0; i < config->ndevices; i++)
		config->devices[i]->iteration = &e->iterations;
	*engine = e;
	return 0;
}

int engine_start(struct engine *e)
{
	const struct urccl_params *p = e->config.params;
	struct thread_how how = {
		.prefix = p->thread_name,
		.part = "engine",
		.setting = "progress",
		.cpus = p->progress_cpus,
		.nice = p->progress_nice,
	};
	int res;

	if (e->config.is_inline)
		return 0;
	res = thread_start(&e->thread, &how, thread_main, e);
	e->started = !res;
	return res;
}

void engine_close(struct engine *e)
{
	if (!e)
		return;
	if (e->started)
		pthread_join(e->thread, NULL);
	if (e->holds)
		clock_release(e->config.clock);
	if (e->config.clock)
		clock_leave(e->config.clock, &e->member);
	fd_close(e->epfd);
	fd_close(e->timerfd);
	fd_close(e->mailbox.fd);
	bundles_close(e);
	free(e->chunks);
	free(e->failed_notes.records);
	segment_close(e->segment);
	stage_close(&e->stage);
	relays_close(&e->relays);
	memory_map_free(e->map);
	free(e->regions);
	free(e->remotes);
	free(e->peer_slots);
	handles_fini(&e->grants);
	free(e);
}

void engine_leave(struct engine *e)
{
	if (!e->started)
		return;
	e->leave.msg.type = ENGINE_STOP;
	mailbox_post(&e->mailbox, &e->leave.msg);
	pthread_detach(e->thread);
}

struct mailbox *engine_mailbox(struct engine *e)
{
	return &e->mailbox;
}
