/* SPDX-License-Identifier: Apache-2.0 */
/* A peer writes and reads views of a file, whether its size is sealed, so that peers of this host
 * may map it, or not; mapped by the program, or by the library where nothing was. */
#include "register_file.h"

/* Both ways; the file is looked at by a view of its own. */
static void of_the_peer(int seals, int mapped)
{
	int fd = file_of(seals);
	uint8_t *view = map(fd), *at = mapped ? map(fd) : hole();
	struct urccl_range range = range_of(fd, at, 0, LEN);
	struct target t;

	target_of(&t, &range, 1);
	close(fd);
	pattern_fill(local, LEN, 0, 1);
	move(&t, 0);
	CHECK(pattern_holds(view, LEN, 0, 1));
	check_way(&t, seals);
	pattern_fill(view, LEN, 0, 2);
	move(&t, 1);
	CHECK(pattern_holds(local, LEN, 0, 2));
	if (!mapped)
		t.bytes = NULL; /* the library unmaps it */
	target_close(&p, &t);
	CHECK(!is_mapped(at));
	munmap(view, LEN);
}

static void each(void)
{
	of_the_peer(SEALS, 1);
	of_the_peer(SEALS, 0);
	of_the_peer(F_SEAL_SHRINK, 1);
	of_the_peer(F_SEAL_SHRINK, 0);
}

int main(int argc, char **argv)
{
	thrice(argc, argv, each);
	register_file_again(argc, argv);
	register_file_halves(argc, argv);
	register_file_local(argc, argv);
	return 0;
}
