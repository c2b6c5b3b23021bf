/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GATHER jobs, the engine's side: their pieces, and the choice between kernel and batch call. The
 * kernel is faster on an idle GPU; beside kernels of the program it may be slower than the copy
 * engines. So the one with the higher measured rate is used, and now and then the other one is
 * measured.
 */
#include "gpu/private.h"

#define KEPT_NS (4 * NSEC_PER_MSEC) /* bytes of so much time count for a rate */

void gather_open(struct gpu_dev *dev, struct gpu_piece *rows)
{
	struct gpu_gather *g = &dev->gather;
	uint32_t i;

	for (i = 0; i < GPU_GATHERS; i++) {
		g->all[i].rows = rows + (size_t)i * GPU_PIECES;
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

/* 0: it is not known. */
static double rate_of(const struct gpu_method_rate *r, uint64_t now)
{
	return r->ns && now - r->last_ns < GPU_RATE_NS ? (double)r->bytes / (double)r->ns : 0;
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

/* Those that ended in one look share its time, so it says something of one way alone. */
static void settle(struct gpu_gather *g)
{
	uint64_t *kernel = &g->ended[GPU_METHOD_KERNEL], *batch = &g->ended[GPU_METHOD_BATCH];
	uint64_t ns = g->seen_ns - g->from_ns;

	if (*kernel && !*batch)
		rate_add(&g->rates[GPU_METHOD_KERNEL], *kernel, ns, g->seen_ns);
	else if (*batch && !*kernel)
		rate_add(&g->rates[GPU_METHOD_BATCH], *batch, ns, g->seen_ns);
	*kernel = *batch = 0;
}

enum gpu_method gather_method(struct gpu_dev *dev, const struct gpu_job *job)
{
	const uint32_t both = 1u << GPU_METHOD_KERNEL | 1u << GPU_METHOD_BATCH;
	struct gpu_gather *g = &dev->gather;
	uint32_t methods = load_acquire(&dev->methods);
	double kernel, batch;
	enum gpu_method method;

	job->pieces->since_ns = clock_ns();
	if (job->foreign)
		methods &= ~(1u << GPU_METHOD_KERNEL);
	if (methods != both)
		return methods >> GPU_METHOD_KERNEL & 1	 ? GPU_METHOD_KERNEL
		       : methods >> GPU_METHOD_BATCH & 1 ? GPU_METHOD_BATCH
							 : GPU_METHOD_COPIES;
	kernel = rate_of(&g->rates[GPU_METHOD_KERNEL], job->pieces->since_ns);
	batch = rate_of(&g->rates[GPU_METHOD_BATCH], job->pieces->since_ns);
	method = kernel > 0 && batch > kernel ? GPU_METHOD_BATCH : GPU_METHOD_KERNEL;
	if (++g->submitted % GPU_OTHER)
		return method;
	return method == GPU_METHOD_KERNEL ? GPU_METHOD_BATCH : GPU_METHOD_KERNEL;
}

void gather_end(struct gpu_job *job, uint64_t word)
{
	struct gpu_gather *g = &job->dev->gather;
	struct gpu_pieces *t = job->pieces;

	if (!job->res && t->small && !t->nlarge) {
		if (word != g->word) {
			settle(g);
			g->word = word;
			g->from_ns = g->seen_ns > t->since_ns ? g->seen_ns : t->since_ns;
			g->seen_ns = clock_ns();
		}
		g->ended[job->method] += t->small;
	}
	/* A GPU that broke may read the rows of a job that failed. */
	if (job->res != -EIO || !gpu_dev_code(job->dev))
		gpu_pieces_put(job->dev, t);
	job->pieces = NULL;
}
