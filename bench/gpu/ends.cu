/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts for kernels to push between, and a thread that takes entries as an engine would. */
#include "lanes.h"

#include <atomic>
#include <cstring>
#include <pthread.h>
#include <time.h>

double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

void must(int err, const char *call)
{
	if (err >= 0)
		return;
	fprintf(stderr, "%s: %s\n", call, urccl_errmsg());
	exit(1);
}

void end_open(struct end *e, const char *transport, uint32_t deadline_ms)
{
	struct urccl_params params;

	urccl_params_init(&params);
	params.transport = transport;
	if (deadline_ms)
		params.deadline_ms = deadline_ms;
	must(urccl_params_from_env(&params), "urccl_params_from_env");
	must(urccl_open(&params, &e->ctx), "urccl_open");
	must(urccl_ring_open(e->ctx, NULL, &e->ring), "urccl_ring_open");
}

struct urccl_region end_register(struct end *e, void *addr, size_t len, uint32_t rights)
{
	struct urccl_range range = {(uintptr_t)addr, len, 0, -1, 0};
	struct urccl_region r;

	must(urccl_register(e->ctx, &range, 1, rights, &r), "urccl_register");
	return r;
}

struct urccl_cqe end_take(struct end *e)
{
	struct urccl_wait_args args = {};
	struct urccl_cqe *cqe, out;
	char why[512];

	args.size = sizeof(args);
	args.timeout_ns = 20000000000;
	must(urccl_wait(e->ring, &cqe, &args), "urccl_wait");
	if (cqe->res < 0) {
		urccl_explain(e->ctx, cqe, why, sizeof(why));
		fprintf(stderr, "%s\n", why);
		exit(1);
	}
	out = *cqe;
	urccl_cqe_seen(e->ring, cqe);
	return out;
}

void end_close(struct end *e)
{
	urccl_ring_close(e->ring);
	urccl_close(e->ctx);
}

void ends_connect(struct end *a, struct end *b)
{
	uint8_t blob[URCCL_METADATA_MAX];
	int len = urccl_metadata(b->ctx, blob, sizeof(blob));
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;

	must(len, "urccl_metadata");
	sqe = urccl_get_sqe(b->ring);
	urccl_prep_accept(sqe);
	urccl_sqe_add_flags(sqe, URCCL_SQE_WATCH);
	urccl_submit(b->ring);
	urccl_prep_connect(urccl_get_sqe(a->ring), blob, (uint32_t)len);
	urccl_submit(a->ring);
	cqe = end_take(a);
	a->peer = urccl_cqe_peer(&cqe);
	cqe = end_take(b);
	b->peer = urccl_cqe_peer(&cqe);
}

struct urccl_remote ends_share(struct end *a, struct end *b, void *addr, size_t len)
{
	struct urccl_remote remote;
	struct urccl_advert advert;
	uint32_t rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE | URCCL_RIGHT_ATOMIC;

	must(urccl_advertise(b->ctx, end_register(b, addr, len, rights), 0, len, rights, 0,
			     &advert),
	     "urccl_advertise");
	must(urccl_import(a->ctx, a->peer, &advert, 1, &remote), "urccl_import");
	return remote;
}

/* ---- The smallest taker ---- */

struct raw_taker {
	struct urccl_device_ring ring;
	uint32_t copy;
	char *to;
	std::atomic<int> stopping;
	pthread_t thread;
};

#define LAP 1ull << 63

static int raw_take(struct raw_taker *t, uint64_t *at, uint64_t lap, uint64_t w[8])
{
	w[0] = __atomic_load_n(&at[0], __ATOMIC_ACQUIRE);
	w[3] = __atomic_load_n(&at[3], __ATOMIC_ACQUIRE);
	w[5] = __atomic_load_n(&at[5], __ATOMIC_ACQUIRE);
	w[7] = __atomic_load_n(&at[7], __ATOMIC_ACQUIRE);
	if (((w[0] << (63 - 29)) ^ lap) & LAP || ((w[3] ^ lap) | (w[5] ^ lap) | (w[7] ^ lap)) & LAP)
		return 0;
	w[1] = at[1];
	w[2] = at[2];
	w[4] = at[4];
	w[6] = at[6];
	if (t->copy)
		memcpy(t->to, (const void *)(uintptr_t)((w[3] << 1) >> 1), t->copy);
	return 1;
}

static void *raw_taker_main(void *arg)
{
	struct raw_taker *t = (struct raw_taker *)arg;
	const struct urccl_device_ring *r = &t->ring;
	uint64_t *taken = (uint64_t *)calloc(r->lanes, 8), w[8], was, slot;
	static volatile uint64_t sum; /* that the loads are not left out */
	uint32_t i;

	while (!t->stopping) {
		for (i = 0; i < r->lanes; i++) {
			for (was = taken[i]; taken[i] - was < 32; taken[i]++) {
				slot = i * (r->entries + 1ull) + (taken[i] & (r->entries - 1));
				if (!raw_take(t, (uint64_t *)&r->slots[slot],
					      taken[i] & r->entries ? 0 : ~0ull, w))
					break;
				sum = w[1] + w[2] + w[4] + w[6];
			}
			if (taken[i] != was)
				__atomic_store_n(&r->words[i].ended, taken[i], __ATOMIC_RELEASE);
		}
	}
	free(taken);
	return NULL;
}

struct raw_taker *raw_taker_start(uint32_t lanes, uint32_t entries, uint32_t copy,
				  struct urccl_device_ring *ring)
{
	struct raw_taker *t = new raw_taker();

	t->ring.slots = (struct urccl_sqe *)host_alloc(64ull * lanes * (entries + 1));
	t->ring.words = (struct urccl_device_lane *)host_alloc(sizeof(*t->ring.words) * lanes);
	t->ring.lanes = lanes;
	t->ring.entries = entries;
	t->copy = copy;
	t->to = (char *)calloc(1, copy + 1);
	t->stopping = 0;
	*ring = t->ring;
	if (pthread_create(&t->thread, NULL, raw_taker_main, t))
		exit(1);
	return t;
}

void raw_taker_stop(struct raw_taker *t)
{
	t->stopping = 1;
	pthread_join(t->thread, NULL);
	CUDA(cudaFreeHost(t->ring.slots));
	CUDA(cudaFreeHost(t->ring.words));
	free(t->to);
	delete t;
}
