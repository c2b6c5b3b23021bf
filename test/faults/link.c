/* SPDX-License-Identifier: Apache-2.0 */
/* Our link goes down, by hand or for want of a carrier: entries to a peer behind it end with
 * -ENETDOWN long before their deadlines, new ones at once, and the sentence names the interface; a
 * peer that is not behind it notices nothing. It comes back: the connection is the same, and
 * entries go on. */
#include "faults.h"

#define MS	1000000ull
#define LONG_US 10000000u

static struct pair p;
static struct peer far, near;
static struct urccl_peer far_handle, near_handle;
static struct urccl_remote far_memory, near_memory;
static uint8_t local[64];

static void meet(struct peer *peer, const char *listen, struct urccl_peer *handle,
		 struct urccl_remote *remote)
{
	struct settings s = {.transport = "tcp", .dead_after_ms = 10000};
	struct urccl_cqe cqe;

	snprintf(s.listen, sizeof(s.listen), "%s", listen);
	peer_start(peer, &s);
	cqe = side_dialled(&p.a, NULL, peer->blob, peer->blob_len, 20000000);
	CHECK_EQ(cqe.res, 0);
	handle->id = (uint32_t)cqe.handle;
	CHECK_EQ(urccl_import(p.a.ctx, *handle, &peer->advert, 1, remote), 0);
}

static void begin(void)
{
	char place[PLACE_MAX];

	p.params.size = sizeof(p.params);
	urccl_params_init(&p.params);
	p.params.transport = "tcp";
	p.params.dead_after_ms = 10000;
	p.ring_params.size = sizeof(p.ring_params);
	side_open(&p, &p.a);
	side_register(&p.a, local, sizeof(local), 0);
	place_v4(place, free_port());
	meet(&near, place, &near_handle, &near_memory);
	meet(&far, NET_PEER ":7801", &far_handle, &far_memory);
	side_watch(&p.a, far_handle, 1);
}

static struct urccl_cqe writes(struct urccl_remote remote)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, remote, local, sizeof(local), 0);
	urccl_sqe_set_timeout(sqe, LONG_US);
	urccl_sqe_set_data64(sqe, 2);
	return pair_run(&p, &p.a, sqe);
}

/* Nothing but -ENETDOWN until it works. */
static void goes_on(void)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	int64_t res;

	while ((res = writes(far_memory).res) < 0) {
		CHECK_EQ(res, -ENETDOWN);
		CHECK(now_ns() < late);
		side_silent(&p.a, NULL, 10 * MS);
	}
	CHECK_EQ(res, (int64_t)sizeof(local));
}

static void down_and_up(void (*set)(int up))
{
	uint64_t since;
	struct urccl_cqe cqe;

	goes_on();
	set(0);
	since = now_ns();
	cqe = writes(far_memory);
	CHECK_EQ(cqe.res, -ENETDOWN);
	check_sentence(&p.a, &cqe, "interface fa");
	CHECK_LE(now_ns() - since, LONG_US / 2 * 1000ull);
	since = now_ns();
	CHECK_EQ(writes(far_memory).res, -ENETDOWN);
	CHECK_EQ(side_tell(&p.a, NULL, far_handle.id, 9), -ENETDOWN);
	CHECK_LE(now_ns() - since, LONG_US / 2 * 1000ull);
	CHECK_EQ(writes(near_memory).res, (int64_t)sizeof(local));
	set(1);
	goes_on();
	CHECK_EQ(peer_lost(&far), 0);
	side_silent(&p.a, NULL, 20 * MS);
}

int main(int argc, char **argv)
{
	const char *no_net;

	peer_main(argc, argv);
	no_net = net_open();
	if (no_net)
		SKIP(no_net);
	begin();
	down_and_up(net_link);
	down_and_up(net_carrier);
	down_and_up(net_link);
	side_close(&p.a);
	peer_end(&near);
	peer_end(&far);
	return 0;
}
