/* SPDX-License-Identifier: Apache-2.0 */
/* Lists GPUs from /proc; --doctor also asks the CUDA driver. Makes no CUDA context. */
#include "info.h"

#include <dlfcn.h>
#include <glob.h>
#include <string.h>

enum { NO_DEVICE = 100, INTEGRATED = 18, FD_SHARED = 103, DMA_BUF = 124, TEXT = 64 };

/* The CUDA driver: its library, then its functions in the order of functions[]. */
struct driver {
	void *so;
	int (*init)(unsigned int flags);
	int (*version)(int *version);
	int (*count)(int *n);
	int (*name)(char *name, int len, int gpu);
	int (*pci)(char *name, int len, int gpu);
	int (*attribute)(int *value, int which, int gpu);
	int (*reaches)(int *can, int gpu, int peer);
};

static const char *const functions[] = {
	"cuInit",
	"cuDriverGetVersion",
	"cuDeviceGetCount",
	"cuDeviceGetName",
	"cuDeviceGetPCIBusId",
	"cuDeviceGetAttribute",
	"cuDeviceCanAccessPeer",
};

_Static_assert(sizeof(struct driver) == sizeof(void *) + sizeof(functions), "one for each");

/* Returns NULL, or the function that the library lacks; d->so NULL: there is no library. */
static const char *driver_load(struct driver *d, const char *so)
{
	size_t i;

	memset(d, 0, sizeof(*d));
	d->so = dlopen(so ? so : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	for (i = 0; d->so && i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *function = dlsym(d->so, functions[i]);

		if (!function)
			return functions[i];
		memcpy((char *)d + (i + 1) * sizeof(function), &function, sizeof(function));
	}
	return NULL;
}

static int attribute_value(const struct driver *d, int which, int gpu)
{
	int v;

	return d->attribute(&v, which, gpu) ? 0 : v;
}

static int count_peers(const struct driver *d, int gpu, int n)
{
	int peers = 0, peer, can;

	for (peer = 0; peer < n; peer++)
		peers += peer != gpu && !d->reaches(&can, gpu, peer) && can;
	return peers;
}

static void describe(struct finding *f, const struct driver *d, int gpu, int n)
{
	int version = 0, peers = count_peers(d, gpu, n), fds = attribute_value(d, FD_SHARED, gpu);
	int dmabuf = attribute_value(d, DMA_BUF, gpu),
	    handles = !attribute_value(d, INTEGRATED, gpu);
	char name[TEXT] = "?", pci[TEXT] = "?";

	d->version(&version);
	d->name(name, sizeof(name), gpu);
	d->pci(pci, sizeof(pci), gpu);
	finding_set(
		f, dmabuf && (n < 2 || peers) && (handles || fds) ? HEALTH_OK : HEALTH_NOTE,
		"GPU %d %s %s: driver %d.%d; kernels: none, copy engines move the bytes; shared by "
		"%s%s%s; %s; peers %d",
		gpu, pci, name, version / 1000, version % 1000 / 10,
		handles ? "legacy handles"
		: fds	? ""
			: "nothing",
		handles && fds ? ", " : "", fds ? "fd" : "", dmabuf ? "dma-buf" : "no dma-buf",
		peers);
	if (!dmabuf)
		advise(f, "NICs do not reach its memory: copies go through staging memory; dma-buf "
			  "needs the open kernel modules of NVIDIA's driver");
	if (n > 1 && !peers)
		advise(f, "it reaches no other GPU: entries between them end with EOPNOTSUPP; see "
			  "nvidia-smi topo -p2p r");
	if (!handles && !fds)
		advise(f, "other processes do not reach its memory: move it from here");
}

static size_t count_nodes(struct finding *f)
{
	size_t n = 0;
	glob_t g;

	if (!glob(path_under(f, "/dev/nvidia[0-9]*"), 0, NULL, &g)) {
		n = g.gl_pathc;
		globfree(&g);
	}
	return n;
}

static void no_driver(struct finding *f)
{
	const char *why = dlerror();
	size_t n = count_nodes(f);

	finding_set(f, HEALTH_NOTE, "%zu GPUs in /dev, no CUDA driver: %s", n, why ? why : "?");
	if (n)
		advise(f, "a container needs libcuda.so.1 of the host: --gpus all and "
			  "NVIDIA_DRIVER_CAPABILITIES=compute, or set cuda_so");
	else
		advise(f, "only memory of GPUs needs one");
}

int check_gpu(struct finding *f, int gpu)
{
	struct driver d;
	const char *lacks = driver_load(&d, f->params->cuda_so);
	int error, n = 0;

	if (!d.so) {
		no_driver(f);
		return 0;
	}
	if (lacks) {
		finding_set(f, HEALTH_WRONG, "the CUDA driver has no %s", lacks);
		advise(f, "it is too old: update NVIDIA's driver");
		return 0;
	}
	error = d.init(0);
	error = error ? error : d.count(&n);
	if (!error && n) {
		describe(f, &d, gpu, n);
		return n;
	}
	if (!error || error == NO_DEVICE) {
		finding_set(f, HEALTH_NOTE, "the CUDA driver is there, and no GPU");
		advise(f, "only memory of GPUs needs one; a container needs --gpus all");
		return 0;
	}
	finding_set(f, HEALTH_WRONG, "CUDA does not start: error %d", error);
	advise(f,
	       "nvidia-smi says more; after an update of the driver its modules are loaded anew");
	return 0;
}

/* ---- without CUDA ---- */

static void show_gpu(const char *folder, struct json *j)
{
	const char *pci = strrchr(folder, '/') + 1;
	char path[512], name[TEXT];

	snprintf(path, sizeof(path), "%s/information", folder);
	if (read_field(path, "Model", name, sizeof(name)))
		snprintf(name, sizeof(name), "unknown");
	if (!j) {
		printf("  %-16s %s\n", pci, name);
		return;
	}
	json_open(j, NULL, '{');
	json_text(j, "pci", pci);
	json_text(j, "name", name);
	json_close(j, '}');
}

void show_gpus(struct json *j)
{
	size_t i;
	glob_t g;

	if (glob("/proc/driver/nvidia/gpus/*", 0, NULL, &g))
		g.gl_pathc = 0;
	if (j)
		json_open(j, "gpus", '[');
	else if (g.gl_pathc)
		printf("\nGPUs (--doctor asks CUDA how their memory is reached)\n");
	for (i = 0; i < g.gl_pathc; i++)
		show_gpu(g.gl_pathv[i], j);
	if (j)
		json_close(j, ']');
	globfree(&g);
}
