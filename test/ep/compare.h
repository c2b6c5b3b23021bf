/* SPDX-License-Identifier: Apache-2.0 */
/* Comparison of device memory with the reference. A difference is printed with its place, and the
 * test goes on: one run shows all of them. */
#ifndef EP_COMPARE_H
#define EP_COMPARE_H

#include "gpu.h"

/* The differences so far. */
extern unsigned long compare_differences;

/* Compares n elements of "size" bytes. "what" and the arguments after it name them. */
__attribute__((format(printf, 5, 6))) void compare(const void *device, const void *expected,
						   size_t size, size_t n, const char *what, ...);

/* Prints the status of ranks whose kernels have failed; returns their number. */
int compare_status(struct gpu_group *g, const char *what);

#endif
