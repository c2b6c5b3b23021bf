/* SPDX-License-Identifier: Apache-2.0 */
/* Random inputs of a group, for the tests of the reference and of the kernels. */
#ifndef EP_CASES_H
#define EP_CASES_H

#include "reference.h"

#include <stddef.h>

enum case_routing {
	ROUTE_UNIFORM, /* distinct experts at random */
	ROUTE_SKEW,    /* most tokens go to experts of rank 0 */
	ROUTE_HOLES,   /* a third of the choices is -1; some tokens have none */
	ROUTE_LOCAL,   /* each rank keeps its tokens */
	ROUTE_REPEATS, /* tokens may have an expert more than once */
	ROUTE_IN_RANK, /* in_rank decides, at random; choices are uniform */
	ROUTES,
};

struct ep_case {
	const char *name;
	uint32_t ranks, experts, topk, hidden;
	uint32_t tokens; /* most of a rank; ranks have different numbers */
	enum case_routing routing;
	uint32_t empty; /* bit r: rank r has no token */
	uint32_t fp8;	/* dispatch sends bytes and scales; else bf16 */
	uint32_t alignment;
	uint32_t ll_flags;
};

struct random {
	uint64_t state;
};

uint64_t random_next(struct random *r);
static inline uint32_t random_below(struct random *r, uint32_t n)
{
	return (uint32_t)((random_next(r) >> 32) * n >> 32);
}

/* A normal-like distribution within -4 and 4. */
float random_float(struct random *r);

struct ref_shape case_shape(const struct ep_case *c);

/* Fills sources[ranks] with malloc()ed arrays; case_free() frees them. x is bf16 [tokens][hidden],
 * of which a dispatch of FP8 sends the first half as its rows. */
void case_make(const struct ep_case *c, uint64_t seed, struct ref_source *sources);
/* The same without x and scales. */
void case_route(const struct ep_case *c, uint64_t seed, struct ref_source *sources);
void case_free(const struct ep_case *c, struct ref_source *sources);

/* 1 - 2 * sum(a b) / sum(a a + b b), with 1 added to each element. */
double calc_diff(const uint16_t *a, const double *b, size_t n);

#endif
