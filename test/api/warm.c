/* SPDX-License-Identifier: Apache-2.0 */
/* WARM waits for the keys of every remote of its peer, and for nothing that comes later; with
 * memory that is mapped no first touch is left for the transfers. */
#include <sys/resource.h>
#include "pair.h"

#define LEN (16u << 20)
#define RW  (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static struct target t;
static uint8_t *local;

static struct urccl_cqe warm(void)
{
	side_warm(&p.a, 0, 1);
	return pair_end(&p, &p.a, 1);
}

/* An owner that does nothing gives no keys. */
static void waits(void)
{
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;

	side_warm(&p.a, 50000, 1);
	side_take(&p.a, NULL, &cqe, NULL);
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	/* What the control thread has of it comes back in its own time. */
	if (cqe.flags & URCCL_CQE_MORE)
		side_take(&p.a, NULL, &cqe, NULL);
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
	side_warm(&p.a, 0, 1);
	sqe = side_sqe(&p.a);
	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, 1);
	urccl_sqe_set_data64(sqe, 2);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	side_take(&p.a, NULL, &cqe, NULL);
	CHECK_EQ(cqe.user_data, 1);
	CHECK_EQ(cqe.res, -ECANCELED);
	side_take(&p.a, NULL, &cqe, NULL);
	CHECK_EQ(cqe.user_data, 2);
	CHECK_EQ(cqe.res, 1);
	CHECK_EQ(warm().res, 0);
	/* All is there: nothing is asked of the owner. */
	side_warm(&p.a, 5000000, 1);
	side_take(&p.a, NULL, &cqe, NULL);
	CHECK_EQ(cqe.res, 0);
	CHECK_EQ(cqe.path & URCCL_PATH_TRANSPORT, p.transport);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FAULTS_MAX 100000 /* a sanitizer's own */
#else
#define FAULTS_MAX 100
#endif

/* Who drives the engine takes its faults. */
static void touches_nothing(void)
{
	struct rusage before, after;
	struct urccl_sqe *sqe;

	if (p.transport != URCCL_TRANSPORT_SHM || !(p.params.flags & URCCL_OPEN_INLINE))
		return;
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, t.remote, local, LEN, 0);
	CHECK_EQ(getrusage(RUSAGE_THREAD, &before), 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, LEN);
	CHECK_EQ(getrusage(RUSAGE_THREAD, &after), 0);
	CHECK_LE(after.ru_minflt - before.ru_minflt, FAULTS_MAX);
}

static void refused(void)
{
	static uint8_t there[64];
	struct urccl_region region = side_register(&p.b, there, sizeof(there), RW);
	struct urccl_advert ad;
	struct urccl_remote remote;
	struct urccl_cqe cqe;

	CHECK_EQ(urccl_advertise(p.b.ctx, region, 0, 64, RW, 0, &ad), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &ad, 1, &remote), 0);
	CHECK_EQ(urccl_revoke(p.b.ctx, region), 0);
	cqe = warm();
	CHECK_EQ(cqe.res, -EACCES);
	check_sentence(&p.a, &cqe, "has no keys");
	/* That is known now. */
	CHECK_EQ(warm().res, 0);
	CHECK_EQ(urccl_unimport(p.a.ctx, remote), 0);
	CHECK_EQ(urccl_unregister(p.b.ctx, region), 0);
}

int main(int argc, char **argv)
{
	pair_begin_idle(&p, argc, argv);
	local = malloc(LEN);
	CHECK(local);
	memset(local, 1, LEN);
	side_register(&p.a, local, LEN, 0);
	CHECK_EQ(warm().res, 0);
	target_open(&p, &t, LEN, 1);
	waits();
	touches_nothing();
	refused();
	pair_close(&p);
	return 0;
}
