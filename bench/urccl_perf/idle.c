/* SPDX-License-Identifier: Apache-2.0 */
#include "idle.h"
#include "client.h"
#include "result.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { VISITORS_MAX = 1024 }; /* of a process */

static const double settle_seconds = 2, let_go_seconds = 300;

/* Peers that have come, and notifications: each peer sends one, so that its whole path is there. */
struct guests {
	struct end end;
	uint32_t peers, notes;
	struct urccl_peer *peer; /* each of them */
};

struct idle_figures {
	double seconds, cpu;
	uint64_t rss[2], pss[2]; /* bytes; pss: without peers, with them */
	uint64_t engine_sleeps;
	uint32_t warm; /* peers with a data path */
};

static void guests_event(struct end *e, const struct urccl_cqe *cqe)
{
	struct guests *g = e->owner;

	switch (urccl_cqe_kind(cqe)) {
	case URCCL_KIND_PEER:
		if (g->peers == e->options->idle_peers)
			bench_die("somebody else has dialled us");
		g->peer[g->peers++].id = cqe->peer;
		break;
	case URCCL_KIND_NOTE:
		g->notes++;
		break;
	case URCCL_KIND_LOST:
		bench_die("a peer was lost");
	default:
		end_note_end(e, cqe);
	}
}

/* As many descriptors as we may have: each context needs a few dozen. */
static void raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* Waits for one entry of a visitor's and gives its handle. */
static uint64_t visit_wait(struct urccl *ctx, struct urccl_ring *ring)
{
	struct urccl_cqe *cqe = NULL;
	uint64_t handle;
	char why[256];

	urccl_submit(ring);
	if (urccl_wait(ring, &cqe, NULL) < 0)
		bench_die("a visitor's wait failed");
	if (cqe->res < 0) {
		urccl_explain(ctx, cqe, why, sizeof(why));
		bench_die("a visitor cannot come: %s", why);
	}
	handle = cqe->handle;
	urccl_cqe_seen(ring, cqe);
	return handle;
}

/* One context that dials, says one word and then nothing. */
static void visit(const struct options *o, const struct whom *whom, uint32_t i)
{
	struct options own = *o;
	struct urccl_ring_params p = {.size = sizeof(p), .entries = 4, .event_slots = 4};
	struct urccl_peer peer;
	struct urccl_ring *ring;
	struct urccl *ctx;

	own.is_inline = !o->max_warm; /* to let its path go it needs a thread: we do not drive it */
	ctx = end_context(&own, SERVERS, ""); /* nobody dials it */
	if (urccl_ring_open(ctx, &p, &ring) < 0)
		bench_die("visitor %u: %s", i, urccl_errmsg());
	urccl_prep_connect(urccl_get_sqe(ring), whom->bytes, whom->len);
	peer.id = (uint32_t)visit_wait(ctx, ring);
	urccl_prep_notify(urccl_get_sqe(ring), peer, i, NULL, 0);
	visit_wait(ctx, ring);
}

/* A process of visitors: makes its contexts, then stays until it is ended. */
static pid_t visitors(const struct options *o, const struct whom *whom, uint32_t first, uint32_t n)
{
	pid_t child = fork();
	uint32_t i;

	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (i = first; i < first + n; i++)
		visit(o, whom, i);
	for (;;)
		pause();
}

/* The other process: reads whom to dial, has others make all contexts, for one may not have
 * descriptors for all, and stays until its pipe is closed. */
static void party(const struct options *o, int from)
{
	pid_t child[1 + 100000 / VISITORS_MAX];
	struct whom whom;
	ssize_t n = read(from, whom.bytes, sizeof(whom.bytes));
	uint32_t i, made = 0;

	if (n <= 0)
		_exit(1);
	whom.len = (uint32_t)n;
	raise_limit();
	for (i = 0; made < o->idle_peers; i++, made += VISITORS_MAX) {
		uint32_t left = o->idle_peers - made;

		child[i] = visitors(o, &whom, made, left < VISITORS_MAX ? left : VISITORS_MAX);
		if (child[i] < 0)
			bench_die("cannot start the peers: %s", strerror(errno));
	}
	while (read(from, whom.bytes, sizeof(whom.bytes)) > 0)
		;
	while (i-- > 0)
		kill(child[i], SIGKILL);
	while (wait(NULL) > 0)
		;
	_exit(0);
}

/* Reaps and sleeps for so long. */
static void rest(struct guests *g, double seconds)
{
	uint64_t until = bench_now() + (uint64_t)(seconds * 1e9), now;
	int kept = g->end.idle_ms;

	while ((now = bench_now()) < until) {
		/* Our own looks at the clock must not be what is measured. */
		g->end.idle_ms = (int)((until - now) / 1000000) + 1;
		if (!end_reap(&g->end))
			end_idle(&g->end);
	}
	g->end.idle_ms = kept;
}

static void receive(struct guests *g, const struct options *o, pid_t child)
{
	while (g->peers < o->idle_peers || g->notes < o->idle_peers) {
		if (!end_reap(&g->end))
			end_idle(&g->end);
		if (waitpid(child, NULL, WNOHANG))
			bench_die("the peers are gone after %u of %u", g->peers, o->idle_peers);
	}
}

static uint32_t count_warm(const struct guests *g)
{
	struct urccl_peer_info info = {.size = sizeof(info)};
	uint32_t i, n = 0;

	for (i = 0; i < g->peers; i++) {
		if (urccl_get_peer_info(g->end.ctx, g->peer[i], &info))
			bench_die("%s", urccl_errmsg());
		n += info.warm;
	}
	return n;
}

/* Until no more have a data path than may. */
static uint32_t let_go(struct guests *g, const struct options *o)
{
	uint64_t until = bench_now() + (uint64_t)(let_go_seconds * 1e9);
	uint32_t n;

	while ((n = count_warm(g)) > o->max_warm && o->max_warm) {
		if (bench_now() > until)
			bench_die("%u of %u peers still have their data path", n, g->peers);
		rest(g, 0.1);
	}
	return n;
}

static void print(const struct options *o, const struct idle_figures *f)
{
	double share = f->cpu / f->seconds * 100;
	double more = (double)f->pss[1] - (double)f->pss[0];
	double each = o->idle_peers ? more / o->idle_peers / 1024 : 0;
	struct report r;

	if (!o->json) {
		printf("%u idle peers, %u warm, for %.0f s: %.4f %% of a core, the engine slept %lu "
		       "times; %.1f MiB resident alone, %.1f KiB (Pss) more for each peer\n",
		       o->idle_peers, f->warm, f->seconds, share, f->engine_sleeps,
		       (double)f->rss[0] / 1048576, each);
		return;
	}
	result_open(&r, o, 0);
	report_metric(&r, o->idle_peers, "peers", "peers");
	report_metric(&r, f->warm, "peers", "warm");
	report_metric(&r, f->seconds, "s", "seconds");
	report_metric(&r, f->cpu, "s", "cpu.client");
	report_metric(&r, share, "%", "cpu.share");
	report_metric(&r, (double)f->engine_sleeps, "sleeps", "engine.sleeps");
	report_metric(&r, (double)f->rss[0] / 1048576, "MiB", "rss.alone");
	report_metric(&r, (double)f->rss[1] / 1048576, "MiB", "rss.with_peers");
	report_metric(&r, (double)f->pss[0] / 1048576, "MiB", "pss.alone");
	report_metric(&r, (double)f->pss[1] / 1048576, "MiB", "pss.with_peers");
	report_metric(&r, each, "KiB", "pss.peer");
	report_close(&r);
}

static void watch_quietly(struct guests *g, const struct options *o, struct idle_figures *f)
{
	struct urccl_stats before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
	uint64_t start;

	rest(g, settle_seconds);
	f->rss[1] = bench_rss();
	f->pss[1] = bench_pss();
	urccl_get_stats(g->end.ctx, &before);
	start = bench_now();
	f->cpu = bench_cpu_seconds();
	rest(g, o->seconds);
	f->cpu = bench_cpu_seconds() - f->cpu;
	f->seconds = (double)(bench_now() - start) * 1e-9;
	urccl_get_stats(g->end.ctx, &after);
	f->engine_sleeps = after.sleeps - before.sleeps;
}

static void host(struct guests *g, const struct options *o)
{
	struct urccl_sqe *sqe;

	end_open(&g->end, o, end_context(o, OURS, o->listen), o->wait);
	g->end.owner = g;
	g->end.event = guests_event;
	sqe = end_sqe(&g->end);
	urccl_prep_accept(sqe);
	end_submit(&g->end, sqe);
	sqe = end_sqe(&g->end);
	urccl_prep_watch(sqe, (struct urccl_peer){0});
	end_submit(&g->end, sqe);
}

void idle_measure(const struct options *o)
{
	struct guests g = {.peer = calloc(o->idle_peers + 1, sizeof(*g.peer))};
	struct idle_figures f = {0};
	uint8_t blob[URCCL_METADATA_MAX];
	int fd[2], n;
	pid_t child;

	if (!g.peer || pipe(fd) < 0 || (child = fork()) < 0)
		bench_die("cannot start the peers: %s", strerror(errno));
	if (!child) {
		close(fd[1]);
		party(o, fd[0]);
	}
	close(fd[0]);
	raise_limit();
	host(&g, o);
	rest(&g, 0.2);
	f.rss[0] = bench_rss();
	f.pss[0] = bench_pss();
	n = urccl_metadata(g.end.ctx, blob, sizeof(blob));
	if (n < 0 || write(fd[1], blob, (size_t)n) != n)
		bench_die("cannot say where we are: %s", urccl_errmsg());
	receive(&g, o, child);
	f.warm = let_go(&g, o);
	watch_quietly(&g, o, &f);
	print(o, &f);
	bench_flush();
	/* The peers end with their pipe; how they are lost is not what is measured here. */
	close(fd[1]);
	waitpid(child, NULL, 0);
	end_close(&g.end);
	urccl_close(g.end.ctx);
	free(g.peer);
}
