/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the io_uring driver: the ring and its buffers, or the reason why it fails. */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include "backend/tcp/uring.h"

#define RING_ENTRIES 512u
#define BUFFERS	     16u /* power of two */

static void *pages_map(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void pages_unmap(void *p, size_t len)
{
	if (p)
		munmap(p, len);
}

void tcp_ring_give(struct tcp_ring *r, uint32_t id)
{
	io_uring_buf_ring_add(r->buffers, r->staging + (size_t)id * BUFFER_BYTES, BUFFER_BYTES,
			      (unsigned short)id, io_uring_buf_ring_mask(BUFFERS), 0);
	io_uring_buf_ring_advance(r->buffers, 1);
}

static int open_buffers(struct tcp_ring *r)
{
	struct io_uring_buf_reg reg = {.ring_entries = BUFFERS, .bgid = BUFFER_GROUP};
	uint32_t i;
	int rc;

	r->buffers = pages_map(BUFFERS * sizeof(struct io_uring_buf));
	r->staging = pages_map((size_t)BUFFERS * BUFFER_BYTES);
	r->gathers = pages_map(GATHERS * sizeof(*r->gathers));
	if (!r->buffers || !r->staging || !r->gathers)
		return -ENOMEM;
	reg.ring_addr = (uintptr_t)r->buffers;
	rc = io_uring_register_buf_ring(&r->uring, &reg, 0);
	if (rc)
		return rc;
	io_uring_buf_ring_init(r->buffers);
	for (i = 0; i < BUFFERS; i++)
		tcp_ring_give(r, i);
	for (i = 0; i < GATHERS; i++)
		r->free[r->nfree++] = &r->gathers[i];
	return 0;
}

/* A flag announces deferred task work. The thread of an INLINE context is the program's:
 * DEFER_TASKRUN never interrupts its system calls, but binds the ring to that thread. */
static int open_ring(struct tcp_device *d, struct tcp_ring *r)
{
	struct io_uring_params p = {.flags = IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_CLAMP};

	p.flags |= IORING_SETUP_CQSIZE;
	p.cq_entries = 8 * RING_ENTRIES;
	if (d->is_inline)
		p.flags |= IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
			   IORING_SETUP_R_DISABLED;
	else
		p.flags |= IORING_SETUP_COOP_TASKRUN;
	r->enabled = !d->is_inline;
	return io_uring_queue_init_params(RING_ENTRIES, &r->uring, &p);
}

void tcp_ring_close(struct tcp_device *d)
{
	struct tcp_ring *r = d->ring;

	io_uring_queue_exit(&r->uring);
	pages_unmap(r->buffers, BUFFERS * sizeof(struct io_uring_buf));
	pages_unmap(r->staging, (size_t)BUFFERS * BUFFER_BYTES);
	pages_unmap(r->gathers, GATHERS * sizeof(*r->gathers));
	free(r);
	d->ring = NULL;
}

static unsigned long long limit_of(int resource)
{
	struct rlimit lim = {0};

	getrlimit(resource, &lim);
	return lim.rlim_cur;
}

/* Reports why the kernel refused the ring, and how to fix that. */
static int ring_refused(int rc)
{
	switch (rc) {
	case -ENOMEM:
		return fail(rc,
			    "tcp_driver io_uring: no memory for its queues, or more than may "
			    "be locked: RLIMIT_MEMLOCK is %llu KiB (ulimit -l, LimitMEMLOCK=)",
			    limit_of(RLIMIT_MEMLOCK) / 1024);
	case -EMFILE:
		return fail(rc,
			    "tcp_driver io_uring: no file descriptor left: RLIMIT_NOFILE is "
			    "%llu (ulimit -n, LimitNOFILE=)",
			    limit_of(RLIMIT_NOFILE));
	case -EPERM:
	case -EACCES:
		return fail(rc,
			    "tcp_driver io_uring: denied here, by the sysctl "
			    "kernel.io_uring_disabled or a seccomp filter, as containers have one");
	case -ENOSYS:
		return fail(rc, "tcp_driver io_uring: the kernel does not have it, or a seccomp "
				"filter says so");
	case -EINVAL:
		return fail(rc, "tcp_driver io_uring: the kernel is older than 6.1");
	default:
		return fail(rc, "tcp_driver io_uring: io_uring_setup(): %s", errno_text(-rc));
	}
}

int tcp_ring_open(struct tcp_device *d)
{
	struct tcp_ring *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return fail(-ENOMEM, "tcp: no memory for the io_uring driver");
	rc = open_ring(d, r);
	if (rc) {
		free(r);
		return ring_refused(rc);
	}
	d->ring = r;
	rc = open_buffers(r);
	if (!rc) {
		tcp_source_init(&r->source, TCP_RING, r->uring.ring_fd);
		rc = tcp_watch(d, &r->source, EPOLLIN);
	}
	if (rc) {
		tcp_ring_close(d);
		return ring_refused(rc);
	}
	return 0;
}
