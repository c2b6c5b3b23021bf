/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two devices of one backend in one process, driven through struct backend as an engine would.
 * Cases make pairs of eps, areas of memory, grants (exposures and their imported keys) and pieces
 * (chunks), and look at what comes out. The rig itself checks what holds everywhere: a chunk comes
 * out once, and only if it was taken; nothing speaks of an ep after its end.
 */
#ifndef RIG_H
#define RIG_H

#include "backend/backend.h"
#include "test.h"
#include "waited.h"

struct settings {
	const char *transport, *driver, *name;
	uint64_t seed;
	int shared;			/* memory is made by memory_alloc() */
	int device;			/* it is of GPUs: each node has one */
	int is_long;			/* rig_rounds() */
	uint32_t dead_after_ms;
	char sim[120];			/* its faults */
	char rdma[2][32];		/* the two devices */
};

struct node {
	struct rig *rig;
	struct device *dev;
	struct urccl_params params;
	struct gpu *gpu;		/* settings.device */
	int listener; /* of a backend that is given connections; else -1 */
	struct sockaddr_storage at; /* its address */
};

struct rig {
	const struct backend *backend;
	const struct settings *settings;
	struct urccl_sim *sim;
	uint64_t random;
	struct node node[2];
};

/* One side of a pair of eps. */
struct end {
	struct node *node;
	struct ep *ep;
	uint8_t addr[EP_ADDR_MAX];
	uint32_t addr_len;
	int up, down, closed;		/* events seen */
	int32_t down_res;
	uint32_t taken, out;		/* chunks */
	uint32_t messages;		/* seen */
	uint32_t grown;			/* times that it asked to grow */
	int grows_later, asks;		/* the case calls end_grow(); it is awaited */
	void (*on_message)(struct end *end, const uint8_t *data, uint32_t len);
	void *arg;			/* of on_message */
};

struct pair {
	struct end end[2];
};

/* Memory registered with one node; its bytes are reached by offset, whatever it is made of. */
struct area {
	struct node *node;
	struct memory *memory;
	struct extent extent;		/* all that its spans lie in */
	struct allocation *allocation;
	uint64_t device;		/* memory of a GPU */
	uint8_t *bytes;			/* all but allocation: as the processor reaches it */
};

struct grant {
	struct exposure exposure;
	struct pin pin;			/* of devices that pin */
	uint8_t key[KEY_MAX];
	uint32_t key_len;
	struct end *importer;
	struct rkey rkey;
};

struct piece {
	struct chunk chunk;
	int taken, out;
	uint32_t pattern;		/* the case's */
	int looked;			/* the case's */
};

/* ---- gpu.c: memory of GPUs, by the stand-in for libcuda ---- */

void gpu_node_open(struct node *node);	/* before its device */
void gpu_node_close(struct node *node); /* after it */
void gpu_area_open(struct area *area, uint64_t size);
void gpu_area_close(struct area *area);

/* ---- rig.c ---- */

void rig_open(struct rig *rig, const struct settings *settings);
void rig_close(struct rig *rig);
uint64_t rig_random(struct rig *rig, uint64_t below);
/* How often a case repeats: n times if it is told --long, else n / 4; or n / 8 over libfabric, as
 * endpoints and operations cost ten times as much there. */
uint32_t rig_rounds(const struct rig *rig, uint32_t n);

/* Events of one device are looked after; returns how many there were. */
uint32_t node_poll(struct node *node);
uint32_t rig_step(struct rig *rig);

/* Of the provider of our tests, which is loaded; and what it counts by that name. */
void *provider_symbol(const char *name);
uint32_t provider_count(const char *name);

#define RIG_PATIENCE_NS (30 * NSEC_PER_SEC)
/* Polls both devices until cond holds; a test that waits longer has failed. */
#define WAIT(rig, cond)                                                                            \
	do {                                                                                       \
		uint64_t wait_until = clock_ns() + RIG_PATIENCE_NS;                                \
		while (!(cond)) {                                                                  \
			rig_step(rig);                                                             \
			CHECK(!is_late(wait_until));                                            \
		}                                                                                  \
	} while (0)

/* Both eps of the pair, connected and up, as large as they become; and as small as they begin. */
void pair_open(struct rig *rig, struct pair *pair);
void pair_open_small(struct rig *rig, struct pair *pair);
/* The same without waiting. */
void pair_start(struct rig *rig, struct pair *pair);
void end_open(struct node *node, struct end *end);
void end_grow(struct end *end);
/* backend.h's ep_prepare and ep_connect. */
int end_connect(struct end *end, const void *addr, uint32_t len, int active,
		const struct sockaddr_storage *via);
/* Whoever refused an access, or was told CANCEL_NOW, may be no more (CAP_ERROR_KILLS_EP): a
 * pair anew. No grants of the old one are left. */
void pair_mend(struct rig *rig, struct pair *pair);
/* Closes whatever is not closed and frees both. */
void pair_close(struct rig *rig, struct pair *pair);

static inline int rig_error_kills_ep(const struct rig *rig)
{
	return (rig->node[0].dev->caps & CAP_ERROR_KILLS_EP) != 0;
}

/* ---- area.c ---- */

void area_open(struct node *node, struct area *area, uint64_t len);
/* Of n spans of about equal length whose addresses are in no order. */
void area_open_spans(struct node *node, struct area *area, uint64_t len, uint32_t n);
void area_close(struct area *area);
/* len bytes at off must not cross spans. */
void *area_at(const struct area *area, uint64_t off, uint64_t len);
/* The same for the processor, which does not reach memory of a GPU by its address. */
void *area_view(const struct area *area, uint64_t off, uint64_t len);
/* Bytes [off, off + len) become those of pattern, counted from its byte at. */
void area_fill(struct area *area, uint64_t off, uint64_t len, uint64_t pattern, uint64_t at);
int area_is(const struct area *area, uint64_t off, uint64_t len, uint64_t pattern, uint64_t at);

/* owner's peer may touch [off, off + len) of the area; importer, the peer's end, takes the key. */
void grant_open(struct grant *g, struct end *owner, struct end *importer, struct area *area,
		uint64_t off, uint64_t len, uint32_t rights);
/* 0, or what expose() said. */
int grant_try(struct grant *g, struct end *owner, struct end *importer, struct area *area,
	      uint64_t off, uint64_t len, uint32_t rights, uint64_t expires_ns);
void grant_open_until(struct grant *g, struct end *owner, struct end *importer, struct area *area,
		      uint64_t off, uint64_t len, uint32_t rights, uint64_t expires_ns);
/* Forgets and withdraws. */
void grant_close(struct rig *rig, struct grant *g);
void grant_withdraw(struct rig *rig, struct grant *g);
/* What follows unexpose() where a case calls that itself. */
void grant_unpin(struct grant *g);

/* ---- piece.c ---- */

void piece_fill(struct piece *p, enum chunk_kind kind, struct end *end, const struct area *local,
		uint64_t local_off, const struct grant *g, uint64_t off, uint32_t len);
void piece_fill_send(struct piece *p, struct end *end, void *data, uint32_t len);
/* Polls both while the queue is full. */
void piece_post(struct rig *rig, struct piece *p);
/* 1: taken. */
int piece_try(struct piece *p);
/* Posts n of one end together; polls both while the queue is full. */
void pieces_post(struct rig *rig, struct piece *pieces, uint32_t n);
/* There is room for it, without a poll of either. */
void piece_take(struct piece *p);
/* Posts and waits; returns its res. */
int32_t piece_run(struct rig *rig, struct piece *p);
/* Moves len bytes at once and waits until they are proved to be placed; returns res. */
int32_t piece_move(struct rig *rig, enum chunk_kind kind, struct end *end, const struct area *local,
		   uint64_t local_off, const struct grant *g, uint64_t off, uint32_t len);
/* Everything of end that was acknowledged is placed now. */
void piece_flush(struct rig *rig, struct end *end, const struct grant *g);

/* ---- count.c: allocations of the whole program ---- */

uint64_t allocations(void);		/* ever made */
int64_t allocations_held(void);		/* not freed */

/* ---- the cases: main.c ---- */

#define CASE(name) void case_##name(struct rig *rig);
#include "cases.h"
#undef CASE

#endif
