/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include <string.h>

static void note(struct client *c, const struct urccl_cqe *cqe)
{
	const void *payload = urccl_cqe_note(c->end.ring, cqe);

	if (cqe->tag == TALK_OFFER && cqe->res == sizeof(c->offer)) {
		memcpy(&c->offer, payload, sizeof(c->offer));
		c->offers++;
	} else if (cqe->tag == TALK_RESULT && cqe->res == sizeof(c->result)) {
		memcpy(&c->result, payload, sizeof(c->result));
		c->results++;
	} else if (cqe->tag == TALK_PONG) {
		c->pongs++;
	}
}

static void client_event(struct end *e, const struct urccl_cqe *cqe)
{
	switch (urccl_cqe_kind(cqe)) {
	case URCCL_KIND_NOTE:
		note(e->owner, cqe);
		break;
	case URCCL_KIND_LOST:
		end_fail(e, "the connection", cqe);
	case URCCL_KIND_OP:
		if (cqe->res < 0)
			end_fail(e, "a control entry", cqe);
		end_note_end(e, cqe);
		break;
	}
}

static void connect_to(struct client *c, const struct whom *whom)
{
	struct urccl_sqe *sqe = end_sqe(&c->end);

	urccl_prep_connect(sqe, whom->bytes, whom->len);
	end_submit_wait(&c->end, sqe);
	c->peer.id = (uint32_t)c->end.handle;
	sqe = end_sqe(&c->end);
	urccl_prep_watch(sqe, c->peer);
	end_submit(&c->end, sqe);
}

static void tell(struct client *c, enum talk tag, const void *payload, uint32_t len)
{
	struct urccl_sqe *sqe = end_sqe(&c->end);

	urccl_prep_notify(sqe, c->peer, tag, payload, len);
	end_submit_wait(&c->end, sqe);
}

static uint64_t round_up(uint64_t v)
{
	return (v + 4095) / 4096 * 4096;
}

/* Bytes that the places of one ring take: entries that are not scattered are cache lines apart. */
static uint64_t part(const struct options *o)
{
	return round_up(o->span + 64);
}

static void ask_for_memory(struct client *c)
{
	const struct options *o = c->options;
	struct memory m = options_memory(o, OURS);
	struct talk_request r = {
		.version = TALK_VERSION,
		.alloc = (uint8_t)(o->alloc || o->server_alloc),
		.thp = o->pages == BENCH_PAGES_THP,
		.bidirectional = (uint8_t)o->bidirectional,
		.op = (uint8_t)o->op,
		.len = c->area.len,
		.size = o->size,
		.span = o->span,
		.depth = o->depth,
		.iovs = o->iovs,
		.blocks = o->blocks,
		.planes = o->planes,
		.table = o->table,
		.run = o->run,
		.cls = o->cls,
	};

	if (o->bidirectional) {
		area_open(&c->back, c->ctx, c->area.len, &m);
		if (urccl_advertise(c->ctx, c->back.region, 0, c->back.len, c->back.rights, 0,
				    &r.back) < 0)
			bench_die("cannot advertise our memory: %s", urccl_errmsg());
	}
	tell(c, TALK_REQUEST, &r, sizeof(r));
	while (!c->offers)
		if (!end_reap(&c->end))
			end_idle(&c->end);
	if (c->offer.err)
		bench_die("the server does not serve us: %s", strerror(-c->offer.err));
	if (urccl_import(c->ctx, c->peer, &c->offer.advert, 1, &c->remote) < 0)
		bench_die("cannot import the server's memory: %s", urccl_errmsg());
}

void client_open(struct client *c, const struct options *o, const struct whom *whom)
{
	struct memory m = options_memory(o, OURS);
	uint64_t len;

	memset(c, 0, sizeof(*c));
	c->options = o;
	c->ctx = end_context(o, OURS, o->listen);
	end_open(&c->end, o, c->ctx, o->wait);
	c->end.owner = c;
	c->end.event = client_event;
	c->stride = part(o);
	c->background_off = c->stride * o->rings;
	len = c->background_off + round_up(o->background);
	if (!whom)
		return;
	area_open(&c->area, c->ctx, len, &m);
	connect_to(c, whom);
	ask_for_memory(c);
}

void client_close(struct client *c)
{
	if (c->area.base) {
		area_close(&c->area, c->ctx);
		if (c->back.base)
			area_close(&c->back, c->ctx);
	}
	end_close(&c->end);
	urccl_close(c->ctx);
}

struct target client_target(const struct client *c, uint32_t i)
{
	return (struct target){
		.peer = c->peer,
		.remote = c->remote,
		.remote_off = i * c->stride,
		.region = c->area.region,
		.local = c->area.base ? c->area.base + i * c->stride : NULL,
		.memory = c->area.memory,
		.local_off = i * c->stride,
	};
}

struct talk_result client_mark(struct client *c, enum talk mark)
{
	uint32_t before = c->results;

	if (!c->peer.id)
		return (struct talk_result){0};
	tell(c, mark, NULL, 0);
	while (c->results == before)
		if (!end_reap(&c->end))
			end_idle(&c->end);
	return c->result;
}
