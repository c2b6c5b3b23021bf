/* SPDX-License-Identifier: Apache-2.0 */
/* The io_uring driver's ring and the memory that it lends to the kernel: private to its files. */
#ifndef TCP_URING_H
#define TCP_URING_H

#include <liburing.h>
#include "backend/tcp/tcp.h"

#define GATHERS	     1024u  /* sends in flight, of all links */
#define BUFFER_BYTES 32768u /* size of a buffer; an empty stream_cq has room for one */
#define BUFFER_GROUP 0

struct tcp_ring {
	struct io_uring uring;
	struct tcp_source source; /* epoll reports completions by it */
	struct io_uring_buf_ring *buffers;
	uint32_t enabled;
	uint32_t nfree;
	struct stream_gather *free[GATHERS];
	struct stream_gather *gathers; /* GATHERS of them */
	uint8_t *staging;	       /* buffers of BUFFER_BYTES bytes */
};

/* As tcp_driver's. */
int tcp_ring_open(struct tcp_device *d);
void tcp_ring_close(struct tcp_device *d);
/* The kernel may fill the buffer again. */
void tcp_ring_give(struct tcp_ring *r, uint32_t id);

#endif
