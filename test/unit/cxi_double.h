/* SPDX-License-Identifier: Apache-2.0 */
/* What the made-up libfabric of cxi_double.c was asked for, as its symbol cxi_seen. */
#ifndef CXI_DOUBLE_H
#define CXI_DOUBLE_H

#include <stddef.h>

struct cxi_seen {
	size_t tx_size, rx_size, cq_size;
	int threading; /* enum fi_threading */
	char domain[16];
};

#endif
