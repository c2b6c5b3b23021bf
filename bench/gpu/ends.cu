/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts that the benches write between. */
#include "ends.h"

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
