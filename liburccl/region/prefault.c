/* SPDX-License-Identifier: Apache-2.0 */
/* Touches the pages of a region before it is registered. Threads of their own do that, since it
 * takes the kernel long: the control thread keeps answering peers. */
#include <stdlib.h>

#include "region/private.h"

/* Bytes per request to the kernel. A request takes some ms; the job can stop after each of them. */
#define PIECE	    (8u << 20)
#define EACH	    (64u << 20) /* bytes for which one more thread is worth its cost */
#define WORKERS_MAX 4u

/* The worker thread alone writes it from its start until it posts `msg`; before and after that, the
 * control thread does. */
struct worker {
	struct msg msg;
	struct prefault *job;
	pthread_t thread;
	uint32_t index;
	int res;
	uint64_t addr; /* the address that failed */
};

struct prefault {
	struct memory *memory; /* the workers read it */
	struct mailbox *out;
	/* The control thread writes these two, and the workers read them. nworkers is 0 until all
	 * workers have started. */
	uint32_t nworkers;
	uint32_t stop;
	uint32_t asked; /* written by the first worker: large pages were requested */
	uint32_t left;	/* the control thread's: workers that have not finished */
	int res;	/* the control thread's: the first failure */
	uint64_t addr;
	void (*back)(struct control *c, void *arg, int res, uint64_t addr);
	void *arg;
	struct worker workers[WORKERS_MAX];
};

/* ---- the threads ---- */

/* Populates every nworkers-th piece, beginning with `index`. *n counts the pieces over all runs. */
static void run_populate(struct worker *w, uint64_t addr, uint64_t end, uint64_t *n)
{
	uint64_t next;

	for (; addr < end && !w->res; addr = next) {
		next = (addr | (PIECE - 1)) + 1;
		next = next < end ? next : end;
		if ((*n)++ % w->job->nworkers != w->index || load_acquire(&w->job->stop))
			continue;
		w->res = memory_populate(addr, next - addr);
		w->addr = addr;
	}
}

/* Requests large pages before any small page exists. The first worker does it; the others wait for
 * it. */
static void large_pages(struct prefault *job, int first)
{
	struct large_pages l;
	uint64_t addr, len;
	uint32_t k;

	while (!first && !load_acquire(&job->asked))
		futex_wait(&job->asked, 0, NEVER_NS);
	if (!first)
		return;
	if (!large_pages_open(&l)) {
		for (k = 0; k < job->memory->nspans;) {
			k = ranges_run(job->memory, k, &addr, &len);
			large_pages_ask(&l, addr, len);
		}
		large_pages_close(&l);
	}
	store_release(&job->asked, 1);
	futex_wake(&job->asked);
}

static void *worker_run(void *arg)
{
	struct worker *w = arg;
	struct memory *m = w->job->memory;
	uint64_t addr, len, n = 0;
	uint32_t k;

	while (!load_acquire(&w->job->nworkers))
		futex_wait(&w->job->nworkers, 0, NEVER_NS);
	large_pages(w->job, !w->index);
	for (k = 0; k < m->nspans && !w->res;) {
		k = ranges_run(m, k, &addr, &len);
		run_populate(w, addr, addr + len, &n);
	}
	mailbox_post(w->job->out, &w->msg);
	return NULL;
}

/* ---- the control thread ---- */

void prefault_back(struct control *c, struct msg *msg)
{
	struct worker *w = container_of(msg, struct worker, msg);
	struct prefault *job = w->job;

	pthread_join(w->thread, NULL);
	if (w->res && !job->res) {
		job->res = w->res;
		job->addr = w->addr;
	}
	if (--job->left)
		return;
	job->back(c, job->arg, job->res, job->addr);
	free(job);
}

void prefault_stop(struct prefault *job)
{
	store_release(&job->stop, 1);
}

/* The number of threads that the bytes and the usable CPUs justify. */
static uint32_t workers_wanted(const struct control *c, uint64_t len)
{
	const struct cpus *theirs = helper_cpus(c);
	uint64_t n = len / EACH + 1;
	struct cpus own;
	uint32_t cpus;

	thread_cpus(&own);
	cpus = cpus_count(theirs ? theirs : &own);
	n = n < WORKERS_MAX ? n : WORKERS_MAX;
	return cpus && n > cpus ? cpus : (uint32_t)n;
}

/* Starts up to n workers. 0, or -errno if none could be started. They divide the pieces once their
 * number is known. */
static int workers_start(struct control *c, struct prefault *job, uint32_t n)
{
	const char *prefix = c->config.params->thread_name;
	struct worker *w = job->workers;
	int err = 0;

	while (job->left < n && !err) {
		*w = (struct worker){.msg.type = MSG_PREFAULTED, .job = job, .index = job->left};
		err = helper_start(&w->thread, prefix, "pages", helper_cpus(c), worker_run, w);
		if (err)
			break;
		job->left++;
		w++;
	}
	store_release(&job->nworkers, job->left);
	futex_wake(&job->nworkers);
	return job->left ? 0 : err;
}

struct prefault *prefault_start(struct control *c, struct memory *m,
				void (*back)(struct control *c, void *arg, int res, uint64_t addr),
				void *arg, int *err)
{
	struct prefault *job = calloc(1, sizeof(*job));

	*err = -ENOMEM;
	if (!job)
		return NULL;
	job->memory = m;
	job->out = &c->back;
	job->back = back;
	job->arg = arg;
	*err = workers_start(c, job, workers_wanted(c, m->len));
	if (!*err)
		return job;
	free(job);
	return NULL;
}
