/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys that end with a data endpoint: with FI_MR_ENDPOINT a memory region belongs to one endpoint.
 * The helper thread makes the regions when a range is exported, closes them before their endpoint,
 * and makes them again on the next one when the importer asks. The importer asks for all of them
 * (MESSAGE_ASK: export, first part u32), and its chunks wait for all keys of the export
 * (MESSAGE_KEYS). An ASK that cannot be answered yet gets no answer, and is sent again.
 */
#include <endian.h>
#include "backend/fabric/key.h"

#define ASK_NS (20 * NSEC_PER_MSEC)

struct answer {		   /* follows struct fabric_control with the export's id; little-endian */
	uint32_t endpoint; /* number of the data endpoint that the keys belong to */
	uint16_t first, n; /* parts; n 0: the export has ended */
	uint8_t parts[];
};

#define ANSWER_PARTS \
	((MESSAGE_MAX - sizeof(struct fabric_control) - sizeof(struct answer)) / FABRIC_NUMBERED)

/* ---- the owner ---- */

void fabric_bound_leave(struct fabric_ep *e)
{
	struct fabric_grant *g;

	e->leaving = NULL;
	if (!fabric_ep_device(e)->bound)
		return;
	list_for_each_entry(g, &e->grants, link) {
		g->leaves = 1;
		g->next = e->leaving;
		e->leaving = g;
	}
}

int fabric_bound_close(struct fabric_ep *e)
{
	struct fabric_grant *g;
	int err = 0;

	for (g = e->leaving; g; g = g->next)
		if (fabric_grant_close(g))
			err = -FI_EBUSY;
	return err;
}

void fabric_bound_left(struct fabric_ep *e)
{
	for (; e->leaving; e->leaving = e->leaving->next)
		e->leaving->leaves = 0;
}

static struct fabric_grant *grant_find(const struct fabric_ep *e, uint32_t id)
{
	struct fabric_grant *g;

	list_for_each_entry(g, &e->grants, link) {
		if (g->id == id)
			return g;
	}
	return NULL;
}

static int is_gone(const struct fabric_grant *g)
{
	return !g || g->none || g->deadline_ns || g->job_out || g->closed ||
	       (g->expires_ns != NEVER_NS && clock_ns() >= g->expires_ns);
}

/* Makes its missing regions on the current data endpoint. */
void fabric_bound_fill(struct fabric_grant *g)
{
	struct fabric_ep *e = g->ep;
	struct fabric_device *d = fabric_ep_device(e);

	if (is_gone(g) || g->fill_out || g->leaves || e->endpoint_state != ENDPOINT_READY ||
	    e->ending)
		return;
	g->fill_out = 1;
	g->fill.type = JOB_FILL;
	g->fill.reply = &d->from_helper;
	mailbox_post(&d->to_helper, &g->fill);
}

/* n 0: the export has ended. */
static void answer(struct fabric_grant *g, struct fabric_ep *e, uint32_t id, uint32_t first,
		   uint32_t n)
{
	uint8_t bytes[sizeof(struct answer) + ANSWER_PARTS * FABRIC_NUMBERED];
	struct answer a = {.endpoint = htole32(e->number), .first = htole16((uint16_t)first)};

	n = n < ANSWER_PARTS ? n : (uint32_t)ANSWER_PARTS;
	a.n = htole16((uint16_t)n);
	memcpy(bytes, &a, sizeof(a));
	if (n)
		fabric_range_parts(fabric_ep_device(e), &g->range, g->mr, first, n,
				   bytes + sizeof(a));
	fabric_send(e, MESSAGE_KEYS, id, bytes, (uint32_t)sizeof(a) + n * FABRIC_NUMBERED);
}

static int keys_asked(struct fabric_ep *e, uint32_t id, uint32_t first)
{
	struct fabric_grant *g = grant_find(e, id);

	if (e->endpoint_state != ENDPOINT_READY || e->state != EP_UP || (g && g->leaves))
		return 0;
	if (is_gone(g) || g->fill_err) {
		answer(NULL, e, id, first, 0);
		return 0;
	}
	if (first >= g->pieces)
		return -EPROTO;
	if (!g->fill_out && g->n == g->pieces) {
		answer(g, e, id, first, g->n - first);
		return 0;
	}
	g->wanted = 1;
	g->first = first;
	fabric_bound_fill(g);
	return 0;
}

void fabric_bound_filled(struct fabric_grant *g)
{
	int err = g->fill.res, again = err == -FI_ENOMEM || err == -FI_EAGAIN;

	g->fill_out = 0;
	g->fill_err = again ? 0 : err;
	if (g->wanted && !again) /* otherwise the importer asks again */
		keys_asked(g->ep, g->id, g->first);
	g->wanted = 0;
}

/* ---- the importer ---- */

static void keys_ask(struct fabric_ep *e, struct fabric_key *k)
{
	uint32_t first = htole32(k->renewed_endpoint == e->number ? k->renewed : 0);

	if (fabric_send(e, MESSAGE_ASK, k->id, &first, sizeof(first)))
		k->asked_ns = clock_ns();
	k->asked_endpoint = e->number;
}

int fabric_bound_ready(struct fabric_ep *e, struct fabric_key *k)
{
	struct fabric_device *d = fabric_ep_device(e);

	if (!d->bound || k->endpoint == e->number)
		return 1;
	/* An engine that sleeps is woken to ask again. */
	d->stalled = 1;
	if (k->asked_endpoint != e->number || clock_ns() - k->asked_ns >= ASK_NS)
		keys_ask(e, k);
	return 0;
}

/* Stores the keys of the next parts. 0, or -EPROTO: their lengths differ from the original
 * parts. */
static int key_renew(struct fabric_key *k, const uint8_t *from, uint32_t n)
{
	uint64_t words[3], begin;
	uint32_t i;

	for (i = 0; i < n; i++, from += sizeof(words)) {
		struct fabric_part *p = &k->parts[k->renewed];

		begin = k->renewed ? p[-1].len : 0;
		memcpy(words, from, sizeof(words));
		if (le64toh(words[1]) != p->len - begin)
			return -EPROTO;
		p->addr = le64toh(words[0]);
		p->key = le64toh(words[2]);
		k->renewed++;
	}
	return 0;
}

static int key_take(struct fabric_ep *e, struct fabric_key *k, const struct answer *a,
		    const uint8_t *parts)
{
	uint32_t n = le16toh(a->n);

	/* Ignored: keys of a closed data endpoint, or keys that k has already. */
	if (le32toh(a->endpoint) != e->number || k->endpoint == e->number)
		return 0;
	if (!n) {
		k->revoked = 1;
		return 0;
	}
	if (k->renewed_endpoint != e->number)
		k->renewed = 0;
	k->renewed_endpoint = e->number;
	if (le16toh(a->first) != k->renewed)
		return 0;
	if (n > k->n - k->renewed || key_renew(k, parts, n))
		return -EPROTO;
	if (k->renewed == k->n)
		k->endpoint = e->number;
	else
		keys_ask(e, k);
	return 0;
}

static int keys_come(struct fabric_ep *e, uint32_t id, const uint8_t *data, uint32_t len)
{
	struct fabric_key *k;
	struct answer a;
	int err = 0;

	if (len < sizeof(a))
		return -EPROTO;
	memcpy(&a, data, sizeof(a));
	if (len != sizeof(a) + le16toh(a.n) * FABRIC_NUMBERED)
		return -EPROTO;
	list_for_each_entry(k, &e->keys, link) {
		if (!err && k->id == id)
			err = key_take(e, k, &a, data + sizeof(a));
	}
	return err;
}

int fabric_bound_received(struct fabric_ep *e, enum fabric_message type, uint32_t id,
			  const uint8_t *data, uint32_t len)
{
	uint32_t first;

	if (!fabric_ep_device(e)->bound)
		return -EPROTO;
	if (type == MESSAGE_KEYS)
		return keys_come(e, id, data, len);
	if (len != sizeof(first))
		return -EPROTO;
	memcpy(&first, data, sizeof(first));
	return keys_asked(e, id, le32toh(first));
}
