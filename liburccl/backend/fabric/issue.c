/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content of one operation, and the call that posts it. Neighbouring chunks of a queue go
 * together, each complete, if the provider accepts several ranges. For small chunks a call and a
 * completion cost more than the bytes.
 */
#include "backend/fabric/key.h"

int fabric_key_lives(const struct fabric_key *k)
{
	return !k->revoked && (k->expires_ns == NEVER_NS || clock_ns() < k->expires_ns);
}

/* ---- content ---- */

/* The next piece of the chunk, within one part of the key. */
static struct fi_rma_iov next_piece(const struct fabric_device *d, const struct chunk *c)
{
	const struct fabric_key *k = fabric_key_of(c);
	uint64_t at = c->off + c->scratch[0], from = 0, len;
	uint32_t low = 0, high = k->n - 1, mid;

	while (low < high) {
		mid = (low + high) / 2;
		if (k->parts[mid].len <= at)
			low = mid + 1;
		else
			high = mid;
	}
	if (low)
		from = k->parts[low - 1].len;
	len = k->parts[low].len - at;
	if (len > c->len - c->scratch[0])
		len = c->len - c->scratch[0];
	if (len > d->most)
		len = d->most;
	return (struct fi_rma_iov){.addr = k->parts[low].addr + (at - from),
				   .len = len,
				   .key = k->parts[low].key};
}

static void gathered_add(const struct fabric_device *d, struct fabric_gathered *g, struct chunk *c,
			 void *local, struct fi_rma_iov remote)
{
	g->local[g->n].iov_base = local;
	g->local[g->n].iov_len = remote.len;
	g->desc[g->n] = fabric_desc(d, c);
	g->of_gpu |= (uint32_t)fabric_is_of_gpu(d, c);
	g->remote[g->n++] = remote;
	g->len += remote.len;
	g->last = c;
}

/* A FLUSH is a READ of the peer's proof word. */
static void add_proof(struct fabric_ep *e, struct fabric_gathered *g, struct chunk *c)
{
	struct fabric_device *d = fabric_ep_device(e);
	const struct fabric_part *p = &e->endpoint.theirs;

	gathered_add(d, g, c, &d->proof[1],
		     (struct fi_rma_iov){.addr = p->addr, .len = sizeof(uint64_t), .key = p->key});
}

/* 1: it may be posted at once, and no earlier step is due for it. */
static int is_free(struct fabric_ep *e, const struct chunk *c)
{
	return fabric_moves(c) && c->len && !c->res && !(c->flags & CHUNK_CANCELLED) &&
	       fabric_key_lives(fabric_key_of(c)) && fabric_bound_ready(e, fabric_key_of(c));
}

/* 1: it may have broken a data endpoint, or was refused together with others. */
static int goes_alone(const struct chunk *c)
{
	return c->state >= CHUNK_TRY || c->state & CHUNK_SUSPECT;
}

/* The largest operation. An urgent chunk must not take much longer because of others. */
static uint64_t most_of(const struct fabric_device *d, const struct fabric_gathered *g)
{
	uint64_t most = (uint64_t)FABRIC_RANGES * g->first->len;

	if (most < FABRIC_GATHER_URGENT)
		most = FABRIC_GATHER_URGENT;
	if (g->bulk || most > FABRIC_GATHER)
		most = FABRIC_GATHER;
	return d->most < most ? d->most : most;
}

/* Adds the following chunks as long as each fits completely. */
static void add_more(struct fabric_ep *e, struct fabric_gathered *g)
{
	const struct fabric_device *d = fabric_ep_device(e);
	uint64_t most = most_of(d, g);
	struct fi_rma_iov remote;
	struct chunk *c;

	if (goes_alone(g->first) || g->first->scratch[0] || g->len < g->first->len)
		return;
	while (g->n < d->ranges && (c = g->last->next)) {
		if (c->kind != g->first->kind || g->len + c->len > most || goes_alone(c) ||
		    !is_free(e, c) || fabric_key_of(c)->mapped < fabric_key_of(c)->n)
			return;
		remote = next_piece(d, c);
		if (remote.len < c->len)
			return;
		gathered_add(d, g, c, c->local, remote);
	}
}

void fabric_gather(struct fabric_ep *e, struct chunk *c, uint32_t bulk, struct fabric_gathered *g)
{
	const struct fabric_device *d = fabric_ep_device(e);

	g->bulk = bulk;
	g->first = c;
	g->n = 0;
	g->len = 0;
	g->of_gpu = 0;
	if (!fabric_moves(c)) {
		add_proof(e, g, c);
		return;
	}
	gathered_add(d, g, c, (char *)c->local + c->scratch[0], next_piece(d, c));
	add_more(e, g);
}

/* ---- the call ---- */

/* 1: another operation follows at once, unless the provider is full. Urgent chunks only: those are
 * small and many. */
static int is_followed(struct fabric_ep *e, const struct fabric_gathered *g)
{
	const struct fabric_device *d = fabric_ep_device(e);

	if (g->bulk || !fabric_moves(g->first) || d->narrow || e->suspects || !g->last->next)
		return 0;
	if (g->first->scratch[0] + g->remote[0].len < g->first->len ||
	    e->ops_out + 1 >= d->ops_most)
		return 0;
	return is_free(e, g->last->next);
}

/* FI_INJECT saves the provider the translation of the memory; FI_MORE saves a doorbell. */
static uint64_t flags_of(const struct fabric_device *d, const struct fabric_gathered *g,
			 uint32_t more)
{
	uint64_t flags = FI_COMPLETION | (more ? FI_MORE : 0);

	if (g->first->kind != CHUNK_WRITE)
		return flags;
	return flags | (d->acks ? 0 : FI_DELIVERY_COMPLETE) |
	       (g->len <= d->inject && !g->of_gpu ? FI_INJECT : 0);
}

static ssize_t gathered_issue(struct fabric_ep *e, struct fabric_gathered *g, struct fabric_op *op,
			      uint32_t more)
{
	uint64_t flags = flags_of(fabric_ep_device(e), g, more);
	struct fi_msg_rma msg = {
		.msg_iov = g->local,
		.desc = g->desc,
		.iov_count = g->n,
		.addr = e->to,
		.rma_iov = g->remote,
		.rma_iov_count = g->n,
		.context = &op->context,
	};

	if (g->first->kind != CHUNK_WRITE)
		return fi_readmsg(e->via->ep, &msg, flags);
	return fi_writemsg(e->via->ep, &msg, flags);
}

/* Keeps the first piece only. */
static void shrink(struct fabric_gathered *g)
{
	g->n = 1;
	g->len = g->remote[0].len;
	g->last = g->first;
}

ssize_t fabric_issue(struct fabric_ep *e, struct fabric_gathered *g, struct fabric_op *op)
{
	uint32_t more = (uint32_t)is_followed(e, g);
	ssize_t err = gathered_issue(e, g, op, more);

	/* The provider does not say which range it refuses, or whether it supports so many ranges
	 * at all. Try the first piece alone, which succeeds if the others were the reason. */
	if (err && g->n > 1 && (err != -FI_EAGAIN || !e->ops_out || e->more)) {
		shrink(g);
		more = (uint32_t)is_followed(e, g);
		err = gathered_issue(e, g, op, more);
	}
	if (!err)
		e->more = more;
	return err;
}
