/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that sleeps in epoll and nowhere else, with entries of random kind, size and number in
 * flight. It ends with an error if a completion is there and the fd does not say so; it counts the
 * times the fd said so for nothing.
 */
#include "client.h"
#include "result.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { LEN_MAX = 64 << 10, DEPTH_MAX = 64, PAUSE_ONE_OF = 1024, PAUSE_NS = 60000 };
static const uint64_t stuck_ns = 10ull * 1000000000u;

struct random_job {
	struct client *client;
	struct target target;
	uint64_t state; /* of the generator */
	uint64_t posted, ended;
	void (*other)(struct end *e, const struct urccl_cqe *cqe);
};

static uint64_t pick(struct random_job *j, uint64_t n)
{
	return bench_random(&j->state) % n;
}

/* The completion of a random entry is a control entry's as the end sees it. */
static void random_event(struct end *e, const struct urccl_cqe *cqe)
{
	struct client *c = e->owner;
	struct random_job *j = c->random;

	if (urccl_cqe_kind(cqe) == URCCL_KIND_OP && !(cqe->flags & URCCL_CQE_MORE) && cqe->res >= 0)
		j->ended++;
	else
		j->other(e, cqe);
}

static void post_one(struct random_job *j, struct urccl_sqe *sqe)
{
	const struct target *t = &j->target;
	uint64_t len = pick(j, 4) ? pick(j, 512) : pick(j, LEN_MAX);
	uint64_t here = pick(j, LEN_MAX - len + 1), there = pick(j, LEN_MAX - len + 1);

	switch (pick(j, 8)) {
	case 0:
		urccl_prep_nop(sqe);
		break;
	case 1:
		urccl_prep_notify(sqe, t->peer, 0, t->local, (uint32_t)(len % URCCL_NOTE_MAX));
		break;
	case 2:
	case 3:
		urccl_prep_read(sqe, t->remote, t->local + here, len, there);
		break;
	default:
		urccl_prep_write(sqe, t->remote, t->local + here, len, there);
	}
	if (!pick(j, 4))
		urccl_sqe_set_class(sqe, URCCL_CLASS_LATENCY);
	sqe->user_data = (uint64_t)TAG_CONTROL << TAG_SHIFT;
	j->posted++;
}

static void post_some(struct random_job *j, uint64_t goal)
{
	uint64_t depth = 1 + pick(j, pick(j, 2) ? 2 : DEPTH_MAX);

	if (j->posted - j->ended >= depth)
		return;
	while (j->posted < goal && j->posted - j->ended < depth)
		post_one(j, end_sqe(&j->client->end));
	urccl_submit(j->client->end.ring);
}

static void run(struct random_job *j, uint64_t goal)
{
	struct timespec pause = {0, PAUSE_NS};
	struct end *e = &j->client->end;
	uint64_t last = bench_now(), seen = 0;

	while (j->ended < goal) {
		post_some(j, goal);
		while (end_reap(e))
			;
		/* So that the other side falls asleep now and then. */
		if (!pick(j, PAUSE_ONE_OF))
			nanosleep(&pause, NULL);
		if (j->posted > j->ended)
			end_idle(e);
		if (j->ended != seen) {
			seen = j->ended;
			last = bench_now();
		} else if (j->posted > j->ended && bench_now() - last > stuck_ns) {
			bench_die("%lu entries have not ended for 10 s", j->posted - j->ended);
		}
	}
}

static void print(const struct options *o, const struct end *e, double seconds, double cpu)
{
	struct report r;
	double share = e->sleeps ? (double)e->empty / (double)e->sleeps : 0;

	if (!o->json) {
		printf("%lu random entries in %.2f s: %lu sleeps, %lu of them ended for nothing "
		       "(%.3f %%), none was lost; %.2f CPU seconds\n",
		       o->random, seconds, e->sleeps, e->empty, share * 100, cpu);
		return;
	}
	result_open(&r, o, 0);
	report_metric(&r, (double)o->random, "entries", "entries");
	report_metric(&r, seconds, "s", "seconds");
	report_metric(&r, (double)e->sleeps, "sleeps", "sleeps");
	report_metric(&r, (double)e->empty, "sleeps", "empty");
	report_metric(&r, share * 100, "%", "empty.share");
	report_metric(&r, cpu, "s", "cpu.client");
	report_close(&r);
}

void client_random(struct client *c)
{
	struct random_job j = {.client = c, .target = client_target(c, 0), .state = 0x9e3779b9};
	struct end *e = &c->end;
	double cpu = bench_cpu_seconds();
	uint64_t start = bench_now();

	j.other = e->event;
	c->random = &j;
	e->event = random_event;
	e->sleeps = e->empty = 0;
	run(&j, c->options->random);
	e->event = j.other;
	c->random = NULL;
	print(c->options, e, (double)(bench_now() - start) * 1e-9, bench_cpu_seconds() - cpu);
}
