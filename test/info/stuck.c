/* SPDX-License-Identifier: Apache-2.0 */
/* An engine that hangs in the turn that took an entry: what that is to send lies in a page that
 * does not come. Says "ready" when all else is done, goes on at a line of its input, says "stuck"
 * when the entry is submitted, and stays. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include "pair.h"

#define LEN 4096u

static struct pair p;
static struct target t;
static uint8_t local[LEN];

/* A fault in it waits for somebody to answer, and nobody does. */
static void withhold(uint8_t *page)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register r = {
		.range = {.start = (uintptr_t)page, .len = LEN},
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | 1); /* UFFD_USER_MODE_ONLY */

	if (fd < 0)
		SKIP("userfaultfd is denied here");
	CHECK_EQ(ioctl(fd, UFFDIO_API, &api), 0);
	CHECK_EQ(ioctl(fd, UFFDIO_REGISTER, &r), 0);
}

static struct urccl_sqe *writes(const void *from)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, from, LEN, 0);
	return sqe;
}

int main(int argc, char **argv)
{
	uint8_t *page = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(page != MAP_FAILED);
	pair_begin(&p, argc, argv);
	target_open(&p, &t, LEN, 0);
	side_register(&p.a, local, LEN, 0);
	side_register(&p.a, page, LEN, 0);
	CHECK_EQ(pair_run(&p, &p.a, writes(local)).res, LEN); /* all that it needs is there */
	puts("ready");
	fflush(stdout);
	CHECK_EQ(getchar(), '\n');
	withhold(page);
	urccl_sqe_set_data64(writes(page), 0x57ac4);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	puts("stuck");
	fflush(stdout);
	for (;;)
		pause();
}
