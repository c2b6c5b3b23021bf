/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end that is measured against: offers memory to whoever asks, and works back where it is asked
 * to.
 */
#ifndef URCCL_PERF_SERVE_H
#define URCCL_PERF_SERVE_H

#include "options.h"

/*
 * Serves until every client has left (once) or for ever. Writes a struct whom to say_fd, if that is
 * not below 0, before the first client can come. Exits where it cannot. Several threads may serve,
 * each with a context of its own.
 */
void serve(const struct options *o, int once, int say_fd);

#endif
