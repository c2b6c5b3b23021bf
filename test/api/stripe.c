/* SPDX-License-Identifier: Apache-2.0 */
/* Bulk goes by all rails of a peer: two carry nearly what both can, and one that is four times
 * slower helps with what is long and never makes anything slower than the fast one alone. By the
 * simulated clock: a TIMEOUT says whether the bytes were there in time. */
#include "pair.h"

#define LEN	  (16u << 20)
#define RATE	  (20u << 20) /* bytes a second */

#define DEPTH_MAX 32u
#define PAGE	  (16u << 10) /* with as much between one and the next */

enum how { WRITES, READS, PAGES };

static struct pair p;
static struct target t;
static uint8_t *local;
static struct urccl_region region;

static void begin(int argc, char **argv, const char *faults)
{
	pair_options(&p, argc, argv);
	p.params.flags |= URCCL_OPEN_INLINE;
	p.faults = faults;
	pair_open(&p);
	target_open(&p, &t, LEN, 0);
	region = side_register(&p.a, local, LEN, 0);
}

static void end(void)
{
	target_close(&p, &t);
	pair_close(&p);
}

static void start(uint32_t i, uint32_t len, enum how how)
{
	static struct urccl_paged pages[DEPTH_MAX];
	struct urccl_paged *page = &pages[i % DEPTH_MAX];
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint64_t off = (uint64_t)i * len % LEN;

	if (how == PAGES) {
		off = 2 * off % LEN;
		*page = (struct urccl_paged){.size = sizeof(*page),
					     .ndims = 1,
					     .block = PAGE,
					     .local_off = off,
					     .remote_off = off};
		page->dim[0] = (struct urccl_dim){.count = len / PAGE,
						  .local_stride = 2 * PAGE,
						  .remote_stride = 2 * PAGE};
		urccl_prep_write_paged(sqe, t.remote, region, page, 1);
	} else if (how == READS) {
		urccl_prep_read(sqe, t.remote, local + off, len, off);
	} else {
		urccl_prep_write(sqe, t.remote, local + off, len, off);
	}
	sqe->user_data = i;
}

/* LEN bytes in entries of len, depth at a time; their path bits. 0: not within ns. */
static uint32_t move(uint32_t len, uint32_t depth, enum how how, uint64_t ns)
{
	uint32_t started = 0, ended = 0, n = LEN / len, path = 0, late = 0;
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	urccl_prep_timeout(sqe, ns, 0, 0);
	sqe->user_data = n;
	while (ended < n || !late) {
		for (; started < n && started - ended < depth; started++)
			start(started, len, how);
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
	CHECK(move(1u << 20, 8, WRITES, 100000000000ull));
	CHECK(pattern_holds(t.bytes, LEN, 0, p.seed));
	memset(local, 0, LEN);
	CHECK(move(1u << 20, 8, READS, 100000000000ull));
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

/* The other rail is found all the same. */
static void short_entries(int argc, char **argv)
{
	begin(argc, argv, "clock=simulated,rails=2,rate=20m,delay=1us");
	CHECK_EQ(rails(move(256u << 10, 8, WRITES, alone(65))), 3);
	end();
	begin(argc, argv, "clock=simulated,rails=2,rate=20m,delay=1us");
	CHECK_EQ(rails(move(64u << 10, 32, WRITES, alone(65))), 3);
	end();
	begin(argc, argv, "clock=simulated,rails=2,rate=20m,rate@1=200k,delay=1us");
	CHECK(move(256u << 10, 16, WRITES, alone(104)));
	end();
}

#define FAST   (40ull << 30)
#define PLACES "delay=3us,depth=30" /* as few as a real device's queue has */
#define ROUNDS (PAIR_SLOW ? 10u : 16u)
#define LEARN  6u /* of them, until it is known what the rails carry */

static const struct load {
	uint32_t len, depth;
	enum how how;
	uint64_t rest_ns;
} loads[] = {
	{64u << 10, 32, WRITES, 0}, {256u << 10, 8, WRITES, 0},	    {1u << 20, 8, WRITES, 0},
	{4u << 20, 4, READS, 0},    {1u << 20, 8, PAGES, 0},	    {1u << 20, 8, WRITES, 10000000},
	{4u << 20, 2, PAGES, 0},    {1u << 20, 8, PAGES, 10000000},
};

static void rest(uint64_t ns)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_timeout(sqe, ns, 0, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, -ETIME);
}

/* Once the rails are known, LEN takes share of a hundred of what one of FAST takes for it. */
static void carries(const struct load *load, uint64_t share)
{
	uint64_t one = (uint64_t)LEN * 1000000000u / FAST;
	uint32_t i, path;

	for (i = 0; i < ROUNDS; i++) {
		path = move(load->len, load->depth, load->how, one * share / 100);
		if (i >= LEARN)
			CHECK(path);
		if (load->rest_ns)
			rest(load->rest_ns);
	}
}

/* However short the entries are, and also where nothing moves in between. */
static void fast_rails(int argc, char **argv)
{
	uint32_t i;

	for (i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
		begin(argc, argv, "clock=simulated,rails=2,rate=40g," PLACES);
		carries(&loads[i], 60);
		end();
		begin(argc, argv, "clock=simulated,rails=2,rate=40g,rate@0=400m," PLACES);
		carries(&loads[i], 115);
		end();
	}
}

int main(int argc, char **argv)
{
	enum how how;

	local = malloc(LEN);
	CHECK(local);

	begin(argc, argv, "clock=simulated,rails=2,rate=20m,delay=1us");
	check_bytes();
	for (how = WRITES; how <= READS; how++) {
		CHECK_EQ(rails(move(1u << 20, 8, how, alone(54))), 3);
		CHECK_EQ(rails(move(4u << 20, 1, how, alone(56))), 3);
	}
	end();

	begin(argc, argv, "clock=simulated,rails=2,rate=20m,rate@1=5m,delay=1us");
	check_bytes();
	for (how = WRITES; how <= READS; how++) {
		CHECK_EQ(rails(move(1u << 20, 8, how, alone(87))), 3);
		CHECK(move(64u << 10, 1, how, alone(102)));
		CHECK(move(256u << 10, 1, how, alone(102)));
		CHECK(move(1u << 20, 1, how, alone(102)));
		CHECK(move(4u << 10, 16, how, alone(102)));
	}
	end();

	begin(argc, argv, "clock=simulated,rails=2,rate=20m,rate@0=5m,delay=1us");
	check_bytes();
	CHECK_EQ(rails(move(1u << 20, 8, WRITES, alone(87))), 3);
	end();

	short_entries(argc, argv);
	fast_rails(argc, argv);
	free(local);
	return 0;
}
