/* SPDX-License-Identifier: Apache-2.0 */
/* An entry that is found bad in its middle: the sentence names the segment or block, what is before
 * it is placed, nothing behind it is, and fail.segment is the first that is not placed: not one
 * more and, of a write, not one less. */
#include "pair.h"

#define N    500u
#define FEW  20u  /* chunks, that every device takes at once */
#define PART 200u /* blocks of the first descriptor */
#define STEP 128u

static struct pair p;
static struct target t;
static uint8_t local[N * STEP];
static struct urccl_region region;
static uint64_t each; /* bytes of a segment; STEP: it touches the next */
static uint64_t version;
static uint32_t bad; /* the number of the one that is */
static int reads;

static uint8_t *end_of(uint32_t i, int here)
{
	return (here ? local : t.bytes) + i * STEP;
}

static struct urccl_sqe *prepare(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	version++;
	memset(end_of(0, reads), 0, N * STEP);
	pattern_fill(end_of(0, !reads), N * STEP, 0, version);
	return sqe;
}

static int is_placed(uint32_t i)
{
	return pattern_holds(end_of(i, reads), each, i * STEP, version);
}

static void fails(struct urccl_sqe *sqe, int res, const char *noun)
{
	struct urccl_cqe cqe = pair_run(&p, &p.a, sqe);
	uint32_t first = 0, i;
	char name[32];

	CHECK_EQ(cqe.res, res);
	snprintf(name, sizeof(name), "%s %u: ", noun, bad);
	check_sentence(&p.a, &cqe, name);
	while (first < bad && is_placed(first))
		first++;
	CHECK_LE(cqe.fail.segment, first);
	/* What was asked for and taken back may have come all the same, and libraries do not say
	 * what became of it; all else is known. The last one before the bad one may go back, since
	 * that was found while looking for what touches it, and what a full device did not take. */
	if (!reads && p.transport <= URCCL_TRANSPORT_TCP) {
		CHECK_EQ(cqe.fail.segment, first);
		CHECK_GE(first, each < STEP && bad <= FEW ? bad - 1 : 0);
	}
	for (i = bad; i < N; i++)
		CHECK(!is_placed(i));
}

static void vector(struct urccl_seg change, int res)
{
	static struct urccl_seg segs[N];
	struct urccl_sqe *sqe = prepare();
	uint32_t i;

	for (i = 0; i < N; i++)
		segs[i] = (struct urccl_seg){.addr = (uint64_t)(uintptr_t)end_of(i, 1),
					     .len = each,
					     .off = i * STEP,
					     .remote = t.remote.id};
	segs[bad].addr += change.addr;
	segs[bad].off += change.off;
	segs[bad].region = change.region;
	segs[bad].remote ^= change.remote;
	if (reads)
		urccl_prep_readv(sqe, p.a.peer, segs, N);
	else
		urccl_prep_writev(sqe, p.a.peer, segs, N);
	fails(sqe, res, "segment");
}

static void vectors(void)
{
	vector((struct urccl_seg){.off = t.len}, -ERANGE);
	vector((struct urccl_seg){.addr = 1ull << 60}, -EFAULT);
	vector((struct urccl_seg){.addr = N * STEP, .region = region.id}, -ERANGE);
	vector((struct urccl_seg){.region = NO_REGION}, -ESTALE);
	vector((struct urccl_seg){.remote = 1u << 25}, -ESTALE);
}

/* Blocks are counted over both descriptors. */
static void paged(uint32_t here, uint32_t there)
{
	static uint32_t tables[2][N];
	static struct urccl_paged d[2];
	struct urccl_sqe *sqe = prepare();
	uint32_t i;

	for (i = 0; i < N; i++)
		tables[0][i] = tables[1][i] = i;
	tables[0][bad] = here;
	tables[1][bad] = there;
	for (i = 0; i < 2; i++) {
		d[i] = (struct urccl_paged){.size = sizeof(d[i]), .ndims = 1, .block = each};
		d[i].dim[0] = (struct urccl_dim){
			.count = i ? N - PART : PART,
			.local_stride = STEP,
			.remote_stride = STEP,
			.local_index = (uint64_t)(uintptr_t)&tables[0][i * PART],
			.remote_index = (uint64_t)(uintptr_t)&tables[1][i * PART],
		};
	}
	if (reads)
		urccl_prep_read_paged(sqe, t.remote, region, d, 2);
	else
		urccl_prep_write_paged(sqe, t.remote, region, d, 2);
	fails(sqe, -ERANGE, "block");
}

static void bad_at(uint32_t i)
{
	bad = i;
	vectors();
	paged(i, N);
	paged(N, i);
	paged(i, UINT32_MAX);
}

int main(int argc, char **argv)
{
	int shared, touch;

	pair_begin(&p, argc, argv);
	region = side_register(&p.a, local, sizeof(local), 0);
	for (shared = 0; shared < 2; shared++) {
		target_open(&p, &t, N * STEP, shared);
		for (touch = 0; touch < 2; touch++) {
			each = touch ? STEP : STEP - 8;
			for (reads = 0; reads < 2; reads++) {
				bad_at(FEW);
				bad_at(300);
			}
		}
		target_close(&p, &t);
	}
	pair_close(&p);
	return 0;
}
