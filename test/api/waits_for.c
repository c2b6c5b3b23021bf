/* SPDX-License-Identifier: Apache-2.0 */
/* The sentence of an entry whose deadline passed says what the entry waited for. */
#include "meet.h"

#define SOON_US 50000u
#define ATOMICS 64u /* of one peer that go unanswered at a time */

static struct pair p;
static struct target t;
static uint8_t local[4096];
static _Alignas(8) uint64_t word;

static struct urccl_sqe *write_entry(uint32_t us)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, local, 64, 0);
	urccl_sqe_set_deadline_us(sqe, us);
	return sqe;
}

/* The entry of user_data ends late, and why; b does nothing meanwhile. */
static void late(uint64_t user_data, const char *part)
{
	struct urccl_cqe cqe;

	CHECK_GE(urccl_submit(p.a.ring), 0);
	do {
		cqe = side_end(&p.a, NULL, user_data);
	} while (cqe.flags & URCCL_CQE_MORE);
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	check_sentence(&p.a, &cqe, "not finished after 50000 us; ");
	check_sentence(&p.a, &cqe, part);
}

/* Behind an entry whose start word does not come. */
static void behind(uint32_t first, uint32_t second, const char *part)
{
	struct urccl_sqe *sqe = write_entry(0);

	word = 0;
	urccl_sqe_set_wait(p.a.ring, sqe, &word, 1);
	urccl_sqe_add_flags(sqe, first);
	urccl_sqe_set_group(sqe, 1 + second); /* in which nothing failed before */
	urccl_sqe_set_data64(sqe, 1);
	sqe = write_entry(SOON_US);
	urccl_sqe_add_flags(sqe, second);
	urccl_sqe_set_group(sqe, 1 + second);
	urccl_sqe_set_data64(sqe, 2);
	late(2, part);
	__atomic_store_n(&word, 1, __ATOMIC_RELEASE);
	CHECK_EQ(pair_end(&p, &p.a, 1).res, 64);
}

static void own_side(void)
{
	struct urccl_sqe *sqe = write_entry(SOON_US);
	char part[80];

	urccl_sqe_set_wait(p.a.ring, sqe, &word, 7);
	urccl_sqe_set_data64(sqe, 2);
	snprintf(part, sizeof(part), "waits for its start word at %p to reach 7.", (void *)&word);
	late(2, part);
	behind(URCCL_SQE_LINK, 0, "waits for an earlier entry of its chain");
	behind(0, URCCL_SQE_FENCE, "URCCL_SQE_FENCE waits for 1 earlier entries");
	behind(0, URCCL_SQE_DRAIN, "URCCL_SQE_DRAIN waits for 1 earlier entries");
}

static void message(struct urccl_ring *to, uint32_t us)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_msg_ring(sqe, urccl_ring_id(to), 1, 1, 1);
	urccl_sqe_set_deadline_us(sqe, us);
	urccl_sqe_set_data64(sqe, us ? 2 : 1);
}

static void other_ring(void)
{
	struct urccl_ring_params params = {.size = sizeof(params), .entries = 2, .event_slots = 1};
	struct urccl_ring *to;
	char part[80];

	CHECK_EQ(urccl_ring_open(p.a.ctx, &params, &to), 0);
	message(to, 0);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	CHECK_EQ(side_end(&p.a, NULL, 1).res, 0);
	message(to, SOON_US);
	snprintf(part, sizeof(part), "waits for an event slot of ring %u", urccl_ring_id(to));
	late(2, part);
	urccl_ring_close(to);
}

static void peer(void)
{
	static uint8_t other[64];
	struct urccl_region r;
	struct urccl_advert ad;
	struct urccl_remote remote;
	struct urccl_sqe *sqe;
	char part[80];
	uint32_t i;

	r = side_register(&p.b, other, sizeof(other), URCCL_RIGHT_WRITE);
	CHECK_EQ(urccl_advertise(p.b.ctx, r, 0, 64, URCCL_RIGHT_WRITE, 0, &ad), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &ad, 1, &remote), 0);
	sqe = write_entry(SOON_US);
	sqe->remote = remote.id;
	urccl_sqe_set_data64(sqe, 2);
	snprintf(part, sizeof(part), "waits for the peer's keys for remote 0x%x", remote.id);
	late(2, part);
	sqe = side_sqe(&p.a);
	urccl_prep_fetch_add(sqe, t.remote, 0, 1);
	urccl_sqe_set_deadline_us(sqe, SOON_US);
	urccl_sqe_set_data64(sqe, 2);
	late(2, "has not answered the atomic");
	for (i = 0; i <= ATOMICS; i++) {
		sqe = side_sqe(&p.a);
		urccl_prep_fetch_add(sqe, t.remote, 0, 1);
		urccl_sqe_set_deadline_us(sqe, i < ATOMICS ? 0 : SOON_US);
		urccl_sqe_set_data64(sqe, i < ATOMICS ? 1 : 2);
	}
	late(2, "waits for one of the 64 before it");
}

int main(int argc, char **argv)
{
	struct urccl_sqe *sqe;

	pair_begin_idle(&p, argc, argv);
	target_open(&p, &t, 4096, 0);
	side_register(&p.a, local, sizeof(local), 0);
	side_register(&p.a, &word, sizeof(word), URCCL_RIGHT_READ);
	sqe = write_entry(0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, 64);
	sqe = side_sqe(&p.a);
	urccl_prep_fetch_add(sqe, t.remote, 0, 1);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, 8);
	own_side();
	other_ring();
	peer();
	pair_close(&p);
	return 0;
}
