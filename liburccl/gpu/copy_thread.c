/* SPDX-License-Identifier: Apache-2.0 */
/* The copy thread of a GPU. It is the only thread that calls CUDA for jobs and imports, so it alone
 * waits if the program blocks in CUDA. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gpu/private.h"

#define SPIN_MOST_NS NSEC_PER_MSEC

/* ---- imports ---- */

static void import_run(struct gpu_dev *dev, struct gpu_import *imp)
{
	int code = dev->code;

	if (!code)
		code = dev->api->import_memory(dev->ctx, &imp->share, &imp->addr);
	fd_close(imp->share.fd);
	imp->share.fd = -1;
	imp->code = code;
	imp->res = dev->api->error(code);
	__atomic_fetch_sub(&dev->imports, 1, __ATOMIC_RELAXED);
	store_release(&imp->done, 1);
}

static void unimport_run(struct gpu_dev *dev, struct gpu_import *imp)
{
	if (imp->addr)
		(void)dev->api->unimport_memory(dev->ctx, &imp->share, imp->addr);
	free(imp);
	__atomic_fetch_sub(&dev->imports, 1, __ATOMIC_RELEASE);
}

static void message_run(struct gpu_dev *dev, struct msg *msg, uint64_t now)
{
	switch (msg->type) {
	case GPU_MSG_CLOSE:
		dev->closing_ns = now;
		break;
	case GPU_MSG_IMPORT:
		import_run(dev, container_of(msg, struct gpu_import, msg));
		break;
	default:
		unimport_run(dev, container_of(msg, struct gpu_import, end));
		break;
	}
}

/* ---- the thread ---- */

int copy_turn(struct gpu_dev *dev, uint64_t now)
{
	struct msg *msg, *next;
	int some = 0;
	uint32_t i;

	for (msg = mailbox_take(&dev->box); msg; msg = next) {
		next = msg->next;
		message_run(dev, msg, now);
		some = 1;
	}
	for (i = 0; i < GPU_LANES; i++)
		some |= lane_turn(dev, &dev->lanes[i], now);
	return some;
}

int copy_busy(const struct gpu_dev *dev)
{
	const struct gpu_lane_state *l;

	for (l = dev->lanes; l < dev->lanes + GPU_LANES; l++)
		if (l->ops || (l->head != load_acquire(&l->tail) && !dev->closing_ns))
			return 1;
	return 0;
}

static int has_ended(const struct gpu_dev *dev, uint64_t now)
{
	return dev->closing_ns && (!copy_busy(dev) || now - dev->closing_ns >= GPU_DRAIN_NS);
}

/* Jobs that wait for room, and a close, wait for words; else only an error is looked for. */
static uint64_t sleep_ns(const struct gpu_dev *dev, uint64_t now)
{
	uint64_t ns = NEVER_NS, of;
	const struct gpu_lane_state *l;

	for (l = dev->lanes; l < dev->lanes + GPU_LANES; l++) {
		if (!l->ops && !l->is_due && l->head == l->tail_seen)
			continue;
		of = dev->code ? GPU_LATE_NS / 2 : GPU_LATE_NS;
		if (l->head != l->tail_seen) {
			of = l->eta_ns > now ? l->eta_ns - now : 0;
			of = of < NSEC_PER_MSEC ? of : NSEC_PER_MSEC;
			of = of > GPU_LOOK_NS ? of : GPU_LOOK_NS;
		}
		ns = of < ns ? of : ns;
	}
	return dev->closing_ns && ns > NSEC_PER_MSEC ? NSEC_PER_MSEC : ns;
}

static int has_news(const struct gpu_dev *dev)
{
	const struct gpu_lane_state *l;

	for (l = dev->lanes; l < dev->lanes + GPU_LANES; l++)
		if (__atomic_load_n(&l->tail, __ATOMIC_SEQ_CST) != l->tail_seen)
			return 1;
	return 0;
}

static void copy_sleep(struct gpu_dev *dev, uint64_t now)
{
	struct pollfd fd = {.fd = dev->box.fd, .events = POLLIN};
	uint64_t ns = sleep_ns(dev, now);
	struct timespec ts = {(time_t)(ns / NSEC_PER_SEC), (long)(ns % NSEC_PER_SEC)};

	if (mailbox_arm(&dev->box))
		return;
	if (!has_news(dev))
		(void)ppoll(&fd, 1, ns == NEVER_NS ? NULL : &ts, NULL);
	sleep_take(&dev->box.asleep);
	if (fd.revents)
		wake_drain(dev->box.fd);
}

static void copy_end(struct gpu_dev *dev, int entered)
{
	int quiet = !copy_busy(dev);

	if (quiet && entered)
		lanes_close(dev);
	if (entered)
		dev->api->leave(dev->ctx);
	if (quiet)
		dev->api->close(dev->ctx);
	store_release(&dev->ended, quiet ? ENDED_FREED : ENDED_IN_USE);
	futex_wake(&dev->ended);
}

int copy_enter(struct gpu_dev *dev)
{
	int code = dev->api->enter(dev->ctx);

	if (code)
		dev_break(dev, code);
	return !code;
}

void copy_finish(struct gpu_dev *dev)
{
	int entered = copy_enter(dev);
	uint64_t now;

	for (now = clock_ns(); !has_ended(dev, now); now = clock_ns()) {
		copy_turn(dev, now);
		cpu_relax();
	}
	copy_end(dev, entered);
}

static void *copy_main(void *arg)
{
	struct gpu_dev *dev = arg;
	uint64_t now = clock_ns(), idle_ns = now;
	int entered = copy_enter(dev);

	if (entered)
		kernels_open(dev);
	for (; !has_ended(dev, now); now = clock_ns()) {
		if (copy_turn(dev, now))
			idle_ns = now;
		else if (now - idle_ns < dev->spin_ns)
			cpu_relax();
		else
			copy_sleep(dev, now);
	}
	copy_end(dev, entered);
	return NULL;
}

int copy_thread_start(struct gpu_dev *dev, const struct gpu_config *config)
{
	char part[16];
	struct thread_how how = {
		.prefix = config->thread_name,
		.part = part,
		.setting = "control",
		.cpus = config->cpus,
		.nice = config->nice,
	};
	int err;

	snprintf(part, sizeof(part), "gpu%u", dev->about.index);
	dev->spin_ns = config->spin_ns < SPIN_MOST_NS ? config->spin_ns : SPIN_MOST_NS;
	err = thread_start(&dev->thread, &how, copy_main, dev);
	dev->has_thread = !err;
	return err;
}
