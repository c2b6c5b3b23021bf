/* SPDX-License-Identifier: Apache-2.0 */
/* Where no handle is left REGISTER and IMPORT fail with -ENFILE and say so; one that is given back
 * is the next one's. */
#include "control_rig.h"
#include "context.h"
#include "control/private.h"

static uint8_t memory[3][64];

static int registers(struct side *s, uint32_t i, struct urccl_region *region)
{
	struct urccl_range r = {.addr = (uint64_t)(uintptr_t)memory[i], .len = 64, .fd = -1};

	return urccl_register(s->ctx, &r, 1, URCCL_RIGHT_READ, region);
}

/* The control thread has nothing to do, and hears of the next call by its mailbox. */
static void none_left(struct handles *h)
{
	h->max = h->used - h->retired;
}

static void says_so(int res, const char *limit)
{
	CHECK_EQ(res, -ENFILE);
	CHECK(strstr(urccl_errmsg(), limit));
}

static void regions(struct side *s, struct urccl_region *first)
{
	struct urccl_region second, none = {0};

	CHECK_EQ(registers(s, 0, first), 0);
	CHECK_EQ(registers(s, 1, &second), 0);
	none_left(&s->ctx->control->region_handles);
	says_so(registers(s, 2, &none), "all 2 handles of this kind are taken");
	CHECK_EQ(none.id, 0);
	CHECK_EQ(urccl_unregister(s->ctx, second), 0);
	CHECK_EQ(registers(s, 2, &none), 0);
	CHECK_EQ(urccl_unregister(s->ctx, none), 0);
}

static void remotes(struct side *s, uint32_t peer, const struct urccl_advert *ad)
{
	struct urccl_peer of = {peer};
	struct urccl_remote first, none = {0};

	CHECK_EQ(urccl_import(s->ctx, of, ad, 1, &first), 0);
	none_left(&s->ctx->control->remote_handles);
	says_so(urccl_import(s->ctx, of, ad, 1, &none), "all 1 handles of this kind are taken");
	CHECK_EQ(none.id, 0);
	CHECK_EQ(urccl_unimport(s->ctx, first), 0);
	CHECK_EQ(urccl_import(s->ctx, of, ad, 1, &none), 0);
	CHECK_NE(none.id, first.id);
}

int case_handles_left(void)
{
	struct urccl_params p = rig_params();
	struct urccl_region region;
	struct urccl_advert ad;
	struct side a, b;
	uint32_t ab, ba;

	side_open(&a, &p);
	side_open(&b, &p);
	sides_connect(&a, &b, &ab, &ba);
	regions(&b, &region);
	CHECK_EQ(urccl_advertise(b.ctx, region, 0, 64, URCCL_RIGHT_READ, 0, &ad), 0);
	remotes(&a, ab, &ad);
	side_close(&a);
	side_close(&b);
	return 0;
}
