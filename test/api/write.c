/* SPDX-License-Identifier: Apache-2.0 */
/* WRITE: bytes of every small size and some large ones arrive where they should and nowhere else,
 * by the time of the CQE, which tells how many, that nothing more lands, and over which transport.
 */
#include "pair.h"

#define LEN (1u << 20)

static struct pair p;
static uint8_t source[LEN];

/* A bit each: one, unless several devices were named, or are a GPU's. */
static uint32_t rails_there(void)
{
	uint32_t n = 0;
	const char *c;

	if (p.transport == URCCL_TRANSPORT_EFA)
		return 15;
	for (c = p.params.transport; *c; c++)
		n += *c == '@';
	return n ? (1u << n) - 1 : 1;
}

static void check_path(const struct urccl_cqe *cqe)
{
	uint32_t rails = (cqe->path >> URCCL_PATH_RAILS_SHIFT) & 0xff;

	CHECK_EQ(cqe->path & URCCL_PATH_TRANSPORT, p.transport);
	CHECK(rails);
	CHECK_EQ(rails & ~rails_there(), 0);
}

static void write_one(struct target *t, uint64_t off, uint64_t len, uint64_t version)
{
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;

	memset(t->bytes, 0xee, t->len);
	pattern_fill(source, len, off, version);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, t->remote, source, len, off);
	urccl_sqe_set_data64(sqe, version);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, (int64_t)len);
	CHECK(cqe.flags & URCCL_CQE_REMOTE_QUIET);
	if (len) {
		CHECK_EQ(cqe.wire, len);
		check_path(&cqe);
	}
	CHECK(pattern_holds(t->bytes + off, len, off, version));
	CHECK(!off || t->bytes[off - 1] == 0xee);
	CHECK(off + len == t->len || t->bytes[off + len] == 0xee);
}

static void sizes(int shared)
{
	static const uint32_t large[] = {4095, 4096, 16384, 16385, 65536, 262143, 524289, LEN};
	struct target t;
	uint64_t len;

	target_open(&p, &t, LEN, shared);
	for (len = 0; len < 70; len++)
		write_one(&t, len * 3, len, len + 1);
	for (len = 0; len < sizeof(large) / sizeof(large[0]); len++)
		write_one(&t, LEN - large[len], large[len], len + 100);
	target_close(&p, &t);
}

int main(int argc, char **argv)
{
	pair_begin(&p, argc, argv);
	side_register(&p.a, source, LEN, 0);
	sizes(0);
	sizes(1);
	pair_close(&p);
	return 0;
}
