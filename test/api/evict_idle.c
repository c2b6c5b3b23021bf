/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that neither side has used for idle_after_ms lets its data path go, at both ends and not
 * before; the next entry of either brings it back. Who is used by the other side alone, which not
 * every transport shows, keeps it. a has the setting, b has not. */
#include <dlfcn.h>
#include <stdlib.h>
#include "meet.h"

#define IDLE_MS 100u
#define IDLE_NS (IDLE_MS * 1000000ull)
#define TRIES	10u
#define LEN	4096u

static struct pair p;
static struct target t;
static struct urccl_remote of_a; /* b's */
static uint8_t local[LEN], bytes[LEN], b_local[LEN];
static uint32_t cooled;

/* Of the control thread of a. */
static void heard(void *arg, int level, const char *text)
{
	(void)arg;
	(void)level;
	if (strstr(text, "is idle: its data path is closed"))
		__atomic_fetch_add(&cooled, 1, __ATOMIC_RELAXED);
}

/* Over RDMA devices that are made up those of both sides are counted; else 0. */
static uint32_t queue_pairs(void)
{
	const char *so = getenv("UCCL_IBV_SO");
	void *lib = so ? dlopen(so, RTLD_NOW | RTLD_NOLOAD) : NULL;
	uint32_t (*count)(void) = NULL, n;
	void *found = lib ? dlsym(lib, "double_count_qps") : NULL;

	memcpy(&count, &found, sizeof(count));
	n = count ? count() : 0;
	if (lib)
		dlclose(lib);
	return n;
}

/* Nothing was used since. */
static void goes(uint64_t since)
{
	uint64_t until = now_ns() + PAIR_LATE_NS;

	while (side_is_warm(&p.a, p.a.peer) || side_is_warm(&p.b, p.b.peer)) {
		side_silent(&p.b, &p.a, 1000000);
		CHECK(!is_late(until));
	}
	CHECK_GE(now_ns() - since, IDLE_NS);
	while (queue_pairs()) {
		side_silent(&p.b, &p.a, 1000000);
		CHECK(!is_late(until));
	}
}

static void a_writes(void)
{
	static uint64_t version;
	struct urccl_sqe *sqe = side_sqe(&p.a);

	pattern_fill(local, LEN, 0, ++version);
	urccl_prep_write(sqe, t.remote, local, LEN, 0);
	urccl_sqe_set_data64(sqe, 5);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, LEN);
	CHECK(pattern_holds(t.bytes, LEN, 0, version));
}

static void b_writes(void)
{
	static uint64_t version;
	struct urccl_sqe *sqe = side_sqe(&p.b);

	pattern_fill(b_local, LEN, 1, ++version);
	urccl_prep_write(sqe, of_a, b_local, LEN, 0);
	urccl_sqe_set_data64(sqe, 6);
	CHECK_EQ(pair_run(&p, &p.b, sqe).res, LEN);
	CHECK(pattern_holds(bytes, LEN, 1, version));
}

static void comes_back(void)
{
	uint64_t from;
	uint32_t i;

	for (i = 0; i < 3; i++) {
		from = now_ns();
		a_writes();
		goes(from);
		from = now_ns();
		b_writes();
		goes(from);
		from = now_ns();
		CHECK_EQ(side_tell(&p.b, &p.a, p.b.peer.id, 7), 0);
		CHECK_EQ(side_event(&p.a, &p.b, URCCL_KIND_NOTE, NULL).tag, 7);
		goes(from);
	}
}

/* 1: b used it so often that it was never idle. */
static int b_alone(void)
{
	uint64_t from = now_ns(), last = from, begun, longest = 0;
	uint32_t before;

	b_writes();
	before = __atomic_load_n(&cooled, __ATOMIC_RELAXED);
	while (now_ns() - from < 6 * IDLE_NS) {
		begun = now_ns();
		side_silent(&p.b, &p.a, IDLE_NS / 10);
		b_writes();
		longest = now_ns() - last > longest ? now_ns() - last : longest;
		last = begun;
	}
	if (longest >= IDLE_NS)
		return 0;
	CHECK_EQ(__atomic_load_n(&cooled, __ATOMIC_RELAXED), before);
	return 1;
}

static void begin(int argc, char **argv)
{
	struct urccl_region region;
	struct urccl_advert ad;

	pair_options(&p, argc, argv);
	pair_sim(&p);
	p.params.idle_after_ms = IDLE_MS;
	p.params.log = heard;
	p.params.log_level = URCCL_LOG_INFO;
	side_open(&p, &p.a);
	p.params.idle_after_ms = 0;
	p.params.log = NULL;
	side_open(&p, &p.b);
	side_accept(&p.b, 1);
	side_connect(&p.a, &p.b);
	side_watch(&p.a, (struct urccl_peer){0}, 2);
	target_open(&p, &t, LEN, 0);
	side_register(&p.a, local, LEN, 0);
	side_register(&p.b, b_local, LEN, 0);
	region = side_register(&p.a, bytes, LEN, URCCL_RIGHT_WRITE);
	CHECK_EQ(urccl_advertise(p.a.ctx, region, 0, LEN, URCCL_RIGHT_WRITE, 0, &ad), 0);
	CHECK_EQ(urccl_import(p.b.ctx, p.b.peer, &ad, 1, &of_a), 0);
}

int main(int argc, char **argv)
{
	uint64_t from;
	uint32_t i;

	begin(argc, argv);
	from = now_ns();
	a_writes();
	if (p.transport == URCCL_TRANSPORT_IB && getenv("UCCL_IBV_SO"))
		CHECK(queue_pairs());
	goes(from);
	comes_back();
	for (i = 0; i < TRIES && !b_alone(); i++)
		;
	if (i == TRIES)
		SKIP("its threads get no processor soon enough to use the path so often");
	target_close(&p, &t);
	side_close(&p.a);
	side_close(&p.b);
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
