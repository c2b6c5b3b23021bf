/* SPDX-License-Identifier: Apache-2.0 */
/* No file descriptors left, at any point of opening, dialling, accepting and allocating: an error
 * with a sentence, nothing leaked, no wait without end, and all is well once there are some. */
#include <dirent.h>
#include <sys/resource.h>
#include "meet.h"

#define SOME 64u

static struct pair p;
static struct rlimit normal;

/* One above the highest that is open. */
static uint32_t highest_fd(uint32_t *n)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	uint32_t top = 0;

	CHECK(d);
	*n = 0;
	while ((e = readdir(d))) {
		uint32_t fd = (uint32_t)atoi(e->d_name);

		*n += fd != (uint32_t)dirfd(d);
		if (fd != (uint32_t)dirfd(d) && fd > top)
			top = fd;
	}
	closedir(d);
	return top + 1;
}

/* Takes every free number below, so that the limit is exact. */
static uint32_t plug(int *plugs)
{
	uint32_t n, top = highest_fd(&n), count = 0;
	int fd;

	for (;;) {
		fd = dup(2);
		CHECK(fd >= 0);
		if ((uint32_t)fd >= top) {
			close(fd);
			return count;
		}
		CHECK_LE(count, SOME - 1);
		plugs[count++] = fd;
	}
}

static void allow(uint32_t more)
{
	struct rlimit few = normal;
	uint32_t n;

	few.rlim_cur = highest_fd(&n) + more;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
}

static void allow_all(void)
{
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &normal), 0);
}

/* 1: it opened. */
static int try_open(uint32_t more)
{
	struct urccl *ctx = NULL;
	struct urccl_ring *ring = NULL;
	uint32_t before, after;
	int rc;

	highest_fd(&before);
	allow(more);
	rc = urccl_open(&p.params, &ctx);
	if (!rc) {
		rc = urccl_ring_open(ctx, NULL, &ring);
		if (rc)
			CHECK(!ring);
	} else {
		CHECK(!ctx);
	}
	/* Providers of libfabric have words of their own for it. */
	CHECK(!rc || rc == -EMFILE || p.transport == URCCL_TRANSPORT_FABRIC);
	CHECK(!rc || strlen(urccl_errmsg()) > 10);
	urccl_ring_close(ring);
	urccl_close(ctx);
	allow_all();
	highest_fd(&after);
	CHECK_EQ(after, before);
	return !rc;
}

/* Both ends have as many left between them: a dial ends well or with a reason. */
static int64_t try_connect(uint32_t more, const uint8_t *blob, uint32_t len)
{
	struct urccl_cqe cqe;

	allow(more);
	cqe = side_dialled(&p.a, &p.b, blob, len, 700000);
	allow_all();
	if (!cqe.res)
		return 0;
	check_sentence(&p.a, &cqe, "");
	if (p.transport == URCCL_TRANSPORT_FABRIC)
		return cqe.res; /* what a provider says */
	/* None for us, or none at the peer, which may not even be able to say so. */
	CHECK(cqe.res == -EMFILE || cqe.res == -ETIMEDOUT || cqe.res == -ECONNRESET ||
	      cqe.res == -EHOSTUNREACH);
	CHECK(more || cqe.res == -EMFILE);
	return cqe.res;
}

static void connecting(void)
{
	uint8_t blob[URCCL_METADATA_MAX];
	uint32_t more, failed = 0;
	struct urccl_cqe cqe;
	int len, plugs[SOME];

	side_open(&p, &p.a);
	side_open(&p, &p.b);
	side_accept(&p.b, 1);
	side_watch(&p.b, (struct urccl_peer){0}, 2);
	len = urccl_metadata(p.b.ctx, blob, sizeof(blob));
	CHECK_GE(len, 1);
	plug(plugs);
	for (more = 0; try_connect(more, blob, (uint32_t)len); more++) {
		CHECK_LE(more, SOME);
		failed++;
	}
	CHECK_GE(failed, 1);
	cqe = side_dialled(&p.a, &p.b, blob, (uint32_t)len, 20000000);
	CHECK_EQ(cqe.res, 0);
	CHECK_EQ(side_tell(&p.a, &p.b, (uint32_t)cqe.handle, 77), 0);
	/* b may have met, and lost, those that failed. */
	do
		side_take(&p.b, &p.a, &cqe, NULL);
	while (urccl_cqe_kind(&cqe) != URCCL_KIND_NOTE);
	CHECK_EQ(cqe.tag, 77);
}

static void allocating(void)
{
	int plugs[SOME];
	void *addr = NULL;

	plug(plugs);
	allow(0);
	CHECK_EQ(urccl_alloc(p.b.ctx, 4096, &addr), -EMFILE);
	CHECK(strstr(urccl_errmsg(), "memfd"));
	allow_all();
	CHECK_EQ(urccl_alloc(p.b.ctx, 4096, &addr), 0);
	CHECK_EQ(urccl_free(p.b.ctx, addr), 0);
}

int main(int argc, char **argv)
{
	int plugs[SOME];
	uint32_t more, i, n;

	close_range(3, ~0u, 0); /* what the caller left open */
	pair_options(&p, argc, argv);
	pair_sim(&p);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &normal), 0);
	n = plug(plugs);
	for (more = 0; !try_open(more); more++)
		CHECK_LE(more, SOME);
	CHECK_GE(more, 4);
	for (i = 0; i < n; i++)
		close(plugs[i]);
	connecting();
	allocating();
	pair_close(&p);
	return 0;
}
