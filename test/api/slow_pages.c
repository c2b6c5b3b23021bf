/* SPDX-License-Identifier: Apache-2.0 */
/* A page that takes long to have, here by userfaultfd, stops the engine of its context meanwhile:
 * the turn is counted, a dump names the entry, and resident=check refuses such memory. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include "meet.h"

#define LEN	  4096
#define USER_DATA 0x51074

static struct pair p;
static struct target t;
static uint8_t *slow;
static int faults;

/* Gives the page 200 ms after it is needed. */
static void *giver(void *arg)
{
	struct pollfd fd = {.fd = faults, .events = POLLIN};
	struct uffdio_zeropage zero = {.range = {(uintptr_t)slow, LEN}};
	struct uffd_msg msg;

	CHECK_EQ(poll(&fd, 1, -1), 1);
	CHECK_EQ(read(faults, &msg, sizeof(msg)), sizeof(msg));
	usleep(200000);
	CHECK_EQ(ioctl(faults, UFFDIO_ZEROPAGE, &zero), 0);
	return arg;
}

static void make_slow(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register reg = {.mode = UFFDIO_REGISTER_MODE_MISSING};

	slow = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(slow != MAP_FAILED);
	faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (faults < 0 || ioctl(faults, UFFDIO_API, &api))
		SKIP("no userfaultfd(2) here");
	reg.range.start = (uintptr_t)slow;
	reg.range.len = LEN;
	CHECK_EQ(ioctl(faults, UFFDIO_REGISTER, &reg), 0);
}

static void dump_says(const char *words)
{
	char text[16384];
	int fd = memfd_create("dump", MFD_CLOEXEC);
	ssize_t n;

	CHECK(fd >= 0);
	CHECK_EQ(urccl_dump(p.a.ctx, fd), 0);
	n = pread(fd, text, sizeof(text) - 1, 0);
	CHECK_GE(n, 1);
	text[n] = 0;
	CHECK_SAYS(text, words);
	close(fd);
}

static void refused(void)
{
	struct urccl_range range = {.addr = (uintptr_t)slow, .len = LEN, .fd = -1};
	struct urccl_region region;
	struct side s;

	p.params.resident = URCCL_RESIDENT_CHECK;
	side_open(&p, &s);
	CHECK_EQ(urccl_register(s.ctx, &range, 1, 0, &region), -EACCES);
	CHECK_SAYS(urccl_errmsg(), "resident=check");
	side_close(&s);
}

int main(int argc, char **argv)
{
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	pthread_t thread;
	uint64_t until;

	make_slow();
	pair_begin(&p, argc, argv);
	refused();
	target_open(&p, &t, LEN, p.shared);
	side_register(&p.a, slow, LEN, 0);
	CHECK_EQ(pthread_create(&thread, NULL, giver, NULL), 0);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, t.remote, slow, LEN, 0);
	urccl_sqe_set_data64(sqe, USER_DATA);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	cqe = side_end(&p.a, &p.b, USER_DATA);
	CHECK_EQ(cqe.res, LEN);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	/* It is counted within a millisecond, or before a sleep. */
	for (until = now_ns() + PAIR_LATE_NS; !side_stats(&p.a).slow_turns;)
		CHECK(!is_late(until));
	dump_says("for write, user_data 0x51074");
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
