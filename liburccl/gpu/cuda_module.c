/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that the program launches on its own streams, in the GPU's primary context. */
#include <stdlib.h>

#include "gpu/cuda_driver.h"

struct cuda_module {
	const struct cuda *cuda;
	void *ctx, *module;
	int device;
};

int cuda_module_enter(void *module)
{
	const struct cuda_module *m = module;

	return m->cuda->CtxPushCurrent(m->ctx);
}

void cuda_module_leave(void *module)
{
	const struct cuda_module *m = module;
	void *old;

	(void)m->cuda->CtxPopCurrent(&old);
}

static int module_load(struct cuda_module *m, const void *image)
{
	int code = cuda_module_enter(m);

	if (code)
		return code;
	code = m->cuda->ModuleLoadData(&m->module, image);
	cuda_module_leave(m);
	return code;
}

int cuda_module_open(void *lib, uint32_t index, const void *image, void **module, uint32_t *sms)
{
	struct cuda_module *m = calloc(1, sizeof(*m));
	struct cuda *cuda = lib;
	int code, value = 0;

	if (!m)
		return CUDA_OUT_OF_MEMORY;
	m->cuda = cuda;
	code = cuda->DeviceGet(&m->device, (int)index);
	if (code == CUDA_NOT_INITIALIZED)
		code = CUDA_NO_DEVICE;
	if (!code)
		code = cuda->DeviceGetAttribute(&value, CUDA_MULTIPROCESSORS, m->device);
	if (!code)
		code = cuda_primary(cuda, m->device, &m->ctx);
	if (!code && !m->ctx)
		code = CUDA_NO_DEVICE;
	if (code) {
		free(m);
		return code;
	}
	code = module_load(m, image);
	if (code) {
		(void)cuda->DevicePrimaryCtxRelease(m->device);
		free(m);
		return code;
	}
	*sms = (uint32_t)value;
	*module = m;
	return 0;
}

void cuda_module_close(void *module)
{
	struct cuda_module *m = module;

	if (!cuda_module_enter(m)) {
		(void)m->cuda->ModuleUnload(m->module);
		cuda_module_leave(m);
	}
	(void)m->cuda->DevicePrimaryCtxRelease(m->device);
	free(m);
}

int cuda_module_function(void *module, const char *name, void **function)
{
	const struct cuda_module *m = module;

	return m->cuda->ModuleGetFunction(function, m->module, name);
}

int cuda_module_launch(void *module, void *function, const struct gpu_launch *launch, void *stream)
{
	const struct cuda_module *m = module;
	void *params[] = {launch->args};

	return m->cuda->LaunchKernel(function, launch->blocks, 1, 1, launch->threads, 1, 1,
				     launch->shared, stream, params, NULL);
}
