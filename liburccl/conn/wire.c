/* SPDX-License-Identifier: Apache-2.0 */
#include "conn/wire.h"

/* The first byte is not ASCII and the last two are a line's end: neither a text protocol nor a
 * channel that changes bytes passes for this one. */
const uint8_t wire_magic[WIRE_MAGIC] = CONTROL_MAGIC;

_Static_assert(WIRE_HEADER + 64 + WIRE_NONCE + HELLO_MAX + WIRE_RAILS * (8 + EP_ADDR_MAX) <=
		       WIRE_BUF,
	       "the longest hello fits");
_Static_assert(WIRE_HEADER + 20 + KEY_MAX <= WIRE_BUF, "the longest key fits");
_Static_assert(WIRE_MAGIC + WIRE_HEADER + 24 == CONTROL_ERRNO, "as wire_put_refuse() writes it");
_Static_assert(WIRE_BUF - WIRE_HEADER <= WIRE_FRAME_MAX, "what is sent is accepted");

/* ---- bytes ---- */

struct writer {
	uint8_t *start, *at;
};

static void wire_put_uint(struct writer *w, uint64_t v, uint32_t bytes)
{
	for (; bytes; bytes--, v >>= 8)
		*w->at++ = (uint8_t)v;
}

static void put_bytes(struct writer *w, const void *p, uint32_t len)
{
	if (len)
		memcpy(w->at, p, len);
	w->at += len;
}

static struct writer frame_begin(uint8_t *buf, uint32_t type)
{
	struct writer w = {buf, buf};

	wire_put_uint(&w, 0, 4);
	wire_put_uint(&w, type, 2);
	wire_put_uint(&w, 0, 2);
	return w;
}

static uint32_t frame_end(struct writer *w)
{
	uint32_t len = (uint32_t)(w->at - w->start);
	struct writer head = {w->start, w->start};

	assert(len <= WIRE_BUF);
	wire_put_uint(&head, len - WIRE_HEADER, 4);
	return len;
}

struct reader {
	const uint8_t *at;
	uint64_t left;
	int bad; /* more was read than there is; values are 0 from there on */
};

static uint64_t wire_get_uint(struct reader *r, uint32_t bytes)
{
	uint64_t v = 0;
	uint32_t i;

	if (r->left < bytes) {
		r->bad = 1;
		r->left = 0;
		return 0;
	}
	for (i = 0; i < bytes; i++)
		v |= (uint64_t)r->at[i] << (8 * i);
	r->at += bytes;
	r->left -= bytes;
	return v;
}

static void get_bytes(struct reader *r, void *to, uint32_t len)
{
	if (r->left < len) {
		r->bad = 1;
		r->left = 0;
		return;
	}
	if (len)
		memcpy(to, r->at, len);
	r->at += len;
	r->left -= len;
}

static int get_done(const struct reader *r)
{
	return r->bad || r->left ? -EPROTO : 0;
}

/* ---- frames ---- */

int wire_get_header(const uint8_t head[WIRE_HEADER], struct wire_header *h)
{
	struct reader r = {head, WIRE_HEADER, 0};

	h->len = (uint32_t)wire_get_uint(&r, 4);
	h->type = (uint32_t)wire_get_uint(&r, 2);
	if (wire_get_uint(&r, 2) || h->len > WIRE_FRAME_MAX || !h->type || h->type >= WIRE_TYPES)
		return -EPROTO;
	return 0;
}

static void put_versions(struct writer *w, uint32_t min, uint32_t max)
{
	wire_put_uint(w, min, 2);
	wire_put_uint(w, max, 2);
}

static void get_versions(struct reader *r, uint32_t *min, uint32_t *max)
{
	*min = (uint32_t)wire_get_uint(r, 2);
	*max = (uint32_t)wire_get_uint(r, 2);
}

static void put_features(struct writer *w, const struct wire_hello *h)
{
	wire_put_uint(w, h->features, 4);
	if (h->features & WIRE_HAS_SECRET)
		put_bytes(w, h->nonce, sizeof(h->nonce));
}

static void get_features(struct reader *r, struct wire_hello *h)
{
	h->features = (uint32_t)wire_get_uint(r, 4);
	if (h->features & WIRE_HAS_SECRET)
		get_bytes(r, h->nonce, sizeof(h->nonce));
	if (h->features & ~WIRE_HAS_SECRET && h->version_max <= WIRE_VERSION)
		r->bad = 1;
}

static void put_rail(struct writer *w, const struct wire_rail *rail)
{
	wire_put_uint(w, rail->transport, 2);
	wire_put_uint(w, rail->id, 2);
	wire_put_uint(w, rail->addr_len, 4);
	put_bytes(w, rail->addr, rail->addr_len);
}

uint32_t wire_put_hello(uint8_t *buf, uint32_t type, const struct wire_hello *h)
{
	struct writer w = frame_begin(buf, type);
	uint32_t i;

	assert(h->nrails <= WIRE_RAILS && h->note_len <= HELLO_MAX);
	put_versions(&w, h->version_min, h->version_max);
	wire_put_uint(&w, h->nrails, 2);
	wire_put_uint(&w, h->note_len, 2);
	wire_put_uint(&w, h->incarnation, 8);
	wire_put_uint(&w, h->expected, 8);
	wire_put_uint(&w, h->key_window, 4);
	wire_put_uint(&w, h->host, 4);
	put_bytes(&w, h->note, h->note_len);
	for (i = 0; i < h->nrails; i++)
		put_rail(&w, &h->rails[i]);
	put_features(&w, h);
	wire_put_uint(&w, h->port, 2);
	return frame_end(&w);
}

static void get_rail(struct reader *r, struct wire_rail *rail)
{
	rail->transport = (uint32_t)wire_get_uint(r, 2);
	rail->id = (uint32_t)wire_get_uint(r, 2);
	rail->addr_len = (uint32_t)wire_get_uint(r, 4);
	if (rail->addr_len > EP_ADDR_MAX || rail->id >= WIRE_RAILS || !rail->transport ||
	    rail->transport > URCCL_PATH_TRANSPORT)
		r->bad = 1;
	else
		get_bytes(r, rail->addr, rail->addr_len);
}

int wire_get_hello(const uint8_t *body, uint32_t len, struct wire_hello *h)
{
	struct reader r = {body, len, 0};
	uint32_t i, ids = 0;

	get_versions(&r, &h->version_min, &h->version_max);
	if (r.bad || !h->version_min || h->version_min > h->version_max)
		return -EPROTO;
	if (h->version_min > WIRE_VERSION || h->version_max < WIRE_VERSION)
		return -EPROTONOSUPPORT;
	h->nrails = (uint32_t)wire_get_uint(&r, 2);
	h->note_len = (uint32_t)wire_get_uint(&r, 2);
	h->incarnation = wire_get_uint(&r, 8);
	h->expected = wire_get_uint(&r, 8);
	h->key_window = (uint32_t)wire_get_uint(&r, 4);
	h->host = (uint32_t)wire_get_uint(&r, 4);
	if (!h->incarnation || !h->key_window || h->note_len > HELLO_MAX || h->nrails > WIRE_RAILS)
		return -EPROTO;
	get_bytes(&r, h->note, h->note_len);
	for (i = 0; i < h->nrails && !r.bad; i++) {
		get_rail(&r, &h->rails[i]);
		if (r.bad || ids & 1u << h->rails[i].id)
			return -EPROTO;
		ids |= 1u << h->rails[i].id;
	}
	get_features(&r, h);
	h->port = (uint32_t)wire_get_uint(&r, 2);
	/* A newer dialler may append fields that this version does not know. */
	if (h->version_max > WIRE_VERSION)
		r.left = 0;
	return get_done(&r);
}

uint32_t wire_put_rail(uint8_t *buf, uint32_t type, const struct wire_rail *rail)
{
	struct writer w = frame_begin(buf, type);

	put_rail(&w, rail);
	return frame_end(&w);
}

int wire_get_rail(const uint8_t *body, uint32_t len, struct wire_rail *rail)
{
	struct reader r = {body, len, 0};

	get_rail(&r, rail);
	return get_done(&r);
}

uint32_t wire_put_bytes(uint8_t *buf, uint32_t type, const void *bytes, uint32_t len)
{
	struct writer w = frame_begin(buf, type);

	put_bytes(&w, bytes, len);
	return frame_end(&w);
}

uint32_t wire_put_refuse(uint8_t *buf, const struct wire_refuse *r)
{
	struct writer w = frame_begin(buf, WIRE_REFUSE);

	put_versions(&w, r->version_min, r->version_max);
	wire_put_uint(&w, r->code, 4);
	wire_put_uint(&w, r->incarnation, 8);
	wire_put_uint(&w, r->transports, 8);
	wire_put_uint(&w, r->error, 2);
	wire_put_uint(&w, r->required, 2);
	return frame_end(&w);
}

int wire_get_refuse(const uint8_t *body, uint32_t len, struct wire_refuse *r)
{
	struct reader rd = {body, len, 0};

	get_versions(&rd, &r->version_min, &r->version_max);
	r->code = (uint32_t)wire_get_uint(&rd, 4);
	r->incarnation = wire_get_uint(&rd, 8);
	if (rd.bad || !r->code)
		return -EPROTO;
	r->transports = wire_get_uint(&rd, 8);
	r->error = (uint32_t)wire_get_uint(&rd, 2);
	r->required = (uint32_t)wire_get_uint(&rd, 2);
	if (r->code != WIRE_NO_PATH || r->required > URCCL_PATH_TRANSPORT)
		r->required = 0; /* the field means something else in a newer version */
	/* A newer acceptor may append fields that this version does not know. */
	if (r->code == WIRE_NO_VERSION)
		return 0;
	if (r->version_max > WIRE_VERSION)
		rd.left = 0;
	return get_done(&rd);
}

uint32_t wire_put_word(uint8_t *buf, uint32_t type, uint64_t word)
{
	struct writer w = frame_begin(buf, type);

	wire_put_uint(&w, word, 8);
	return frame_end(&w);
}

int wire_get_word(const uint8_t *body, uint32_t len, uint64_t *word)
{
	struct reader r = {body, len, 0};

	*word = wire_get_uint(&r, 8);
	return get_done(&r);
}

uint32_t wire_put_key_req(uint8_t *buf, const struct wire_key_req *r)
{
	struct writer w = frame_begin(buf, WIRE_KEY_REQ);

	wire_put_uint(&w, r->id, 8);
	put_bytes(&w, &r->advert, sizeof(r->advert));
	wire_put_uint(&w, r->rail, 4);
	return frame_end(&w);
}

int wire_get_key_req(const uint8_t *body, uint32_t len, struct wire_key_req *r)
{
	struct reader rd = {body, len, 0};

	r->id = wire_get_uint(&rd, 8);
	get_bytes(&rd, &r->advert, sizeof(r->advert));
	r->rail = (uint32_t)wire_get_uint(&rd, 4);
	return r->rail < RAIL_NUMBERS ? get_done(&rd) : -EPROTO;
}

uint32_t wire_put_key_rep(uint8_t *buf, const struct wire_key_rep *r)
{
	struct writer w = frame_begin(buf, WIRE_KEY_REP);

	assert(r->len <= KEY_MAX);
	wire_put_uint(&w, r->id, 8);
	wire_put_uint(&w, (uint32_t)r->status, 4);
	wire_put_uint(&w, r->grant, 4);
	wire_put_uint(&w, r->len, 4);
	put_bytes(&w, r->key, r->len);
	return frame_end(&w);
}

int wire_get_key_rep(const uint8_t *body, uint32_t len, struct wire_key_rep *r)
{
	struct reader rd = {body, len, 0};

	r->id = wire_get_uint(&rd, 8);
	r->status = (int32_t)wire_get_uint(&rd, 4);
	r->grant = (uint32_t)wire_get_uint(&rd, 4);
	r->len = (uint32_t)wire_get_uint(&rd, 4);
	r->key = rd.at;
	if (rd.bad || r->len > KEY_MAX || r->len != rd.left)
		return -EPROTO;
	if (r->status > 0 || r->status < -4095 || (r->status && r->len) ||
	    (r->status == 0) != (r->grant != 0))
		return -EPROTO;
	return 0;
}

uint32_t wire_put_revoke(uint8_t *buf, const struct wire_revoke *r)
{
	struct writer w = frame_begin(buf, WIRE_REVOKE);

	wire_put_uint(&w, r->number, 8);
	wire_put_uint(&w, r->upto, 8);
	wire_put_uint(&w, r->region, 4);
	wire_put_uint(&w, 0, 4);
	return frame_end(&w);
}

int wire_get_revoke(const uint8_t *body, uint32_t len, struct wire_revoke *r)
{
	struct reader rd = {body, len, 0};

	r->number = wire_get_uint(&rd, 8);
	r->upto = wire_get_uint(&rd, 8);
	r->region = (uint32_t)wire_get_uint(&rd, 4);
	if (wire_get_uint(&rd, 4))
		return -EPROTO;
	return get_done(&rd);
}
