/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GATHER jobs, the engine's side: their pieces, and the choice between kernel and batch call. The
 * kernel is faster on an idle GPU; beside kernels of the program it may be slower than the copy
 * engines. So the one with the higher measured rate is used. The other one is tried now and then,
 * for a small part of the time.
 */
#include "gpu/private.h"

#define KEPT_NS (4 * NSEC_PER_MSEC) /* bytes of so much time count for a rate */

void gather_open(struct gpu_dev *dev)
{
	struct gpu_gather *g = &dev->gather;
	uint32_t i;

	for (i = 0; i < GPU_GATHERS; i++) {
		g->all[i].rows = dev->feed->rows[i];
		g->free[i] = (uint16_t)(GPU_GATHERS - 1 - i);
	}
	g->nfree = GPU_GATHERS;
}

struct gpu_pieces *gpu_pieces_get(struct gpu_dev *dev)
{
	struct gpu_gather *g = &dev->gather;
	struct gpu_pieces *t;

	if (!g->nfree)
		return NULL;
	t = &g->all[g->free[--g->nfree]];
	*t = (struct gpu_pieces){.rows = t->rows};
	return t;
}

void gpu_pieces_put(struct gpu_dev *dev, struct gpu_pieces *t)
{
	struct gpu_gather *g = &dev->gather;

	g->free[g->nfree++] = (uint16_t)(t - g->all);
}

/* ---- rates ---- */

/* A call costs time per piece, so that the rate depends on the length of pieces: up to 4, 16, 64
 * and 256 KiB, and more. */
static struct gpu_method_rate *rate_for(struct gpu_gather *g, enum gpu_method method,
					const struct gpu_pieces *t)
{
	uint32_t length = 0;

	while (length < GPU_LENGTHS - 1 && t->small > (uint64_t)t->n * GPU_UNIT << 2 * length)
		length++;
	return &g->rates[method][length];
}

/* For bytes, by the last known rate; without one, for pieces. */
static uint64_t predicted_ns(const struct gpu_method_rate *r, const struct gpu_pieces *t)
{
	if (!r->bytes)
		return t->n * GPU_CALL_NS;
	return (uint64_t)((double)t->small * (double)r->ns / (double)r->bytes);
}

static void rate_add(struct gpu_method_rate *r, uint64_t bytes, uint64_t ns, uint64_t now)
{
	if (now - r->last_ns >= GPU_RATE_NS)
		r->bytes = r->ns = 0;
	r->bytes += bytes;
	r->ns += ns;
	r->last_ns = now;
	if (r->ns < KEPT_NS)
		return;
	r->bytes /= 2;
	r->ns /= 2;
}

/* Those that ended in one look share its time, so it says something of one rate alone. */
static void settle(struct gpu_gather *g)
{
	uint64_t ns = g->seen_ns - g->from_ns;

	g->busy_ns += ns;
	if (g->rate && g->bytes)
		rate_add(g->rate, g->bytes, ns, g->seen_ns);
	g->bytes = 0;
}

static enum gpu_method method_choose(struct gpu_gather *g, const struct gpu_pieces *t)
{
	const struct gpu_method_rate *kernel = rate_for(g, GPU_METHOD_KERNEL, t);
	const struct gpu_method_rate *batch = rate_for(g, GPU_METHOD_BATCH, t);
	uint64_t kernel_ns = predicted_ns(kernel, t), batch_ns = predicted_ns(batch, t);
	int batch_wins = kernel->bytes && batch->bytes && batch_ns < kernel_ns;

	if (g->busy_ns / GPU_TRIAL < (batch_wins ? kernel_ns : batch_ns))
		return batch_wins ? GPU_METHOD_BATCH : GPU_METHOD_KERNEL;
	g->busy_ns = 0;
	return batch_wins ? GPU_METHOD_KERNEL : GPU_METHOD_BATCH;
}

enum gpu_method gather_method(struct gpu_dev *dev, const struct gpu_job *job)
{
	const uint32_t both = 1u << GPU_METHOD_KERNEL | 1u << GPU_METHOD_BATCH;
	uint32_t methods = load_acquire(&dev->methods);

	job->pieces->since_ns = clock_ns();
	if (job->foreign)
		methods &= ~(1u << GPU_METHOD_KERNEL);
	if (methods == both && job->pieces->n)
		return method_choose(&dev->gather, job->pieces);
	return methods >> GPU_METHOD_KERNEL & 1	 ? GPU_METHOD_KERNEL
	       : methods >> GPU_METHOD_BATCH & 1 ? GPU_METHOD_BATCH
						 : GPU_METHOD_COPIES;
}

void gather_end(struct gpu_job *job, uint64_t word)
{
	struct gpu_gather *g = &job->dev->gather;
	struct gpu_pieces *t = job->pieces;
	struct gpu_method_rate *rate;

	if (!job->res && t->small && !t->nlarge && job->method != GPU_METHOD_COPIES) {
		rate = rate_for(g, job->method, t);
		if (word != g->word) {
			settle(g);
			g->word = word;
			g->from_ns = g->seen_ns > t->since_ns ? g->seen_ns : t->since_ns;
			g->seen_ns = clock_ns();
			g->rate = rate;
		}
		g->rate = g->rate == rate ? rate : NULL;
		g->bytes += t->small;
	}
	/* A GPU that broke may read the rows of a job that failed. */
	if (job->res != -EIO || !gpu_dev_code(job->dev))
		gpu_pieces_put(job->dev, t);
	job->pieces = NULL;
}
