/* SPDX-License-Identifier: Apache-2.0 */
/* An entry that fails leaves the word that it was to set alone: refused here, refused by the peer,
 * at its deadline or cancelled. */
#include "pair.h"

#define LEN 4096u

static struct pair p;
static struct target t;
static struct {
	uint64_t never, signal;
	uint8_t bytes[LEN];
} m;

static void fails(struct urccl_sqe *sqe, int res)
{
	urccl_sqe_set_signal(p.a.ring, sqe, &m.signal, 1);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, res);
	CHECK_EQ(__atomic_load_n(&m.signal, __ATOMIC_ACQUIRE), 0);
}

static struct urccl_sqe *write_at(uint64_t off)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, m.bytes, LEN, off);
	return sqe;
}

int main(int argc, char **argv)
{
	struct urccl_sqe *sqe;

	pair_begin(&p, argc, argv);
	target_open(&p, &t, LEN, 0);
	side_register(&p.a, &m, sizeof(m), URCCL_RIGHT_WRITE);
	fails(write_at(1), -ERANGE);
	sqe = write_at(0);
	urccl_sqe_set_wait(p.a.ring, sqe, &m.never, 1);
	urccl_sqe_set_deadline_us(sqe, 10000);
	fails(sqe, -ETIMEDOUT);
	sqe = write_at(1);
	urccl_sqe_set_data64(sqe, 1);
	urccl_sqe_add_flags(sqe, URCCL_SQE_LINK);
	sqe = write_at(0);
	urccl_sqe_set_signal(p.a.ring, sqe, &m.signal, 1);
	CHECK_EQ(urccl_submit(p.a.ring), 2);
	CHECK_EQ(pair_end(&p, &p.a, 1).res, -ERANGE);
	CHECK_EQ(pair_end(&p, &p.a, 0).res, -ECANCELED);
	CHECK_EQ(urccl_revoke(p.b.ctx, t.region), 0);
	fails(write_at(0), -EACCES);
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
