/* SPDX-License-Identifier: Apache-2.0 */
/* READV and WRITEV: segments of every size, of several regions and remotes of one peer, some of
 * them neighbours, some empty; one CQE, which on error names the segment; what came before it is
 * placed. */
#include "meet.h"

#define SEGS 500u
#define LEN  (1u << 20)

static struct pair p;
static struct side other;
static struct target t[3];
static uint8_t local[2][LEN];
static struct urccl_seg segs[SEGS];
static uint64_t seed = 7;

static uint32_t random_below(uint32_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33) % n;
}

/* Each segment has a place of its own at both ends; every fourth touches the one before. */
static uint64_t make(void)
{
	uint64_t at[2] = {0, 0}, there[3] = {0, 0, 0}, sum = 0;
	uint32_t i, k = 0, r = 0, len;

	for (i = 0; i < SEGS; i++) {
		if (i % 4) {
			k = random_below(2);
			r = random_below(3);
			at[k] += random_below(9);
			there[r] += random_below(9);
		}
		len = random_below(3)	? random_below(300)
		      : random_below(8) ? 0
					: random_below(20000);
		segs[i] = (struct urccl_seg){.addr = (uint64_t)(uintptr_t)&local[k][at[k]],
					     .len = len,
					     .off = there[r],
					     .remote = t[r].remote.id};
		at[k] += len;
		there[r] += len;
		sum += len;
		CHECK(at[k] < LEN && there[r] < LEN);
	}
	return sum;
}

static struct urccl_cqe run(int read, uint32_t n)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	if (read)
		urccl_prep_readv(sqe, p.a.peer, segs, n);
	else
		urccl_prep_writev(sqe, p.a.peer, segs, n);
	return pair_run(&p, &p.a, sqe);
}

static uint8_t *there_of(const struct urccl_seg *s)
{
	uint32_t r = 0;

	while (t[r].remote.id != s->remote)
		r++;
	return t[r].bytes + s->off;
}

static void moves(int read)
{
	uint64_t sum = make();
	uint32_t i;

	for (i = 0; i < SEGS; i++)
		pattern_fill(read ? there_of(&segs[i]) : (uint8_t *)(uintptr_t)segs[i].addr,
			     segs[i].len, i, i);
	CHECK_EQ(run(read, SEGS).res, (int64_t)sum);
	for (i = 0; i < SEGS; i++)
		CHECK(pattern_holds(read ? (uint8_t *)(uintptr_t)segs[i].addr : there_of(&segs[i]),
				    segs[i].len, i, i));
}

static void bad_segment(uint32_t at, int res, const char *why)
{
	struct urccl_cqe cqe = run(0, SEGS);
	uint32_t i;

	CHECK_EQ(cqe.res, res);
	CHECK_LE(cqe.fail.segment, at);
	check_sentence(&p.a, &cqe, why);
	for (i = 0; i < cqe.fail.segment; i++)
		CHECK(pattern_holds(there_of(&segs[i]), segs[i].len, i, i));
}

static void bad(void)
{
	struct urccl_seg good = segs[300];

	segs[300].off = t[0].len;
	segs[300].len = 1;
	bad_segment(300, -ERANGE, "remote");
	segs[300] = good;
	segs[300].addr = 4096;
	segs[300].len = 1;
	bad_segment(300, -EFAULT, "region");
	segs[300] = good;
	segs[300].remote ^= 1u << 25;
	bad_segment(300, -ESTALE, "remote");
	segs[300] = good;
	segs[300].region = NO_REGION;
	segs[300].len = 1;
	bad_segment(300, -ESTALE, "region");
	segs[300] = good;
}

/* A segment in memory of a peer that is not the entry's: one entry moves data of one. */
static void two_peers(void)
{
	static uint8_t bytes[64];
	struct urccl_peer b = p.a.peer;
	struct urccl_remote remote;
	struct urccl_advert ad;
	struct urccl_region region;

	side_open(&p, &other);
	side_accept(&other, 9);
	side_connect(&p.a, &other);
	region = side_register(&other, bytes, sizeof(bytes), URCCL_RIGHT_WRITE);
	CHECK_EQ(urccl_advertise(other.ctx, region, 0, 64, URCCL_RIGHT_WRITE, 0, &ad), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &ad, 1, &remote), 0);
	p.a.peer = b;
	segs[300].remote = remote.id;
	segs[300].off = 0;
	segs[300].len = 1;
	bad_segment(300, -EXDEV, "another peer");
	CHECK_EQ(bytes[0], 0);
}

int main(int argc, char **argv)
{
	uint32_t i;

	pair_begin(&p, argc, argv);
	for (i = 0; i < 3; i++)
		target_open(&p, &t[i], LEN, i == 2);
	side_register(&p.a, local[0], LEN, 0);
	side_register(&p.a, local[1], LEN, 0);
	for (i = 0; i < 10; i++)
		moves(i & 1);
	moves(0);
	bad();
	CHECK_EQ(run(0, 0).res, 0);
	two_peers();
	for (i = 0; i < 3; i++)
		target_close(&p, &t[i]);
	side_close(&other);
	pair_close(&p);
	return 0;
}
