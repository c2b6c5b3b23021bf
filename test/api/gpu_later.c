/* SPDX-License-Identifier: Apache-2.0 */
/* A context that comes to use a GPU only after it has heard of the peer's memory: what it imports
 * from then on its GPU reaches itself. */
#include <stdlib.h>
#include "pair.h"
#include "cuda/device.h"

#define LEN    (1u << 20)
#define RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static struct urccl_advert advert;

/* Whether it went through memory of the peer's library. */
static int is_relayed(void *from)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_remote remote;
	struct urccl_cqe cqe;

	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &advert, 1, &remote), 0);
	urccl_prep_write(sqe, remote, from, LEN, 0);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, LEN);
	CHECK_EQ(urccl_unimport(p.a.ctx, remote), 0);
	return !!(cqe.path & URCCL_PATH_BOUNCE_REMOTE);
}

int main(int argc, char **argv)
{
	uint8_t *host = calloc(1, LEN);
	uint64_t theirs, ours;
	struct urccl_region r;

	device_load();
	pair_options(&p, argc, argv);
	p.params.flags = 0; /* calls of one side wait for the other */
	pair_open(&p);
	CHECK(host);
	theirs = device_alloc(LEN, 0);
	r = side_register(&p.b, (void *)(uintptr_t)theirs, LEN, RIGHTS);
	CHECK_EQ(urccl_advertise(p.b.ctx, r, 0, LEN, RIGHTS, 0, &advert), 0);
	side_register(&p.a, host, LEN, 0);
	CHECK(is_relayed(host));
	ours = device_alloc(LEN, 0);
	side_register(&p.a, (void *)(uintptr_t)ours, LEN, 0);
	device_fill(ours, LEN, 0, 5);
	CHECK(!is_relayed((void *)(uintptr_t)ours));
	CHECK(device_check(theirs, LEN, 0, 5));
	pair_close(&p);
	free(host);
	return 0;
}
