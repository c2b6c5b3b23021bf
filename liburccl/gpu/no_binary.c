/* SPDX-License-Identifier: Apache-2.0 */
/* A build without nvcc has the kernels as PTX alone. */
#include "gpu/cuda_driver.h"

const void *const cuda_gather_binary;
