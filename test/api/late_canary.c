/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Old bytes never return, over real devices: the packets of one rail take LATE_NS, its queue pairs
 * are killed while they have writes on their way, which go again by the other rail; once they have
 * ended, their places are written anew. What the queue pairs had sent arrives after that, and must
 * not land. Over ibv_shim.c (SHIM), which kills.
 * --late=COMMAND: "COMMAND RAIL on" delays that rail's packets, off does so no longer, and fails if
 * there were none; --rounds=N writes that went again
 */
#include <dlfcn.h>
#include <stdlib.h>
#include "pair.h"

#define LEN	2048u
#define DEPTH	64u
#define LATE_NS 200000000ull
#define REST_NS 100000000ull /* and what is late for other reasons */
#define KILLS	4u	     /* a write must go again in one of so many, at least */

static const char *const devices[] = {"rxe_v0", "rxe_w0"};

static struct pair p;
static struct target t;
static uint8_t local[DEPTH * LEN];
static const char *late;
static uint64_t rounds = 100, replayed, kills, in_time;

static void delay(uint32_t rail, const char *how)
{
	char command[256];

	snprintf(command, sizeof(command), "%s %u %s", late, rail, how);
	CHECK_EQ(system(command), 0);
}

static void kill_rail(uint32_t rail)
{
	void *shim = dlopen(getenv("UCCL_IBV_SO"), RTLD_NOW | RTLD_NOLOAD);
	void (*kill_all)(const char *device);
	void *f = shim ? dlsym(shim, "shim_kill") : NULL;

	CHECK(f);
	memcpy(&kill_all, &f, sizeof(kill_all));
	kill_all(devices[rail]);
	dlclose(shim);
}

static void put(uint64_t version)
{
	uint32_t i;

	for (i = 0; i < DEPTH; i++) {
		struct urccl_sqe *sqe = side_sqe(&p.a);
		uint64_t off = (uint64_t)i * LEN;

		pattern_fill(local + off, LEN, off, version);
		urccl_prep_write(sqe, t.remote, local + off, LEN, off);
	}
	CHECK_EQ(urccl_submit(p.a.ring), DEPTH);
}

/* The rails that they went by. */
static uint32_t ends(void)
{
	struct urccl_cqe cqe;
	uint32_t i, rails = 0;

	for (i = 0; i < DEPTH; i++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.res, LEN);
		replayed += !!(cqe.path & URCCL_PATH_REPLAYED);
		rails |= cqe.path >> URCCL_PATH_RAILS_SHIFT & 0xff;
	}
	return rails;
}

static void check(uint64_t version)
{
	CHECK(pattern_holds(t.bytes, sizeof(local), 0, version));
}

static void turn(void)
{
	struct urccl_cqe cqe;

	CHECK(!side_take_within(&p.b, &p.a, 0, &cqe, NULL));
	CHECK(!side_take_within(&p.a, &p.b, 0, &cqe, NULL));
}

static void wait_rails(void)
{
	uint64_t until = now_ns() + PAIR_LATE_NS;

	while (p.a.rails_down || p.b.rails_down || p.a.rails_told < 1) {
		CHECK(!is_late(until));
		turn();
	}
}

static void one(void)
{
	uint64_t begin;
	uint32_t rails, rail;

	put(3 * kills);
	rails = ends();
	check(3 * kills);
	rail = rails & 1 ? 0 : 1;
	delay(rail, "on");
	begin = now_ns();
	put(3 * kills + 1);
	kill_rail(rail);
	ends();
	check(3 * kills + 1);
	put(3 * kills + 2);
	ends();
	check(3 * kills + 2);
	in_time += now_ns() - begin < LATE_NS;
	while (now_ns() - begin < LATE_NS + REST_NS)
		turn();
	check(3 * kills + 2);
	delay(rail, "off");
	wait_rails();
	kills++;
}

int main(int argc, char **argv)
{
	int i, n = 1;

	for (i = 1; i < argc; i++) {
		if (!strncmp(argv[i], "--rounds=", 9))
			rounds = strtoull(argv[i] + 9, NULL, 10);
		else if (!strncmp(argv[i], "--late=", 7))
			late = argv[i] + 7;
		else
			argv[n++] = argv[i];
	}
	pair_options(&p, n, argv);
	if (!late || !getenv("SHIM"))
		SKIP("no --late= says how a rail is delayed here, or no SHIM how queue pairs die");
	p.params.flags |= URCCL_OPEN_INLINE;
	pair_open(&p);
	target_open(&p, &t, sizeof(local), 0);
	side_register(&p.a, local, sizeof(local), 0);
	wait_rails();
	while (replayed < rounds) {
		one();
		CHECK_GE(replayed, kills / KILLS);
	}
	printf("%llu writes went again in %llu kills, in %llu of which all were written anew before "
	       "their first packets came\n",
	       (unsigned long long)replayed, (unsigned long long)kills,
	       (unsigned long long)in_time);
	CHECK_GE(in_time, kills / 2);
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
