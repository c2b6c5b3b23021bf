/* SPDX-License-Identifier: Apache-2.0 */
/* Adverts of our regions, and the KEY_REQs of peers that name them. */
#include <stdlib.h>

#include "region/private.h"

#define TOKEN_AT offsetof(struct urccl_advert, token)

_Static_assert(TOKEN_AT == 48, "the token is over all that is before it");

#define HALF 8u

/* The first half of a token proves that this context wrote it, even after its region is gone. The
 * second half uses the region's own key and proves that the advert was not revoked. A forger learns
 * from neither half which regions exist. */
static void token_half(const uint8_t key[16], const struct urccl_advert *a, uint8_t half[HALF])
{
	uint8_t whole[16];

	siphash128(key, a, TOKEN_AT, whole);
	memcpy(half, whole, HALF);
}

static int token_holds(const uint8_t key[16], const struct urccl_advert *a, uint32_t at)
{
	uint8_t half[HALF];

	token_half(key, a, half);
	return equal_const_time(half, a->token + at, HALF);
}

static int advert_range(const struct control_call *call, const struct region *r)
{
	if (!call->rights || call->rights & ~(uint32_t)ADVERT_RIGHTS)
		return fail(-EINVAL,
			    "rights 0x%x: an advert gives read, write, atomic or more of them",
			    call->rights);
	if (call->rights & ~r->memory->rights)
		return fail(-EACCES,
			    "the region was registered with rights 0x%x and cannot give 0x%x: "
			    "register it with all that adverts are to give",
			    r->memory->rights, call->rights);
	if (!call->len)
		return fail(-EINVAL, "an advert of 0 bytes");
	if (call->len > r->memory->len || call->off > r->memory->len - call->len)
		return fail(-ERANGE,
			    "%llu bytes at offset %llu pass the end of the region, which has %llu: "
			    "advertise less, or register more",
			    (unsigned long long)call->len, (unsigned long long)call->off,
			    (unsigned long long)r->memory->len);
	return 0;
}

void advert_make(struct control *c, struct control_call *call)
{
	struct region *r = handles_get(&c->region_handles, call->handle);
	struct urccl_advert a;
	uint64_t now = owner_ms(c);
	int rc;

	if (!r || r->ending) {
		call_answer(call, fail_handle(call->handle, HANDLE_REGION, REASON_REGION_STALE));
		return;
	}
	rc = advert_range(call, r);
	if (rc) {
		call_answer(call, rc);
		return;
	}
	memset(&a, 0, sizeof(a));
	a.version = ADVERT_VERSION;
	a.rights = (uint8_t)call->rights;
	a.region = call->handle;
	a.incarnation = c->config.incarnation;
	a.offset = call->off;
	a.length = call->len;
	/* An expiry beyond the range of the clock in nanoseconds means never. */
	if (call->ttl_ms && call->ttl_ms < (NEVER_NS - c->start_ns) / NSEC_PER_MSEC - now)
		a.expires_ms = now + call->ttl_ms;
	token_half(c->advert_key, &a, a.token);
	token_half(r->key, &a, a.token + HALF);
	*call->advert = a;
	call_answer(call, 0);
}

int advert_import_check(const struct urccl_advert *a, uint32_t i, struct control_error *t)
{
	if (a->version != ADVERT_VERSION) {
		*t = (struct control_error){-EPROTONOSUPPORT,
					    REASON_ADVERT_VERSION,
					    {i, a->version, ADVERT_VERSION}};
		return t->res;
	}
	if (a->kind || a->reserved || !a->rights || a->rights & ~ADVERT_RIGHTS || !a->region ||
	    !a->length || a->length > UINT64_MAX - a->offset) {
		*t = (struct control_error){-EINVAL, REASON_ADVERT_DAMAGED, {i}};
		return t->res;
	}
	return 0;
}

/* The region of an advert that this context wrote and that still holds. NULL with *err
 * otherwise. */
static struct region *advert_region(struct control *c, const struct urccl_advert *a, int *err)
{
	struct region *r = handles_get(&c->region_handles, a->region);

	*err = -EACCES;
	if (a->version != ADVERT_VERSION || a->incarnation != c->config.incarnation ||
	    !token_holds(c->advert_key, a, 0))
		return NULL;
	if (!r || r->ending) {
		*err = -ESTALE;
		return NULL;
	}
	if (!token_holds(r->key, a, HALF))
		return NULL;
	/* Only this context can have written the fields below. They are checked all the same. */
	if (!a->rights || a->rights & ~r->memory->rights || !a->length ||
	    a->length > r->memory->len || a->offset > r->memory->len - a->length)
		return NULL;
	if (a->expires_ms && a->expires_ms <= owner_ms(c))
		return NULL;
	return r;
}

/* 1: the device reaches the region's memory, or may use staging buffers for GPU memory. */
static int grant_may(const struct control *c, const struct region *r, const struct device *dev)
{
	return device_reaches(dev, r->memory) || c->config.params->bounce != URCCL_ALLOW_NO;
}

int grant_request(struct control *c, struct peer *p, const struct wire_key_req *req)
{
	struct path *path = rail_path(p, req->rail);
	struct urccl_advert a = req->advert;
	struct region *r = NULL;
	struct grant *g = NULL;
	int status = -EACCES;

	if (p->asked == KEY_WINDOW)
		return -EPROTO;
	p->asked_upto = req->id > p->asked_upto ? req->id : p->asked_upto;
	if (a.kind == ADVERT_SCRATCH)
		status = scratch_region(c, &a, &r);
	else if (a.kind == ADVERT_RUN)
		status = run_region(c, p, &a, &r);
	else
		r = advert_region(c, &a, &status);
	/* The engine could not end exports of a rail that it does not have yet. */
	if (r && (!path || path->closing || !path->posted))
		status = -ENOTCONN;
	else if (r && !grant_may(c, r, path->rail.ep->dev))
		status = -EOPNOTSUPP;
	else if (r)
		g = grant_for(c, path, r, &a, &status);
	if (!g) {
		key_answer(c, p, req->id, status, NULL);
		return 0;
	}
	if (g->live && !g->detached && !grant_busy(g)) {
		key_answer(c, p, req->id, 0, g);
		return 0;
	}
	p->asked++;
	g->ids[g->nids++] = req->id;
	return 0;
}
