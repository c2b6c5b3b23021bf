/* SPDX-License-Identifier: Apache-2.0 */
/* greedy HOST:PORT: a client of urccl_perf --serve that asks for what it cannot have, and is told
 * so each time. */
#include "urccl_perf/talk.h"

#include <string.h>

#include "test.h"

struct greedy {
	struct urccl *ctx;
	struct urccl_ring *ring;
	struct urccl_peer peer;
};

static struct urccl_cqe *next(struct greedy *g)
{
	struct urccl_wait_args args = {.size = sizeof(args),
				       .min_n = 1,
				       .timeout_ns = 20000000000u};
	struct urccl_cqe *cqe;

	CHECK(urccl_wait(g->ring, &cqe, &args) > 0);
	return cqe;
}

static void dial(struct greedy *g, const char *to)
{
	struct urccl_params p = {.size = sizeof(p)};
	struct urccl_cqe *cqe;

	urccl_params_init(&p);
	p.transport = "tcp";
	CHECK_EQ(urccl_open(&p, &g->ctx), 0);
	CHECK_EQ(urccl_ring_open(g->ctx, NULL, &g->ring), 0);
	urccl_prep_connect(urccl_get_sqe(g->ring), to, (uint32_t)strlen(to));
	CHECK_EQ(urccl_submit(g->ring), 1);
	cqe = next(g);
	CHECK_EQ(cqe->res, 0);
	g->peer.id = (uint32_t)cqe->handle;
	urccl_cqe_seen(g->ring, cqe);
	urccl_prep_watch(urccl_get_sqe(g->ring), g->peer);
	CHECK_EQ(urccl_submit(g->ring), 1);
}

/* Our notification ends and the answer comes, in either order. */
static int answer(struct greedy *g, const struct talk_request *r)
{
	struct talk_offer offer = {0};
	int seen = 0;

	urccl_prep_notify(urccl_get_sqe(g->ring), g->peer, TALK_REQUEST, r, sizeof(*r));
	CHECK_EQ(urccl_submit(g->ring), 1);
	while (seen != 3) {
		struct urccl_cqe *cqe = next(g);

		if (urccl_cqe_kind(cqe) == URCCL_KIND_NOTE) {
			CHECK_EQ(cqe->tag, TALK_OFFER);
			CHECK_EQ(cqe->res, sizeof(offer));
			memcpy(&offer, urccl_cqe_note(g->ring, cqe), sizeof(offer));
			seen |= 1;
		} else if (urccl_cqe_kind(cqe) == URCCL_KIND_OP) {
			CHECK(cqe->res >= 0);
			seen |= 2;
		}
		urccl_cqe_seen(g->ring, cqe);
	}
	return offer.err;
}

/* More than there is; and work that cannot be done. */
static void ask(struct greedy *g)
{
	struct talk_request much = {.version = TALK_VERSION, .len = 64ull << 30};
	struct talk_request work = {.version = TALK_VERSION, .len = 4096, .span = 4096,
				    .bidirectional = 1, .op = URCCL_OP_WRITEV, .depth = 1,
				    .iovs = 16, .blocks = 1, .planes = 1, .run = 1};
	struct talk_request wide = work;

	CHECK_EQ(answer(g, &much), -ENOMEM);
	CHECK_EQ(answer(g, &work), -EINVAL); /* of no bytes */
	work.size = 4095;
	CHECK_EQ(answer(g, &work), -EINVAL);
	wide.op = URCCL_OP_READ_PAGED;
	wide.size = 1 << 2;
	wide.blocks = wide.planes = 1u << 31;
	CHECK_EQ(answer(g, &wide), -EINVAL);
}

int main(int argc, char **argv)
{
	struct greedy g;

	CHECK_EQ(argc, 2);
	dial(&g, argv[1]);
	ask(&g);
	urccl_close(g.ctx);
	return 0;
}
