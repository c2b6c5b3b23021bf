/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes that drive a library at both ends, each on its CPU, with a socket between them: the
 * first measures, the second drives its end until the first is done. Each fills its memory before
 * the other knows of it; what was moved is compared afterwards.
 */
#ifndef BENCH_RAW_PAIR_H
#define BENCH_RAW_PAIR_H

#include "raw.h"

#include <sys/types.h>

enum { FIRST = 1, SECOND = 2 }; /* whose bytes: salts of raw_fill() */

struct pair {
	int fd;
	pid_t child;
};

/* In the child second(fd) is run, which does not return. */
void pair_start(struct pair *p, const struct raw_options *o, void (*second)(int fd));

/* Ends the second process. */
void pair_end(struct pair *p);

/* Whole, or the program ends. */
void pair_send(int fd, const void *buf, size_t len);
void pair_receive(int fd, void *buf, size_t len);

/* In the second: calls turn(end) until the first process is done, and compares when it asks. */
void pair_serve(int fd, const uint8_t *buf, void (*turn)(void *end), void *end);

/*
 * In the first, which wrote its len bytes to those of the second, or (reads) had them from there:
 * ends the program unless they are there. Calls turn(end) meanwhile.
 */
void pair_compare(const struct pair *p, int reads, const uint8_t *buf, uint64_t len,
		  void (*turn)(void *end), void *end);

/*
 * In the first: one(end, mode) again and again for so many seconds; writes NAME.mean and the
 * histogram's quantiles in ns.
 */
void pair_latency(struct report *r, double seconds, const char *name,
		  void (*one)(void *end, const void *mode), void *end, const void *mode);

/* From now on sockets of this process have that congestion control, whoever makes them. */
void pair_congestion(const char *cc);

#endif
