/* SPDX-License-Identifier: Apache-2.0 */
/* A region of the second half of a file before the first: one that peers may map, in two parts. */
#include "register_file.h"

static void halves(void)
{
	int fd = file_of(SEALS);
	uint8_t *view = map(fd), *at = map(fd);
	struct urccl_range ranges[2] = {range_of(fd, at + LEN / 2, LEN / 2, LEN / 2),
					range_of(fd, at, 0, LEN / 2)};
	struct target t;

	target_of(&t, ranges, 2);
	t.bytes = at;
	close(fd);
	pattern_fill(local, LEN, 0, 3);
	move(&t, 0);
	CHECK(pattern_holds(view + LEN / 2, LEN / 2, 0, 3));
	CHECK(pattern_holds(view, LEN / 2, LEN / 2, 3));
	check_way(&t, SEALS);
	target_close(&p, &t);
	munmap(view, LEN);
}

void register_file_halves(int argc, char **argv)
{
	thrice(argc, argv, halves);
}
