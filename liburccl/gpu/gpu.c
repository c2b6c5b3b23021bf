/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts and their GPUs, and the calls that may block. */
#include <stdlib.h>
#include <unistd.h>

#include "gpu/private.h"

int gpu_open(const struct gpu_config *config, struct gpu **out)
{
	struct gpu *g = calloc(1, sizeof(*g));

	if (!g)
		return -ENOMEM;
	g->config = *config;
	g->api = &gpu_cuda;
	pthread_mutex_init(&g->lock, NULL);
	*out = g;
	return 0;
}

/* The vendor's library, or NULL. */
static void *lib_find(struct gpu *g)
{
	void *lib = load_acquire(&g->lib);

	if (lib)
		return lib;
	pthread_mutex_lock(&g->lock);
	if (!g->lib && !g->api->load(g->config.so, &lib))
		store_release(&g->lib, lib);
	lib = g->lib;
	pthread_mutex_unlock(&g->lock);
	return lib;
}

int gpu_pointer_info(struct gpu *g, uint64_t addr, uint64_t len, struct gpu_pointer *out)
{
	void *lib = g ? lib_find(g) : NULL;

	*out = (struct gpu_pointer){.kind = GPU_MEMORY_HOST, .base = addr, .end = addr + len};
	if (!lib)
		return 0;
	out->code = g->api->pointer(lib, addr, len, out);
	return g->api->error(out->code);
}

const char *gpu_code_name(const struct gpu *g, int code)
{
	void *lib = load_acquire(&g->lib);
	const char *name = lib ? g->api->name(lib, code) : NULL;

	return name ? name : "unknown error";
}

/* ---- GPUs ---- */

static struct gpu_dev *dev_new(struct gpu *g)
{
	struct gpu_dev *dev = aligned_alloc(64, sizeof(*dev));
	int fd = dev ? wake_open() : -1;

	if (fd < 0) {
		free(dev);
		return NULL;
	}
	memset(dev, 0, sizeof(*dev));
	dev->api = g->api;
	dev->lib = g->lib;
	mailbox_init(&dev->box, fd);
	return dev;
}

static void dev_free(struct gpu_dev *dev)
{
	close(dev->box.fd);
	free(dev);
}

/* Lanes and thread of a GPU whose context is open. */
static int dev_start(struct gpu *g, struct gpu_dev *dev, int *code)
{
	int err;

	*code = dev->api->enter(dev->ctx);
	if (*code)
		return dev->api->error(*code);
	*code = lanes_open(dev);
	err = dev->api->error(*code);
	if (!err && g->config.by_hand)
		kernels_open(dev);
	else if (!err)
		err = copy_thread_start(dev, &g->config);
	if (err && !*code)
		lanes_close(dev);
	dev->api->leave(dev->ctx);
	return err;
}

static int dev_open(struct gpu *g, uint32_t index, int *code)
{
	struct gpu_dev *dev = dev_new(g);
	int err;

	if (!dev)
		return -ENOMEM;
	*code = g->api->open(g->lib, index, &dev->about, &dev->ctx);
	err = *code ? g->api->error(*code) : dev->ctx ? 0 : -ENODEV;
	if (err)
		goto fail_open;
	dev->sms = g->config.sms < 0 ? GPU_SMS : (uint32_t)g->config.sms;
	if (dev->sms > dev->about.multiprocessors)
		dev->sms = dev->about.multiprocessors;
	if (dev->sms > GPU_SMS_MOST)
		dev->sms = GPU_SMS_MOST;
	err = dev_start(g, dev, code);
	if (err)
		goto fail_start;
	store_release(&g->devs[index], dev);
	return 0;

fail_start:
	dev->api->close(dev->ctx);
fail_open:
	dev_free(dev);
	return err;
}

int gpu_dev_get(struct gpu *g, uint32_t index, struct gpu_dev **out, int *code)
{
	int err = 0;

	*code = 0;
	if (index >= GPUS_MAX || !lib_find(g))
		return -ENODEV;
	pthread_mutex_lock(&g->lock);
	if (!g->devs[index])
		err = dev_open(g, index, code);
	pthread_mutex_unlock(&g->lock);
	*out = err ? NULL : g->devs[index];
	return err;
}

int gpu_is_loaded(const char *so)
{
	void *lib;

	if (gpu_cuda.load(so, &lib))
		return 0;
	gpu_cuda.unload(lib);
	return 1;
}

struct gpu_dev *gpu_dev_find(struct gpu *g, uint32_t index)
{
	return index < GPUS_MAX ? load_acquire(&g->devs[index]) : NULL;
}

struct gpu_dev *gpu_dev_any(struct gpu *g)
{
	struct gpu_dev *dev, *any = NULL;
	uint32_t i;

	for (i = 0; g && i < GPUS_MAX; i++) {
		dev = load_acquire(&g->devs[i]);
		if (dev && (!any || gpu_dev_code(any)))
			any = dev;
	}
	return any;
}

struct gpu_table *gpu_table(const struct gpu_dev *dev, enum gpu_kind kind)
{
	return &dev->tables[kind == GPU_QUERY_EVENTS];
}

const struct gpu_about *gpu_about(const struct gpu_dev *dev)
{
	return &dev->about;
}

int gpu_dev_code(const struct gpu_dev *dev)
{
	return load_acquire(&dev->code);
}

/* ---- calls that a helper thread makes in the GPU's context ---- */

static int dev_enter(struct gpu_dev *dev, int *code)
{
	*code = dev->api->enter(dev->ctx);
	return dev->api->error(*code);
}

static int dev_leave(struct gpu_dev *dev, int code)
{
	dev->api->leave(dev->ctx);
	return dev->api->error(code);
}

int gpu_host_register(struct gpu_dev *dev, uint64_t addr, uint64_t len, int *code)
{
	int err = dev_enter(dev, code);

	if (err)
		return err;
	*code = dev->api->host_register(dev->ctx, addr, len);
	return dev_leave(dev, *code);
}

int gpu_host_unregister(struct gpu_dev *dev, uint64_t addr, int *code)
{
	int err = dev_enter(dev, code);

	if (err)
		return err;
	*code = dev->api->host_unregister(dev->ctx, addr);
	return dev_leave(dev, *code);
}

int gpu_export(struct gpu_dev *dev, uint64_t addr, struct gpu_share *out, int *code)
{
	int err = dev_enter(dev, code);

	if (err)
		return err;
	*out = (struct gpu_share){.fd = -1};
	memcpy(out->uuid, dev->about.uuid, sizeof(out->uuid));
	*code = dev->api->export_memory(dev->ctx, addr, out);
	return dev_leave(dev, *code);
}

int gpu_dmabuf(struct gpu_dev *dev, uint64_t addr, uint64_t len, int *fd)
{
	int code, err = dev->about.dmabufs ? dev_enter(dev, &code) : -EOPNOTSUPP;

	if (err)
		return err;
	code = dev->api->dmabuf(dev->ctx, addr, len, fd);
	return dev_leave(dev, code);
}

/* ---- by hand ---- */

static int dev_step(struct gpu_dev *dev)
{
	uint64_t start = clock_ns(), now = start;
	int entered;

	if (!copy_busy(dev) && !load_relaxed(&dev->imports))
		return 0;
	entered = copy_enter(dev);
	copy_turn(dev, now);
	while (copy_busy(dev) && now - start < (dev->is_late ? 0 : GPU_CLOSE_NS)) {
		cpu_relax();
		now = clock_ns();
		copy_turn(dev, now);
	}
	dev->is_late = copy_busy(dev);
	if (entered)
		dev->api->leave(dev->ctx);
	return 1;
}

int gpu_step(struct gpu *g)
{
	int some = 0;
	uint32_t i;

	for (i = 0; i < GPUS_MAX; i++)
		if (g->devs[i])
			some |= dev_step(g->devs[i]);
	return some;
}

/* ---- close ---- */

static void dev_close_begin(struct gpu_dev *dev)
{
	dev->close = (struct msg){.type = GPU_MSG_CLOSE};
	mailbox_post(&dev->box, &dev->close);
	if (!dev->has_thread)
		copy_finish(dev);
}

/* 0: freed. -EBUSY: left. */
static int dev_close_end(struct gpu *g, struct gpu_dev *dev, uint64_t until)
{
	uint64_t now = clock_ns();
	uint32_t ended;

	for (; !load_acquire(&dev->ended) && now < until; now = clock_ns())
		futex_wait(&dev->ended, 0, until - now);
	ended = load_acquire(&dev->ended);
	if (dev->has_thread && ended)
		pthread_join(dev->thread, NULL);
	else if (dev->has_thread)
		pthread_detach(dev->thread);
	if (ended == ENDED_FREED) {
		dev_free(dev);
		return 0;
	}
	if (g->config.log)
		log_text(g->config.log, URCCL_LOG_WARN,
			 "GPU %u (%s): %s; its memory stays allocated", dev->about.index,
			 dev->about.name,
			 ended ? "copies have not ended 1 s after the close"
			       : "CUDA has not let the copy thread end 1 s after the close");
	return -EBUSY;
}

int gpu_close(struct gpu *g)
{
	uint64_t until = clock_ns() + GPU_CLOSE_NS;
	uint32_t i;
	int err = 0;

	if (!g)
		return 0;
	for (i = 0; i < GPUS_MAX; i++)
		if (g->devs[i])
			dev_close_begin(g->devs[i]);
	for (i = 0; i < GPUS_MAX; i++)
		if (g->devs[i] && dev_close_end(g, g->devs[i], until))
			err = -EBUSY;
	if (g->lib && !err)
		g->api->unload(g->lib);
	pthread_mutex_destroy(&g->lock);
	free(g);
	return err;
}
