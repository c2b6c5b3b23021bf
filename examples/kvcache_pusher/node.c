/* SPDX-License-Identifier: Apache-2.0 */
/* One end: a context, its ring, and a loop that sleeps in epoll over the ring's fd, a timer and
 * the signals. */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include "pusher.h"

static uint64_t clock_of(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NSEC + (uint64_t)ts.tv_nsec;
}

uint64_t now_ns(void)
{
	return clock_of(CLOCK_MONOTONIC);
}

uint64_t process_cpu_ns(void)
{
	return clock_of(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t thread_cpu_ns(void)
{
	return clock_of(CLOCK_THREAD_CPUTIME_ID);
}

void busy_begin(struct busy *b, uint64_t now)
{
	if (!b->n++)
		b->since = now;
}

void busy_end(struct busy *b, uint64_t now)
{
	if (!--b->n)
		b->total += now - b->since;
}

/* ---- opening ---- */

/* Before the library makes threads: they inherit the mask, so that the signals are the loop's
 * alone. */
static int open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* Signals of the process: one loop reads each, and all of them count it. */
static atomic_int signals_seen;

static int watch_fd(struct node *n, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(n->epoll, EPOLL_CTL_ADD, fd, &ev);
}

static int open_fds(struct node *n, struct problem *p)
{
	n->epoll = epoll_create1(EPOLL_CLOEXEC);
	n->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	n->signals = open_signals();
	if (n->epoll < 0 || n->timer < 0 || n->signals < 0 || watch_fd(n, n->timer) ||
	    watch_fd(n, n->signals))
		return problem(p, "cannot open a timer: %s", strerror(errno));
	return 0;
}

static int open_context(struct node *n, const struct node_config *c, struct problem *p)
{
	struct urccl_ring_params rp = {.size = sizeof(rp),
				       .entries = c->entries,
				       .event_slots = 1024};
	struct urccl_params params = {.size = sizeof(params)};

	urccl_params_init(&params);
	if (urccl_params_from_env(&params))
		return problem(p, "%s", urccl_errmsg());
	if (c->transport)
		params.transport = c->transport;
	params.listen = c->listen;
	params.hello = c->hello;
	params.hello_len = c->hello_len;
	/* A long request queues behind others: its last layer may wait for all of them. */
	params.deadline_ms = 120000;
	if (urccl_open(&params, &n->ctx))
		return problem(p, "cannot open liburccl: %s", urccl_errmsg());
	if (urccl_ring_open(n->ctx, &rp, &n->ring))
		return problem(p, "cannot open a ring: %s", urccl_errmsg());
	return 0;
}

static int watch_ring(struct node *first, const struct node *n, struct problem *p)
{
	if (watch_fd(first, urccl_ring_fd(n->ring)))
		return problem(p, "cannot watch the ring: %s", strerror(errno));
	return 0;
}

void address_of(const char *address, uint32_t k, struct dial *dial)
{
	const char *colon = strrchr(address, ':');
	unsigned long port = colon ? strtoul(colon + 1, NULL, 10) : 0;
	int host = colon ? (int)(colon - address) : 0;

	if (port && k)
		snprintf(dial->to, sizeof(dial->to), "%.*s:%lu", host, address, port + k);
	else
		snprintf(dial->to, sizeof(dial->to), "%s", address);
	dial->len = (uint32_t)strlen(dial->to);
}

int node_open(struct node *n, const struct node_config *c, struct problem *p)
{
	memset(n, 0, sizeof(*n));
	n->epoll = n->timer = n->signals = -1;
	n->heard = signals_seen;
	if (open_fds(n, p) || open_context(n, c, p) || watch_ring(n, n, p)) {
		node_close(n);
		return -1;
	}
	n->now = now_ns();
	return 0;
}

int node_join(struct node *first, struct node *n, const struct node_config *c, struct problem *p)
{
	memset(n, 0, sizeof(*n));
	n->epoll = n->timer = n->signals = -1;
	if (open_context(n, c, p) || watch_ring(first, n, p)) {
		node_close(n);
		return -1;
	}
	n->next = first->next;
	first->next = n;
	return 0;
}

void node_close(struct node *n)
{
	urccl_ring_close(n->ring);
	urccl_close(n->ctx);
	if (n->epoll >= 0)
		close(n->epoll);
	if (n->timer >= 0)
		close(n->timer);
	if (n->signals >= 0)
		close(n->signals);
	memset(n, 0, sizeof(*n));
	n->epoll = n->timer = n->signals = -1;
}

/* A file that peers of several contexts can map, as it can neither grow nor shrink. */
static void *file_memory(struct side *s, uint64_t len)
{
	int fd = memfd_create("kvcache_pusher", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *p;

	if (fd < 0)
		return NULL;
	p = fallocate(fd, 0, 0, (off_t)len) ||
			    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
		    ? MAP_FAILED
		    : mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		close(fd);
		return NULL;
	}
	s->is_file = true;
	s->fd = fd;
	return p;
}

/* Memory of the host. The other end can map what it reads or writes. */
static void *cache_memory(struct node *n, struct side *s, bool shared)
{
	uint64_t len = side_bytes(s);
	void *p;

	if (shared && n->next)
		return file_memory(s, len);
	if (shared)
		return urccl_alloc(n->ctx, len, &p) ? NULL : p;
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		 0);
	if (p == MAP_FAILED)
		return NULL;
	madvise(p, len, MADV_HUGEPAGE);
	return p;
}

uint64_t memory_available(void)
{
	FILE *f = fopen("/proc/meminfo", "r");
	uint64_t kb = 0;
	char line[128];

	while (f && !kb && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %lu kB", &kb) != 1)
			kb = 0;
	if (f)
		fclose(f);
	return kb ? kb * 1024 : UINT64_MAX;
}

int node_register(struct node *n, const struct side *s, uint32_t rights,
		  struct urccl_region *region)
{
	uint32_t tensors = s->ranks * s->shape->layers, i;
	struct urccl_range *ranges = calloc(tensors, sizeof(*ranges));
	int res;

	if (!ranges)
		return -ENOMEM;
	for (i = 0; i < tensors; i++) {
		ranges[i].addr = (uint64_t)(uintptr_t)s->base + i * side_tensor_bytes(s);
		ranges[i].len = side_tensor_bytes(s);
		ranges[i].fd = s->is_file ? s->fd : -1;
		ranges[i].fd_off = s->is_file ? i * side_tensor_bytes(s) : 0;
	}
	res = urccl_register(n->ctx, ranges, tensors, rights, region);
	free(ranges);
	return res;
}

static int cache_open(struct node *n, struct side *s, bool is_decode, bool shared,
		      struct problem *p)
{
	double gib = (double)side_bytes(s) / (1u << 30);

	if (s->memory.kind == MEMORY_HOST) {
		s->base = cache_memory(n, s, shared);
		return s->base ? 0
			       : problem(p, "no memory for a cache of %.2f GiB: %s", gib,
					 shared && !n->next ? urccl_errmsg() : strerror(errno));
	}
	s->base = gpu_alloc(&s->memory, is_decode, side_bytes(s), p);
	if (s->memory.kind == MEMORY_GPU)
		s->page = malloc(side_page_bytes(s));
	return s->base ? 0 : -1;
}

int node_cache(struct node *n, struct side *s, bool is_decode, uint32_t rights,
	       struct urccl_region *region, struct problem *p)
{
	if (cache_open(n, s, is_decode, rights != 0, p))
		return -1;
	if (node_register(n, s, rights, region))
		return problem(p, "cannot register a cache of %.2f GiB: %s",
			       (double)side_bytes(s) / (1u << 30), urccl_errmsg());
	return 0;
}

/* ---- entries ---- */

struct urccl_sqe *node_sqe(struct node *n)
{
	struct urccl_sqe *sqe = urccl_get_sqe(n->ring);

	if (!sqe) {
		say("the ring is full, which its size should have ruled out");
		exit(EXIT_FAILED);
	}
	return sqe;
}

void node_note(struct node *n, struct urccl_peer peer, uint64_t tag, const void *payload,
	       uint32_t len, uint64_t user_data)
{
	struct urccl_sqe *sqe = node_sqe(n);

	urccl_prep_notify(sqe, peer, tag, payload, len);
	urccl_sqe_set_class(sqe, URCCL_CLASS_LATENCY);
	urccl_sqe_set_data64(sqe, user_data);
}

const char *node_explain(struct node *n, const struct urccl_cqe *cqe)
{
	static _Thread_local char text[400];

	if (urccl_explain(n->ctx, cqe, text, sizeof(text)) <= 0)
		snprintf(text, sizeof(text), "%s", strerror((int)-cqe->res));
	return text;
}

/* ---- sleeping ---- */

static void set_timer(struct node *n, uint64_t until_ns)
{
	struct itimerspec it = {{0, 0}, {(time_t)(until_ns / NSEC), (long)(until_ns % NSEC)}};

	if (until_ns == UINT64_MAX)
		it.it_value = (struct timespec){0, 0};
	timerfd_settime(n->timer, TFD_TIMER_ABSTIME, &it, NULL);
}

int node_interrupts(struct node *n)
{
	struct signalfd_siginfo info;
	int seen;

	while (read(n->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		signals_seen++;
	seen = signals_seen;
	n->interrupts += seen - n->heard;
	n->heard = seen;
	return n->interrupts;
}

static void sleep_until(struct node *n, uint64_t until_ns)
{
	struct epoll_event ev[3];
	uint64_t ticks;

	set_timer(n, until_ns);
	/* Which of them is ready does not matter: the loop looks at all of them in any case. */
	epoll_wait(n->epoll, ev, 3, -1);
	if (read(n->timer, &ticks, sizeof(ticks)) < 0 && errno != EAGAIN)
		n->interrupts++;
}

void node_wait(struct node *n, uint64_t until_ns)
{
	bool sleeps = until_ns > now_ns();
	struct node *m;

	for (m = n; m; m = m->next)
		urccl_submit(m->ring);
	/* arm says 1 if there is a CQE already: then there is no sleep. */
	for (m = n; m && sleeps; m = m->next)
		sleeps = !urccl_arm(m->ring, URCCL_ARM_FOR_CQE, 0);
	if (sleeps)
		sleep_until(n, until_ns);
	node_interrupts(n);
	n->now = now_ns();
}
