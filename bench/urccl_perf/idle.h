/* SPDX-License-Identifier: Apache-2.0 */
/* What connected peers cost that say nothing. */
#ifndef URCCL_PERF_IDLE_H
#define URCCL_PERF_IDLE_H

#include "options.h"

/*
 * Forks a process with so many contexts that dial one of ours, waits until all are there, then
 * sleeps for the duration. Measures our context alone: its CPU, its memory, its wake-ups.
 */
void idle_measure(const struct options *o);

#endif
