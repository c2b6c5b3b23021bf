/* SPDX-License-Identifier: Apache-2.0 */
/* urccl_remote_map(): memory of a GPU of another process has an address here, also when its owner
 * is dead; and while it is mapped its owner cannot take it back. */
#include "child.h"
#include "meet.h"
#include "cuda/device.h"

#define LEN    (4u << 20)
#define RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;

static void warm(struct side *s)
{
	side_warm(s, 0, 77);
	CHECK_EQ(pair_end(&p, s, 77).res, 0);
}

static uint64_t map(struct urccl_remote remote)
{
	uint64_t addr;

	CHECK_EQ(urccl_remote_map(p.a.ctx, remote, &addr), 0);
	CHECK_EQ(urccl_remote_map(p.a.ctx, remote, &addr), -EALREADY);
	return addr;
}

static void of_another(void)
{
	struct urccl_remote remote;
	uint64_t local = device_alloc(LEN, 0), addr;
	struct urccl_sqe *sqe;
	struct child c;

	child_start(&p, &c, LEN, NULL);
	side_open(&p, &p.a);
	side_register(&p.a, (void *)(uintptr_t)local, LEN, 0);
	child_connect(&p, &c);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &c.advert, 1, &remote), 0);
	CHECK_EQ(urccl_remote_map(p.a.ctx, remote, &addr), -EAGAIN);
	CHECK_EQ(urccl_remote_unmap(p.a.ctx, remote), -EINVAL);
	warm(&p.a);
	addr = map(remote);
	device_fill(local, LEN, 0, 5);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, remote, (void *)(uintptr_t)local, LEN, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, LEN);
	CHECK(device_check(addr, LEN, 0, 5));
	side_watch(&p.a, p.a.peer, 2);
	child_kill(&c);
	side_event(&p.a, NULL, URCCL_KIND_LOST, NULL);
	CHECK(device_check(addr, LEN, 0, 5));
	CHECK_EQ(urccl_remote_unmap(p.a.ctx, remote), 0);
	CHECK_EQ(urccl_remote_unmap(p.a.ctx, remote), -EINVAL);
	side_close(&p.a);
	device_free(local);
}

/* How the importer lets go of memory that its owner wants back. */
enum let_go { UNMAP, UNIMPORT, CLOSE /* which ends, though its owner has to wait */ };

/* Both contexts are in this process: the address is the owner's own. */
static void taken_back(enum let_go by)
{
	uint64_t theirs = device_alloc(LEN, 0), ours = device_alloc(LEN, 0), addr;
	struct urccl_advert advert;
	struct urccl_remote remote;
	struct urccl_region r;

	p.params.flags = 0; /* calls of one side wait for the other */
	pair_open(&p);
	side_register(&p.a, (void *)(uintptr_t)ours, LEN, 0);
	r = side_register(&p.b, (void *)(uintptr_t)theirs, LEN, RIGHTS);
	CHECK_EQ(urccl_advertise(p.b.ctx, r, 0, LEN, RIGHTS, 0, &advert), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &advert, 1, &remote), 0);
	warm(&p.a);
	addr = map(remote);
	CHECK_EQ(addr, theirs);
	CHECK_EQ(urccl_unregister(p.b.ctx, r), -ETIMEDOUT);
	if (by == UNMAP)
		CHECK_EQ(urccl_remote_unmap(p.a.ctx, remote), 0);
	else if (by == UNIMPORT)
		CHECK_EQ(urccl_unimport(p.a.ctx, remote), 0);
	else
		side_close(&p.a);
	if (by == UNMAP)
		CHECK_EQ(urccl_remote_map(p.a.ctx, remote, &addr), -EACCES);
	if (by != CLOSE) {
		CHECK_EQ(urccl_unregister(p.b.ctx, r), 0);
		side_close(&p.a);
	}
	side_close(&p.b);
	device_free(theirs);
	device_free(ours);
}

/* An advert that gives less than a mapping does has no address. */
static void of_less(uint32_t rights)
{
	uint64_t theirs = device_alloc(LEN, 0), ours = device_alloc(LEN, 0), addr;
	struct urccl_advert advert;
	struct urccl_remote remote;
	struct urccl_region r;

	p.params.flags = 0;
	pair_open(&p);
	side_register(&p.a, (void *)(uintptr_t)ours, LEN, 0);
	r = side_register(&p.b, (void *)(uintptr_t)theirs, LEN, RIGHTS);
	CHECK_EQ(urccl_advertise(p.b.ctx, r, 0, LEN, rights, 0, &advert), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &advert, 1, &remote), 0);
	warm(&p.a);
	CHECK_EQ(urccl_remote_map(p.a.ctx, remote, &addr), -EACCES);
	CHECK(strstr(urccl_errmsg(), "does not give both"));
	CHECK_EQ(urccl_unregister(p.b.ctx, r), 0);
	pair_close(&p);
	device_free(theirs);
	device_free(ours);
}

/* The path to its owner stays for as long as it is mapped. */
static void stays_warm(void)
{
	uint64_t theirs = device_alloc(LEN, 0), ours = device_alloc(LEN, 0), addr, until;
	struct urccl_advert advert;
	struct urccl_remote remote;
	struct urccl_region r;

	p.params.idle_after_ms = 20;
	pair_open(&p);
	side_register(&p.a, (void *)(uintptr_t)ours, LEN, 0);
	r = side_register(&p.b, (void *)(uintptr_t)theirs, LEN, RIGHTS);
	CHECK_EQ(urccl_advertise(p.b.ctx, r, 0, LEN, RIGHTS, 0, &advert), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &advert, 1, &remote), 0);
	do
		warm(&p.a);
	while (urccl_remote_map(p.a.ctx, remote, &addr) == -EAGAIN); /* it was idle between them */
	until = now_ns() + 200000000;
	while (now_ns() < until)
		CHECK(side_is_warm(&p.a, p.a.peer));
	CHECK_EQ(urccl_remote_unmap(p.a.ctx, remote), 0);
	CHECK_EQ(urccl_unregister(p.b.ctx, r), 0);
	pair_close(&p);
}

int main(int argc, char **argv)
{
	child_memory = device_memory;
	child_main(argc, argv);
	device_load();
	pair_options(&p, argc, argv);
	of_another();
	taken_back(UNMAP);
	taken_back(UNIMPORT);
	taken_back(CLOSE);
	of_less(URCCL_RIGHT_READ);
	of_less(URCCL_RIGHT_WRITE);
	stays_warm();
	return 0;
}
