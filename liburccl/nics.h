/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses a context's NICs by its settings and the location of this process and its GPU. */
#ifndef NICS_H
#define NICS_H

#include "backend/backend.h"

/* Sets config->nics, which the caller frees, to the rails of an RDMA transport in the machine's
 * order. NULL: the transport uses none, or must find them itself: the settings name them by index
 * in the verbs' list. 0, or -errno with fail() text: the settings name a GPU or a file that does
 * not exist. */
int nics_choose(const struct urccl_params *p, uint32_t transport, struct device_config *config);

/* 1: the settings name the transport's NICs, by name or prefix. */
int nics_are_named(const struct urccl_params *p, uint32_t transport);

/* Writes lines: the NICs near this process or its GPU and why, then, in short, near each GPU and
 * NUMA node. Returns the length as snprintf() does. Reads the topology anew. */
int nics_text(const struct urccl_params *p, char *buf, size_t len);

#endif
