/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libfabric alone: reliable datagram endpoints of one provider in two processes, over which one
 * writes to the other's memory and reads from it. Many at a time, each with a completion of its own
 * that says that it is placed (FI_DELIVERY_COMPLETE) or, of those that are sent, what the provider
 * takes it to say; and one at a time. The other end spins on its queue: a provider may need its
 * process for what is done to its memory.
 */
#include "fabric.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct mode {
	const char *name;
	/* The bytes of the span that were moved. */
	uint64_t (*run)(struct report *r, struct end *e, const struct mode *m);
	int reads;
	uint64_t flags; /* of completions */
	uint64_t size;
	uint32_t depth;
};

static struct raw_options options;

static void turn(void *end)
{
	end_poll(end, NULL, 0);
}

static void second(int fd)
{
	struct end e;

	end_open(&e, &options, SECOND, FI_DELIVERY_COMPLETE, fd);
	pair_serve(fd, e.buf, turn, &e);
	end_close(&e);
	_exit(0);
}

static void run(struct report *r, const struct mode *named)
{
	struct mode m = *named;
	struct pair p;
	struct end e;
	uint64_t len;

	m.size = options.size ? options.size : m.size;
	m.depth = options.depth ? (uint32_t)options.depth : m.depth;
	if (options.span < m.size)
		bench_die("--span is less than --size");
	pair_start(&p, &options, second);
	end_open(&e, &options, FIRST, m.flags, p.fd);
	len = m.run(r, &e, &m);
	pair_compare(&p, m.reads, e.buf, len, turn, &e);
	pair_end(&p);
	end_close(&e);
}

/* ---- many at a time ---- */

enum { TURNS = 64 }; /* between two looks at the clock, which takes longer than a turn may */

static uint64_t many(struct report *r, struct end *e, const struct mode *m)
{
	uint64_t start, ns, at = 0, done = 0, places = options.span / m->size;
	struct post *posts, *idle[DEPTH_MAX];
	uint32_t n = 0, k, i;

	if (m->depth > DEPTH_MAX)
		bench_die("--depth is %d at most", DEPTH_MAX);
	posts = calloc(m->depth, sizeof(*posts));
	if (!posts)
		bench_die("out of memory");
	for (; n < m->depth; n++)
		idle[n] = &posts[n];
	start = bench_now();
	do {
		for (i = 0; i < TURNS; i++) {
			while (n && end_post(e, idle[n - 1], m->reads, at, m->size)) {
				n--;
				at += m->size;
				if (at + m->size > options.span)
					at = 0;
			}
			k = end_poll(e, &idle[n], m->depth - n);
			n += k;
			done += k;
		}
		ns = bench_now() - start;
	} while ((double)ns < options.seconds * 1e9);
	for (; n < m->depth; n += k, done += k)
		k = end_poll(e, &idle[n], m->depth - n);
	ns = bench_now() - start;
	free(posts);
	report_metric(r, (double)(done * m->size) / (double)ns, "GB/s", "fabric.%s.bandwidth",
		      m->name);
	report_metric(r, (double)done / (double)ns * 1e3, "M/s", "fabric.%s.messages", m->name);
	return (done < places ? done : places) * m->size;
}

/* ---- one at a time ---- */

static void one(void *end, const void *mode)
{
	const struct mode *m = mode;
	struct end *e = end;
	struct post post, *out;

	while (!end_post(e, &post, m->reads, 0, m->size))
		end_poll(e, NULL, 0);
	while (!end_poll(e, &out, 1))
		;
}

static uint64_t latency(struct report *r, struct end *e, const struct mode *m)
{
	char name[64];

	snprintf(name, sizeof(name), "fabric.%s", m->name);
	pair_latency(r, options.seconds, name, one, e, m);
	return m->size;
}

#define PLACED FI_DELIVERY_COMPLETE

static const struct mode modes[] = {
	{"write", many, 0, PLACED, 65536, 16}, {"read", many, 1, PLACED, 65536, 16},
	{"sent", many, 0, 0, 65536, 16},       {"single", many, 0, PLACED, 64, 128},
	{"latency", latency, 0, PLACED, 8, 1}, {"read_latency", latency, 1, PLACED, 8, 1},
};

int main(int argc, char **argv)
{
	struct report report;
	unsigned int i;

	raw_options(&options, argc, argv,
		    "raw_fabric: endpoints of a provider of libfabric in two processes\n"
		    "(--mode write|read: of 64 KiB; sent: writes that are complete when the\n"
		    "provider says so, wherever the bytes are; single: writes of 64 bytes;\n"
		    "latency|read_latency: one of 8 bytes, to its completion)");
	options.span = options.span ? options.span : 4u << 20;
	options.provider = options.provider ? options.provider : "tcp;ofi_rxm";
	pair_congestion(options.cc);
	report_open(&report, "raw_fabric", options.json);
	report_setting(&report, "library", "libfabric %u.%u", FI_MAJOR(fi_version()),
		       FI_MINOR(fi_version()));
	report_setting(&report, "provider", "%s", options.provider);
	report_setting(&report, "size", "%lu", options.size);
	report_setting(&report, "depth", "%lu", options.depth);
	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (raw_wanted(&options, modes[i].name))
			run(&report, &modes[i]);
	report_close(&report);
	return 0;
}
