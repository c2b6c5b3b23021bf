/* SPDX-License-Identifier: Apache-2.0 */
/* The two ranks of benchmark_remote, and the socket by which they find each other. */
#ifndef BENCH_GPU_REMOTE_H
#define BENCH_GPU_REMOTE_H

#include <string>
#include <sys/types.h>
#include "flow.h"

struct remote_options {
	int rank, self, host, gpu, port;
	pid_t peer; /* with self, at rank 0 */
	const char *address, *transport;
	uint32_t lanes, len, window;
	uint64_t messages;
	std::string parts; /* ",check,ping," */
};

struct remote_link {
	struct end end;
	uint32_t deadline_ms;
	struct urccl_remote remote, counters; /* the peer's memory and words */
	char *local, *memory;		      /* what is sent from, and what the peer writes to */
	uint64_t *arrived;
	int fd;
};

void options_read(struct remote_options *o, int argc, char **argv);
/* Starts this program again, with the same options, as that rank; it ends with this one. */
pid_t rank_start(char **argv, int rank);
void link_open(struct remote_link *s, struct remote_options *o);
/* Both ranks have come to it. */
void link_barrier(struct remote_link *s);
void link_close(struct remote_link *s);

#endif
