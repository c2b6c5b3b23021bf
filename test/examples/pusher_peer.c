/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include "pusher_peer.h"

#define WATCHES 1u
#define ENDS	2u

static void open_rings(struct peer *p, uint32_t notes)
{
	struct urccl_params params = {.size = sizeof(params)};
	struct urccl_ring_params rp = {.size = sizeof(rp), .entries = 16, .event_slots = notes};

	urccl_params_init(&params);
	params.transport = p->transport;
	params.listen = "";
	CHECK_EQ(urccl_open(&params, &p->ctx), 0);
	CHECK_EQ(urccl_ring_open(p->ctx, &rp, &p->ring), 0);
	CHECK_EQ(urccl_ring_open(p->ctx, NULL, &p->data), 0);
}

void peer_open(struct peer *p, const char *transport, uint32_t notes)
{
	struct options o = {.page = 16};
	struct urccl_range range = {.len = 3ull * PEER_BYTES, .fd = -1};
	struct problem why;

	memset(p, 0, sizeof(*p));
	p->transport = transport;
	open_rings(p, notes);
	p->post = calloc(1, range.len);
	CHECK(p->post);
	range.addr = (uint64_t)(uintptr_t)p->post;
	CHECK_EQ(urccl_register(p->ctx, &range, 1, URCCL_RIGHT_READ | URCCL_RIGHT_WRITE,
				&p->region),
		 0);
	CHECK_EQ(model_load(&o, &p->shape, &why), 0);
	p->pool.shape = &p->shape;
	p->pool.ranks = 1;
	p->hello = (struct msg_hello){
		.id = {.magic = PROTO_MAGIC, .version = PROTO_VERSION},
		.shape = p->shape,
		.tp_prefill = 1,
		.tp_decode = 1,
		.slots = PEER_SLOTS,
		.pages = 4096,
		.verify = 1,
	};
	CHECK_EQ(urccl_advertise(p->ctx, p->region, 0, PEER_BYTES, URCCL_RIGHT_WRITE, 0,
				 &p->hello.mailbox),
		 0);
	CHECK_EQ(urccl_advertise(p->ctx, p->region, 0, 3ull * PEER_BYTES, URCCL_RIGHT_READ, 0,
				 &p->hello.cache),
		 0);
}

void peer_close(struct peer *p)
{
	urccl_close(p->ctx);
	free(p->post);
}

/* ---- entries ---- */

static struct urccl_sqe *entry(struct peer *p)
{
	struct urccl_sqe *sqe = urccl_get_sqe(p->data);

	CHECK(sqe);
	return sqe;
}

static struct urccl_cqe end_of(struct peer *p, struct urccl_sqe *sqe)
{
	struct urccl_wait_args args = {.size = sizeof(args), .timeout_ns = PEER_LATE_NS};
	struct urccl_cqe *cqe, copy;

	urccl_sqe_set_data64(sqe, ENDS);
	CHECK_EQ(urccl_submit(p->data), 1);
	do {
		CHECK_GE(urccl_wait(p->data, &cqe, &args), 1);
		copy = *cqe;
		urccl_cqe_seen(p->data, cqe);
	} while (copy.flags & URCCL_CQE_MORE);
	return copy;
}

void peer_connect(struct peer *p, const char *metadata, uint32_t len)
{
	static char blob[URCCL_METADATA_MAX];
	struct urccl_sqe *sqe = entry(p);
	struct urccl_cqe cqe;
	FILE *f = fopen(metadata, "re");
	size_t n = f ? fread(blob, 1, sizeof(blob), f) : 0;

	CHECK(n);
	fclose(f);
	urccl_prep_connect(sqe, blob, (uint32_t)n);
	urccl_sqe_set_hello(p->data, sqe, &p->hello, len);
	cqe = end_of(p, sqe);
	CHECK_EQ(cqe.res, 0);
	p->decode.id = (uint32_t)cqe.handle;
	sqe = urccl_get_sqe(p->ring);
	urccl_prep_watch(sqe, p->decode);
	urccl_sqe_set_data64(sqe, WATCHES);
	CHECK_EQ(urccl_submit(p->ring), 1);
}

int64_t peer_says(struct peer *p, uint64_t tag, const void *payload, uint32_t len)
{
	struct urccl_sqe *sqe = entry(p);

	urccl_prep_notify(sqe, p->decode, tag, payload, len);
	return end_of(p, sqe).res;
}

static void take_end(struct peer *p, uint32_t *left)
{
	struct urccl_wait_args args = {.size = sizeof(args), .timeout_ns = PEER_LATE_NS};
	struct urccl_cqe *cqe;

	CHECK_GE(urccl_wait(p->data, &cqe, &args), 1);
	*left -= !(cqe->flags & URCCL_CQE_MORE);
	urccl_cqe_seen(p->data, cqe);
}

void peer_repeats(struct peer *p, uint32_t n, uint64_t tag, const void *payload, uint32_t len)
{
	uint32_t under_way = 0;
	struct urccl_sqe *sqe;

	for (; n; n--, under_way++) {
		while (!(sqe = urccl_get_sqe(p->data))) {
			urccl_submit(p->data);
			take_end(p, &under_way);
		}
		urccl_prep_notify(sqe, p->decode, tag, payload, len);
	}
	urccl_submit(p->data);
	while (under_way)
		take_end(p, &under_way);
}

void peer_breaks(struct peer *p, uint64_t tag)
{
	struct urccl_sqe *sqe = entry(p);

	urccl_prep_write(sqe, p->pool_remote, peer_bytes(p), 64, side_bytes(&p->pool));
	urccl_sqe_set_group(sqe, 1);
	CHECK_LE(end_of(p, sqe).res, -1);
	sqe = entry(p);
	urccl_prep_notify(sqe, p->decode, tag, NULL, 0);
	urccl_sqe_set_group(sqe, 1);
	urccl_sqe_add_flags(sqe, URCCL_SQE_FENCE);
	CHECK_EQ(end_of(p, sqe).res, -ECANCELED);
}

/* ---- what decode says ---- */

const struct urccl_cqe *peer_hears(struct peer *p, uint64_t ns)
{
	static struct urccl_cqe copy;
	struct urccl_wait_args args = {.size = sizeof(args), .timeout_ns = ns};
	struct urccl_cqe *cqe;

	if (urccl_wait(p->ring, &cqe, &args) < 1)
		return NULL;
	copy = *cqe;
	if (urccl_cqe_kind(cqe) == URCCL_KIND_NOTE && tag_what(cqe->tag) == MSG_WELCOME &&
	    cqe->res == sizeof(p->welcome))
		memcpy(&p->welcome, urccl_cqe_note(p->ring, cqe), sizeof(p->welcome));
	if (urccl_cqe_kind(cqe) == URCCL_KIND_NOTE && tag_what(cqe->tag) == MSG_REFUSAL)
		snprintf(p->refusal, sizeof(p->refusal), "%.*s", (int)cqe->res,
			 (const char *)urccl_cqe_note(p->ring, cqe));
	urccl_cqe_seen(p->ring, cqe);
	return &copy;
}

void peer_welcomed(struct peer *p)
{
	const struct urccl_cqe *cqe = peer_hears(p, PEER_LATE_NS);

	CHECK(cqe);
	CHECK_EQ(urccl_cqe_kind(cqe), URCCL_KIND_NOTE);
	CHECK_EQ(tag_what(cqe->tag), MSG_WELCOME);
	p->pool.pages = p->welcome.pages;
	CHECK_LE(p->welcome.ask_bytes * PEER_SLOTS, PEER_BYTES);
	CHECK_EQ(urccl_import(p->ctx, p->decode, &p->welcome.pool, 1, &p->pool_remote), 0);
	CHECK_EQ(urccl_import(p->ctx, p->decode, &p->welcome.asks, 1, &p->asks), 0);
}

const uint32_t *peer_table(const struct peer *p, uint32_t slot)
{
	uint64_t at = slot * table_bytes(p->hello.pages) + sizeof(struct msg_table);

	return (const uint32_t *)(const void *)(p->post + at);
}

bool peer_has_table(struct peer *p, uint32_t slot)
{
	const struct urccl_cqe *cqe = peer_hears(p, 1);

	if (!cqe)
		return false;
	CHECK_EQ(urccl_cqe_kind(cqe), URCCL_KIND_NOTE);
	CHECK_EQ(tag_what(cqe->tag), MSG_TABLE);
	CHECK_EQ(tag_slot(cqe->tag), slot);
	return true;
}

void peer_await_lost(struct peer *p)
{
	const struct urccl_cqe *cqe;

	do {
		cqe = peer_hears(p, PEER_LATE_NS);
		CHECK(cqe);
	} while (urccl_cqe_kind(cqe) != URCCL_KIND_LOST);
}

/* ---- questions and pages ---- */

struct msg_ask peer_ask(const struct peer *p, uint32_t id, uint32_t npages)
{
	return (struct msg_ask){
		.id = id,
		.tokens = npages * p->shape.page,
		.block_tokens = npages * p->shape.page,
		.nblocks = 1,
		.npages = npages,
	};
}

void peer_asks(struct peer *p, uint32_t slot, uint32_t id, const struct msg_ask *ask,
	       const uint32_t *pages)
{
	uint8_t *at = p->post + PEER_BYTES;
	struct urccl_sqe *sqe = entry(p);
	uint64_t hash = (uint64_t)(uintptr_t)p << 8 | id, len = sizeof(*ask);
	int64_t res;

	memcpy(at, ask, sizeof(*ask));
	memcpy(at + len, &hash, sizeof(hash));
	len += sizeof(hash);
	if (pages)
		memcpy(at + len, pages, ask->npages * sizeof(*pages));
	len += pages ? ask->npages * sizeof(*pages) : 0;
	urccl_prep_write(sqe, p->asks, at, len, slot * p->welcome.ask_bytes);
	urccl_sqe_set_notify(p->data, sqe, tag_make(MSG_ASK, slot, id), NULL, 0);
	/* Decode may close the connection before we know that it has arrived. */
	res = end_of(p, sqe).res;
	CHECK(res == (int64_t)len || res == -ECONNRESET);
}

uint8_t *peer_bytes(const struct peer *p)
{
	return p->post + 2ull * PEER_BYTES;
}

int64_t peer_writes(struct peer *p, uint64_t off, uint32_t len)
{
	struct urccl_sqe *sqe = entry(p);

	CHECK_LE(len, PEER_BYTES);
	urccl_prep_write(sqe, p->pool_remote, peer_bytes(p), len, off);
	return end_of(p, sqe).res;
}

int64_t peer_reads(struct peer *p, uint64_t off, uint32_t len)
{
	struct urccl_sqe *sqe = entry(p);

	CHECK_LE(len, PEER_BYTES);
	urccl_prep_read(sqe, p->pool_remote, peer_bytes(p), len, off);
	return end_of(p, sqe).res;
}
