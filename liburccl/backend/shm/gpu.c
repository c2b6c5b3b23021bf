/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of GPUs between processes of one host (CUDA IPC). An exposure sends the handle of each
 * allocation that it lies in over the link, as file.c sends memfds; the importer maps each once
 * for a GPU of its own, and that GPU's copy engines move the bytes: the owner does nothing.
 *
 * A handle gives read and write access to the whole allocation. The importer's library enforces
 * range, rights and the end of the exposure, and sends REVOKED once no copy of it is issued. An
 * importer that never sends it keeps the pages until its process ends, so this needs the peer's
 * pidfd.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include "backend/shm/shm.h"

/* Copies one run of a chunk, or as many pieces of a bundle as fit. chunk.scratch: bytes done; or
 * pieces done, and bytes done of the next piece. */
struct shm_job {
	struct gpu_job job;
	struct list link; /* shm_dev.jobs or .jobs_free */
	struct chunk *c;
	struct gpu_dev *waits_for; /* GPU in whose lane it waits for room; or NULL */
	uint64_t next[2];	   /* scratch when this job has ended */
	uint32_t is_odd;	   /* its copies use the lane GPU_PEER_TOO */
};

/* ---- export ---- */

void shm_gpu_reg(const struct extent *x, struct shm_backing *b)
{
	int code;

	if (gpu_export(x->gpu, x->addr, &b->share, &code))
		return;
	if (x->addr + x->len <= b->share.base + b->share.len) {
		b->dev = (dev_t)-1;
		b->ino = b->share.base ^ x->gpu_id << 32;
		return;
	}
	shm_gpu_unreg(b); /* adjacent mappings with several handles */
}

void shm_gpu_unreg(struct shm_backing *b)
{
	if (b->share.how && b->share.fd >= 0)
		close(b->share.fd);
	b->share.how = 0;
}

int shm_gpu_send(struct shm_ep *e, uint64_t serial, const struct shm_backing *b)
{
	struct shm_record r = {
		.type = SHM_GPU,
		.version = b->share.how,
		.serial = serial,
		.len = b->share.len,
		.writable = 1,
	};

	e->ep.gpus = 1;
	memcpy(r.to, b->share.uuid, sizeof(b->share.uuid));
	memcpy(r.from, &b->share.base, sizeof(b->share.base));
	memcpy(r.handle, b->share.handle, sizeof(b->share.handle));
	return shm_link_send(e, &r, b->share.how == GPU_SHARE_FD ? b->share.fd : -1);
}

int shm_gpu_may(const struct shm_ep *e)
{
	return e->has_process && shm_link_proved(e);
}

/* ---- import ---- */

static int is_self(const struct shm_ep *e)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return !getsockopt(e->sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) && cred.pid == getpid();
}

/* The exporter's own GPU if this context has it open, else the first. */
static struct gpu_dev *gpu_for(struct gpu *g, const uint8_t uuid[16])
{
	struct gpu_dev *gpu, *first = NULL;
	uint32_t i;

	for (i = 0; g && i < GPUS_MAX; i++) {
		gpu = gpu_dev_find(g, i);
		if (gpu && !memcmp(gpu_about(gpu)->uuid, uuid, 16))
			return gpu;
		first = first ? first : gpu;
	}
	return first;
}

static void import_begin(struct shm_ep *e, struct shm_mapping *v)
{
	v->gpu = gpu_for(e->dev->dev.gpu, v->import->share.uuid);
	if (!v->gpu)
		return;
	e->gpu_seen = 1;
	gpu_import(v->gpu, v->import);
}

void shm_gpu_import(struct shm_ep *e, const struct shm_record *r, int fd, struct shm_mapping *v)
{
	struct gpu_import *imp = calloc(1, sizeof(*imp));

	if (!imp)
		return;
	imp->share = (struct gpu_share){.how = r->version, .fd = -1, .len = r->len};
	memcpy(imp->share.uuid, r->to, sizeof(imp->share.uuid));
	memcpy(&imp->share.base, r->from, sizeof(imp->share.base));
	memcpy(imp->share.handle, r->handle, sizeof(imp->share.handle));
	if (is_self(e))
		imp->share.how = GPU_SHARE_SELF;
	else if (fd >= 0)
		imp->share.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	*v = (struct shm_mapping){.serial = r->serial, .len = r->len, .writable = 1, .of_gpu = 1};
	v->import = imp;
	import_begin(e, v);
}

int shm_gpu_mapped(struct shm_ep *e, struct shm_mapping *v)
{
	if (!v->gpu)
		import_begin(e, v);
	if (!v->gpu)
		return -ENODEV;
	if (!gpu_import_done(v->import))
		return -EINPROGRESS;
	v->addr = (uint8_t *)(uintptr_t)v->import->addr;
	return v->import->res;
}

void shm_gpu_unmap(struct shm_mapping *v)
{
	if (v->import && v->gpu) {
		gpu_unimport(v->gpu, v->import);
	} else if (v->import) {
		fd_close(v->import->share.fd);
		free(v->import);
	}
	v->serial = 0;
	v->import = NULL;
}

static int imports_busy(const struct shm_ep *e)
{
	const struct gpu_dev *gpu;
	uint32_t i;

	for (i = 0; i < GPUS_MAX; i++) {
		gpu = gpu_dev_find(e->dev->dev.gpu, i);
		if (gpu && gpu_imports_busy(gpu))
			return 1;
	}
	return 0;
}

int shm_gpu_holds(struct shm_ep *e)
{
	struct shm_mapping *v;

	if (!e->gpu_seen)
		return 0;
	if ((e->njobs && shm_gpu_revoke(e)) || shm_remotes_mapped(e, 1))
		return 1;
	shm_remotes_let_go(e);
	for (v = e->mappings; v < e->mappings + SHM_FILES; v++)
		if (v->serial && v->import && v->gone && !v->users)
			shm_gpu_unmap(v);
	return imports_busy(e);
}

int shm_gpu_close(struct shm_ep *e)
{
	struct shm_mapping *v;

	if (e->njobs)
		return 1;
	for (v = e->mappings; v < e->mappings + SHM_FILES && e->gpu_seen; v++) {
		if (!v->serial || !v->import || !v->gpu)
			continue;
		gpu_unimport(v->gpu, v->import);
		v->import = NULL;
	}
	return e->gpu_seen && imports_busy(e);
}

/* ---- chunks ---- */

int shm_gpu_open(struct shm_dev *d)
{
	uint32_t i;

	list_init(&d->jobs);
	list_init(&d->jobs_free);
	d->job_pool = calloc(SHM_JOBS, sizeof(*d->job_pool));
	for (i = 0; d->job_pool && i < SHM_JOBS; i++) {
		d->job_pool[i].is_odd = i & 1;
		list_add_tail(&d->job_pool[i].link, &d->jobs_free);
	}
	return d->job_pool ? 0 : -ENOMEM;
}

static struct shm_ep *job_ep(const struct shm_job *j)
{
	return container_of(j->c->ep, struct shm_ep, ep);
}

/* Cuts the run to one local allocation: a copy must not cross two. */
static void run_cut(const struct chunk *c, uint64_t local, uint64_t *run)
{
	if (c->memory->nspans > 1)
		(void)memory_extent(c->memory, local, run);
}

/* Fills the job with the next run. */
static struct gpu_dev *job_run(struct shm_job *j)
{
	struct chunk *c = j->c;
	uint64_t at = c->scratch[0], run = c->len - at, there, local = (uintptr_t)c->local + at;
	struct gpu_dev *gpu;

	there = shm_remote_at(shm_remote(c->key), c->off + at, &run, &gpu);
	run_cut(c, local, &run);
	j->next[0] = at + run;
	j->job = (struct gpu_job){
		.kind = GPU_COPY,
		.lane = j->is_odd ? GPU_PEER_TOO : GPU_PEER,
		.src = c->kind == CHUNK_WRITE ? local : there,
		.dst = c->kind == CHUNK_WRITE ? there : local,
		.len = run,
	};
	return gpu;
}

/* Adds pieces of one length within the first `part` bytes of the remote, which start at `base`.
 * Returns how many. */
static uint32_t job_run_pieces(struct gpu_pieces *t, const struct chunk_piece *p, uint32_t most,
			       uint64_t base, uint64_t part, int writes)
{
	uint32_t len = (uint32_t)p->len, units = (len + GPU_UNIT - 1) / GPU_UNIT, n;
	struct gpu_piece *row = &t->rows[t->n];
	uint64_t local, there;

	if (p->len >= GPU_LARGE || len > part)
		return 0;
	for (n = 0; n < most && p[n].len == len && p[n].off <= part - len; n++) {
		local = (uintptr_t)p[n].local;
		there = base + p[n].off;
		row[n].src = writes ? local : there;
		row[n].dst = writes ? there : local;
		row[n].len = len;
		row[n].first = t->units + n * units;
	}
	if (n)
		gpu_pieces_count(t, n, len);
	return n;
}

/* Fills the job with the next pieces of the bundle, as many as fit. The first part of the remote is
 * mostly all of it. */
static struct gpu_dev *job_pieces(struct shm_job *j, struct gpu_pieces *t)
{
	const struct shm_remote *r = shm_remote(j->c->key);
	uint64_t i = j->c->scratch[0], at = j->c->scratch[1], run, there, local, base;
	uint64_t part = UINT64_MAX, left, room;
	int writes = j->c->kind == CHUNK_WRITE;
	const struct chunk_piece *p;
	struct gpu_dev *gpu;

	base = shm_remote_at(r, 0, &part, &gpu);
	part = j->c->memory->nspans > 1 ? 0 : part;
	while (i < j->c->npieces && !gpu_pieces_full(t)) {
		p = &j->c->pieces[i];
		left = j->c->npieces - i;
		room = GPU_PIECES - t->n - t->nlarge;
		run = at ? 0
			 : job_run_pieces(t, p, (uint32_t)(left < room ? left : room), base, part,
					  writes);
		i += run;
		if (run)
			continue;
		run = p->len - at;
		there = shm_remote_at(r, p->off + at, &run, &gpu);
		local = (uintptr_t)p->local + at;
		run_cut(j->c, local, &run);
		gpu_pieces_add(t, writes ? local : there, writes ? there : local, (uint32_t)run);
		at += run;
		if (at == p->len) {
			at = 0;
			i++;
		}
	}
	j->next[0] = i;
	j->next[1] = at;
	j->job = (struct gpu_job){.kind = GPU_GATHER, .lane = GPU_KERNEL, .pieces = t};
	return gpu;
}

static struct gpu_dev *gpu_of(const struct chunk *c)
{
	struct gpu_dev *gpu;
	uint64_t run = 1;

	(void)shm_remote_at(shm_remote(c->key), c->off, &run, &gpu);
	return gpu;
}

/* 0: its GPU has no table free. */
static int job_submit(struct shm_job *j)
{
	struct gpu_pieces *t = NULL;
	struct gpu_dev *gpu;

	if (j->c->npieces) {
		t = gpu_pieces_get(gpu_of(j->c));
		if (!t)
			return 0;
	}
	gpu = t ? job_pieces(j, t) : job_run(j);
	if (t && j->c->memory->gpus & ~(1u << gpu_about(gpu)->index))
		j->job.foreign = 1;
	j->waits_for = gpu_submit(gpu, &j->job) ? NULL : gpu;
	return 1;
}

/* Submits a job that waited for room. */
static void job_again(struct shm_job *j)
{
	if (gpu_submit(j->waits_for, &j->job))
		j->waits_for = NULL;
}

/* 1: no GPU accesses memory for it. */
static int job_stop(struct shm_job *j)
{
	if (!j->waits_for)
		return gpu_cancel(&j->job);
	if (j->job.pieces)
		gpu_pieces_put(j->waits_for, j->job.pieces);
	j->waits_for = NULL;
	return 1;
}

/* A broken GPU never returns its tables: bundles for it fail. */
static int chunk_check(struct chunk *c)
{
	const struct shm_remote *r = shm_remote(c->key);
	int code;

	if (c->checksum)
		return -EOPNOTSUPP;
	if (c->npieces ? shm_remote_holds_pieces(r, c) : shm_remote_holds(r, c))
		return -ERANGE;
	code = c->npieces ? gpu_dev_code(gpu_of(c)) : 0;
	if (code) {
		c->flags |= CHUNK_CODED;
		c->scratch[0] = device_code(0, (uint32_t)code);
		return -EIO;
	}
	return shm_remote_allows(r, c);
}

int shm_gpu_post(struct shm_ep *e, struct chunk *c)
{
	struct shm_dev *d = e->dev;
	struct shm_job *j;
	int err;

	c->flags = 0;
	c->path = URCCL_PATH_DEVICE;
	err = chunk_check(c);
	if (err)
		shm_chunk_out(d, c, err);
	if (err || list_empty(&d->jobs_free))
		return err != 0;
	j = list_first(&d->jobs_free, struct shm_job, link);
	j->c = c;
	c->scratch[0] = c->scratch[1] = 0;
	if (!job_submit(j))
		return 0;
	list_del(&j->link);
	list_add_tail(&j->link, &d->jobs);
	c->state = SHM_STATE_GPU;
	e->njobs++;
	return 1;
}

static void job_end(struct shm_job *j, int res)
{
	struct shm_ep *e = job_ep(j);
	struct shm_dev *d = e->dev;
	struct chunk *c = j->c;

	list_del(&j->link);
	list_add_tail(&j->link, &d->jobs_free);
	j->c = NULL;
	if (j->job.code) {
		c->flags |= CHUNK_CODED;
		c->scratch[0] = device_code(0, (uint32_t)j->job.code);
	}
	shm_chunk_out(d, c, res);
	e->njobs--;
	if (!e->njobs)
		shm_ep_idle(e);
}

/* A job has ended: ends its chunk or submits the next job. */
static void job_ended(struct shm_job *j)
{
	const struct shm_remote *r = shm_remote(j->c->key);
	struct shm_ep *e = job_ep(j);
	int res = j->job.res;

	if (!res)
		memcpy(j->c->scratch, j->next, sizeof(j->next));
	if (j->job.kind == GPU_GATHER && j->job.method == GPU_METHOD_KERNEL)
		j->c->path |= URCCL_PATH_KERNEL;
	if (!res && j->c->scratch[0] == (j->c->npieces ? j->c->npieces : j->c->len)) {
		job_end(j, e->state == SHM_DOWN ? e->why : 0);
		return;
	}
	if (!res && e->state != SHM_UP)
		res = e->state == SHM_DOWN ? e->why : -ECANCELED;
	if (!res && j->c->flags & CHUNK_CANCELLED)
		res = -ECANCELED;
	if (!res)
		res = shm_remote_allows(r, j->c);
	if (res)
		job_end(j, res);
	else if (!job_submit(j)) /* a table has just become free */
		assert(0);
}

void shm_gpu_look(struct shm_dev *d)
{
	struct shm_job *j;

	list_for_each_entry_safe(j, &d->jobs, link) {
		if (j->waits_for)
			job_again(j);
		if (j->job.dev && gpu_job_done(&j->job))
			job_ended(j);
	}
}

static void job_cancel(struct shm_job *j, int res)
{
	j->c->flags |= CHUNK_CANCELLED;
	if (job_stop(j))
		job_end(j, res);
}

void shm_gpu_cancel(struct shm_ep *e, const struct chunk *c)
{
	struct shm_job *j;

	list_for_each_entry_safe(j, &e->dev->jobs, link) {
		if (j->c == c)
			job_cancel(j, -ECANCELED);
	}
}

void shm_gpu_fail(struct shm_ep *e, int res)
{
	struct shm_job *j;

	list_for_each_entry_safe(j, &e->dev->jobs, link) {
		if (job_ep(j) == e)
			job_cancel(j, res);
	}
}

int shm_gpu_revoke(struct shm_ep *e)
{
	struct shm_job *j;
	int busy = 0;

	list_for_each_entry_safe(j, &e->dev->jobs, link) {
		if (job_ep(j) != e || !shm_remote_allows(shm_remote(j->c->key), j->c))
			continue;
		if (job_stop(j))
			job_end(j, -EACCES);
		else
			busy = 1;
	}
	return busy;
}
