/* SPDX-License-Identifier: Apache-2.0 */
/* A ring with a thread that takes the events of MSG_RING off it, as a second thread would. */
#ifndef URCCL_PERF_SINK_H
#define URCCL_PERF_SINK_H

#include "../common/hist.h"
#include "end.h"

struct sink;

/* Waits as the options say, but never by spinning; exits where it cannot be had. */
struct sink *sink_open(const struct options *o, struct urccl *ctx);
void sink_close(struct sink *s);

const struct urccl_ring *sink_ring(const struct sink *s);

/* How long the messages since the last mark were on their way, of those that carried a time; e
 * sends the mark, and no load runs. */
const struct hist *sink_mark(struct sink *s, struct end *e);

#endif
