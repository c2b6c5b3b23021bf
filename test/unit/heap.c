/* SPDX-License-Identifier: Apache-2.0 */
/* The heap of what is due beside a plain array: whatever was added and taken out, the least is
 * first, and nothing is lost. */
#include "base/base.h"
#include "random.h"
#include "test.h"

#define SOME	500u
#define CHANGES 200000u

static struct heap_node nodes[SOME];
static struct heap heap;

static void holds(void)
{
	const struct heap_node *first = heap_first(&heap);
	uint64_t least = UINT64_MAX;
	uint32_t i, n = 0;

	for (i = 0; i < SOME; i++) {
		if (!nodes[i].link)
			continue;
		n++;
		least = nodes[i].at < least ? nodes[i].at : least;
	}
	CHECK_EQ(first != NULL, n != 0);
	CHECK(!first || first->at == least);
}

int case_heap(void)
{
	uint64_t r = 7;
	uint32_t i, k;

	for (i = 0; i < CHANGES; i++) {
		k = (uint32_t)random_below(&r, SOME);
		if (nodes[k].link)
			heap_del(&nodes[k]);
		else
			heap_add(&heap, &nodes[k], random_below(&r, 1000));
		if (!random_below(&r, 8))
			holds();
	}
	for (k = 0; k < SOME; k++) {
		heap_del(&nodes[k]);
		heap_del(&nodes[k]);
		holds();
	}
	CHECK(!heap_first(&heap));
	return 0;
}
