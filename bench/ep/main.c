/* SPDX-License-Identifier: Apache-2.0 */
/*
 * urccl_ep_perf: times dispatch and combine on random tokens. Ranks are streams of this process;
 * rank r runs on GPU r modulo the number of GPUs. Options are named after those of DeepEP's
 * test_intranode and test_low_latency.
 */
#include "perf.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
	"usage: urccl_ep_perf [options]\n"
	"  --mode normal|low-latency   (both)\n"
	"  --num-processes N           ranks, 1 to 8 (the number of GPUs)\n"
	"  --num-tokens N              of a rank (4096; low latency: 128)\n"
	"  --hidden N                  columns (7168)\n"
	"  --num-topk N                experts of a token (8)\n"
	"  --num-experts N             (256; low latency: 288)\n"
	"  --num-sms N                 multiprocessors of a call (24, then all); may be repeated\n"
	"  --iterations N              (50)\n"
	"  --gpus N                    use so many at most (all)\n"
	"Prints for each call the time of the slowest rank, in us: p50 and p99 over iterations, with\n"
	"the caches flushed; and in a graph of 20 calls, without. Logical GB/s: bytes of all rows\n"
	"received, those of the rank itself too, as DeepEP counts. Wire GB/s: bytes that leave a rank\n"
	"for another. Both go with p50, and with a GPU for each rank.\n";

enum option_code {
	MODE = 256,
	RANKS,
	TOKENS,
	HIDDEN,
	TOPK,
	EXPERTS,
	SMS,
	ITERATIONS,
	GPUS,
	HELP,
};

static const struct option options[] = {
	{"mode", required_argument, NULL, MODE},
	{"num-processes", required_argument, NULL, RANKS},
	{"num-tokens", required_argument, NULL, TOKENS},
	{"hidden", required_argument, NULL, HIDDEN},
	{"num-topk", required_argument, NULL, TOPK},
	{"num-experts", required_argument, NULL, EXPERTS},
	{"num-sms", required_argument, NULL, SMS},
	{"iterations", required_argument, NULL, ITERATIONS},
	{"gpus", required_argument, NULL, GPUS},
	{"help", no_argument, NULL, HELP},
	{NULL, 0, NULL, 0},
};

static void die(const char *why)
{
	fprintf(stderr, "urccl_ep_perf: %s\n%s", why, usage);
	exit(2);
}

static void parse(int argc, char **argv, struct perf *p)
{
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		const uint32_t number = optarg ? (uint32_t)strtoul(optarg, NULL, 10) : 0;

		switch (option) {
		case MODE:
			p->mode = optarg;
			break;
		case RANKS:
			p->ranks = number;
			break;
		case TOKENS:
			p->tokens = number;
			break;
		case HIDDEN:
			p->hidden = number;
			break;
		case TOPK:
			p->topk = number;
			break;
		case EXPERTS:
			p->experts = number;
			break;
		case SMS:
			if (p->nsms < PERF_SMS)
				p->sms[p->nsms++] = number;
			break;
		case ITERATIONS:
			p->iterations = number;
			break;
		case GPUS:
			p->gpus = (int)number;
			break;
		case HELP:
			fputs(usage, stdout);
			exit(0);
		default:
			die("unknown option");
		}
	}
	if (optind < argc ||
	    (p->mode && strcmp(p->mode, "normal") && strcmp(p->mode, "low-latency")))
		die("bad argument");
	if (p->ranks > URCCL_EP_MAX_RANKS || !p->iterations || p->iterations > PERF_ITERATIONS)
		die("a number is out of range");
}

int main(int argc, char **argv)
{
	struct perf p = {.hidden = 7168, .topk = 8, .iterations = 50};
	const char *why;

	parse(argc, argv, &p);
	p.gpus = gpu_start(p.gpus, &why);
	if (!p.gpus) {
		printf("skipped: %s\n", why);
		return 77;
	}
	if (!p.ranks)
		p.ranks = (uint32_t)p.gpus;
	printf("%u ranks on %d GPUs, hidden %u, top-%u\n", p.ranks, p.gpus, p.hidden, p.topk);
	if (!p.mode || !strcmp(p.mode, "normal"))
		perf_normal(&p);
	if (!p.mode || !strcmp(p.mode, "low-latency"))
		perf_low_latency(&p);
	return 0;
}
