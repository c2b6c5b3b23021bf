/* SPDX-License-Identifier: Apache-2.0 */
/* Bulk goes by all rails of a peer: two carry nearly what both can, and one that is four times
 * slower helps with what is long and never makes anything slower than the fast one alone. By the
 * simulated clock: a TIMEOUT says whether the bytes were there in time. */
#include "pair.h"

#define LEN  (16u << 20)
#define RATE (20u << 20) /* bytes a second */

static struct pair p;
static struct target t;
static uint8_t *local;

static void begin(int argc, char **argv, const char *faults)
{
	pair_options(&p, argc, argv);
	p.params.flags |= URCCL_OPEN_INLINE;
	p.faults = faults;
	pair_open(&p);
	target_open(&p, &t, LEN, 0);
	side_register(&p.a, local, LEN, 0);
}

static void end(void)
{
	target_close(&p, &t);
	pair_close(&p);
}

/* All of it in entries of len, reads or writes, depth at a time; their path bits. 0: not within
 * ns. */
static uint32_t move(uint32_t len, uint32_t depth, int reads, uint64_t ns)
{
	uint32_t started = 0, ended = 0, n = LEN / len, path = 0, late = 0;
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	urccl_prep_timeout(sqe, ns, 0);
	sqe->user_data = n;
	while (ended < n || !late) {
		while (started < n && started - ended < depth) {
			uint64_t off = (uint64_t)started * len;

			sqe = side_sqe(&p.a);
			if (reads)
				urccl_prep_read(sqe, t.remote, local + off, len, off);
			else
				urccl_prep_write(sqe, t.remote, local + off, len, off);
			sqe->user_data = started++;
		}
		CHECK_GE(urccl_submit(p.a.ring), 0);
		side_take(&p.a, &p.b, &cqe, NULL);
		if (cqe.user_data == n) {
			late = ended < n ? 2 : 1;
			continue;
		}
		CHECK_EQ(cqe.res, len);
		path |= cqe.path;
		ended++;
	}
	return late == 2 ? 0 : path;
}

static void check_bytes(void)
{
	pattern_fill(local, LEN, 0, p.seed);
	memset(t.bytes, 0, LEN);
	CHECK(move(1u << 20, 8, 0, 100000000000ull));
	CHECK(pattern_holds(t.bytes, LEN, 0, p.seed));
	memset(local, 0, LEN);
	CHECK(move(1u << 20, 8, 1, 100000000000ull));
	CHECK(pattern_holds(local, LEN, 0, p.seed));
}

/* The time that one rail of RATE takes for all, times share of a hundred. */
static uint64_t alone(uint32_t share)
{
	return (uint64_t)LEN * 1000000000u / RATE / 100 * share;
}

static uint32_t rails(uint32_t path)
{
	return path >> URCCL_PATH_RAILS_SHIFT & 0xff;
}

int main(int argc, char **argv)
{
	uint32_t reads;

	local = malloc(LEN);
	CHECK(local);

	begin(argc, argv, "clock=simulated,rails=2,rate=20m,delay=1us");
	check_bytes();
	for (reads = 0; reads < 2; reads++) {
		CHECK_EQ(rails(move(1u << 20, 8, (int)reads, alone(54))), 3);
		CHECK_EQ(rails(move(4u << 20, 1, (int)reads, alone(56))), 3);
	}
	end();

	begin(argc, argv, "clock=simulated,rails=2,rate=20m,rate@1=5m,delay=1us");
	check_bytes();
	for (reads = 0; reads < 2; reads++) {
		CHECK_EQ(rails(move(1u << 20, 8, (int)reads, alone(87))), 3);
		CHECK(move(64u << 10, 1, (int)reads, alone(102)));
		CHECK(move(256u << 10, 1, (int)reads, alone(102)));
		CHECK(move(1u << 20, 1, (int)reads, alone(102)));
		CHECK(move(4u << 10, 16, (int)reads, alone(102)));
	}
	end();

	begin(argc, argv, "clock=simulated,rails=2,rate=20m,rate@0=5m,delay=1us");
	check_bytes();
	CHECK_EQ(rails(move(1u << 20, 8, 0, alone(87))), 3);
	end();

	/* All entries are short: the other rail is found all the same. */
	begin(argc, argv, "clock=simulated,rails=2,rate=20m,delay=1us");
	CHECK_EQ(rails(move(256u << 10, 8, 0, alone(65))), 3);
	end();
	begin(argc, argv, "clock=simulated,rails=2,rate=20m,delay=1us");
	CHECK_EQ(rails(move(64u << 10, 32, 0, alone(65))), 3);
	end();
	begin(argc, argv, "clock=simulated,rails=2,rate=20m,rate@1=200k,delay=1us");
	CHECK(move(256u << 10, 16, 0, alone(104)));
	end();
	free(local);
	return 0;
}
