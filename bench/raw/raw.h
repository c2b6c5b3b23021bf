/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floors: what this machine does without any library, each program the same shape as what it is
 * compared with. One end runs on the first CPU of --cpu (0,1 by default), the other on the second.
 */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include "../common/common.h"
#include "../common/hist.h"
#include "../common/report.h"

#include <getopt.h>

struct raw_options {
	int cpu[2];
	int json;
	double seconds;	  /* of each case */
	uint64_t size;	  /* bytes of a message; 0: the program's default */
	uint64_t span;	  /* bytes walked before the same ones come again; 0: the default */
	const char *mode; /* one case only; NULL: all */
	const char *cc;	  /* TCP_CONGESTION; NULL: the system's */
	enum bench_pages pages;
	const char *device;   /* RDMA devices, "ours,theirs"; NULL: the first two */
	const char *provider; /* of libfabric, transports of UCX; NULL: the program's default */
	int alloc;	      /* memory that the library measured allocates itself */
	int threads;	      /* another thread is there, which does nothing */
	int sleeps;	      /* and queues can be slept on */
	int messages;	      /* and a queue of messages is looked at, and the clock */
	uint64_t depth;	      /* work requests in flight; 0: the program's default */
	uint64_t chain;	      /* work requests of one doorbell; 0: the program's default */
	uint64_t qps;	      /* queue pairs; 0: one */
};

/*
 * Reads the options; exits after --help or on what it does not know. usage says what the program
 * is.
 */
void raw_options(struct raw_options *o, int argc, char **argv, const char *usage);

/* 1: --mode was not given or names this case. */
int raw_wanted(const struct raw_options *o, const char *mode);

/* Fills memory with bytes of their place and of a salt; whether they are there: 1, they are. */
void raw_fill(uint8_t *buf, uint64_t len, uint64_t salt);
int raw_same(const uint8_t *buf, uint64_t len, uint64_t salt);

/* Writes avg (where it is known), p50, p99 and p99.9 of a histogram as NAME.p50 ... in ns. */
void raw_latency(struct report *r, const char *name, const struct hist *h);

#endif
