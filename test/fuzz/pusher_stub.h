/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvcache_pusher without a network under it: entries that are prepared wait here until the target
 * lets them end, and what arrives is made by the target. To be included before serve.c or push.c,
 * whose calls of the node and of the library come here.
 */
#ifndef PUSHER_STUB_H
#define PUSHER_STUB_H

#include <stdlib.h>
#include <string.h>
#include "pusher.h"
#include "fuzz.h"

#define STUB_ENTRIES 128u

struct stub_entry {
	bool busy, seen; /* seen: the target has looked at it */
	struct urccl_sqe sqe;
};

static struct stub_entry stub_entries[STUB_ENTRIES];
static uint32_t stub_busy, stub_objects;
static struct urccl_cqe stub_cqe;
static _Alignas(8) uint8_t stub_note[URCCL_NOTE_MAX];
static struct urccl_ring stub_ring = {.cqes = &stub_cqe, .notes = stub_note};

/* ---- what arrives ---- */

/* What is behind the payload is not of it. */
static const struct urccl_cqe *stub_event(uint32_t kind, uint32_t peer, uint64_t tag,
					  const void *payload, int64_t res)
{
	memset(stub_note, 0xee, sizeof(stub_note));
	if (res > 0 && payload)
		memcpy(stub_note, payload, (size_t)res);
	stub_cqe = (struct urccl_cqe){.flags = kind, .peer = peer, .tag = tag, .res = res};
	return &stub_cqe;
}

/* The n-th entry that is under way, from any on; NULL: there is none. It is under way no more. */
static const struct urccl_sqe *stub_end(uint32_t n, struct urccl_sqe *copy)
{
	uint32_t i = 0;

	if (!stub_busy)
		return NULL;
	for (n %= stub_busy;; i++)
		if (stub_entries[i].busy && !n--)
			break;
	stub_entries[i].busy = false;
	stub_busy--;
	*copy = stub_entries[i].sqe;
	return copy;
}

/* ---- the node ---- */

static int stub_open(struct node *n, const struct node_config *c, struct problem *p)
{
	(void)c;
	(void)p;
	memset(n, 0, sizeof(*n));
	n->ring = &stub_ring;
	return 0;
}

static int stub_register(struct node *n, const struct side *s, uint32_t rights,
			 struct urccl_region *region)
{
	(void)n;
	(void)s;
	(void)rights;
	region->id = ++stub_objects;
	return 0;
}

static uint8_t *stub_memory;

static int stub_cache(struct node *n, struct side *s, bool is_decode, uint32_t rights,
		      struct urccl_region *region, struct problem *p)
{
	(void)is_decode;
	(void)p;
	stub_memory = s->base = calloc(1, side_bytes(s));
	must(!!s->base);
	return stub_register(n, s, rights, region);
}

static void stub_close(struct node *n)
{
	free(stub_memory);
	stub_memory = NULL;
	memset(n, 0, sizeof(*n));
}

static struct urccl_sqe *stub_sqe(struct node *n)
{
	uint32_t i;

	(void)n;
	for (i = 0; stub_entries[i].busy; i++)
		must(i + 1 < STUB_ENTRIES);
	stub_entries[i] = (struct stub_entry){.busy = true};
	stub_busy++;
	return &stub_entries[i].sqe;
}

static void stub_say_note(struct node *n, struct urccl_peer peer, uint64_t tag, const void *payload,
			  uint32_t len, uint64_t user_data)
{
	struct urccl_sqe *sqe = stub_sqe(n);

	urccl_prep_notify(sqe, peer, tag, payload, len);
	urccl_sqe_set_data64(sqe, user_data);
}

static void stub_wait(struct node *n, uint64_t until)
{
	(void)n;
	(void)until;
}

static const char *stub_explain(struct node *n, const struct urccl_cqe *cqe)
{
	(void)n;
	(void)cqe;
	return "no reason";
}

static void stub_say(const char *fmt, ...)
{
	(void)fmt;
}

/* ---- the library ---- */

static int stub_object(uint32_t *id)
{
	*id = ++stub_objects;
	return 0;
}

static int stub_advertise(struct urccl_advert *advert)
{
	memset(advert, 0, sizeof(*advert));
	return 0;
}

static int stub_peer_info(struct urccl_peer_info *info)
{
	info->hello_len = 0;
	return 0;
}

#define node_open		     stub_open
#define node_join(a, n, c, p)	     stub_open(n, c, p)
#define node_register		     stub_register
#define node_cache		     stub_cache
#define node_close		     stub_close
#define node_sqe		     stub_sqe
#define node_note		     stub_say_note
#define node_wait		     stub_wait
#define node_explain		     stub_explain
#define say			     stub_say
#define urccl_submit(r)		     ((void)(r))
#define urccl_metadata(c, b, n)	     ((b)[0] = 0, 1)
#define urccl_register(c, r, n, a, o) stub_object(&(o)->id)
#define urccl_unregister(c, r)	     (0)
#define urccl_alloc(c, n, p)	     (*(p) = NULL, 0)
#define urccl_free(c, p)	     ((void)(p), 0)
#define urccl_import(c, p, a, n, o)   stub_object(&(o)->id)
#define urccl_unimport(c, r)	     ((void)(r))
#define urccl_advertise(c, r, o, n, a, t, out) stub_advertise(out)
#define urccl_get_peer_info(c, p, i)     stub_peer_info(i)

#endif
