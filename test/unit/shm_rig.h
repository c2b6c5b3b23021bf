/* SPDX-License-Identifier: Apache-2.0 */
/* Two shm devices in one process, polled in turn, with an ep each to the other: side 0 dials. */
#ifndef SHM_RIG_H
#define SHM_RIG_H

#include <string.h>
#include <time.h>
#include <backend/backend.h>
#include <test.h>

#define RIG_EVENTS 16u

struct shm_rig {
	struct device *dev[2];
	struct ep *ep[2];
	uint8_t addr[2][EP_ADDR_MAX];
	uint32_t addr_len[2];
	int up[2], down[2], closed[2]; /* down: -errno, closed: seen */
	uint32_t messages[2];
	uint8_t message[2][MESSAGE_MAX]; /* the last */
	uint32_t message_len[2];
};

static inline uint64_t rig_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline void rig_device(struct device **dev, const char *socket_dir)
{
	struct urccl_params params = {
		.size = sizeof(params),
		.socket_dir = socket_dir,
	};
	struct device_config config = {.params = &params};

	CHECK_EQ(backend_shm.open(&config, dev), 0);
}

static inline void rig_open(struct shm_rig *r, const char *socket_dir)
{
	uint32_t i;

	memset(r, 0, sizeof(*r));
	for (i = 0; i < 2; i++) {
		rig_device(&r->dev[i], socket_dir);
		r->addr_len[i] = EP_ADDR_MAX;
		CHECK_EQ(backend_shm.ep_open(r->dev[i], &r->ep[i], r->addr[i], &r->addr_len[i]), 0);
	}
}

static inline void rig_event(struct shm_rig *r, uint32_t side, const struct event *e)
{
	switch (e->type) {
	case EVENT_CHUNK:
		CHECK(!e->chunk->op);
		e->chunk->op = e->chunk; /* out */
		break;
	case EVENT_MESSAGE:
		r->messages[side]++;
		memcpy(r->message[side], e->data, e->len);
		r->message_len[side] = e->len;
		break;
	case EVENT_UP:
		r->up[side] = 1;
		break;
	case EVENT_DOWN:
		CHECK(e->res < 0);
		r->down[side] = e->res;
		break;
	default:
		CHECK_EQ(e->type, EVENT_CLOSED);
		r->closed[side] = 1;
	}
}

static inline uint32_t rig_poll(struct shm_rig *r, uint32_t side)
{
	struct event events[RIG_EVENTS];
	uint32_t i, n = backend_shm.poll(r->dev[side], events, RIG_EVENTS);

	CHECK(n <= RIG_EVENTS);
	for (i = 0; i < n; i++)
		rig_event(r, side, &events[i]);
	return n;
}

/* Polls both until the condition holds; fails the test after ten seconds. */
#define RIG_UNTIL(r, cond)                                  \
	do {                                                \
		uint64_t rig_end = rig_ns() + 10000000000u; \
		while (!(cond)) {                           \
			rig_poll(r, 0);                     \
			rig_poll(r, 1);                     \
			CHECK(rig_ns() < rig_end);          \
		}                                           \
	} while (0)

static inline void rig_connect(struct shm_rig *r)
{
	uint32_t i;

	for (i = 2; i--;)
		CHECK_EQ(backend_shm.ep_connect(r->ep[i], r->addr[!i], r->addr_len[!i], !i, NULL),
			 0);
	RIG_UNTIL(r, r->up[0] && r->up[1]);
}

static inline void rig_end(struct shm_rig *r, uint32_t side)
{
	backend_shm.ep_close(r->ep[side]);
	while (!r->closed[side])
		rig_poll(r, side);
	backend_shm.ep_free(r->ep[side]);
	backend_shm.close(r->dev[side]);
}

static inline void rig_close(struct shm_rig *r)
{
	rig_end(r, 0);
	rig_end(r, 1);
}

/* ---- memory of a side ---- */

static inline struct memory *rig_memory(struct shm_rig *r, uint32_t side, void *addr, uint64_t len,
					int fd)
{
	struct memory *m = calloc(1, sizeof(*m) + sizeof(m->spans[0]));
	struct extent *x = calloc(1, sizeof(*x));

	CHECK(m && x);
	*x = (struct extent){.addr = (uintptr_t)addr, .len = len, .fd = fd};
	m->rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE;
	m->len = len;
	m->nspans = 1;
	m->spans[0] = (struct span){.len = len, .addr = (uintptr_t)addr, .fd = fd, .extent = x};
	CHECK_EQ(backend_shm.reg(r->dev[side], x), 0);
	return m;
}

static inline void rig_memory_free(struct shm_rig *r, uint32_t side, struct memory *m)
{
	backend_shm.unreg(r->dev[side], m->spans[0].extent);
	free(m->spans[0].extent);
	free(m);
}

/* Exposes m of side to the other side, which imports it. */
static inline void rig_expose(struct shm_rig *r, uint32_t side, struct memory *m, uint32_t rights,
			      struct exposure *x, struct rkey *rkey)
{
	uint8_t key[KEY_MAX];
	int n;

	*x = (struct exposure){.ep = r->ep[side], .memory = m, .len = m->len, .rights = rights};
	x->expires_ns = NEVER_NS;
	n = backend_shm.expose(x, key, sizeof(key));
	CHECK(n > 0);
	CHECK_EQ(backend_shm.import(r->ep[!side], key, (uint32_t)n, m->len, rkey), 0);
}

/* ---- chunks ---- */

static inline struct chunk rig_chunk(enum chunk_kind kind, void *local, uint32_t len,
				     const struct rkey *key, uint64_t off)
{
	struct chunk c = {.kind = kind, .local = local, .len = len, .key = key, .off = off};

	return c;
}

static inline void rig_post(struct shm_rig *r, uint32_t side, struct chunk *c)
{
	c->ep = r->ep[side];
	c->op = NULL;
	CHECK_EQ(backend_shm.post(r->ep[side], &c, 1), 1);
}

/* Posts, waits for it to come out, returns its res. */
static inline int rig_do(struct shm_rig *r, uint32_t side, struct chunk *c)
{
	rig_post(r, side, c);
	RIG_UNTIL(r, c->op);
	return c->res;
}

#endif
