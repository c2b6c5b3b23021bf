/* SPDX-License-Identifier: Apache-2.0 */
#include "raw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void help(const char *usage)
{
	printf("%s\n"
	       "  --json             one JSON object instead of lines \"name value unit\"\n"
	       "  --cpu A,B          the two ends' CPUs (0,1); -1: not pinned\n"
	       "  --duration S       of each case (1)\n"
	       "  --mode NAME        this case only\n"
	       "  --size N           bytes of a message: 8, 4k, 1m\n"
	       "  --span N           bytes walked before the same ones come again\n"
	       "  --cc NAME          congestion control of TCP streams\n"
	       "  --pages 4k|thp     pages of the buffers (4k)\n"
	       "  --device A,B       RDMA devices of the two ends (the first two)\n"
	       "  --provider NAME    of libfabric (tcp;ofi_rxm), transports of UCX (tcp)\n"
	       "  --alloc            memory that UCX allocates itself\n"
	       "  --threads          as a program of libfabric that has threads: it has locks, and\n"
	       "                     another thread, which does nothing\n"
	       "  --sleeps           likewise, that may sleep on its queue, and spins all the same\n"
	       "  --messages         as one that has threads, and takes messages at another endpoint,\n"
	       "                     at whose queue it looks every fourth time, and keeps deadlines:\n"
	       "                     at the clock each time\n"
	       "  --depth N          work requests in flight on a queue pair\n"
	       "  --chain N          so many of them for one doorbell\n"
	       "  --qps N            queue pairs (1)\n",
	       usage);
	exit(0);
}

static void set(struct raw_options *o, int opt, const char *arg)
{
	int bad = 0;

	switch (opt) {
	case 'j':
		o->json = 1;
		break;
	case 'c':
		bad = sscanf(arg, "%d,%d", &o->cpu[0], &o->cpu[1]) != 2;
		break;
	case 'd':
		bad = bench_parse_double(arg, &o->seconds) || o->seconds <= 0;
		break;
	case 'm':
		o->mode = arg;
		break;
	case 's':
		bad = bench_parse_size(arg, &o->size) || !o->size;
		break;
	case 'w':
		bad = bench_parse_size(arg, &o->span) || !o->span;
		break;
	case 'C':
		o->cc = arg;
		break;
	case 'D':
		bad = !strchr(arg, ',');
		o->device = arg;
		break;
	case 'P':
		o->provider = arg;
		break;
	case 'a':
		o->alloc = 1;
		break;
	case 'S':
		o->sleeps = 1;
		o->threads = 1;
		break;
	case 'M':
		o->messages = 1;
		/* fall through */
	case 'T':
		o->threads = 1;
		break;
	case 'q':
		bad = bench_parse_size(arg, &o->depth) || !o->depth || o->depth > 8192;
		break;
	case 'n':
		bad = bench_parse_size(arg, &o->chain) || !o->chain || o->chain > 8192;
		break;
	case 'Q':
		bad = bench_parse_size(arg, &o->qps) || !o->qps;
		break;
	case 'p':
		bad = strcmp(arg, "4k") && strcmp(arg, "thp");
		o->pages = strcmp(arg, "thp") ? BENCH_PAGES_4K : BENCH_PAGES_THP;
		break;
	}
	if (bad)
		bench_die("cannot use the value '%s'; --help lists the options", arg);
}

void raw_options(struct raw_options *o, int argc, char **argv, const char *usage)
{
	static const struct option options[] = {
		{"json", 0, NULL, 'j'},	  {"cpu", 1, NULL, 'c'},      {"duration", 1, NULL, 'd'},
		{"mode", 1, NULL, 'm'},	  {"size", 1, NULL, 's'},     {"span", 1, NULL, 'w'},
		{"cc", 1, NULL, 'C'},	  {"help", 0, NULL, 'h'},     {"pages", 1, NULL, 'p'},
		{"device", 1, NULL, 'D'}, {"depth", 1, NULL, 'q'},    {"chain", 1, NULL, 'n'},
		{"qps", 1, NULL, 'Q'},	  {"provider", 1, NULL, 'P'}, {"alloc", 0, NULL, 'a'},
		{"sleeps", 0, NULL, 'S'}, {"threads", 0, NULL, 'T'},  {"messages", 0, NULL, 'M'},
		{NULL, 0, NULL, 0},
	};
	int opt;

	*o = (struct raw_options){.cpu = {0, 1}, .seconds = 1};
	while ((opt = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
		if (opt == 'h')
			help(usage);
		if (opt == '?')
			exit(2);
		set(o, opt, optarg);
	}
	if (optind < argc)
		bench_die("'%s' is not an option; --help lists them", argv[optind]);
}

int raw_wanted(const struct raw_options *o, const char *mode)
{
	return !o->mode || !strcmp(o->mode, mode);
}

static uint8_t byte_at(uint64_t i, uint64_t salt)
{
	uint64_t x = (i / 8 + 1) * 0x9e3779b97f4a7c15ull + salt * 0xbf58476d1ce4e5b9ull;

	return (uint8_t)((x ^ x >> 29) >> i % 8 * 8);
}

void raw_fill(uint8_t *buf, uint64_t len, uint64_t salt)
{
	uint64_t i;

	for (i = 0; i < len; i++)
		buf[i] = byte_at(i, salt);
}

int raw_same(const uint8_t *buf, uint64_t len, uint64_t salt)
{
	uint64_t i;

	for (i = 0; i < len; i++)
		if (buf[i] != byte_at(i, salt))
			return 0;
	return 1;
}

void raw_latency(struct report *r, const char *name, const struct hist *h)
{
	report_metric(r, hist_quantile(h, 0.5), "ns", "%s.p50", name);
	report_metric(r, hist_quantile(h, 0.99), "ns", "%s.p99", name);
	report_metric(r, hist_quantile(h, 0.999), "ns", "%s.p99.9", name);
}
