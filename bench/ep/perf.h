/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EP_PERF_H
#define EP_PERF_H

#include "gpu.h"

enum { PERF_ITERATIONS = 1000, PERF_SMS = 8 };

/* Options; 0: the default of the mode. */
struct perf {
	const char *mode;
	uint32_t ranks, tokens, hidden, topk, experts, iterations;
	uint32_t sms[PERF_SMS], nsms;
	int gpus;
};

/* Bytes of one call, of the rank with most of them. */
struct perf_bytes {
	double logical, wire;
};

void perf_normal(const struct perf *p);
void perf_low_latency(const struct perf *p);

/* Launches and flags by themselves. */
void perf_raw(struct gpu_group *g, const struct perf *p, uint32_t sms);

/* Times "call", which launches its work for one rank, on all ranks; prints a line. */
void perf_time(struct gpu_group *g, const struct perf *p, const char *name, uint32_t sms,
	       const struct perf_bytes *bytes, void (*call)(struct gpu_group *g, uint32_t rank));

/* Random choices of distinct experts, [tokens][topk], from malloc(). */
int64_t *perf_choices(const struct perf *p, uint32_t rank);

/* The bytes of rows of row_bytes each, once for each rank of a token (per_choice 0) or for each
 * expert. */
struct perf_bytes perf_bytes(const struct perf *p, int64_t *const *choices, double row_bytes,
			     int per_choice);

#endif
