/* SPDX-License-Identifier: Apache-2.0 */
/* For doubles of devices of RDMA: the bytes of device memory of the stand-in, which such a device
 * reaches and a processor does not. Link with dl. */
#ifndef CUDA_VIEW_H
#define CUDA_VIEW_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* NULL: it is not of the stand-in, or not in one piece. */
static inline uint8_t *cuda_view(uint64_t addr, uint64_t len)
{
	const char *so = getenv("URCCL_TEST_CUDA_SO");
	void *cuda = so ? dlopen(so, RTLD_NOW | RTLD_NOLOAD) : NULL;
	void *found = cuda ? dlsym(cuda, "cuda_double_view") : NULL;
	unsigned char *(*view)(unsigned long addr, unsigned long len);

	if (cuda)
		dlclose(cuda); /* the program has it open */
	memcpy(&view, &found, sizeof(view));
	return found ? view(addr, len) : NULL;
}

#endif
