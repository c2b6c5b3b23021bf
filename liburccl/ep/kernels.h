/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels, as the build has compiled them. */
#ifndef EP_KERNELS_H
#define EP_KERNELS_H

enum ep_kernel {
	EP_NOTIFY,
	EP_DISPATCH,
	EP_COMBINE,
	EP_COPY,
	EP_LL_DISPATCH_SEND,
	EP_LL_DISPATCH_RECV,
	EP_LL_COMBINE_SEND,
	EP_LL_COMBINE_RECV,
	EP_KERNELS,
};

enum { EP_MODULES = 5 };

/* Machine code for compute capability 9.0; NULL in a build without nvcc. */
extern const void *const ep_modules[EP_MODULES];

#endif
