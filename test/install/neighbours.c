/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process with liburccl, UCX and libfabric in it, opened in either order: each goes on
 * working, and what liburccl does leaves signal handlers, the allocator, patched code and
 * descriptors as they were.
 */
#include <dlfcn.h>
#include <liburccl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>

#include "fds.h"
#include "neighbours.h"
#include "test.h"

#define CODE 16u /* bytes of a function, where others patch a jump */

static const char *const hooked[] = {"malloc", "free", "mmap",	  "munmap", "mremap",
				     "sbrk",   "brk",  "madvise", "shmat",  "shmdt"};
#define NHOOKED (sizeof(hooked) / sizeof(hooked[0]))

struct process {
	struct sigaction action[NSIG];
	void *function[NHOOKED];
	uint8_t code[NHOOKED][CODE];
	uint32_t fds;
};

static void look(struct process *p)
{
	size_t i;

	memset(p, 0, sizeof(*p));
	for (i = 1; i < NSIG; i++)
		(void)sigaction((int)i, NULL, &p->action[i]);
	for (i = 0; i < NHOOKED; i++) {
		p->function[i] = dlsym(RTLD_DEFAULT, hooked[i]);
		CHECK(p->function[i]);
		memcpy(p->code[i], p->function[i], CODE);
	}
	p->fds = fds_open();
}

static void same(const struct process *before)
{
	struct process now;
	size_t i;

	look(&now);
	for (i = 1; i < NSIG; i++) {
		CHECK(before->action[i].sa_handler == now.action[i].sa_handler);
		CHECK_EQ(before->action[i].sa_flags, now.action[i].sa_flags);
	}
	for (i = 0; i < NHOOKED; i++)
		CHECK(before->function[i] == now.function[i]);
	CHECK_EQ(memcmp(before->code, now.code, sizeof(now.code)), 0);
	CHECK_EQ(before->fds, now.fds);
}

/* ---- ours: two contexts that are connected ---- */

struct ours {
	struct urccl *from, *to;
	struct urccl_ring *ring, *theirs;
	struct urccl_remote remote;
	char text[32], memory[32];
};

static struct urccl_cqe next(struct urccl_ring *ring)
{
	struct urccl_wait_args args = {.size = sizeof(args),
				       .min_n = 1,
				       .timeout_ns = 10000000000u};
	struct urccl_cqe *cqe, copy;

	CHECK(urccl_wait(ring, &cqe, &args) > 0);
	copy = *cqe;
	urccl_cqe_seen(ring, cqe);
	return copy;
}

static void ours_open(struct ours *o, const char *transport)
{
	struct urccl_range from = {.addr = (uintptr_t)o->text, .len = sizeof(o->text), .fd = -1};
	struct urccl_range to = {.addr = (uintptr_t)o->memory, .len = sizeof(o->memory), .fd = -1};
	struct urccl_params p = {.size = sizeof(p)};
	struct urccl_region local, region;
	struct urccl_advert advert;
	char blob[URCCL_METADATA_MAX];
	struct urccl_cqe cqe;

	urccl_params_init(&p);
	p.transport = transport;
	CHECK_EQ(urccl_open(&p, &o->from), 0);
	CHECK_EQ(urccl_open(&p, &o->to), 0);
	CHECK_EQ(urccl_ring_open(o->from, NULL, &o->ring), 0);
	CHECK_EQ(urccl_ring_open(o->to, NULL, &o->theirs), 0);
	CHECK_EQ(urccl_register(o->from, &from, 1, 0, &local), 0);
	CHECK_EQ(urccl_register(o->to, &to, 1, URCCL_RIGHT_WRITE, &region), 0);
	CHECK_EQ(urccl_advertise(o->to, region, 0, to.len, URCCL_RIGHT_WRITE, 0, &advert), 0);
	urccl_prep_accept(urccl_get_sqe(o->theirs));
	urccl_submit(o->theirs);
	urccl_prep_connect(urccl_get_sqe(o->ring), blob,
			   (uint32_t)urccl_metadata(o->to, blob, sizeof(blob)));
	urccl_submit(o->ring);
	cqe = next(o->ring);
	CHECK_EQ(cqe.res, 0);
	CHECK_EQ(urccl_import(o->from, (struct urccl_peer){(uint32_t)cqe.handle}, &advert, 1,
			      &o->remote),
		 0);
}

static void ours_use(struct ours *o)
{
	static uint32_t n;

	snprintf(o->text, sizeof(o->text), "write %u", n++);
	urccl_prep_write(urccl_get_sqe(o->ring), o->remote, o->text, sizeof(o->text), 0);
	urccl_submit(o->ring);
	CHECK_EQ(next(o->ring).res, sizeof(o->text));
	CHECK_EQ(strcmp(o->text, o->memory), 0);
}

static void ours_close(struct ours *o)
{
	urccl_close(o->from);
	urccl_close(o->to);
}

/* ---- side by side ---- */

static void they_first(const struct neighbour *n, const char *transport)
{
	struct process before;
	struct ours o = {0};
	void *theirs = n->open();

	n->use(theirs);
	look(&before);
	ours_open(&o, transport);
	ours_use(&o);
	n->use(theirs);
	ours_use(&o);
	ours_close(&o);
	same(&before);
	n->use(theirs);
	n->close(theirs);
}

static void we_first(const struct neighbour *n, const char *transport)
{
	struct ours o = {0};
	void *theirs;

	ours_open(&o, transport);
	ours_use(&o);
	theirs = n->open();
	n->use(theirs);
	ours_use(&o);
	n->close(theirs);
	ours_use(&o);
	ours_close(&o);
}

int main(void)
{
	static const struct neighbour *const all[] = {&neighbour_ucx, &neighbour_fabric};
	static const char *const transports[] = {"shm", "tcp"};
	void *both[2];
	uint32_t i, k;

	for (i = 0; i < 2; i++) {
		for (k = 0; k < 2; k++) {
			we_first(all[i], transports[k]);
			they_first(all[i], transports[k]);
		}
		printf("beside %s: well\n", all[i]->name);
	}
	for (i = 0; i < 2; i++)
		both[i] = all[i]->open();
	they_first(all[0], "shm");
	for (i = 0; i < 2; i++) {
		all[i]->use(both[i]);
		all[i]->close(both[i]);
	}
	return 0;
}
