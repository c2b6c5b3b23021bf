/* SPDX-License-Identifier: Apache-2.0 */
/* urccl_info --top: prints a line per context with its rates since the last sample. */
#include "info.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#define CONTEXTS 256u
#define CTRL_C	 3

/* Counters of a context at one time. */
struct sample {
	pid_t pid;
	uint64_t incarnation, at_ns;
	struct urccl_stats stats;
	struct segment_latency latency; /* all flows together */
};

struct row {
	double entries, read, written, failed; /* per second; bytes */
	struct segment_latency latency;	       /* between two samples */
	uint32_t depth, waiting, peers;
	const char *state;
};

struct samples {
	uint32_t n;
	struct sample s[CONTEXTS];
};

static void sample_take(const struct context *c, struct sample *s)
{
	uint32_t i;

	memset(s, 0, sizeof(*s));
	s->pid = c->pid;
	s->incarnation = c->view.s->head.incarnation;
	s->at_ns = now_ns();
	segment_stats(c->view.s, &s->stats);
	for (i = 0; i < SEGMENT_ALL_FLOWS; i++)
		segment_latency_add(&s->latency, c->view.s, i);
}

static const struct sample *before(const struct samples *old, const struct sample *now)
{
	uint32_t i;

	for (i = 0; i < old->n; i++)
		if (old->s[i].pid == now->pid && old->s[i].incarnation == now->incarnation)
			return &old->s[i];
	return NULL;
}

static uint64_t stats_ended(const struct urccl_stats *s)
{
	return s->completed + s->failed + s->cancelled + s->timed_out;
}

static void count_now(const struct context *c, struct row *r)
{
	const struct segment *s = c->view.s;
	uint32_t i, n = segment_npeers(&c->view);
	uint64_t had, done;

	for (i = 0; i < n; i++)
		r->peers += __atomic_load_n(&s->peers[i].handle, __ATOMIC_RELAXED) != 0;
	for (i = 0; i < SEGMENT_RINGS; i++) {
		const struct segment_ring *ring = &s->rings[i];

		if (!__atomic_load_n(&ring->id, __ATOMIC_ACQUIRE))
			continue;
		r->waiting += __atomic_load_n(&ring->waiting, __ATOMIC_RELAXED);
		segment_ring_counts(ring, &had, &done);
		r->depth += (uint32_t)(had - done);
	}
}

static void compare(const struct sample *old, const struct sample *now, struct row *r)
{
	double seconds = (double)(now->at_ns - old->at_ns) / 1e9;
	uint32_t i;

	if (seconds <= 0)
		return;
	r->entries = (double)(stats_ended(&now->stats) - stats_ended(&old->stats)) / seconds;
	r->failed = (double)(now->stats.failed + now->stats.timed_out - old->stats.failed -
			     old->stats.timed_out) /
		    seconds;
	r->read = (double)(now->stats.bytes_read - old->stats.bytes_read) / seconds;
	r->written = (double)(now->stats.bytes_written - old->stats.bytes_written) / seconds;
	r->latency.ended = now->latency.ended - old->latency.ended;
	r->latency.at_once = now->latency.at_once - old->latency.at_once;
	for (i = 0; i < SEGMENT_CELLS; i++)
		r->latency.cells[i] = now->latency.cells[i] - old->latency.cells[i];
}

/* ---- showing ---- */

static const char *latency(const struct segment_latency *l, double q, char to[16])
{
	uint64_t ns = segment_quantile(l, q);

	if (!l->ended)
		snprintf(to, 16, "-");
	else if (!ns)
		snprintf(to, 16, "1 turn");
	else if (ns < 10000)
		snprintf(to, 16, "%.2f us", (double)ns / 1e3);
	else if (ns < 10000000)
		snprintf(to, 16, "%.0f us", (double)ns / 1e3);
	else
		snprintf(to, 16, "%.0f ms", (double)ns / 1e6);
	return to;
}

static void heading(void)
{
	printf("%7s  %-15s %-10s %5s %11s %8s %8s %9s %9s %6s %6s %8s\n", "PID", "NAME", "STATE",
	       "PEERS", "ENTRIES/S", "READ", "WRITTEN", "P50", "P99", "DEPTH", "WAIT", "FAILED/S");
}

static void show_row(const struct context *c, const struct row *r)
{
	char p50[16], p99[16], slow[SEGMENT_SLOW_TEXT];

	printf("%7d  %-15.15s %-10s %5u %11.0f %8.3f %8.3f %9s %9s %6u %6u %8.0f\n", c->pid,
	       c->comm, r->state, r->peers, r->entries, r->read / 1e9, r->written / 1e9,
	       latency(&r->latency, 0.5, p50), latency(&r->latency, 0.99, p99), r->depth,
	       r->waiting, r->failed);
	if (segment_slow(c->view.s, slow))
		printf("%7s  %s\n", "", slow);
}

static void json_row(struct json *j, const struct context *c, const struct row *r)
{
	json_open(j, NULL, '{');
	json_whole(j, "pid", c->pid);
	json_text(j, "name", c->comm);
	json_text(j, "state", r->state);
	json_whole(j, "peers", r->peers);
	json_number(j, "entries_per_s", r->entries);
	json_number(j, "bytes_read_per_s", r->read);
	json_number(j, "bytes_written_per_s", r->written);
	json_whole(j, "p50_ns", (long long)segment_quantile(&r->latency, 0.5));
	json_whole(j, "p99_ns", (long long)segment_quantile(&r->latency, 0.99));
	json_whole(j, "depth", r->depth);
	json_whole(j, "waiting", r->waiting);
	json_number(j, "failed_per_s", r->failed);
	json_whole(j, "slow_turns",
		   (long long)__atomic_load_n(&c->view.s->engine.count.slow_turns,
					      __ATOMIC_RELAXED));
	json_close(j, '}');
}

/* Samples the contexts into *now; with old, prints rates. Returns their number, or -errno. */
static int samples_take(pid_t pid, const struct samples *old, struct samples *now, struct json *j)
{
	static struct context found[CONTEXTS];
	int i, n = contexts_find(pid, found, CONTEXTS);

	now->n = 0;
	for (i = 0; i < n; i++) {
		struct sample *s = &now->s[now->n++];
		const struct sample *was;
		struct row r = {0};

		sample_take(&found[i], s);
		was = old ? before(old, s) : NULL;
		if (was)
			compare(was, s, &r);
		count_now(&found[i], &r);
		r.state = context_state(&found[i], now_ns());
		if (old && j)
			json_row(j, &found[i], &r);
		else if (old)
			show_row(&found[i], &r);
		context_close(&found[i]);
	}
	return n;
}

/* ---- the loop ---- */

static struct termios cooked;

/* Reads keys one by one, Ctrl-C too, so that the terminal is always restored. */
static int keys_begin(void)
{
	struct termios raw;

	if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &cooked))
		return 0;
	raw = cooked;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
	return !tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

/* 1: quit. */
static int pause_for(double seconds, int keys)
{
	struct pollfd p = {.fd = keys ? STDIN_FILENO : -1, .events = POLLIN};
	char c;

	if (poll(&p, 1, (int)(seconds * 1000)) != 1)
		return 0;
	return read(STDIN_FILENO, &c, 1) != 1 || c == 'q' || c == CTRL_C;
}

static int top_once(pid_t pid, double seconds, struct json *j, struct samples *both)
{
	int n;

	n = samples_take(pid, NULL, &both[0], NULL);
	pause_for(seconds, 0);
	if (j)
		json_open(j, NULL, '[');
	else
		heading();
	n = n < 0 ? n : samples_take(pid, &both[0], &both[1], j);
	if (j) {
		json_close(j, ']');
		printf("\n");
	}
	return n;
}

static int top_loop(pid_t pid, double seconds, struct samples *both)
{
	int n, keys = keys_begin(), i = 0;

	n = samples_take(pid, NULL, &both[0], NULL);
	while (n >= 0) {
		printf("%surccl_info %s, every %g s; read and written in GB/s%s\n\n",
		       isatty(STDOUT_FILENO) ? "\033[H\033[J" : "", urccl_version(), seconds,
		       keys ? "; q: quit" : "");
		heading();
		n = samples_take(pid, &both[i], &both[!i], NULL);
		i = !i;
		fflush(stdout);
		if (n < 0 || ferror(stdout) || pause_for(seconds, keys))
			break;
	}
	if (keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &cooked);
	return n;
}

int top_run(pid_t pid, double seconds, int once, int as_json)
{
	struct samples *both = calloc(2, sizeof(*both));
	struct json out = {.to = stdout};
	int n;

	if (!both)
		return INFO_WRONG;
	n = once ? top_once(pid, seconds, as_json ? &out : NULL, both)
		 : top_loop(pid, seconds, both);
	free(both);
	if (n < 0)
		fprintf(stderr, "urccl_info: %s cannot be looked at: %s\n",
			pid ? "the process" : "/proc", strerror(-n));
	return n < 0 || (pid && !n) ? INFO_WRONG : 0;
}
