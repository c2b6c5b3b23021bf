/* SPDX-License-Identifier: Apache-2.0 */
/* What it costs to meet. */
#ifndef URCCL_PERF_HANDSHAKE_H
#define URCCL_PERF_HANDSHAKE_H

#include "options.h"

/*
 * Forks a process with one context that accepts; ours dials it and closes, so many times, one after
 * the other. Measures the rate, CONNECT's latency, and the CPU of both processes.
 */
void handshake_measure(const struct options *o);

#endif
