/* SPDX-License-Identifier: Apache-2.0 */
/* The same memory was registered as memory before it is as a view of its file, and that region ends
 * first. */
#include "register_file.h"

static void after_plain(void)
{
	int fd = file_of(SEALS);
	uint8_t *at = map(fd);
	struct urccl_region plain = side_register(&p.b, at, LEN, RIGHTS);
	struct urccl_range range = range_of(fd, at, 0, LEN);
	struct target t;

	target_of(&t, &range, 1);
	close(fd);
	CHECK_EQ(urccl_unregister(p.b.ctx, plain), 0);
	pattern_fill(local, LEN, 0, 5);
	move(&t, 0);
	CHECK(pattern_holds(at, LEN, 0, 5));
	check_way(&t, SEALS);
	target_close(&p, &t);
}

void register_file_again(int argc, char **argv)
{
	thrice(argc, argv, after_plain);
}
