/* SPDX-License-Identifier: Apache-2.0 */
/* A peer of this host costs one descriptor of its process, also when its data path was closed for
 * being idle and came back; none is left when it was lost or closed. */
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>
#include "fds.h"
#include "killed.h"

#define ROUNDS 6u

static struct pair p;

static uint32_t pidfds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	uint32_t n = 0;

	CHECK(dir);
	while ((entry = readdir(dir))) {
		char target[64] = "";

		(void)!readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
		n += strstr(target, "pidfd") != NULL;
	}
	closedir(dir);
	return n;
}

static void suspend(void)
{
	uint64_t until = now_ns() + PAIR_LATE_NS;

	while (side_is_warm(&p.a, p.a.peer)) {
		side_silent(&p.a, NULL, 1000000);
		CHECK(!is_late(until));
	}
}

/* The watch ends, too. */
static void drop(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	urccl_prep_close(sqe, p.a.peer);
	urccl_sqe_set_data64(sqe, 3);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	do
		side_take(&p.a, NULL, &cqe, NULL);
	while (cqe.user_data != 3);
	CHECK_EQ(cqe.res, 0);
}

static void one(struct killed *k, int close_it)
{
	CHECK_EQ(pidfds(), 0);
	killed_start(&p, k);
	CHECK_EQ(pidfds(), 1);
	suspend();
	CHECK_EQ(pidfds(), 1);
	CHECK_EQ(side_tell(&p.a, NULL, p.a.peer.id, 1), 0);
	CHECK_EQ(pidfds(), 1);
	if (!close_it) {
		killed_signal(k, SIGKILL);
		killed_lost(&p.a, 0, "process has ended");
		CHECK_EQ(pidfds(), 0);
	}
	drop();
	CHECK_EQ(pidfds(), 0);
	if (close_it)
		killed_signal(k, SIGKILL);
	killed_end(k);
}

int main(int argc, char **argv)
{
	struct killed k;
	uint32_t i, before = 0;

	killed_possible();
	pair_options(&p, argc, argv);
	p.params.dead_after_ms = 600000;
	p.params.idle_after_ms = 20;
	side_open(&p, &p.a);
	killed_open(&p, &k);
	for (i = 0; i < ROUNDS; i++) {
		one(&k, i % 2);
		before = i ? before : fds_open();
		CHECK_EQ(fds_open(), before);
	}
	side_close(&p.a);
	return 0;
}
