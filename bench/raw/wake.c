/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs to wake a thread that sleeps: eventfd with epoll, and futex; on the other CPU and
 * on the same one. One way and there and back, and how long the one who wakes is held up.
 */
#include "raw.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* What one thread sleeps on and the other rings. */
struct bell {
	_Alignas(128) uint32_t word; /* futex: added to by the ringer */
	uint32_t heard;		     /* the sleeper's count */
	int efd, epfd;
};

struct wakeup {
	const char *name;
	void (*ring)(struct bell *b);
	void (*sleep)(struct bell *b);
};

static struct bell there, back;
/* When `there` was rung: main writes, the sleeper reads after it woke. */
static _Alignas(128) uint64_t stamp;
static struct hist one_way, round_trip, ringer;
static int sleeper_cpu;
static const struct wakeup *how;
static uint64_t rounds;

static void ring_eventfd(struct bell *b)
{
	uint64_t one = 1;

	if (write(b->efd, &one, sizeof(one)) != sizeof(one))
		bench_die("eventfd: %s", strerror(errno));
}

static void sleep_eventfd(struct bell *b)
{
	struct epoll_event event;
	uint64_t value;

	while (epoll_wait(b->epfd, &event, 1, -1) < 1)
		;
	if (read(b->efd, &value, sizeof(value)) != sizeof(value))
		bench_die("eventfd: %s", strerror(errno));
}

static void ring_futex(struct bell *b)
{
	__atomic_fetch_add(&b->word, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &b->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void sleep_futex(struct bell *b)
{
	while (__atomic_load_n(&b->word, __ATOMIC_SEQ_CST) == b->heard)
		syscall(SYS_futex, &b->word, FUTEX_WAIT_PRIVATE, b->heard, NULL, NULL, 0);
	b->heard++;
}

static const struct wakeup ways[] = {
	{"eventfd", ring_eventfd, sleep_eventfd},
	{"futex", ring_futex, sleep_futex},
};

static void bell_open(struct bell *b)
{
	struct epoll_event event = {.events = EPOLLIN};

	memset(b, 0, sizeof(*b));
	b->efd = eventfd(0, EFD_CLOEXEC);
	b->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (b->efd < 0 || b->epfd < 0 || epoll_ctl(b->epfd, EPOLL_CTL_ADD, b->efd, &event) < 0)
		bench_die("eventfd: %s", strerror(errno));
}

static void bell_close(struct bell *b)
{
	close(b->efd);
	close(b->epfd);
}

static void *sleeper(void *arg)
{
	uint64_t i;

	(void)arg;
	bench_pin(sleeper_cpu);
	for (i = 0; i < rounds; i++) {
		how->sleep(&there);
		hist_add(&one_way, bench_now() - __atomic_load_n(&stamp, __ATOMIC_SEQ_CST));
		how->ring(&back);
	}
	return NULL;
}

static void run(struct report *report, const char *where)
{
	char name[64];
	struct timespec settle = {0, 2000000};
	pthread_t thread;
	uint64_t i;

	bell_open(&there);
	bell_open(&back);
	hist_clear(&one_way);
	hist_clear(&round_trip);
	hist_clear(&ringer);
	if (pthread_create(&thread, NULL, sleeper, NULL))
		bench_die("cannot start a thread");
	nanosleep(&settle, NULL);
	for (i = 0; i < rounds; i++) {
		uint64_t start = bench_now();

		__atomic_store_n(&stamp, start, __ATOMIC_SEQ_CST);
		how->ring(&there);
		hist_add(&ringer, bench_now() - start);
		how->sleep(&back);
		hist_add(&round_trip, bench_now() - start);
	}
	pthread_join(thread, NULL);
	bell_close(&there);
	bell_close(&back);
	snprintf(name, sizeof(name), "wake.%s.%s.one_way", how->name, where);
	raw_latency(report, name, &one_way);
	snprintf(name, sizeof(name), "wake.%s.%s.round_trip", how->name, where);
	raw_latency(report, name, &round_trip);
	snprintf(name, sizeof(name), "wake.%s.%s.ringer", how->name, where);
	raw_latency(report, name, &ringer);
}

int main(int argc, char **argv)
{
	struct raw_options options;
	struct report report;
	unsigned int i;

	raw_options(&options, argc, argv,
		    "raw_wake: the cost of waking a sleeping thread (--mode eventfd|futex)");
	report_open(&report, "raw_wake", options.json);
	bench_pin(options.cpu[0]);
	/* A wake-up takes some 40 us there and back; a fixed count keeps both ways alike. */
	rounds = (uint64_t)(options.seconds * 1e9 / 45000.0) + 1;
	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		how = &ways[i];
		if (!raw_wanted(&options, how->name))
			continue;
		sleeper_cpu = options.cpu[1];
		run(&report, "other_cpu");
		sleeper_cpu = options.cpu[0];
		run(&report, "same_cpu");
	}
	report_close(&report);
	return 0;
}
