/* SPDX-License-Identifier: Apache-2.0 */
/* A build without nvcc has no codec for GPUs. */
#include "codec/codec.h"

const void *const codec_kernels;
