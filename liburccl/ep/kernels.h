/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels, as the build has compiled them. */
#ifndef EP_KERNELS_H
#define EP_KERNELS_H

enum ep_kernel {
	EP_KERNEL_NOTIFY,
	EP_KERNEL_DISPATCH,
	EP_KERNEL_COMBINE,
	EP_KERNEL_COPY,
	EP_KERNEL_LL_DISPATCH,
	EP_KERNEL_LL_COMBINE,
	EP_KERNELS,
};

enum { EP_MODULES = 5 };

/* PTX for compute capability 9.0 and later; a build with nvcc adds machine code for 9.0. */
extern const void *const ep_modules[EP_MODULES];

#endif
