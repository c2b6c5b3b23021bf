/* SPDX-License-Identifier: Apache-2.0 */
/* What registering costs. */
#ifndef URCCL_PERF_REGISTER_H
#define URCCL_PERF_REGISTER_H

#include "options.h"

/* o->tensors tensors of o->size bytes: as one pool, as one region, as a region each, by calls and
 * by entries; and addresses that nobody has touched. No peer. */
void register_measure(const struct options *o);

#endif
