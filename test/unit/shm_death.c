/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that is killed: its ep goes down, every chunk comes out, and what it had sent is still
 * heard. */
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include "shm_rig.h"

#define CHUNKS 8u
#define LEN    (1u << 20)

static uint8_t local[LEN];

/* What the child tells and is told: pages of both, mapped before the fork. */
struct shared {
	uint32_t addr_len[2];
	uint8_t addr[2][EP_ADDR_MAX];
	uint8_t key[KEY_MAX];
	uint32_t key_len;
	uint32_t stage; /* how far both are */
};

static void stage_wait(struct shared *s, uint32_t stage)
{
	while (__atomic_load_n(&s->stage, __ATOMIC_ACQUIRE) < stage)
		sched_yield();
}

static void stage_set(struct shared *s, uint32_t stage)
{
	__atomic_store_n(&s->stage, stage, __ATOMIC_RELEASE);
}

/* Side 1 exposes memory, sends a message and then only waits to be killed. */
static void child(struct shared *s)
{
	static uint8_t target[LEN];
	struct exposure x;
	struct shm_rig r = {0};
	struct chunk c = rig_chunk(CHUNK_SEND, target, 3, NULL, 0);
	struct memory *m;

	rig_device(&r.dev[1], NULL);
	s->addr_len[1] = EP_ADDR_MAX;
	CHECK_EQ(backend_shm.ep_open(r.dev[1], &r.ep[1], s->addr[1], &s->addr_len[1]), 0);
	stage_set(s, 1);
	stage_wait(s, 2);
	CHECK_EQ(backend_shm.ep_connect(r.ep[1], s->addr[0], s->addr_len[0], 0, NULL), 0);
	stage_set(s, 3);
	while (!r.up[1])
		rig_poll(&r, 1);
	m = rig_memory(&r, 1, target, LEN, -1);
	x = (struct exposure){.ep = r.ep[1], .memory = m, .len = LEN, .rights = m->rights};
	x.expires_ns = NEVER_NS;
	s->key_len = (uint32_t)backend_shm.expose(&x, s->key, KEY_MAX);
	rig_post(&r, 1, &c);
	rig_poll(&r, 1);
	stage_set(s, 4);
	for (;;)
		pause();
}

int case_shm_death(void)
{
	struct shared *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct chunk c[CHUNKS];
	struct shm_rig r = {0};
	struct rkey rkey;
	uint32_t i;
	pid_t pid;

	CHECK(s != MAP_FAILED);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		child(s);
	rig_device(&r.dev[0], NULL);
	s->addr_len[0] = EP_ADDR_MAX;
	CHECK_EQ(backend_shm.ep_open(r.dev[0], &r.ep[0], s->addr[0], &s->addr_len[0]), 0);
	stage_wait(s, 1);
	stage_set(s, 2);
	stage_wait(s, 3);
	CHECK_EQ(backend_shm.ep_connect(r.ep[0], s->addr[1], s->addr_len[1], 1, NULL), 0);
	while (!r.up[0])
		rig_poll(&r, 0);
	stage_wait(s, 4);
	CHECK_EQ(backend_shm.import(r.ep[0], s->key, s->key_len, LEN, &rkey), 0);
	for (i = 0; i < CHUNKS; i++) {
		c[i] = rig_chunk(i % 2 ? CHUNK_READ : CHUNK_WRITE, local, LEN, &rkey, 0);
		rig_post(&r, 0, &c[i]);
	}
	kill(pid, SIGKILL);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	while (!r.down[0])
		rig_poll(&r, 0);
	CHECK_EQ(r.down[0], -ECONNRESET);
	CHECK_EQ(r.messages[0], 1);
	for (i = 0; i < CHUNKS; i++) {
		while (!c[i].op)
			rig_poll(&r, 0);
		CHECK_EQ(c[i].res, -ECONNRESET);
	}
	rig_end(&r, 0);
	return 0;
}
