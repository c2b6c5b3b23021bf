/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that cannot be carried out: each ends with the right code and a sentence that names the
 * cause, and neither the ring nor the peer nor a byte of memory is the worse for it. */
#include "pair.h"

static struct pair p;
static struct target t;
static _Alignas(8) uint8_t local[8192];
static uint8_t before[4096];
static struct urccl_region region;

/* Runs the entry as changed; then a good one, and looks at the target. */
static void wrong(struct urccl_sqe *sqe, int res, const char *why)
{
	struct urccl_sqe *good;
	struct urccl_cqe cqe = pair_run(&p, &p.a, sqe);

	if (cqe.res != res)
		fprintf(stderr, "expecting \"%s\"\n", why);
	CHECK_EQ(cqe.res, res);
	CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
	check_sentence(&p.a, &cqe, why);
	CHECK(!memcmp(t.bytes, before, sizeof(before)));
	good = side_sqe(&p.a);
	urccl_prep_read(good, t.remote, local, 8, 0);
	CHECK_EQ(pair_run(&p, &p.a, good).res, 8);
}

static struct urccl_sqe *write_entry(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, local, 64, 0);
	return sqe;
}

static struct urccl_sqe *read_entry(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_read(sqe, t.remote, local, 64, 0);
	return sqe;
}

static struct urccl_sqe *nop_entry(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_nop(sqe);
	return sqe;
}

#define WRONG(make, change, res, why)         \
	do {                                  \
		struct urccl_sqe *sqe = make; \
		change;                       \
		wrong(sqe, res, why);         \
	} while (0)

static void fields(void)
{
	WRONG(nop_entry(), sqe->opcode = 200, -EINVAL, "opcode 200");
	WRONG(nop_entry(), sqe->opcode = URCCL_OP_LAST, -EINVAL, "opcode");
	WRONG(nop_entry(), sqe->addr = 1, -EINVAL, "byte 24");
	WRONG(nop_entry(), sqe->group = 1, -EINVAL, "byte 56");
	WRONG(nop_entry(), sqe->reserved = 1, -EINVAL, "byte 60");
	WRONG(nop_entry(), sqe->flags = URCCL_SQE_FENCE, -EINVAL, "FENCE");
	WRONG(nop_entry(), sqe->flags = URCCL_SQE_NOTIFY, -EINVAL, "flags");
	WRONG(write_entry(), sqe->reserved = 5, -EINVAL, "byte 60");
	WRONG(write_entry(), sqe->tag = 5, -EINVAL, "byte 48");
	WRONG(write_entry(), sqe->dtype = URCCL_BF16, -EOPNOTSUPP, "dtype");
	WRONG(write_entry(), sqe->flags = 1 << 11, -EOPNOTSUPP, "flags");
	WRONG(write_entry(), sqe->flags = 3 << URCCL_SQE_CLASS_SHIFT, -EOPNOTSUPP, "flags");
	WRONG(write_entry(), urccl_sqe_ext(p.a.ring, sqe)->codec = 1, -EOPNOTSUPP, "second half");
	WRONG(write_entry(), urccl_sqe_ext(p.a.ring, sqe)->reserved1 = 1, -EINVAL, "byte");
	WRONG(write_entry(), urccl_sqe_set_notify(sqe, 1);
	      urccl_sqe_set_note(p.a.ring, sqe, local, 257), -E2BIG, "257");
	WRONG(write_entry(), urccl_sqe_set_notify(sqe, 1);
	      urccl_sqe_set_note(p.a.ring, sqe, NULL, 1), -EINVAL, "no address");
	WRONG(nop_entry(), urccl_prep_notify(sqe, p.a.peer, 1, local, 300), -E2BIG, "300");
	WRONG(nop_entry(), urccl_prep_cancel(sqe, (enum urccl_cancel_by)9, 0), -EINVAL, "kind 9");
	WRONG(nop_entry(), urccl_prep_cancel(sqe, URCCL_BY_ALL, 1), -EINVAL, "key");
	WRONG(nop_entry(), urccl_prep_timeout(sqe, 1, 0); sqe->timeout_us = 1, -EINVAL, "byte 4");
}

static struct urccl_sqe *add_entry(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_fetch_add(sqe, t.remote, 0, 1);
	return sqe;
}

/* What it is to wait for, or to set, and no more. */
static void words(void)
{
	static uint64_t nowhere;
	uint64_t *word = (uint64_t *)(void *)local;
	struct urccl_ring *ring = p.a.ring;

	WRONG(write_entry(), urccl_sqe_set_wait(ring, sqe, NULL, 0), -EINVAL, "address");
	WRONG(write_entry(), urccl_sqe_set_signal(ring, sqe, NULL, 0), -EINVAL, "address");
	WRONG(write_entry(), urccl_sqe_set_wait(ring, sqe, (void *)(local + 4), 0), -EINVAL,
	      "multiple of 8");
	WRONG(write_entry(), urccl_sqe_set_signal(ring, sqe, (void *)(local + 1), 0), -EINVAL,
	      "multiple of 8");
	WRONG(write_entry(), urccl_sqe_set_wait(ring, sqe, &nowhere, 0), -EFAULT, "no region");
	WRONG(write_entry(), urccl_sqe_set_signal(ring, sqe, (uint64_t *)8, 0), -EFAULT,
	      "no region");
	WRONG(write_entry(), urccl_sqe_set_wait(ring, sqe, word, 0), -EACCES, "URCCL_RIGHT_READ");
	WRONG(write_entry(), urccl_sqe_set_signal(ring, sqe, word, 0), -EACCES,
	      "URCCL_RIGHT_WRITE");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->wait_kind = URCCL_SYNC_CUDA_EVENT,
	      -EOPNOTSUPP, "byte 16");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->signal_kind = URCCL_SYNC_HIP_EVENT,
	      -EOPNOTSUPP, "byte 17");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->wait_kind = 99, -EOPNOTSUPP, "byte 16");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->wait_ptr = 8, -EINVAL, "byte 88");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->wait_value = 1, -EINVAL, "byte 96");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->signal_ptr = 8, -EINVAL, "byte 104");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->signal_value = 1, -EINVAL, "byte 112");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->reserved0 = 1, -EINVAL, "byte 84");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->reserved1 = 1, -EINVAL, "byte 120");
	WRONG(add_entry(), urccl_sqe_set_wait(ring, sqe, word, 0), -EINVAL, "byte 80");
	WRONG(add_entry(), urccl_sqe_set_signal(ring, sqe, word, 0), -EINVAL, "byte 81");
}

static struct urccl_sqe *swap_entry(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_cmp_swap(sqe, t.remote, 0, 1, 2);
	return sqe;
}

static void swaps(void)
{
	WRONG(swap_entry(), sqe->region = region.id, -EINVAL, "byte 20");
	WRONG(swap_entry(), sqe->tag = 1, -EINVAL, "byte 48");
	WRONG(swap_entry(), sqe->reserved = 1, -EINVAL, "byte 60");
	WRONG(swap_entry(), sqe->dtype = URCCL_FP32, -EINVAL, "byte 1");
	WRONG(swap_entry(), sqe->flags = URCCL_SQE_ACKED, -EINVAL, "flags");
	WRONG(swap_entry(), sqe->flags = URCCL_SQE_CHECKSUM, -EINVAL, "flags");
	WRONG(swap_entry(), sqe->remote ^= 1u << 20, -ESTALE, "remote handle");
	WRONG(swap_entry(), sqe->off = t.len - 7, -ERANGE, "8 bytes at offset 4089");
	WRONG(swap_entry(), sqe->off = 4, -EINVAL, "multiple of 8");
}

static void atomics(void)
{
	WRONG(add_entry(), sqe->swap = 1, -EINVAL, "byte 32");
	WRONG(add_entry(), sqe->region = region.id, -EINVAL, "byte 20");
	WRONG(add_entry(), sqe->tag = 1, -EINVAL, "byte 48");
	WRONG(add_entry(), sqe->reserved = 1, -EINVAL, "byte 60");
	WRONG(add_entry(), sqe->dtype = URCCL_FP32, -EINVAL, "byte 1");
	WRONG(add_entry(), sqe->flags = URCCL_SQE_ACKED, -EINVAL, "flags");
	WRONG(add_entry(), sqe->flags = URCCL_SQE_NO_REPLAY, -EINVAL, "flags");
	WRONG(add_entry(), sqe->flags = URCCL_SQE_CHECKSUM, -EINVAL, "flags");
	WRONG(add_entry(), sqe->remote ^= 1u << 20, -ESTALE, "remote handle");
	WRONG(add_entry(), sqe->off = t.len - 7, -ERANGE, "8 bytes at offset 4089");
	WRONG(add_entry(), sqe->off = UINT64_MAX, -ERANGE, "remote");
	WRONG(add_entry(), sqe->off = 4, -EINVAL, "multiple of 8");
	WRONG(add_entry(), urccl_sqe_set_notify(sqe, 1);
	      urccl_sqe_set_note(p.a.ring, sqe, local, 257), -E2BIG, "257");
	WRONG(add_entry(), urccl_sqe_ext(p.a.ring, sqe)->codec = 1, -EOPNOTSUPP, "second half");
}

static void messages(void)
{
	uint32_t id = urccl_ring_id(p.a.ring);

	WRONG(nop_entry(), urccl_prep_msg_ring(sqe, 0, 1, 1, 1), -ESTALE, "ring id 0");
	WRONG(nop_entry(), urccl_prep_msg_ring(sqe, id + 99, 1, 1, 1), -ESTALE, "no open ring");
	WRONG(nop_entry(), urccl_prep_msg_ring(sqe, id, 1, 1, 1); sqe->off = 1, -EINVAL, "byte 40");
	WRONG(nop_entry(), urccl_prep_msg_ring(sqe, id, 1, 1, 1);
	      sqe->group = 1, -EINVAL, "byte 56");
	WRONG(nop_entry(), urccl_prep_msg_ring(sqe, id, 1, 1, 1);
	      sqe->flags = URCCL_SQE_FENCE, -EINVAL, "FENCE");
	WRONG(nop_entry(), urccl_prep_msg_ring(sqe, id, 1, 1, 1);
	      sqe->flags = URCCL_SQE_NOTIFY, -EINVAL, "flags");
	WRONG(nop_entry(), urccl_prep_msg_ring(sqe, id, 1, 1, 1);
	      sqe->flags = URCCL_SQE_ACKED, -EINVAL, "flags");
	WRONG(nop_entry(), urccl_prep_msg_ring(sqe, id, 1, 1, 1);
	      sqe->region = region.id, -EINVAL, "byte 20");
	WRONG(nop_entry(), urccl_prep_msg_ring(sqe, id, 1, 1, 1);
	      sqe->reserved = 1, -EINVAL, "byte 60");
	WRONG(nop_entry(), urccl_prep_msg_ring(sqe, id, 1, 1, 1);
	      sqe->dtype = URCCL_FP32, -EINVAL, "byte 1");
}

/* Of the slow calls. */
static void slow_fields(void)
{
	struct urccl_range r = {.addr = (uintptr_t)local, .len = 64, .fd = -1};

	WRONG(nop_entry(), urccl_prep_register(sqe, &r, 1, 0); sqe->peer = 1, -EINVAL, "byte 16");
	WRONG(nop_entry(), urccl_prep_register(sqe, &r, 1, 0); sqe->region = 1, -EINVAL, "byte 20");
	WRONG(nop_entry(), urccl_prep_register(sqe, &r, 1, 0); sqe->tag = 1, -EINVAL, "byte 48");
	WRONG(nop_entry(), urccl_prep_register(sqe, &r, 1, 0);
	      sqe->rights = 1ull << 40, -EOPNOTSUPP, "rights");
	WRONG(nop_entry(), urccl_prep_register(sqe, &r, 1, 0);
	      sqe->len = 1ull << 32, -E2BIG, "limit");
	WRONG(nop_entry(), urccl_prep_register(sqe, &r, 1, 0);
	      sqe->flags = URCCL_SQE_FENCE, -EINVAL, "FENCE");
	WRONG(nop_entry(), urccl_prep_register(sqe, &r, 1, 0);
	      sqe->flags = URCCL_SQE_SKIP_SUCCESS, -EINVAL, "the handle that register gives");
	WRONG(nop_entry(), urccl_prep_import(sqe, p.a.peer, &t.advert, 1);
	      sqe->flags = URCCL_SQE_SKIP_SUCCESS, -EINVAL, "the handle that import gives");
	WRONG(nop_entry(), urccl_prep_connect(sqe, "127.0.0.1:1", 11);
	      sqe->flags = URCCL_SQE_SKIP_SUCCESS, -EINVAL, "the handle that connect gives");
	WRONG(nop_entry(), urccl_prep_unregister(sqe, region); sqe->addr = 1, -EINVAL, "byte 24");
	WRONG(nop_entry(), urccl_prep_revoke(sqe, region); sqe->off = 1, -EINVAL, "byte 40");
	WRONG(nop_entry(), urccl_prep_import(sqe, p.a.peer, &t.advert, 1);
	      sqe->off = 1, -EINVAL, "byte 40");
	WRONG(nop_entry(), urccl_prep_import(sqe, p.a.peer, &t.advert, 1);
	      sqe->len = 1ull << 32, -E2BIG, "limit");
	WRONG(nop_entry(), urccl_prep_warm(sqe, p.a.peer); sqe->len = 1, -EINVAL, "byte 32");
	WRONG(nop_entry(), urccl_prep_warm(sqe, p.a.peer);
	      sqe->flags = URCCL_SQE_NOTIFY, -EINVAL, "flags");
}

/* The chain that it would have started is broken before it began. */
static void linked(void)
{
	struct urccl_sqe *sqe = nop_entry();
	struct urccl_cqe cqe;

	urccl_prep_accept(sqe);
	urccl_sqe_set_flags(sqe, URCCL_SQE_LINK);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, -EINVAL);
	check_sentence(&p.a, &cqe, "chain");
	CHECK_EQ(pair_run(&p, &p.a, nop_entry()).res, -ECANCELED);
	CHECK_EQ(pair_run(&p, &p.a, nop_entry()).res, 0);
}

static void ranges_of(struct urccl_sqe *(*entry)(void))
{
	WRONG(entry(), sqe->off = t.len - 63, -ERANGE, "64 bytes at offset 4033");
	WRONG(entry(), sqe->len = t.len + 1, -ERANGE, "4097 bytes at offset 0");
	WRONG(entry(), sqe->off = 1ull << 63, -ERANGE, "remote");
	WRONG(entry(), sqe->off = UINT64_MAX, -ERANGE, "remote");
	WRONG(entry(), sqe->len = UINT64_MAX, -ERANGE, "remote");
	WRONG(entry(), sqe->len = 1ull << 63, -ERANGE, "remote");
	WRONG(entry(), sqe->addr += sizeof(local) - 63, -EFAULT, "region");
	WRONG(entry(), sqe->addr--, -EFAULT, "region");
	WRONG(entry(), sqe->addr = 0, -EFAULT, "region");
	WRONG(entry(), sqe->addr = UINT64_MAX, -EFAULT, "region");
	WRONG(entry(), sqe->region = region.id; sqe->addr += sizeof(local) - 63, -ERANGE, "region");
	WRONG(entry(), sqe->region = region.id; sqe->addr--, -ERANGE, "region");
}

/* A vector of one segment, as changed. */
static void segments(int read)
{
	struct urccl_seg s = {.addr = (uintptr_t)local, .len = 64, .remote = t.remote.id};

#define SEGMENT(change, res, why)                                  \
	do {                                                       \
		struct urccl_seg bad = s;                          \
		struct urccl_sqe *sqe = side_sqe(&p.a);            \
		change;                                            \
		if (read)                                          \
			urccl_prep_readv(sqe, p.a.peer, &bad, 1);  \
		else                                               \
			urccl_prep_writev(sqe, p.a.peer, &bad, 1); \
		wrong(sqe, res, why);                              \
	} while (0)
	SEGMENT(bad.off = t.len - 63, -ERANGE, "64 bytes at offset 4033");
	SEGMENT(bad.len = t.len + 1, -ERANGE, "4097 bytes at offset 0");
	SEGMENT(bad.off = 1ull << 63, -ERANGE, "remote");
	SEGMENT(bad.off = UINT64_MAX, -ERANGE, "remote");
	SEGMENT(bad.len = 1ull << 63, -ERANGE, "remote");
	SEGMENT(bad.len = UINT64_MAX, -ERANGE, "remote");
	SEGMENT(bad.addr += sizeof(local) - 63, -EFAULT, "region");
	SEGMENT(bad.addr--, -EFAULT, "region");
	SEGMENT(bad.addr = 1ull << 63, -EFAULT, "region");
	SEGMENT(bad.region = region.id; bad.addr += sizeof(local) - 63, -ERANGE, "region");
	SEGMENT(bad.region = region.id; bad.addr--, -ERANGE, "region");
	SEGMENT(bad.region = region.id; bad.addr = 1ull << 63, -ERANGE, "region");
	SEGMENT(bad.region = 77, -ESTALE, "region handle");
	SEGMENT(bad.remote ^= 7, -ESTALE, "remote handle");
}

static void handles(void)
{
	WRONG(write_entry(), sqe->remote = 0, -ESTALE, "remote handle");
	WRONG(write_entry(), sqe->remote ^= 1u << 20, -ESTALE, "remote handle");
	WRONG(write_entry(), sqe->remote ^= 7, -ESTALE, "remote handle");
	WRONG(write_entry(), sqe->region = 77, -ESTALE, "region handle");
	WRONG(nop_entry(), urccl_prep_notify(sqe, (struct urccl_peer){0}, 1, NULL, 0), -ESTALE,
	      "peer handle");
	WRONG(nop_entry(),
	      urccl_prep_notify(sqe, (struct urccl_peer){p.a.peer.id ^ 1u << 30}, 1, NULL, 0),
	      -ESTALE, "peer handle");
	WRONG(nop_entry(), urccl_prep_close(sqe, (struct urccl_peer){99}), -ESTALE, "peer handle");
	WRONG(nop_entry(), urccl_prep_watch(sqe, (struct urccl_peer){99}), -ESTALE, "peer handle");
}

static void pages(int read)
{
	struct urccl_paged d = {.size = sizeof(d),
				.ndims = 1,
				.block = 64,
				.dim = {{.count = 4, .local_stride = 64, .remote_stride = 64}}};

#define PAGED(change, res, why)                                                 \
	do {                                                                    \
		struct urccl_paged bad = d;                                     \
		struct urccl_sqe *sqe = side_sqe(&p.a);                         \
		if (read)                                                       \
			urccl_prep_read_paged(sqe, t.remote, region, &bad, 1);  \
		else                                                            \
			urccl_prep_write_paged(sqe, t.remote, region, &bad, 1); \
		change;                                                         \
		wrong(sqe, res, why);                                           \
	} while (0)
	PAGED(bad.size = 8, -EINVAL, "size 8");
	PAGED(bad.ndims = 0, -EINVAL, "0 dimensions");
	PAGED(bad.ndims = 5, -EINVAL, "5 dimensions");
	PAGED(bad.dim[0].count = 1ull << 40, -E2BIG, "blocks");
	PAGED(bad.block = 1ull << 63, -ERANGE, "64 bits");
	PAGED(bad.remote_off = UINT64_MAX - 5, -ERANGE, "remote");
	PAGED(bad.local_off = UINT64_MAX - 5, -ERANGE, "region");
	PAGED(bad.remote_off = t.len - 63, -ERANGE, "64 bytes at offset 4033");
	PAGED(bad.local_off = sizeof(local) - 63, -ERANGE, "region");
	PAGED(bad.block = t.len + 1; bad.dim[0].count = 1, -ERANGE, "4097 bytes at offset 0");
	PAGED(bad.remote_off = 1ull << 63, -ERANGE, "remote");
	PAGED(bad.local_off = 1ull << 63, -ERANGE, "region");
	PAGED(sqe->region = 0, -ESTALE, "region");
	PAGED(sqe->addr = 0, -EINVAL, "nothing");
	PAGED(sqe->len = (1u << 20) + 1, -E2BIG, "limit");
}

int main(int argc, char **argv)
{
	pair_begin(&p, argc, argv);
	target_open(&p, &t, 4096, 0);
	pattern_fill(t.bytes, 4096, 0, 9);
	memcpy(before, t.bytes, sizeof(before));
	region = side_register(&p.a, local, sizeof(local), 0);
	fields();
	slow_fields();
	linked();
	ranges_of(read_entry);
	ranges_of(write_entry);
	segments(1);
	segments(0);
	handles();
	pages(1);
	pages(0);
	words();
	atomics();
	swaps();
	messages();
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
