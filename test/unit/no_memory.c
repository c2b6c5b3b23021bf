/* SPDX-License-Identifier: Apache-2.0 */
/* Of the allocations, mappings and threads that two contexts make to open, connect, register,
 * import and write, each in its turn fails, and of descriptors there are none, one, two, ...: what
 * fails says so by the right code and a sentence, what is left can be closed, and no descriptor is
 * lost. */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "control_rig.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_MALLOC 0
#else
#define OWN_MALLOC 1
#endif

static int64_t countdown; /* those that succeed; below 0: all do */

#if OWN_MALLOC
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

static int (*real_create)(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);

static int allowed(void)
{
	return __atomic_sub_fetch(&countdown, 1, __ATOMIC_RELAXED) != 0;
}

void *malloc(size_t size)
{
	return allowed() ? __libc_malloc(size) : NULL;
}

void *calloc(size_t n, size_t size)
{
	return allowed() ? __libc_calloc(n, size) : NULL;
}

void *realloc(void *p, size_t size)
{
	return allowed() ? __libc_realloc(p, size) : NULL;
}

void *aligned_alloc(size_t align, size_t size)
{
	return allowed() ? __libc_memalign(align, size) : NULL;
}

void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
	if (allowed())
		return (void *)syscall(SYS_mmap, at, len, prot, flags, fd, off);
	errno = ENOMEM;
	return MAP_FAILED;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	return allowed() ? real_create(thread, attr, run, arg) : EAGAIN;
}
#endif

static char from[256], to[256];

/* ---- what may be said of it ---- */

static int no_descriptors; /* else no memory, or no thread */

static int ran_out(int64_t res)
{
	if (no_descriptors)
		return res == -EMFILE;
	return res == -ENOMEM || res == -EAGAIN;
}

/* It ran out here, as a call said. */
static int said(int res)
{
	if (!ran_out(res))
		fprintf(stderr, "%d: %s\n", res, urccl_errmsg());
	CHECK(ran_out(res));
	CHECK_GE(strlen(urccl_errmsg()), 10);
	return 0;
}

/* Or at the other end, which may have been left without a word for us. */
static int64_t is_reason(struct side *s, const struct urccl_cqe *cqe)
{
	char text[512];

	CHECK_GE(urccl_explain(s->ctx, cqe, text, sizeof(text)), 10);
	if (ran_out(cqe->res) || cqe->res == -ETIMEDOUT || cqe->res == -ECONNRESET ||
	    cqe->res == -ECONNREFUSED || cqe->res == -EHOSTUNREACH || cqe->res == -EREMOTEIO)
		return cqe->res;
	fprintf(stderr, "%lld: %s\n", (long long)cqe->res, text);
	CHECK(!"a code that says what happened");
	return 0;
}

/* ---- all of it ---- */

static int opened(struct side *s, const struct urccl_params *p)
{
	int rc;

	memset(s, 0, sizeof(*s));
	rc = urccl_open(p, &s->ctx);
	if (rc)
		return said(rc);
	rc = urccl_ring_open(s->ctx, NULL, &s->ring);
	if (rc) {
		said(rc);
		urccl_close(s->ctx);
		return 0;
	}
	rc = urccl_metadata(s->ctx, s->blob, sizeof(s->blob));
	CHECK(rc > 0);
	s->blob_len = (uint32_t)rc;
	return 1;
}

static int registered(struct side *s, char *mem, uint32_t rights, struct urccl_region *region)
{
	struct urccl_range r = {.addr = (uint64_t)(uintptr_t)mem, .len = sizeof(from), .fd = -1};
	int rc = urccl_register(s->ctx, &r, 1, rights, region);

	return rc ? said(rc) : 1;
}

/* Where something fails others wait for it in vain. */
#define VAIN_US 500000u
#define REAL_US 10000000u
static uint32_t patience_us;

static int64_t outcome(struct side *s, uint64_t data, struct urccl_cqe *cqe)
{
	do
		*cqe = side_next(s);
	while (cqe->user_data != data || (cqe->flags & URCCL_CQE_MORE));
	return cqe->res < 0 ? is_reason(s, cqe) : cqe->res;
}

static int moved(struct side *a, struct side *b)
{
	struct urccl_region local, region;
	struct urccl_advert advert;
	struct urccl_remote remote;
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	int rc;

	if (!registered(a, from, 0, &local) || !registered(b, to, URCCL_RIGHT_WRITE, &region))
		return 0;
	rc = urccl_advertise(b->ctx, region, 0, sizeof(to), URCCL_RIGHT_WRITE, 0, &advert);
	if (rc)
		return said(rc);
	side_accept(b, 1);
	side_connect(a, b->blob, b->blob_len, patience_us, 2);
	if (outcome(a, 2, &cqe))
		return 0;
	rc = urccl_import(a->ctx, (struct urccl_peer){(uint32_t)cqe.handle}, &advert, 1, &remote);
	if (rc)
		return said(rc);
	sqe = urccl_get_sqe(a->ring);
	urccl_prep_write(sqe, remote, from, sizeof(from), 0);
	urccl_sqe_set_deadline_us(sqe, patience_us);
	urccl_sqe_set_data64(sqe, 3);
	CHECK_EQ(urccl_submit(a->ring), 1);
	if (outcome(a, 3, &cqe) < 0)
		return 0;
	return 1;
}

static int scenario(const char *transport, uint32_t us)
{
	struct urccl_params p = rig_params();
	struct side a, b;
	int done = 0;

	patience_us = us;

	p.transport = transport;
	memset(from, 7, sizeof(from));
	memset(to, 0, sizeof(to));
	if (!opened(&a, &p))
		return 0;
	if (opened(&b, &p)) {
		done = moved(&a, &b);
		side_close(&b);
	}
	side_close(&a);
	/* Only now: ThreadSanitizer does not see that the bytes came before the CQE, by a ring that
	 * is mapped twice. */
	CHECK(!done || !memcmp(from, to, sizeof(from)));
	return done;
}

static int lowest_free(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

static void each_allocation(const char *transport)
{
	int free_fd, done = 0;
	int64_t n;

	CHECK(scenario(transport, REAL_US));
	free_fd = lowest_free();
	/* Some failures do no harm: the end is where there is nothing left to fail. */
	for (n = 1; n < 1000; n++) {
		__atomic_store_n(&countdown, n, __ATOMIC_RELAXED);
		done = scenario(transport, VAIN_US);
		if (__atomic_exchange_n(&countdown, 0, __ATOMIC_RELAXED) > 0)
			break;
		CHECK_EQ(lowest_free(), free_fd);
	}
	/* It may only have been late. */
	done = done || scenario(transport, REAL_US);
	CHECK(done && n > 10);
}

static void each_descriptor(const char *transport)
{
	int free_fd = lowest_free(), done = 0, n;
	struct rlimit old, few;

	no_descriptors = 1;
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	for (n = 0; n < 100 && !done; n++) {
		few.rlim_cur = (rlim_t)(free_fd + n);
		CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
		done = scenario(transport, VAIN_US);
		CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
		CHECK_EQ(lowest_free(), free_fd);
	}
	CHECK(done && n > 5);
	no_descriptors = 0;
}

int main(void)
{
#if OWN_MALLOC
	real_create = (__typeof__(real_create))dlsym(RTLD_NEXT, "pthread_create");
	CHECK(real_create);
#endif
	each_descriptor("tcp");
	each_descriptor("shm");
	if (!OWN_MALLOC)
		SKIP("a sanitizer has the allocations");
	each_allocation("tcp");
	each_allocation("shm");
	return 0;
}
