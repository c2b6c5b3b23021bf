/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes of RDMA devices to memory of GPUs (GPUDirect RDMA). A notification tells the program that
 * such bytes are there, so that it may launch a kernel which reads them. Before that CUDA makes the
 * GPUs see them: a round is one such call for each GPU, by its copy thread. A notification waits
 * for a round that begins after it came.
 */
#include "engine/peer.h"

void direct_exposed(struct engine *e, const struct exposure *x)
{
	uint32_t left = x->memory->gpus;
	const struct gpu_dev *dev;

	for (; left; left &= left - 1) {
		dev = gpu_dev_find(e->config.gpu, (uint32_t)__builtin_ctz(left));
		if (dev && gpu_about(dev)->flushes)
			x->peer->flush_gpus |= left & -left;
	}
	e->direct.gpus |= x->peer->flush_gpus;
}

static void round_begin(struct engine *e)
{
	struct direct *d = &e->direct;
	uint32_t left, i;

	d->begun++;
	d->out = d->gpus;
	for (left = d->out; left; left &= left - 1) {
		i = (uint32_t)__builtin_ctz(left);
		d->jobs[i] = (struct gpu_job){.kind = GPU_FLUSH,
					      .lane = GPU_CONTROL,
					      .len = 1,
					      .res = -EAGAIN};
		gpu_submit(gpu_dev_find(e->config.gpu, i), &d->jobs[i]);
	}
}

/* Its lane had no room before. */
static int job_is_over(struct engine *e, uint32_t i)
{
	struct gpu_job *job = &e->direct.jobs[i];

	if (!job->dev && job->res == -EAGAIN)
		gpu_submit(gpu_dev_find(e->config.gpu, i), job);
	return job->dev ? gpu_job_done(job) : job->res != -EAGAIN;
}

static void round_look(struct engine *e)
{
	struct direct *d = &e->direct;
	uint32_t left, i;

	for (left = d->out; left; left &= left - 1) {
		i = (uint32_t)__builtin_ctz(left);
		if (!job_is_over(e, i))
			continue;
		d->out &= ~(1u << i);
		d->failed &= ~(1u << i);
		d->failed |= (uint32_t)(d->jobs[i].res != 0) << i;
	}
	if (!d->out)
		d->done = d->begun;
}

int direct_flushed(struct engine *e, struct parked_note *n)
{
	struct direct *d = &e->direct;

	if (!n->round)
		n->round = d->begun + 1;
	round_look(e);
	if (d->done < n->round && !d->out)
		round_begin(e);
	return d->done >= n->round;
}
