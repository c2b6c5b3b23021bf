/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that brings another liburing and links our archive: these definitions would clash at
 * link time, or be called by the library, if its own copy were not hidden.
 */
#include <liburccl.h>
#include "test.h"

int io_uring_queue_init(unsigned entries, void *ring, unsigned flags);
int io_uring_queue_init_params(unsigned entries, void *ring, void *params);
int io_uring_submit(void *ring);
int io_uring_setup(unsigned entries, void *params);
void io_uring_queue_exit(void *ring);

static int called;

int io_uring_queue_init(unsigned entries, void *ring, unsigned flags)
{
	(void)entries, (void)ring, (void)flags;
	return ++called;
}

int io_uring_queue_init_params(unsigned entries, void *ring, void *params)
{
	(void)entries, (void)ring, (void)params;
	return ++called;
}

int io_uring_submit(void *ring)
{
	(void)ring;
	return ++called;
}

int io_uring_setup(unsigned entries, void *params)
{
	(void)entries, (void)params;
	return ++called;
}

void io_uring_queue_exit(void *ring)
{
	(void)ring;
	called++;
}

int main(void)
{
	struct urccl_params p = {.size = sizeof(p)};
	struct urccl *ctx = NULL;
	int ret;

	urccl_params_init(&p);
	p.transport = "tcp";
	p.tcp_driver = URCCL_TCP_IO_URING;
	ret = urccl_open(&p, &ctx);
	if (ret) {
		/* Where io_uring is denied the clash at link time is all there is to see. */
		p.tcp_driver = URCCL_TCP_READINESS;
		ret = urccl_open(&p, &ctx);
	}
	CHECK_EQ(ret, 0);
	urccl_close(ctx);
	CHECK_EQ(called, 0);
	return 0;
}
