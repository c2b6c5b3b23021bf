/* SPDX-License-Identifier: Apache-2.0 */
/* A device that takes its time to pin pages: whoever registers, or is the first to use an advert,
 * waits for it, and nobody else. What is stopped meanwhile ends as it does elsewhere. */
#include <sys/mman.h>
#include "pair.h"

#define PIN   400000000ull /* ns; as in the words below */
#define LEN   65536u
#define SMALL 64u
#define MANY  50u
#define TRIES 5u
#define LAST  1000u /* user_data of what takes long */
#define RW    (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static struct target warm; /* b's, which a uses already */
static uint8_t local[LEN], fresh[LEN];
static uint32_t
	in_time; /* how often others were through before it: not always, on a busy machine */

static struct urccl_sqe *writes(struct urccl_remote remote, uint64_t user_data)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, remote, local, SMALL, 0);
	urccl_sqe_set_data64(sqe, user_data);
	return sqe;
}

/* Others end before it does, and the control thread answers. */
static void others_go_on(uint64_t since)
{
	struct urccl_region_info info = {.size = sizeof(info)};
	struct urccl_cqe cqe;
	uint32_t i;

	for (i = 0; i < MANY; i++) {
		writes(warm.remote, i);
		CHECK_EQ(urccl_submit(p.a.ring), 1);
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.user_data, i);
		CHECK_EQ(cqe.res, SMALL);
	}
	CHECK_EQ(urccl_get_region_info(p.b.ctx, warm.region, &info), 0);
	in_time += now_ns() - since < PIN;
}

static struct urccl_cqe the_last(void)
{
	struct urccl_cqe cqe;

	do
		side_take(&p.a, &p.b, &cqe, NULL);
	while (cqe.flags & URCCL_CQE_MORE);
	CHECK_EQ(cqe.user_data, LAST);
	return cqe;
}

static void post_register(const struct urccl_range *r, uint32_t deadline_us)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_register(sqe, r, 1, RW);
	urccl_sqe_set_deadline_us(sqe, deadline_us);
	urccl_sqe_set_data64(sqe, LAST);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

static void registers(void)
{
	struct urccl_range r = {.addr = (uintptr_t)fresh, .len = LEN, .fd = -1};
	struct urccl_region_info info = {.size = sizeof(info)};
	struct urccl_region first, second;
	uint64_t from = now_ns();
	struct urccl_cqe cqe;

	post_register(&r, 0);
	others_go_on(from);
	cqe = the_last();
	CHECK_EQ(cqe.res, 0);
	CHECK_GE(now_ns() - from, PIN);
	first.id = (uint32_t)cqe.handle;
	/* What lies in it is known. */
	r.addr += SMALL;
	r.len -= SMALL;
	CHECK_EQ(urccl_register(p.a.ctx, &r, 1, RW, &second), 0);
	CHECK_EQ(urccl_get_region_info(p.a.ctx, second, &info), 0);
	CHECK_EQ(info.shared, 1);
	CHECK_EQ(urccl_unregister(p.a.ctx, first), 0);
	CHECK_EQ(urccl_unregister(p.a.ctx, second), 0);
}

/* Its end comes when nothing is done to the memory any more. */
static void register_late(void)
{
	uint8_t *m = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct urccl_range r = {.addr = (uintptr_t)m, .len = LEN, .fd = -1};
	struct urccl_region none;
	uint64_t from = now_ns();
	struct urccl_cqe cqe;

	CHECK(m != MAP_FAILED);
	post_register(&r, 20000);
	cqe = the_last();
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	CHECK_GE(now_ns() - from, PIN);
	munmap(m, LEN);
	CHECK(urccl_register(p.a.ctx, &r, 1, RW, &none) < 0);
}

static void new_target(struct target *t, int shared)
{
	memset(t, 0, sizeof(*t));
	target_open(&p, t, LEN, shared);
}

static void first_use(void)
{
	struct target t;
	uint64_t from;

	new_target(&t, 0);
	from = now_ns();
	writes(t.remote, LAST);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	others_go_on(from);
	CHECK_EQ(the_last().res, SMALL);
	CHECK_GE(now_ns() - from, PIN);
	CHECK(!memcmp(t.bytes, local, SMALL));
	target_close(&p, &t);
}

/* Its owner takes it back before, or while, the device pins it. However long that takes, what goes
 * on as a region keeps its pages: the device knows it by them. 0: it was pinned by then. */
static int taken_back(int unregister)
{
	struct urccl_region_info info = {.size = sizeof(info)};
	struct urccl_cqe cqe;
	struct target t;
	int came;

	new_target(&t, 1);
	writes(t.remote, LAST);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	others_go_on(now_ns());
	if (unregister)
		CHECK_EQ(urccl_unregister(p.b.ctx, t.region), 0);
	else
		CHECK_EQ(urccl_revoke(p.b.ctx, t.region), 0);
	cqe = the_last();
	came = cqe.res == SMALL;
	CHECK(came || cqe.res == -EACCES || (unregister && cqe.res == -ESTALE));
	CHECK(came || memcmp(t.bytes, local, SMALL));
	writes(t.remote, LAST);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	cqe = the_last();
	CHECK(cqe.res == -EACCES || (unregister && cqe.res == -ESTALE));
	CHECK_EQ(urccl_unimport(p.a.ctx, t.remote), 0);
	if (!unregister) {
		CHECK_EQ(urccl_get_region_info(p.b.ctx, t.region, &info), 0);
		CHECK(info.mappable);
		CHECK_EQ(urccl_unregister(p.b.ctx, t.region), 0);
	}
	CHECK_EQ(urccl_free(p.b.ctx, t.bytes), 0);
	return !came;
}

static void is_taken_back(int unregister)
{
	uint32_t tries;

	for (tries = 1; !taken_back(unregister); tries++)
		CHECK(tries < TRIES);
}

/* Contexts end while it goes on. */
static void closes(void)
{
	struct target t;

	new_target(&t, 0);
	writes(t.remote, LAST);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	others_go_on(now_ns());
	pair_close(&p);
	munmap(t.bytes, LEN);
	munmap(warm.bytes, LEN);
}

int main(int argc, char **argv)
{
	pair_options(&p, argc, argv);
	p.faults = "pin=400ms";
	pattern_fill(local, LEN, 0, 1);
	pair_open(&p);
	side_register(&p.a, local, LEN, 0);
	target_open(&p, &warm, LEN, 0);
	writes(warm.remote, LAST);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	CHECK_EQ(the_last().res, SMALL);
	registers();
	register_late();
	first_use();
	is_taken_back(0);
	is_taken_back(1);
	closes();
	CHECK(in_time);
	return 0;
}
