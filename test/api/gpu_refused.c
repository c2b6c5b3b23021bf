/* SPDX-License-Identifier: Apache-2.0 */
/* Refused with a sentence, and nothing of it stays: a range of more than one allocation or with
 * rights for atomics, and, where bounce=no forbids the way through memory of the library, memory of
 * a GPU here, and at the peer where it is relayed: by bounce=no of either side. */
#include <stdlib.h>
#include "pair.h"
#include "cuda/device.h"

#define LEN    (1u << 20)
#define RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static uint8_t *host;

static void check_register(uint64_t addr, uint64_t len, uint32_t rights, const char *part)
{
	struct urccl_range range = URCCL_RANGE(addr, len);
	struct urccl_region r;

	CHECK_EQ(urccl_register(p.b.ctx, &range, 1, rights, &r), -EINVAL);
	CHECK(strstr(urccl_errmsg(), part));
}

static void open_two(int argc, char **argv, enum urccl_allow here, enum urccl_allow there)
{
	pair_options(&p, argc, argv);
	pair_sim(&p);
	p.params.bounce = there;
	side_open(&p, &p.b);
	p.params.bounce = here;
	pair_open(&p);
}

/* Memory of a GPU of b, written from ordinary memory of a: without a region of its own GPU it does
 * not reach that over shm either. */
static void at_peer(uint64_t device, int64_t res)
{
	struct urccl_region r = side_register(&p.b, (void *)(uintptr_t)device, LEN, RIGHTS);
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_advert advert;
	struct urccl_remote remote;
	struct urccl_cqe cqe;

	side_register(&p.a, host, LEN, 0);
	CHECK_EQ(urccl_advertise(p.b.ctx, r, 0, LEN, RIGHTS, 0, &advert), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &advert, 1, &remote), 0);
	urccl_prep_write(sqe, remote, host, LEN, 0);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, res);
	check_sentence(&p.a, &cqe, "bounce=no");
	sqe = side_sqe(&p.b);
	urccl_prep_unregister(sqe, r);
	CHECK_EQ(pair_run(&p, &p.b, sqe).res, 0); /* over shm a is asked first */
	device_fill(device, LEN, 0, 1);
	CHECK(device_check(device, LEN, 0, 1));
	pair_close(&p);
}

static void bounced(uint64_t device)
{
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	struct target t;

	side_register(&p.a, (void *)(uintptr_t)device, LEN, 0);
	target_open(&p, &t, LEN, p.shared);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, t.remote, (void *)(uintptr_t)device, LEN, 0);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, -EACCES);
	check_sentence(&p.a, &cqe, "bounce=no");
	target_close(&p, &t);
}

int main(int argc, char **argv)
{
	uint64_t device;

	device_load();
	pair_begin(&p, argc, argv);
	device = device_alloc(LEN, 0);
	check_register(device, 64ull << 30, RIGHTS, "one allocation");
	check_register(device, LEN, URCCL_RIGHT_ATOMIC, "URCCL_RIGHT_ATOMIC");
	pair_close(&p);
	open_two(argc, argv, URCCL_ALLOW_NO, URCCL_ALLOW_NO);
	bounced(device);
	pair_close(&p);
	host = calloc(1, LEN);
	CHECK(host);
	open_two(argc, argv, URCCL_ALLOW_NO, URCCL_ALLOW_DEFAULT);
	at_peer(device, -EACCES);
	open_two(argc, argv, URCCL_ALLOW_DEFAULT, URCCL_ALLOW_NO);
	at_peer(device, p.transport == URCCL_TRANSPORT_SHM ? -EREMOTEIO : -EOPNOTSUPP);
	free(host);
	return 0;
}
