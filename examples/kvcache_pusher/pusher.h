/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvcache_pusher: the KV cache of disaggregated prefill, moved as inference engines move it.
 *
 *	main.c		options, what is refused before anything starts
 *	model.c		a Hugging Face config.json into a shape
 *	layout.c	a shape into tensors, and one layer of a request into a paged entry
 *	trace.c		a Mooncake-format trace into requests
 *	pool.c		pages, prefix blocks, and which of them goes first
 *	pattern.c	what stands in a page, and whether it still does
 *	gpu.c		memory of a GPU
 *	node.c		one end: context, ring and the loop's sleep
 *	proto.h		what the two ends say to each other
 *	serve.c		decode: the pool and its pushers; serve_request.c: one request there;
 *			serve_door.c: pushers for which there is no place
 *	push.c		prefill: the replay of the trace; push_request.c: one request there
 *	report.c	progress bar, table, JSON
 *	demo.c		both roles
 */
#ifndef PUSHER_H
#define PUSHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <liburccl.h>

#define NSEC		1000000000ull
#define BLOCK_TOKENS	512u /* what one hash_id of a trace stands for */
#define TOKENS_MAX	(1u << 30) /* of a request */
#define DEFAULT_ADDRESS "127.0.0.1:7471"

enum exit_status {
	EXIT_FINE = 0,
	EXIT_FAILED = 1, /* the run: a wrong page, a lost peer, a transport that is not there */
	EXIT_USAGE = 2,	 /* options, model, trace */
	EXIT_INTERRUPTED = 130,
};

/* Why something did not work, in one sentence. */
struct problem {
	char text[512];
};

/* Returns -1, so that a failing function ends in one line. */
int problem(struct problem *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* "kvcache_pusher: ...", one line on stderr, above the progress bar if there is one. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- options (main.c) ---- */

enum memory_kind {
	MEMORY_HOST = 0, /* that the other end can map, if it uses it */
	MEMORY_PINNED,	 /* of the host, by CUDA */
	MEMORY_GPU,
};

#define GPU_ANY 255u /* the one of that end, if there are two */

struct memory {
	enum memory_kind kind;
	uint32_t gpu;
};

enum role { ROLE_NONE = 0, ROLE_SERVE, ROLE_PUSH, ROLE_DEMO };

struct options {
	enum role role;
	const char *address;	   /* where to listen, or whom to dial: "host:port" or "@file" */
	const char *model, *trace; /* files; NULL: the built-in ones */
	const char *kv_dtype;	   /* NULL: the model's */
	const char *transport;	   /* NULL: the library's choice */
	const char *metadata;	   /* serve: file to write the dialling blob to */
	struct memory prefill, decode; /* of the cache and of the pool */
	bool hnd;		   /* [heads, page] instead of [page, heads] inside a page */
	uint32_t page;		   /* tokens */
	uint32_t tp_prefill, tp_decode;
	uint64_t pool_bytes, cache_bytes;
	double speed;	     /* of the trace's clock; 0: as fast as possible */
	double scale;	     /* of its token counts */
	double prefill_rate; /* tokens/s; 0: as fast as possible */
	double abort_percent;
	uint64_t requests; /* at most so many of the trace */
	uint32_t parallel; /* requests of a pusher under way */
	uint32_t contexts; /* of this end; --demo: of each */
	uint32_t run;	   /* random and not 0: names the process to decode */
	bool pull, once, verify, json, quiet;
};

/* ---- shapes (model.c, layout.c) ---- */

struct shape { /* of a KV cache, over all ranks */
	uint32_t layers;
	uint32_t planes; /* K and V, or 1: the latent of MLA */
	uint32_t heads;	 /* KV heads; MLA: 1 */
	uint32_t dim;	 /* elements of a head; MLA: kv_lora_rank + qk_rope_head_dim */
	uint32_t elt;	 /* bytes of an element */
	uint32_t page;	 /* tokens */
	uint32_t hnd;	 /* order inside a page */
};

/* 0, or -1 with why the model cannot be laid out. */
int model_load(const struct options *o, struct shape *s, struct problem *p);

uint64_t shape_token_bytes(const struct shape *s);
uint64_t shape_page_bytes(const struct shape *s); /* over all layers, planes and heads */
bool shape_equal(const struct shape *a, const struct shape *b);
void shape_text(const struct shape *s, char *buf, size_t len);

/* One end's cache: for each of its ranks a tensor a layer, [planes, pages, page, heads, dim]. A
 * real engine has a process for each rank; here one process holds them all, in one region with
 * one range a tensor. */
struct side {
	const struct shape *shape;
	uint32_t ranks;
	uint32_t pages;
	uint8_t *base; /* NULL: it is the other end's */
	bool is_file;  /* base is a view of the file fd */
	int fd;
	struct memory memory;
	uint8_t *page; /* of memory of a GPU: a copy of one page of a rank, layer and plane */
};

uint32_t side_heads(const struct side *s);	/* of one rank */
uint64_t side_page_bytes(const struct side *s); /* of one rank, layer and plane */
uint64_t side_plane_bytes(const struct side *s);
uint64_t side_tensor_bytes(const struct side *s);
/* A tensor's offset in the region. */
uint64_t side_tensor(const struct side *s, uint32_t rank, uint32_t layer);
uint64_t side_bytes(const struct side *s);
/* Where a token of a page has a head, from the start of the page's plane. */
uint64_t side_row(const struct side *s, uint32_t token, uint32_t head);

/* Descriptors of one layer: one for each two ranks that share heads. */
uint32_t layer_descs(const struct side *local, const struct side *remote);
/* Fills them; pages local[i] and remote[i] belong together. Returns how many. */
uint32_t layer_fill(const struct side *local, const struct side *remote, uint32_t layer, uint32_t n,
		    const uint32_t *local_pages, const uint32_t *remote_pages,
		    struct urccl_paged *descs);

/* ---- page bytes (pattern.c): made up, but the same at both ends ---- */

/* The k-th page of the block, in one layer: every rank's part of it. */
void page_fill(const struct side *s, uint32_t page, uint32_t layer, uint64_t hash, uint32_t k);
bool page_right(const struct side *s, uint32_t page, uint32_t layer, uint64_t hash, uint32_t k);

/* ---- memory of a GPU (gpu.c) ---- */

/* Memory of CUDA, and which GPU it is of; NULL and why. It lasts as long as the process. */
void *gpu_alloc(struct memory *m, bool is_decode, uint64_t len, struct problem *why);
/* Copies from and to ordinary memory; if one fails the process ends. Others see what was put after
 * gpu_wait(). */
void gpu_put(void *to, const void *from, size_t len);
void gpu_wait(void);
void gpu_get(void *to, const void *from, size_t len);

/* ---- traces (trace.c) ---- */

struct request {
	uint32_t line; /* in the trace, from 1 */
	uint32_t tokens;
	uint32_t nblocks;
	uint64_t due_ns;      /* after the first request, at the trace's own speed */
	const uint64_t *hash; /* nblocks of them */
};

struct trace {
	struct request *requests;
	uint32_t n;
	uint32_t block_tokens; /* BLOCK_TOKENS, scaled */
	uint64_t *hashes;
};

int trace_load(const struct options *o, struct trace *t, struct problem *p);
void trace_free(struct trace *t);
/* Pages of a request's block i, and of all its blocks. */
uint32_t block_pages(uint32_t tokens, uint32_t block_tokens, uint32_t page, uint32_t i);
uint32_t tokens_pages(uint32_t tokens, uint32_t page);

/* The files that the program brings along. */
extern const char builtin_model[], builtin_model_end[];
extern const char builtin_trace[], builtin_trace_end[];

/* ---- pages and prefix blocks (pool.c) ---- */

#define NO_PAGE	 UINT32_MAX
#define NO_BLOCK UINT32_MAX

struct block { /* of a prefix: some pages with the KV of up to 512 tokens */
	uint64_t hash;
	uint32_t npages;
	uint32_t first;	       /* page; the others follow by pool.next */
	uint32_t refs;	       /* requests that use it: never evicted while there is one */
	bool known;	       /* found by its hash: filled and checked */
	uint32_t older, newer; /* in the order of last use, while known and unused */
	uint32_t chain;	       /* the next of its hash bucket, of the free list, or of those set
				* aside */
};

struct pool {
	uint32_t npages, nfree;
	uint32_t *stack;      /* free pages, last given first taken */
	uint32_t *next;	      /* pages of a block */
	struct block *blocks; /* as many as pages: each has at least one */
	uint32_t free_block;
	uint32_t *buckets, mask;
	uint32_t oldest, newest;
	uint32_t idle_pages; /* of blocks that may be evicted */
	uint64_t evicted;    /* blocks */
};

struct want { /* a block that a request needs */
	uint64_t hash;
	uint32_t npages;
	uint32_t block; /* filled in: its index in the pool */
	bool held;	/* filled in: it was there already */
};

int pool_open(struct pool *pool, uint32_t npages); /* 0 or -ENOMEM */
void pool_close(struct pool *pool);

/* Pages alone: 0, or -EAGAIN if so many are not free. */
int pool_take(struct pool *pool, uint32_t n, uint32_t *pages);
void pool_give(struct pool *pool, uint32_t n, const uint32_t *pages);

/* All blocks of a request or none: 0, -EAGAIN (blocks in use must be put back first), -ENOSPC
 * (never). */
int pool_get(struct pool *pool, struct want *wants, uint32_t n);
/* The request ends. filled: its new blocks are right and may be found from now on. */
void pool_put(struct pool *pool, const struct want *wants, uint32_t n, bool filled);
/* The request ends, and its new blocks may still be written to: they join the list, which begins
 * as NO_BLOCK, and nobody gets them before it is given back. */
void pool_set_aside(struct pool *pool, const struct want *wants, uint32_t n, uint32_t *list);
void pool_give_back(struct pool *pool, uint32_t *list);

/* ---- one end (node.c) ---- */

#define CONTEXTS_MAX 16u

struct node {
	struct urccl *ctx;
	struct urccl_ring *ring;
	struct node *next; /* another context that the same loop waits for; it has no descriptors */
	int epoll, timer, signals;
	int heard;	/* signals of the process that this loop has counted */
	int interrupts; /* SIGINT and SIGTERM seen */
	uint64_t now;	/* when the loop last looked */
};

struct node_config {
	const char *transport;
	const char *listen; /* "": do not */
	const void *hello;
	uint32_t hello_len;
	uint32_t entries;
};

/* Bytes that the system can give without taking them from others; UINT64_MAX: it does not say. */
uint64_t memory_available(void);
int node_open(struct node *n, const struct node_config *c, struct problem *p);
/* Opens n, for whose CQEs node_wait() of first waits, too. Close it before first. */
int node_join(struct node *first, struct node *n, const struct node_config *c, struct problem *p);
void node_close(struct node *n);
/* Memory of the side's kind for its tensors, registered with one range each in the context of n,
 * after all that join it have; rights 0: no peer touches it. */
int node_cache(struct node *n, struct side *s, bool is_decode, uint32_t rights,
	       struct urccl_region *region, struct problem *p);
/* Registers them once more: a region that can be taken back without the first. */
int node_register(struct node *n, const struct side *s, uint32_t rights,
		  struct urccl_region *region); /* 0 or a negative errno */
/* The next entry. The ring is sized, and pushers are admitted, so that there always is one. */
struct urccl_sqe *node_sqe(struct node *n);
void node_note(struct node *n, struct urccl_peer peer, uint64_t tag, const void *payload,
	       uint32_t len, uint64_t user_data);
/* Submits what was prepared, sleeps until a CQE, a signal or the time (0: only looks). */
void node_wait(struct node *n, uint64_t until_ns);
/* SIGINT and SIGTERM until now. Ctrl-C ends all of a terminal's processes, and one may hear of the
 * other's end first. */
int node_interrupts(struct node *n);
const char *node_explain(struct node *n, const struct urccl_cqe *cqe);

uint64_t now_ns(void);
uint64_t process_cpu_ns(void);
uint64_t thread_cpu_ns(void);

/* How long at least one transfer was in flight. */
struct busy {
	uint32_t n;
	uint64_t since, total;
};

void busy_begin(struct busy *b, uint64_t now);
void busy_end(struct busy *b, uint64_t now);

/* ---- the two roles ---- */

struct job {
	const struct options *o;
	struct shape shape;
	struct trace trace; /* push and demo */
};

/* A context to dial: text or a blob for CONNECT. */
struct dial {
	uint32_t len;
	char to[URCCL_METADATA_MAX];
};

/* "HOST:PORT", of context k: the ports follow each other, and port 0 is any. */
void address_of(const char *address, uint32_t k, struct dial *dial);
/* Returns an exit status. ready: where a struct dial of each context is written once all listen,
 * -1: nowhere. */
int serve_run(const struct job *job, int ready);
/* How many requests may be under way at most. */
uint32_t push_requests_max(const struct shape *s);
/* n: contexts of decode. */
int push_run(const struct job *job, const struct dial *dials, uint32_t n);
int demo_run(const struct job *job);

#endif
