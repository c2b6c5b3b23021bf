/* SPDX-License-Identifier: Apache-2.0 */
/* The buffer of an entry is a view of a file: it lies where the library mapped it, and two regions
 * have it. */
#include "register_file.h"

static void of_ours(void)
{
	int fd = file_of(SEALS);
	uint8_t *view = map(fd), *at;
	struct urccl_region region, inside;
	struct urccl_range range;
	struct urccl_sqe *sqe;
	struct target t;

	target_open(&p, &t, LEN, 0);
	at = hole();
	range = range_of(fd, at, 0, LEN);
	CHECK_EQ(urccl_register(p.a.ctx, &range, 1, 0, &region), 0);
	range = range_of(fd, at + 4096, 4096, 8192);
	CHECK_EQ(urccl_register(p.a.ctx, &range, 1, 0, &inside), 0);
	close(fd);
	pattern_fill(view, LEN, 0, 4);
	CHECK_EQ(urccl_unregister(p.a.ctx, region), 0);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, t.remote, at + 4096, 8192, 4096);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, 8192);
	settle();
	CHECK(pattern_holds(t.bytes + 4096, 8192, 4096, 4));
	CHECK_EQ(urccl_unregister(p.a.ctx, inside), 0);
	CHECK(!is_mapped(at));
	target_close(&p, &t);
	munmap(view, LEN);
}

void register_file_local(int argc, char **argv)
{
	thrice(argc, argv, of_ours);
}
