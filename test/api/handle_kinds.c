/* SPDX-License-Identifier: Apache-2.0 */
/* A handle of another kind than a call or an entry wants is refused with -EINVAL and a sentence
 * that names both kinds; 0 likewise. Nothing is moved or removed. */
#include "pair.h"

enum { LEN = 4096 };

static struct pair p;
static struct target t;
static _Alignas(8) uint8_t local[LEN];
static uint8_t before[LEN];
static struct urccl_region region; /* a's */

/* A handle of each kind that exists, and 0. */
static const struct kind {
	const char *name;
	uint32_t id;
} * kinds;

static void said(int64_t res, const char *text, const struct kind *given, const char *wanted)
{
	CHECK_EQ(res, -EINVAL);
	if (!strstr(text, given->name) || !strstr(text, wanted))
		fprintf(stderr, "\"%s\" has no \"%s\" or \"%s\"\n", text, given->name, wanted);
	CHECK(strstr(text, given->name) && strstr(text, wanted));
}

#define CALL(call, wanted) said(call, urccl_errmsg(), k, wanted)

static void calls(const struct kind *k)
{
	const struct urccl_peer peer = {k->id};
	const struct urccl_remote remote = {k->id};
	const struct urccl_region local_region = {k->id};
	struct urccl_peer_info peer_info = URCCL_INIT(urccl_peer_info);
	struct urccl_region_info region_info = URCCL_INIT(urccl_region_info);
	struct urccl_remote_info remote_info = URCCL_INIT(urccl_remote_info);
	struct urccl_measurement measurement = URCCL_INIT(urccl_measurement);
	struct urccl_remote new_remote;
	struct urccl_advert advert;
	char text[64];

	if (k->id != p.a.peer.id) {
		CALL(urccl_get_peer_info(p.a.ctx, peer, &peer_info), "a peer's handle is wanted");
		CALL(urccl_import(p.a.ctx, peer, &t.advert, 1, &new_remote),
		     "a peer's handle is wanted");
		CALL(urccl_measure(p.a.ctx, peer, NULL, &measurement), "a peer's handle is wanted");
		if (k->id) /* 0 is any peer */
			CALL(urccl_plan(p.a.ctx, peer, (struct urccl_region){0}, text, 64),
			     "a peer's handle is wanted");
	}
	if (k->id != region.id) {
		CALL(urccl_unregister(p.a.ctx, local_region), "a region's handle is wanted");
		CALL(urccl_revoke(p.a.ctx, local_region), "a region's handle is wanted");
		CALL(urccl_get_region_info(p.a.ctx, local_region, &region_info),
		     "a region's handle is wanted");
		CALL(urccl_advertise(p.a.ctx, local_region, 0, 1, URCCL_RIGHT_READ, 0, &advert),
		     "a region's handle is wanted");
	}
	if (k->id != t.remote.id) {
		CALL(urccl_unimport(p.a.ctx, remote), "a remote's handle is wanted");
		CALL(urccl_get_remote_info(p.a.ctx, remote, &remote_info),
		     "a remote's handle is wanted");
	}
}

static void entry(const struct kind *k, struct urccl_sqe *sqe, const char *wanted)
{
	struct urccl_cqe cqe = pair_run(&p, &p.a, sqe);
	char text[512];

	CHECK_GE(urccl_explain(p.a.ctx, &cqe, text, sizeof(text)), 1);
	said(cqe.res, text, k, wanted);
}

#define ENTRY(prepare, wanted)         \
	do {                           \
		sqe = side_sqe(&p.a);  \
		prepare;               \
		entry(k, sqe, wanted); \
	} while (0)

static void peer_entries(const struct kind *k)
{
	const struct urccl_peer peer = {k->id};
	const char *wanted = "a peer's handle is wanted";
	struct urccl_seg seg = {.addr = (uintptr_t)local, .len = 1, .remote = t.remote.id};
	struct urccl_sqe *sqe;

	ENTRY(urccl_prep_writev(sqe, peer, &seg, 1), wanted);
	ENTRY(urccl_prep_readv(sqe, peer, &seg, 1), wanted);
	ENTRY(urccl_prep_notify(sqe, peer, 1, NULL, 0), wanted);
	ENTRY(urccl_prep_close(sqe, peer), wanted);
	ENTRY(urccl_prep_import(sqe, peer, &t.advert, 1), wanted);
	ENTRY(urccl_prep_warm(sqe, peer), wanted);
	ENTRY(urccl_prep_cancel(sqe, URCCL_CANCEL_BY_PEER, k->id), wanted);
	if (k->id) /* 0 is all peers */
		ENTRY(urccl_prep_watch(sqe, peer), wanted);
}

static void region_entries(const struct kind *k)
{
	const struct urccl_region named = {k->id};
	const char *wanted = "a region's handle is wanted";
	struct urccl_paged paged = {.size = sizeof(paged),
				    .ndims = 1,
				    .block = 1,
				    .dim = {{.count = 1}}};
	struct urccl_seg seg = {.addr = (uintptr_t)local,
				.len = 1,
				.remote = t.remote.id,
				.region = k->id};
	struct urccl_sqe *sqe;

	ENTRY(urccl_prep_unregister(sqe, named), wanted);
	ENTRY(urccl_prep_revoke(sqe, named), wanted);
	ENTRY(urccl_prep_write_paged(sqe, t.remote, named, &paged, 1), wanted);
	ENTRY(urccl_prep_read_paged(sqe, t.remote, named, &paged, 1), wanted);
	ENTRY(urccl_prep_cancel(sqe, URCCL_CANCEL_BY_REGION, k->id), wanted);
	if (!k->id) /* 0 is looked up */
		return;
	ENTRY(urccl_prep_write(sqe, t.remote, local, 8, 0); sqe->region = k->id, wanted);
	ENTRY(urccl_prep_read(sqe, t.remote, local, 8, 0); sqe->region = k->id, wanted);
	ENTRY(urccl_prep_writev(sqe, p.a.peer, &seg, 1), wanted);
}

static void remote_entries(const struct kind *k)
{
	const struct urccl_remote named = {k->id};
	const char *wanted = "a remote's handle is wanted";
	struct urccl_paged paged = {.size = sizeof(paged),
				    .ndims = 1,
				    .block = 1,
				    .dim = {{.count = 1}}};
	struct urccl_seg seg = {.addr = (uintptr_t)local, .len = 1, .remote = k->id};
	struct urccl_sqe *sqe;

	ENTRY(urccl_prep_write(sqe, named, local, LEN, 0), wanted);
	ENTRY(urccl_prep_read(sqe, named, local, LEN, 0), wanted);
	ENTRY(urccl_prep_writev(sqe, p.a.peer, &seg, 1), wanted);
	ENTRY(urccl_prep_write_paged(sqe, named, region, &paged, 1), wanted);
	ENTRY(urccl_prep_fetch_add(sqe, named, 0, 1), wanted);
	ENTRY(urccl_prep_cmp_swap(sqe, named, 0, 1, 2), wanted);
	ENTRY(urccl_prep_cancel(sqe, URCCL_CANCEL_BY_REMOTE, k->id), wanted);
}

/* A ring id of 0 is refused otherwise: it names no open ring. */
static void ring_entries(const struct kind *k)
{
	struct urccl_sqe *sqe;

	ENTRY(urccl_prep_msg_ring(sqe, k->id, 1, 1, 1), "a ring's id is wanted");
}

int main(int argc, char **argv)
{
	struct urccl_sqe *sqe;
	uint32_t i;

	pair_begin(&p, argc, argv);
	target_open(&p, &t, LEN, p.shared);
	region = side_register(&p.a, local, sizeof(local), URCCL_RIGHT_WRITE);
	memcpy(before, t.bytes, LEN);
	memset(local, 0xa5, sizeof(local));
	kinds = (const struct kind[]){
		{"a peer's handle", p.a.peer.id},
		{"a region's handle", region.id},
		{"a remote's handle", t.remote.id},
		{"a ring's id", urccl_ring_id(p.a.ring)},
		{"the handle is 0", 0},
	};
	for (i = 0; i < 5; i++) {
		calls(&kinds[i]);
		if (i != 0)
			peer_entries(&kinds[i]);
		if (i != 1)
			region_entries(&kinds[i]);
		if (i != 2)
			remote_entries(&kinds[i]);
		if (i < 3)
			ring_entries(&kinds[i]);
	}
	CHECK(!memcmp(t.bytes, before, LEN));
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, t.remote, local, LEN, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, LEN);
	pair_close(&p);
	return 0;
}
