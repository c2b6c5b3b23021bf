/* SPDX-License-Identifier: Apache-2.0 */
/* FETCH_ADD and CMP_SWAP: what each does to the word and says of it, in its order and with its
 * notification; and what the owner refuses: rights, range, alignment, time, revoked memory. */
#include "meet.h"

#define WORDS 512u
#define LEN   (WORDS * 8)

static struct pair p;
static struct target t;
static uint64_t *words; /* b's */

/* The owner's engine has changed the word before our CQE came: another thread of this process, of
 * which no sanitizer knows by what way it told us. */
static uint64_t word(uint32_t i)
{
	return __atomic_load_n(&words[i], __ATOMIC_SEQ_CST);
}

static struct urccl_cqe add(struct urccl_remote remote, uint64_t off, uint64_t addend)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_fetch_add(sqe, remote, off, addend);
	return pair_run(&p, &p.a, sqe);
}

static struct urccl_cqe swap_at(struct urccl_remote remote, uint64_t off, uint64_t expected,
				uint64_t desired)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_cmp_swap(sqe, remote, off, expected, desired);
	return pair_run(&p, &p.a, sqe);
}

static struct urccl_cqe swap(uint64_t off, uint64_t expected, uint64_t desired)
{
	return swap_at(t.remote, off, expected, desired);
}

static void check_done(const struct urccl_cqe *cqe, uint64_t old)
{
	CHECK_EQ(cqe->res, 8);
	CHECK_EQ(cqe->old, old);
	CHECK_EQ(cqe->flags, URCCL_KIND_OP | URCCL_CQE_REMOTE_QUIET);
	CHECK_EQ(cqe->path & URCCL_PATH_TRANSPORT, p.transport);
	CHECK(!(cqe->path & URCCL_PATH_EMULATED));
}

static void one_by_one(void)
{
	struct urccl_cqe cqe = add(t.remote, 0, 5);

	check_done(&cqe, 0);
	cqe = add(t.remote, 0, (uint64_t)-7);
	check_done(&cqe, 5);
	CHECK_EQ(word(0), (uint64_t)-2);
	cqe = add(t.remote, LEN - 8, UINT64_MAX);
	check_done(&cqe, 0);
	CHECK_EQ(word(WORDS - 1), UINT64_MAX);
	cqe = swap(8, 0, 77);
	check_done(&cqe, 0);
	CHECK_EQ(word(1), 77);
	cqe = swap(8, 0, 99);
	check_done(&cqe, 77);
	CHECK_EQ(word(1), 77);
	cqe = swap(8, 77, 0);
	check_done(&cqe, 77);
	CHECK_EQ(word(1), 0);
	CHECK_EQ(word(2), 0);
}

/* More than are under way at a time, each of another word. */
static void many(void)
{
	static uint8_t seen[200];
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	uint32_t i, round;

	for (round = 0; round < 3; round++) {
		memset(seen, 0, sizeof(seen));
		for (i = 0; i < 200; i++) {
			sqe = side_sqe(&p.a);
			urccl_prep_fetch_add(sqe, t.remote, 8 * (16 + i), i + 1);
			urccl_sqe_set_data64(sqe, i);
		}
		CHECK_EQ(urccl_submit(p.a.ring), 200);
		for (i = 0; i < 200; i++) {
			side_take(&p.a, &p.b, &cqe, NULL);
			CHECK(cqe.user_data < 200 && !seen[cqe.user_data]++);
			check_done(&cqe, round * (cqe.user_data + 1));
		}
	}
	for (i = 0; i < 200; i++)
		CHECK_EQ(word(16 + i), 3ull * (i + 1));
}

/* A write, an add behind it by FENCE, then one by LINK that tells of it. */
static void ordered(void)
{
	static uint64_t ten = 10;
	static const char payload[] = "counted";
	struct urccl_region region = side_register(&p.a, &ten, sizeof(ten), 0);
	char note[URCCL_NOTE_MAX];
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	uint32_t i;

	for (i = 0; i < 30; i++) {
		sqe = side_sqe(&p.a);
		urccl_prep_write(sqe, t.remote, &ten, 8, 64);
		urccl_sqe_add_flags(sqe, URCCL_SQE_SKIP_SUCCESS);
		sqe = side_sqe(&p.a);
		urccl_prep_fetch_add(sqe, t.remote, 64, 1);
		urccl_sqe_add_flags(sqe, URCCL_SQE_FENCE | URCCL_SQE_LINK | URCCL_SQE_SKIP_SUCCESS);
		sqe = side_sqe(&p.a);
		urccl_prep_cmp_swap(sqe, t.remote, 64, 11, 12);
		urccl_sqe_set_notify(p.a.ring, sqe, 1000 + i, payload, sizeof(payload));
		cqe = pair_run(&p, &p.a, sqe);
		check_done(&cqe, 11);
		cqe = side_event(&p.b, &p.a, URCCL_KIND_NOTE, note);
		CHECK_EQ(cqe.tag, 1000 + i);
		CHECK_EQ(cqe.res, sizeof(payload));
		CHECK(!strcmp(note, payload));
		CHECK_EQ(word(8), 12);
	}
	CHECK_EQ(urccl_unregister(p.a.ctx, region), 0);
}

/* ---- what is refused ---- */

/* What it would swap is what most words are. */
static struct urccl_cqe try(int is_swap, struct urccl_remote remote, uint64_t off)
{
	return is_swap ? swap_at(remote, off, 0, 1) : add(remote, off, 1);
}

/* Both; no word is changed. */
static void refused(struct urccl_remote remote, uint64_t off, int64_t res, const char *why)
{
	uint64_t before[WORDS];
	struct urccl_cqe cqe;
	uint32_t i, k;

	for (i = 0; i < WORDS; i++)
		before[i] = word(i);
	for (k = 0; k < 2; k++) {
		cqe = try((int)k, remote, off);
		CHECK_EQ(cqe.res, res);
		CHECK_EQ(cqe.flags, URCCL_KIND_OP | URCCL_CQE_REMOTE_QUIET);
		check_sentence(&p.a, &cqe, why);
	}
	for (i = 0; i < WORDS; i++)
		CHECK_EQ(word(i), before[i]);
}

static struct urccl_remote give(uint64_t off, uint64_t len, uint32_t rights, uint64_t ttl_ms)
{
	struct urccl_remote remote = {0};
	struct urccl_advert advert;

	CHECK_EQ(urccl_advertise(p.b.ctx, t.region, off, len, rights, ttl_ms, &advert), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &advert, 1, &remote), 0);
	return remote;
}

static void places(void)
{
	struct urccl_remote odd = give(12, 100, URCCL_RIGHT_ATOMIC, 0);
	struct urccl_advert two[2];
	struct urccl_remote joined;

	refused(t.remote, 4, -EINVAL, "offset 4");
	refused(t.remote, LEN - 4, -ERANGE, "remote");
	refused(t.remote, UINT64_MAX - 7, -ERANGE, "remote");
	/* What counts is where the word is in the peer's memory, not its offset. */
	refused(odd, 0, -EINVAL, "multiple of 8");
	CHECK_EQ(add(odd, 4, 9).res, 8);
	CHECK_EQ(word(2), 9);
	refused(odd, 93, -ERANGE, "remote");
	CHECK_EQ(urccl_advertise(p.b.ctx, t.region, 0, 4, URCCL_RIGHT_ATOMIC, 0, &two[0]), 0);
	CHECK_EQ(urccl_advertise(p.b.ctx, t.region, 4, 20, URCCL_RIGHT_ATOMIC, 0, &two[1]), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, two, 2, &joined), 0);
	refused(joined, 0, -EINVAL, "two adverts");
	refused(joined, 5, -EINVAL, "multiple of 8");
	CHECK_EQ(add(joined, 16, 1).old, 9);
}

/* A word on a multiple of 8 of which a half is in another range, that is elsewhere. */
static void ranges(void)
{
	struct urccl_range range[] = {
		{.addr = (uintptr_t)&words[300], .len = 12, .fd = -1},
		{.addr = (uintptr_t)&words[310], .len = 16, .fd = -1},
	};
	struct urccl_region region;
	struct urccl_advert advert;
	struct urccl_remote remote;

	CHECK_EQ(urccl_register(p.b.ctx, range, 2, URCCL_RIGHT_ATOMIC, &region), 0);
	CHECK_EQ(urccl_advertise(p.b.ctx, region, 0, 28, URCCL_RIGHT_ATOMIC, 0, &advert), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &advert, 1, &remote), 0);
	refused(remote, 8, -EINVAL, "one range");
	refused(remote, 21, -ERANGE, "remote");
	words[300] = words[310] = 0;
	CHECK_EQ(add(remote, 0, 3).res, 8);
	CHECK_EQ(add(remote, 12, 4).res, 8);
	CHECK_EQ(word(300), 3);
	CHECK_EQ(word(310), 4);
	CHECK_EQ(urccl_unimport(p.a.ctx, remote), 0);
	CHECK_EQ(urccl_unregister(p.b.ctx, region), 0);
}

static void rights(void)
{
	struct urccl_remote both = give(0, LEN, URCCL_RIGHT_READ | URCCL_RIGHT_WRITE, 0);
	struct urccl_remote only = give(0, LEN, URCCL_RIGHT_ATOMIC, 0);
	struct urccl_region plain = side_register(&p.b, words, LEN, URCCL_RIGHT_READ), none = {0};
	struct urccl_range range = {.addr = (uintptr_t)words, .len = LEN, .fd = -1};
	struct urccl_advert advert;
	struct urccl_sqe *sqe;
	uint64_t local;

	refused(both, 0, -EACCES, "right");
	CHECK_EQ(add(only, 0, 0).res, 8);
	side_register(&p.a, &local, 8, 0);
	sqe = side_sqe(&p.a);
	urccl_prep_read(sqe, only, &local, 8, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, -EACCES);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, only, &local, 8, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, -EACCES);
	CHECK_EQ(urccl_advertise(p.b.ctx, plain, 0, 8, URCCL_RIGHT_ATOMIC, 0, &advert), -EACCES);
	CHECK_EQ(urccl_unregister(p.b.ctx, plain), 0);
	CHECK_EQ(urccl_register(p.b.ctx, &range, 1, URCCL_RIGHT_ATOMIC | URCCL_REG_ATOMIC_NATIVE,
				&none),
		 -EOPNOTSUPP);
	CHECK(strstr(urccl_errmsg(), "ATOMIC_NATIVE"));
}

/* Once with the key in hand, once without. */
static void time_up(void)
{
	struct urccl_remote unused = give(0, LEN, URCCL_RIGHT_ATOMIC, 1);
	struct urccl_remote used = give(0, LEN, URCCL_RIGHT_ATOMIC, 60);
	uint64_t until = now_ns() + 100000000;
	int64_t res = add(used, 0, 0).res;

	CHECK(res == 8 || res == -EACCES);
	while (now_ns() < until)
		side_silent(&p.a, &p.b, 1000000);
	refused(unused, 0, -EACCES, "expired");
	refused(used, 0, -EACCES, "expired");
}

static void taken_back(void)
{
	struct urccl_remote stale = give(0, LEN, URCCL_RIGHT_ATOMIC, 0);
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;

	CHECK_EQ(add(stale, 0, 0).res, 8);
	CHECK_EQ(urccl_unimport(p.a.ctx, stale), 0);
	sqe = side_sqe(&p.a);
	urccl_prep_fetch_add(sqe, stale, 0, 1);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, -ESTALE);
	check_sentence(&p.a, &cqe, "remote handle");
	/* Memory that peers do not map: nobody's word is waited for. What was revoked may be given
	 * again. */
	CHECK_EQ(urccl_revoke(p.b.ctx, t.region), 0);
	words[0] = 5;
	refused(t.remote, 0, -EACCES, "revoked");
	CHECK_EQ(word(0), 5);
	t.remote = give(0, LEN, URCCL_RIGHT_ATOMIC, 0);
	CHECK_EQ(add(t.remote, 0, 1).old, 5);
	CHECK_EQ(urccl_unregister(p.b.ctx, t.region), 0);
	memset(words, 0x11, LEN);
	refused(t.remote, 0, -ESTALE, "unregistered");
	CHECK_EQ(words[0], 0x1111111111111111ull);
}

int main(int argc, char **argv)
{
	pair_begin(&p, argc, argv);
	target_open(&p, &t, LEN, 0);
	words = (uint64_t *)(void *)t.bytes;
	one_by_one();
	many();
	ordered();
	places();
	ranges();
	rights();
	time_up();
	taken_back();
	pair_close(&p);
	return 0;
}
