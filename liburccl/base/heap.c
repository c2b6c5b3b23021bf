/* SPDX-License-Identifier: Apache-2.0 */
/* A pairing heap (Fredman, Sedgewick, Sleator and Tarjan, 1986). New nodes wait as separate trees;
 * heap_first() merges the trees into one. */
#include "base/base.h"

static void put(struct heap_node *n, struct heap_node **link, struct heap_node *next)
{
	*link = n;
	n->link = link;
	n->next = next;
	if (next)
		next->link = &n->next;
}

/* Makes the later of two trees a child of the other, and returns the other. The caller sets its
 * `next`. */
static struct heap_node *pair(struct heap_node *a, struct heap_node *b)
{
	struct heap_node *first = b->at < a->at ? b : a, *other = first == a ? b : a;

	put(other, &first->child, first->child);
	return first;
}

/* Merges a list of trees into one tree: first in pairs, then the pairs. Merging in pairs leaves the
 * result few children, so the next merge is short. */
static struct heap_node *gather(struct heap_node *n)
{
	struct heap_node *done = NULL, *rest;

	for (; n; n = rest) {
		rest = n->next;
		if (rest) {
			struct heap_node *after = rest->next;

			n = pair(n, rest);
			rest = after;
		}
		n->next = done;
		done = n;
	}
	while (done && done->next) {
		rest = done->next->next;
		done = pair(done, done->next);
		done->next = rest;
	}
	return done;
}

void heap_add(struct heap *h, struct heap_node *n, uint64_t at)
{
	assert(!n->link);
	n->at = at;
	n->child = NULL;
	put(n, &h->trees, h->trees);
}

void heap_del(struct heap_node *n)
{
	struct heap_node *in_place;

	if (!n->link)
		return;
	in_place = gather(n->child);
	if (in_place) {
		put(in_place, n->link, n->next);
	} else {
		*n->link = n->next;
		if (n->next)
			n->next->link = n->link;
	}
	n->link = NULL;
}

struct heap_node *heap_first(struct heap *h)
{
	if (h->trees && h->trees->next)
		put(gather(h->trees), &h->trees, NULL);
	return h->trees;
}
