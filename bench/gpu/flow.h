/* SPDX-License-Identifier: Apache-2.0 */
/* Messages from kernels of one process to kernels of another: each is a WRITE and the FETCH_ADD
 * that tells of it, and each lane has a window of them. */
#ifndef BENCH_GPU_FLOW_H
#define BENCH_GPU_FLOW_H

#include "lanes.h"

/* One end of it. j.n: messages of a lane; j.span: a window of them. */
struct flow {
	struct job j;	   /* what this end pushes: messages; or acknowledgements, by j.counters */
	char *memory;	   /* of this end, in which messages arrive */
	uint64_t *arrived; /* this end's counters, which the peer adds to: a word a lane */
	uint32_t checked;  /* payloads are made, and compared */
};

/* Each starts the kernel of an end and returns; flow_wait() waits for it. */
void flow_send(const struct flow *f, uint32_t lanes, struct lane_result *out);
void flow_receive(const struct flow *f, uint32_t lanes, struct lane_result *out);
/* One lane: a message there and one back, n times. first: this end begins. */
void flow_ping(const struct flow *f, int first, uint64_t *cycles, struct lane_result *out);
/* Each lane pushes messages until its word tells of a failure, which told[lane] says then, and
 * waits for the end of all. */
void flow_until_failure(const struct flow *f, uint32_t lanes, uint32_t *told,
			struct lane_result *out);
void flow_wait(void);

#endif
