/* SPDX-License-Identifier: Apache-2.0 */
/* Which NICs a context uses, by its settings and by where this process and its GPU are. */
#ifndef NICS_H
#define NICS_H

#include "backend/backend.h"

/* The rails of an RDMA transport, best first: config->nics, which the caller frees, or NULL where
 * the transport uses none or the settings name NICs by their place in the verbs' list, so that it
 * has to look itself. 0, or -errno with fail() text: the settings name a GPU or a file that is not
 * there. */
int nics_choose(const struct urccl_params *p, uint32_t transport, struct device_config *config);

/* The settings name the transport's NICs, one by one or by how their names begin. */
int nics_are_named(const struct urccl_params *p, uint32_t transport);

/* Lines: the NICs near this process or its GPU and why, then in short those of each GPU and each
 * NUMA node; snprintf's way. Reads the machine anew. */
int nics_text(const struct urccl_params *p, char *buf, size_t len);

#endif
