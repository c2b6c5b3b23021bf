/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX alone: a worker in each of two processes, of which one puts to the other's memory and gets
 * from it; with so many requests at a time, one at a time, and scattered blocks between two
 * flushes. A put's request ends when its bytes may be changed, so all of them count when a flush
 * has ended. The other end spins on its worker. How UCX runs is in its environment (UCX_...).
 */
#include "ucx.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct mode {
	const char *name;
	/* The bytes of the span that were moved. */
	uint64_t (*run)(struct report *r, struct end *e, const struct mode *m);
	int reads;
	uint64_t size;
	uint32_t depth;
	uint64_t span;
};

static const ucp_request_param_t none;
static struct raw_options options;
static uint32_t busy; /* requests under way */

static void turn(void *end)
{
	ucp_worker_progress(((struct end *)end)->worker);
}

static void second(int fd)
{
	struct end e;

	end_open(&e, &options, SECOND, fd);
	pair_serve(fd, e.buf, turn, &e);
	_exit(0);
}

static void ended(void *request, ucs_status_t status, void *data)
{
	(void)data;
	end_check(status, "a request");
	ucp_request_free(request);
	busy--;
}

static const ucp_request_param_t counted = {
	.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK,
	.cb.send = ended,
};

static ucs_status_ptr_t request(struct end *e, int reads, uint64_t from, uint64_t to, uint64_t len,
				const ucp_request_param_t *how)
{
	if (reads)
		return ucp_get_nbx(e->ep, e->buf + to, len, e->theirs + from, e->key, how);
	return ucp_put_nbx(e->ep, e->buf + from, len, e->theirs + to, e->key, how);
}

static void post(struct end *e, int reads, uint64_t from, uint64_t to, uint64_t len)
{
	ucs_status_ptr_t ptr = request(e, reads, from, to, len, &counted);

	if (UCS_PTR_IS_PTR(ptr))
		busy++;
	else
		end_check(UCS_PTR_STATUS(ptr), "a request");
}

static void flush(struct end *e)
{
	end_wait(e, ucp_ep_flush_nbx(e->ep, &none), "ucp_ep_flush_nbx");
	while (busy)
		turn(e);
}

/* ---- many at a time ---- */

static uint64_t many(struct report *r, struct end *e, const struct mode *m)
{
	uint64_t start = bench_now(), ns, at = 0, done = 0, places = m->span / m->size;
	uint32_t i;

	do {
		for (i = 0; i < m->depth; i++) {
			while (busy == m->depth)
				turn(e);
			post(e, m->reads, at, at, m->size);
			at = at + 2 * m->size > m->span ? 0 : at + m->size;
		}
		done += i;
		turn(e);
		ns = bench_now() - start;
	} while ((double)ns < options.seconds * 1e9);
	flush(e);
	ns = bench_now() - start;
	report_metric(r, (double)(done * m->size) / (double)ns, "GB/s", "ucx.%s.bandwidth",
		      m->name);
	report_metric(r, (double)done / (double)ns * 1e3, "M/s", "ucx.%s.rate", m->name);
	return (done < places ? done : places) * m->size;
}

/* ---- one at a time ---- */

static void one(void *end, const void *mode)
{
	const struct mode *m = mode;
	struct end *e = end;

	end_wait(e, request(e, m->reads, 0, 0, m->size, &none), m->name);
	if (!m->reads)
		flush(e);
}

static uint64_t latency(struct report *r, struct end *e, const struct mode *m)
{
	char name[64];

	snprintf(name, sizeof(name), "ucx.%s", m->name);
	pair_latency(r, options.seconds, name, one, e, m);
	return m->size;
}

/* ---- blocks that lie anywhere, at both ends ---- */

static uint32_t *order(uint32_t n, uint64_t seed)
{
	uint32_t *t = calloc(n, sizeof(*t)), i, other, kept;

	if (!t)
		bench_die("out of memory");
	for (i = 0; i < n; i++)
		t[i] = i;
	for (i = n; i > 1; i--) {
		other = (uint32_t)(bench_random(&seed) % i);
		kept = t[i - 1];
		t[i - 1] = t[other];
		t[other] = kept;
	}
	return t;
}

/* Each block goes to the place of another one: the bytes are laid out so that they fit there. */
static void lay_out(struct end *e, const uint32_t *from, const uint32_t *to, const struct mode *m)
{
	uint8_t *right = malloc(m->span);
	uint64_t i, k;

	if (!right)
		bench_die("out of memory");
	raw_fill(right, m->span, FIRST);
	for (i = 0; i < m->depth; i++)
		for (k = 0; k < m->size; k++)
			e->buf[from[i] * m->size + k] = right[to[i] * m->size + k];
	free(right);
}

static uint64_t scattered(struct report *r, struct end *e, const struct mode *m)
{
	uint32_t *from = order(m->depth, 11), *to = order(m->depth, 12), i;
	uint64_t start, ns, rounds = 0;
	double bytes;

	lay_out(e, from, to, m);
	start = bench_now();
	do {
		for (i = 0; i < m->depth; i++)
			post(e, 0, from[i] * m->size, to[i] * m->size, m->size);
		flush(e);
		rounds++;
		ns = bench_now() - start;
	} while ((double)ns < options.seconds * 1e9);
	free(from);
	free(to);
	bytes = (double)(rounds * m->depth * m->size);
	report_metric(r, bytes / (double)ns, "GB/s", "ucx.scattered.bandwidth");
	report_metric(r, (double)(rounds * m->depth) / (double)ns * 1e3, "M/s",
		      "ucx.scattered.rate");
	report_metric(r, (double)ns / (double)rounds, "ns", "ucx.scattered.round");
	return m->span;
}

static void run(struct report *r, const struct mode *named)
{
	struct mode m = *named;
	struct pair p;
	struct end e;
	uint64_t len;

	m.size = options.size ? options.size : m.size;
	m.depth = options.depth ? (uint32_t)options.depth : m.depth;
	m.span = m.run == scattered ? m.size * m.depth : options.span;
	if (m.span < m.size)
		m.span = m.size;
	options.span = m.span;
	pair_start(&p, &options, second);
	end_open(&e, &options, FIRST, p.fd);
	len = m.run(r, &e, &m);
	pair_compare(&p, m.reads, e.buf, len, turn, &e);
	end_close(&e);
	pair_end(&p);
}

static const struct mode modes[] = {
	{"put", many, 0, 65536, 64, 0},
	{"get", many, 1, 65536, 64, 0},
	{"put_one", latency, 0, 8, 1, 0},
	{"get_one", latency, 1, 8, 1, 0},
	{"scattered", scattered, 0, 4096, 1024, 0},
};

int main(int argc, char **argv)
{
	struct report report;
	unsigned int i;
	uint64_t span;

	raw_options(&options, argc, argv,
		    "raw_ucx: UCX in two processes (--mode put|get: of 64 KiB, 64 in flight;\n"
		    "put_one|get_one: one of 8 bytes, with its flush; scattered: 1,024 puts of\n"
		    "4 KiB and a flush)");
	options.provider = options.provider ? options.provider : "tcp";
	span = options.span;
	pair_congestion(options.cc);
	report_open(&report, "raw_ucx", options.json);
	report_setting(&report, "library", "UCX %s", ucp_get_version_string());
	report_setting(&report, "transports", "%s", options.provider);
	report_setting(&report, "congestion_control", "%s", options.cc ? options.cc : "default");
	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		options.span = span;
		if (raw_wanted(&options, modes[i].name))
			run(&report, &modes[i]);
	}
	report_close(&report);
	return 0;
}
