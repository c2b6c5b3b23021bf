/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that calls of the program launch on its own streams. No context is needed. */
#include <stdlib.h>

#include "gpu/gpu_api.h"

struct gpu_module {
	const struct gpu_api *api;
	void *lib, *module;
	uint32_t sms;
	void *functions[];
};

/* "CUDA_ERROR_LAUNCH_FAILED" */
static const char *code_name(const struct gpu_module *m, int code)
{
	const char *name = m->api->name(m->lib, code);

	return name ? name : "unknown error";
}

static int functions_find(struct gpu_module *m, const char *const *names, uint32_t n)
{
	int code = m->api->module_enter(m->module);
	uint32_t i;

	if (code)
		return code;
	for (i = 0; i < n && !code; i++)
		code = m->api->module_function(m->module, names[i], &m->functions[i]);
	m->api->module_leave(m->module);
	return code;
}

static int module_start(struct gpu_module *m, uint32_t index, const void *image,
			const char *const *names, uint32_t n)
{
	int code = m->api->module_open(m->lib, index, image, &m->module, &m->sms), err;

	if (!code) {
		code = functions_find(m, names, n);
		if (code)
			m->api->module_close(m->module);
	}
	if (!code)
		return 0;
	err = m->api->error(code);
	if (err == -ENODEV)
		return fail(err,
			    "GPU %u is not to be had: use that GPU in this process before, for "
			    "example by cudaFree(0)",
			    index);
	return fail(err, "the kernels cannot be loaded for GPU %u: %s", index, code_name(m, code));
}

int gpu_module_open(uint32_t index, const void *image, const char *const *names, uint32_t n,
		    struct gpu_module **out)
{
	struct gpu_module *m = calloc(1, sizeof(*m) + n * sizeof(m->functions[0]));
	int err;

	if (!m)
		return fail_errno(-ENOMEM, "kernels of a GPU");
	m->api = &gpu_cuda;
	err = m->api->load(NULL, &m->lib);
	if (err) {
		free(m);
		return fail(err == -ENOENT ? -ENODEV : err, "%s",
			    err == -ENOENT ? "CUDA is not loaded: use the GPU in this process "
					     "before, for example by cudaFree(0)"
					   : "the CUDA driver is too old: CUDA 12.0 is needed");
	}
	err = module_start(m, index, image, names, n);
	if (err) {
		m->api->unload(m->lib);
		free(m);
		return err;
	}
	*out = m;
	return 0;
}

void gpu_module_close(struct gpu_module *m)
{
	m->api->module_close(m->module);
	m->api->unload(m->lib);
	free(m);
}

uint32_t gpu_module_sms(const struct gpu_module *m)
{
	return m->sms;
}

int gpu_module_launch(const struct gpu_module *m, const struct gpu_launch *launches, uint32_t n,
		      void *stream)
{
	int code = m->api->module_enter(m->module);
	uint32_t i;

	if (!code) {
		for (i = 0; i < n && !code; i++)
			code = m->api->module_launch(m->module, m->functions[launches[i].kernel],
						     &launches[i], stream);
		m->api->module_leave(m->module);
	}
	return code ? fail(m->api->error(code), "a kernel cannot be launched: %s",
			   code_name(m, code))
		    : 0;
}
