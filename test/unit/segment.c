/* SPDX-License-Identifier: Apache-2.0 */
/* The segment that a context shows: found among the process's descriptors, sealed, with the counts
 * of urccl_get_stats(); what is none is refused; without a memory file the context works all the
 * same. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/base.h"
#include "segment/segment.h"
#include "test.h"

static struct urccl *ctx;
static struct urccl_ring *ring;

/* The descriptor of the context's file, opened anew to read, or -1. */
static int find(pid_t pid)
{
	char path[300], link[64];
	struct dirent *d;
	int fd = -1;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (!dir)
		SKIP("no /proc to look for descriptors in");
	while (fd < 0 && (d = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), d->d_name, link, sizeof(link) - 1);

		link[n > 0 ? n : 0] = 0;
		if (!strncmp(link, "/memfd:" SEGMENT_PREFIX, strlen("/memfd:" SEGMENT_PREFIX)))
			fd = openat(dirfd(dir), d->d_name, O_RDONLY | O_CLOEXEC);
	}
	closedir(dir);
	return fd;
}

static void nops(uint32_t n)
{
	struct urccl_cqe *cqe;

	while (n--) {
		urccl_prep_nop(urccl_get_sqe(ring));
		urccl_submit(ring);
		CHECK_EQ(urccl_wait(ring, &cqe, NULL), 1);
		urccl_cqe_seen(ring, cqe);
	}
}

static void open_all(void)
{
	CHECK_EQ(urccl_open(NULL, &ctx), 0);
	CHECK_EQ(urccl_ring_open(ctx, NULL, &ring), 0);
}

static const char *dump(const struct segment_view *v)
{
	static char text[65536];
	int fd = memfd_create("dump", MFD_CLOEXEC);
	ssize_t n;

	CHECK(fd >= 0);
	CHECK_EQ(v ? segment_text(v, clock_ns(), fd) : urccl_dump(ctx, fd), 0);
	n = pread(fd, text, sizeof(text) - 1, 0);
	CHECK_GE(n, 1);
	text[n] = 0;
	close(fd);
	return text;
}

static void test_shown(void)
{
	struct urccl_stats own = {.size = sizeof(own)}, seen;
	struct segment_view v;
	int fd;

	open_all();
	nops(100);
	fd = find(getpid());
	CHECK(fd >= 0);
	CHECK_EQ(segment_view_open(fd, &v), 0);
	CHECK_NE(ftruncate(fd, 0), 0);
	CHECK_EQ(v.s->head.pid, (uint32_t)getpid());
	CHECK(!strcmp(v.s->head.library, urccl_version()));
	CHECK_EQ(urccl_get_stats(ctx, &own), 0);
	segment_stats(v.s, &seen);
	CHECK_EQ(seen.submitted, 100);
	CHECK_EQ(seen.completed, own.completed);
	CHECK(strstr(dump(&v), "100 submitted, 100 completed"));
	CHECK(strstr(dump(NULL), "ring 1: of 256 entries 0 unfinished"));
	urccl_close(ctx);
	/* Who has it mapped may still look. */
	segment_stats(v.s, &seen);
	CHECK_EQ(seen.submitted, 100);
	segment_view_close(&v);
	close(fd);
	CHECK_EQ(find(getpid()), -1);
}

/* Rings' entries have places of their own, also after others closed; a ring for which there is
 * none works all the same. */
static void test_rings(void)
{
	struct urccl_ring_params p = {.size = sizeof(p), .entries = 32768};
	struct urccl_ring *others[3];
	struct urccl_cqe *cqe;
	uint32_t i;

	open_all();
	for (i = 0; i < 3; i++)
		CHECK_EQ(urccl_ring_open(ctx, &p, &others[i]), 0);
	for (i = 0; i < 3; i++) {
		struct urccl_sqe *sqe = urccl_get_sqe(others[i]);

		urccl_prep_timeout(sqe, 3600 * NSEC_PER_SEC, 0, 0);
		urccl_sqe_set_data64(sqe, 0x1230 + i);
		urccl_submit(others[i]);
	}
	nops(1); /* they were taken before its CQE was posted, and are shown from then on */
	CHECK(strstr(dump(NULL), "user_data 0x1230"));
	CHECK(strstr(dump(NULL), "ring 3: of 32768 entries 1 unfinished"));
	CHECK(strstr(dump(NULL), "are not told"));
	urccl_ring_close(others[0]);
	CHECK(!strstr(dump(NULL), "user_data 0x1230"));
	CHECK_EQ(urccl_ring_open(ctx, &p, &others[0]), 0);
	urccl_prep_timeout(urccl_get_sqe(others[0]), 1, 0, 0);
	urccl_submit(others[0]);
	CHECK_EQ(urccl_wait(others[0], &cqe, NULL), 1);
	CHECK_EQ(cqe->res, -ETIME);
	urccl_close(ctx);
}

static void test_strangers(void)
{
	static const char junk[sizeof(struct segment_head)] = "no segment";
	struct segment_view v;
	int fd = memfd_create(SEGMENT_PREFIX "1", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct segment_head h = {.magic = SEGMENT_MAGIC, .version = SEGMENT_VERSION + 1};

	CHECK(fd >= 0);
	CHECK_EQ(write(fd, junk, sizeof(junk)), sizeof(junk));
	CHECK_EQ(segment_view_open(fd, &v), -EPROTO);
	CHECK_EQ(ftruncate(fd, sizeof(struct segment)), 0);
	CHECK_EQ(segment_view_open(fd, &v), -EPROTO); /* may shrink */
	CHECK_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	CHECK_EQ(segment_view_open(fd, &v), -EPROTO);
	CHECK_EQ(pwrite(fd, &h, sizeof(h), 0), sizeof(h));
	CHECK_EQ(segment_view_open(fd, &v), -ENOTSUP);
	CHECK_EQ(segment_view_open(0, &v), -EPROTO);
	CHECK_EQ(segment_view_open(-1, &v), -EPROTO);
	close(fd);
}

/* Where the process may not have files of that size. */
static void test_alone(void)
{
	struct rlimit limit;
	pid_t pid = fork();
	int status;

	if (!pid) {
		CHECK_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
		limit.rlim_cur = 4096;
		CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
		open_all();
		nops(10);
		CHECK_EQ(find(getpid()), -1);
		limit.rlim_cur = limit.rlim_max; /* for the dump's own file */
		CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
		CHECK(strstr(dump(NULL), "not to be seen by other processes: no memory file"));
		CHECK(strstr(dump(NULL), "10 submitted, 10 completed"));
		urccl_close(ctx);
		test_end(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

static void test_latencies(void)
{
	static struct segment s;
	struct segment_flow *f = &s.engine.flows[2];
	static struct segment_latency l;
	uint64_t ns;
	uint32_t i;

	for (ns = 1; ns < 1ull << 60; ns = ns * 5 / 4 + 1) {
		uint64_t middle = segment_cell_ns(segment_cell(ns));

		CHECK_LE(middle, ns + ns / 16 + 1);
		CHECK_GE(middle, ns - ns / 16);
	}
	CHECK_EQ(segment_cell(0), 0);
	CHECK_LE(segment_cell(UINT64_MAX - SEGMENT_CELL_STEPS), SEGMENT_CELLS - 1);
	for (i = 0; i < 900; i++)
		f->cells[segment_cell(1000)]++;
	f->cells[segment_cell(1000000)] += 50;
	f->at_once = 50;
	segment_latency_add(&l, &s, 2);
	CHECK_EQ(segment_quantile(&l, 0.01), 0);
	CHECK_EQ(segment_quantile(&l, 0.5), segment_cell_ns(segment_cell(1000)));
	CHECK_EQ(segment_quantile(&l, 0.96), segment_cell_ns(segment_cell(1000000)));
	CHECK_EQ(segment_quantile(&l, 1), segment_cell_ns(segment_cell(1000000)));
}

int case_segment(void)
{
	test_latencies();
	test_strangers();
	test_shown();
	test_rings();
	test_alone();
	return 0;
}
