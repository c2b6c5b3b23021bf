/* SPDX-License-Identifier: Apache-2.0 */
/* One stream between two processes, and the ways to drive its two ends. */
#ifndef BENCH_RAW_TCP_H
#define BENCH_RAW_TCP_H

#include "raw.h"

#include <liburing.h>
#include <sys/types.h>

struct wire {
	int fd;
	struct io_uring ring; /* io_uring ways only */
};

/*
 * A way to send and receive. Both calls move some bytes and return how many, 0 at the stream's end.
 */
struct way {
	const char *name;
	void (*open)(struct wire *w);
	size_t (*send)(struct wire *w, const void *buf, size_t len);
	size_t (*recv)(struct wire *w, void *buf, size_t len);
};

extern const struct way way_block, way_spin, way_uring, way_uring_spin;

/*
 * fd[0] and fd[1] are the ends of a fresh loopback connection, without delay, of this congestion
 * control.
 */
void tcp_pair(int fd[2], const char *cc);

/*
 * --depth senders, of messages of --size, and one thread on the first CPU that receives, in the
 * form that --mode names. 0: it names none.
 */
int tcp_many(struct report *report, const struct raw_options *o);

#endif
