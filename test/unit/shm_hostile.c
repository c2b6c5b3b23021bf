/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that writes what it likes into the shared pages and the link: its ep goes down with
 * -EPROTO, what it may touch and what it was given stay as they were, and another peer notices
 * nothing. */
#include <backend/shm/shm.h>
#include "shm_rig.h"

#define LEN   (1u << 16)
#define GUARD 4096u

static uint8_t memory[GUARD + LEN + GUARD], local[LEN];

struct crime {
	const char *name;
	void (*commit)(struct shm_ep *e); /* the hostile side's own ep */
};

static void head_ahead(struct shm_ep *e)
{
	store_release(e->pages.out[SHM_BULK].mine, e->pages.out[SHM_BULK].mask + 2);
}

static void head_back(struct shm_ep *e)
{
	store_release(e->pages.out[SHM_QUICK].mine, UINT32_MAX);
}

static void tail_ahead(struct shm_ep *e)
{
	store_release(e->pages.in[SHM_QUICK].mine, 1 << 30);
}

static void noise(struct shm_ep *e, enum shm_channel w)
{
	struct shm_ring *r = &e->pages.out[w];
	uint32_t i;

	for (i = 0; i <= r->mask; i++)
		r->bytes[i] = (uint8_t)(i * 2654435761u >> 13);
	store_release(r->mine, r->mask + 1);
}

static void noise_quick(struct shm_ep *e)
{
	noise(e, SHM_QUICK);
}

static void noise_bulk(struct shm_ep *e)
{
	noise(e, SHM_BULK);
}

static void record(struct shm_ep *e, uint32_t type, uint64_t serial)
{
	struct shm_record r = {.type = type, .serial = serial};

	CHECK_EQ(shm_link_send(e, &r, -1), 0);
}

static void record_unknown(struct shm_ep *e)
{
	record(e, 77, 0);
}

static void hello_again(struct shm_ep *e)
{
	record(e, SHM_HELLO, 0);
}

static void file_nameless(struct shm_ep *e)
{
	record(e, SHM_FILE, 0);
}

static const struct crime crimes[] = {
	{"head ahead", head_ahead},   {"head back", head_back},
	{"tail ahead", tail_ahead},   {"noise, quick", noise_quick},
	{"noise, bulk", noise_bulk},  {"unknown record", record_unknown},
	{"hello again", hello_again}, {"file without a name", file_nameless},
};

/* Only the victim is polled: the other side has left the library's ways. The window of unanswered
 * chunks fills the ring, so that its tail matters. */
static void victim(const struct crime *crime)
{
	static struct chunk c[64];
	struct exposure x, y;
	struct rkey rkey, unused;
	struct shm_rig r;
	struct memory *m, *theirs;
	uint32_t i;

	rig_open(&r, NULL);
	rig_connect(&r);
	memset(memory, 0x5a, sizeof(memory));
	memset(local, 0x33, sizeof(local));
	m = rig_memory(&r, 0, memory + GUARD, LEN, -1);
	theirs = rig_memory(&r, 1, local, LEN, -1);
	rig_expose(&r, 0, m, URCCL_RIGHT_READ, &x, &unused);
	rig_expose(&r, 1, theirs, URCCL_RIGHT_READ | URCCL_RIGHT_WRITE, &y, &rkey);
	for (i = 0; i < ARRAY_SIZE(c); i++) {
		c[i] = rig_chunk(CHUNK_WRITE, local, 512, &rkey, 0);
		rig_post(&r, 0, &c[i]);
	}
	crime->commit(container_of(r.ep[1], struct shm_ep, ep));
	for (i = 0; i < 100000 && !r.down[0]; i++)
		rig_poll(&r, 0);
	if (r.down[0] != -EPROTO)
		fprintf(stderr, "%s: %d\n", crime->name, r.down[0]);
	CHECK_EQ(r.down[0], -EPROTO);
	for (i = 0; i < ARRAY_SIZE(c); i++) {
		while (!c[i].op)
			rig_poll(&r, 0);
		CHECK(c[i].res < 0);
	}
	for (i = 0; i < sizeof(memory); i++)
		CHECK_EQ(memory[i], 0x5a);
	CHECK_EQ(backend_shm.unexpose(&x), 0);
	CHECK_EQ(backend_shm.unexpose(&y), 0);
	rig_memory_free(&r, 0, m);
	rig_memory_free(&r, 1, theirs);
	rig_close(&r);
}

int case_shm_hostile(void)
{
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(crimes); i++)
		victim(&crimes[i]);
	return 0;
}
