/* SPDX-License-Identifier: Apache-2.0 */
/* Opening fails with a reason and leaves nothing behind, wherever it fails; closing leaves nothing
 * either. */
#include <dirent.h>
#include <string.h>
#include <sys/resource.h>

#include <liburccl.h>
#include "test.h"

static int count_dir(const char *path)
{
	DIR *dir = opendir(path);
	int n = 0;

	if (!dir)
		SKIP("no /proc to count descriptors and threads in");
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static int fds(void)
{
	return count_dir("/proc/self/fd");
}

static struct urccl_params fresh(void)
{
	struct urccl_params p = {.size = sizeof(p)};

	urccl_params_init(&p);
	return p;
}

static void refused(const struct urccl_params *p, int err, const char *words)
{
	struct urccl *ctx = (void *)&words;
	int before = fds();

	CHECK_EQ(urccl_open(p, &ctx), err);
	CHECK(ctx == (void *)&words);
	CHECK_SAYS(urccl_errmsg(), words);
	CHECK_EQ(fds(), before);
}

static void test_reasons(void)
{
	struct urccl_params p = fresh();

	p.transport = "nccl";
	refused(&p, -EOPNOTSUPP, "transport nccl");
	p.transport = "tcp,nccl";
	refused(&p, -EOPNOTSUPP, "transport nccl");
	p.transport = "tcp";
	p.listen = "192.0.2.1:0"; /* a documentation address is nobody's */
	refused(&p, -EADDRNOTAVAIL, "listen");
	p.listen = NULL;
	p.tcp_congestion = "no such thing";
	refused(&p, -ENOENT, "no such thing");
}

static void test_nothing_left(void)
{
	int before, threads, i;
	struct urccl *ctx;

	/* Once for what libc and sanitizers keep. */
	CHECK_EQ(urccl_open(NULL, &ctx), 0);
	urccl_close(ctx);
	before = fds();
	threads = count_dir("/proc/self/task");
	for (i = 0; i < 20; i++) {
		struct urccl_ring *ring;

		CHECK_EQ(urccl_open(NULL, &ctx), 0);
		CHECK_EQ(urccl_ring_open(ctx, NULL, &ring), 0);
		if (i % 2)
			urccl_ring_close(ring);
		urccl_close(ctx);
	}
	urccl_close(NULL);
	urccl_ring_close(NULL);
	CHECK_EQ(fds(), before);
	/* One that was joined is listed until the kernel is done with it. */
	for (i = 0; i < 1000 && count_dir("/proc/self/task") > threads; i++)
		usleep(10000);
	CHECK_LE(count_dir("/proc/self/task"), threads);
}

/* With n descriptors to spare, for every n until it opens. */
static void test_no_descriptors(void)
{
	struct rlimit old, few;
	struct urccl *ctx = NULL;
	int before = fds(), n, err = -1, failed = 0;
	struct urccl_params p = fresh();

	p.transport = "shm,tcp";
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
	for (n = 3; err && n < 100; n++) {
		few = old;
		few.rlim_cur = (rlim_t)n;
		CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
		err = urccl_open(&p, &ctx);
		CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
		if (err) {
			failed++;
			CHECK_EQ(err, -EMFILE);
			CHECK(*urccl_errmsg());
			CHECK_EQ(fds(), before);
		}
	}
	CHECK_EQ(err, 0);
	CHECK_GE(failed, 5);
	urccl_close(ctx);
	CHECK_EQ(fds(), before);
}

int case_context_open(void)
{
	test_nothing_left();
	test_reasons();
	test_no_descriptors();
	return 0;
}
