/* SPDX-License-Identifier: Apache-2.0 */
/* Our link goes down, by hand or for want of a carrier: entries to a peer behind it end with
 * -ENETDOWN long before their deadlines, new ones at once, and the sentence names the interface; a
 * peer that is not behind it notices nothing, nor one whose bytes go through memory, though its
 * connection is. It comes back: the connection is the same, and entries go on. So by IPv4, by IPv6
 * and, where we were dialled, by the one in the other's clothes. Each link has its own moment to
 * come back in. */
#include <sched.h>

#include "faults.h"

#define MS	1000000ull
#define LONG_US 10000000u

struct met {
	struct peer peer;
	struct urccl_peer handle;
	struct urccl_remote memory;
};

static struct pair p;
static struct met near, far, far6, other, beside, caller;
static uint8_t local[64];
static char dir[] = "/tmp/urccl-link-XXXXXX";

static void start(struct met *m, const char *transport, const char *listen, const char *dial)
{
	struct settings s = {.dead_after_ms = 10000};

	snprintf(s.transport, sizeof(s.transport), "%s", transport);
	snprintf(s.listen, sizeof(s.listen), "%s", listen);
	snprintf(s.dial, sizeof(s.dial), "%s", dial);
	snprintf(s.dir, sizeof(s.dir), "%s", dir);
	peer_start(&m->peer, &s);
}

static void met(struct met *m, uint32_t handle)
{
	m->handle.id = handle;
	CHECK_EQ(urccl_import(p.a.ctx, m->handle, &m->peer.advert, 1, &m->memory), 0);
}

static void meet(struct met *m, const char *transport, const char *listen)
{
	struct urccl_cqe cqe;

	start(m, transport, listen, "");
	cqe = side_dialled(&p.a, NULL, m->peer.blob, m->peer.blob_len, 20000000);
	CHECK_EQ(cqe.res, 0);
	met(m, (uint32_t)cqe.handle);
}

/* Of one that dials us, who listen at [::], by IPv4. */
static void called(struct met *m)
{
	char place[PLACE_MAX];
	uint16_t port = free_port();

	snprintf(place, sizeof(place), "[::]:%u", port);
	p.params.listen = place;
	side_open(&p, &p.a);
	side_register(&p.a, local, sizeof(local), 0);
	side_accept(&p.a, 1);
	snprintf(place, sizeof(place), NET_OURS ":%u", port);
	start(m, "tcp", NET_PEER ":7803", place);
	met(m, side_event(&p.a, NULL, URCCL_KIND_PEER, NULL).peer);
}

static void begin(void)
{
	char place[PLACE_MAX];

	p.params.size = sizeof(p.params);
	urccl_params_init(&p.params);
	p.params.transport = "shm,tcp";
	p.params.dead_after_ms = 10000;
	p.params.socket_dir = mkdtemp(dir);
	p.ring_params.size = sizeof(p.ring_params);
	called(&caller);
	place_v4(place, free_port());
	meet(&near, "tcp", place);
	meet(&far, "tcp", NET_PEER ":7801");
	meet(&other, "tcp", NET_OTHER ":7804");
	meet(&beside, "shm", NET_PEER ":7802");
	if (net_v6())
		meet(&far6, "tcp", NET_PEER6 ":7801");
	else
		printf("not run: a peer by IPv6: there is none here\n");
	side_watch(&p.a, far.handle, 1);
}

static struct urccl_sqe *write_to(const struct met *m)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, m->memory, local, sizeof(local), 0);
	urccl_sqe_set_deadline_us(sqe, LONG_US);
	urccl_sqe_set_data64(sqe, 2);
	return sqe;
}

static struct urccl_cqe writes(const struct met *m)
{
	return pair_run(&p, &p.a, write_to(m));
}

/* Nothing but -ENETDOWN until it works. */
static void goes_on(const struct met *m)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	int64_t res;

	while ((res = writes(m).res) < 0) {
		CHECK_EQ(res, -ENETDOWN);
		CHECK(now_ns() < late);
		side_silent(&p.a, NULL, 10 * MS);
	}
	CHECK_EQ(res, (int64_t)sizeof(local));
}

static void is_cut(const struct met *m)
{
	uint64_t since = now_ns();
	struct urccl_cqe cqe = writes(m);

	CHECK_EQ(cqe.res, -ENETDOWN);
	check_sentence(&p.a, &cqe,
		       "interface fa, by which the peer is reached, is down, and no other leads "
		       "there: bring it up (ip link), and try again");
	CHECK_LE(now_ns() - since, LONG_US / 2 * 1000ull);
	since = now_ns();
	CHECK_EQ(writes(m).res, -ENETDOWN);
	CHECK_EQ(side_tell(&p.a, NULL, m->handle.id, 9), -ENETDOWN);
	CHECK_LE(now_ns() - since, LONG_US / 2 * 1000ull);
}

static void is_there(const struct met *m)
{
	CHECK_EQ(writes(m).res, (int64_t)sizeof(local));
}

static void down_and_up(void (*set)(int up))
{
	goes_on(&far);
	is_there(&beside);
	set(0);
	is_cut(&far);
	is_cut(&caller);
	if (far6.peer.pid)
		is_cut(&far6);
	is_there(&near);
	is_there(&beside);
	set(1);
	goes_on(&far);
	goes_on(&caller);
	if (far6.peer.pid)
		goes_on(&far6);
	CHECK_EQ(peer_lost(&far.peer), 0);
	side_silent(&p.a, NULL, 20 * MS);
}

/* When the time of the first is over the other is just gone, and soon back. */
static void one_after_the_other(void)
{
	uint64_t since;
	int64_t res;

	is_there(&far);
	is_there(&other);
	net_link(0);
	side_silent(&p.a, NULL, 60 * MS);
	since = now_ns();
	net_other(0);
	write_to(&other);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	while (now_ns() - since < 65 * MS)
		sched_yield();
	net_other(1);
	since = now_ns() - since;
	res = side_end(&p.a, NULL, 2).res;
	if (since < 95 * MS)
		CHECK_EQ(res, (int64_t)sizeof(local));
	else
		printf("not looked at: a link that is soon back: it took %.0f ms\n",
		       (double)since / MS);
	is_cut(&far);
	net_link(1);
	goes_on(&far);
	goes_on(&other);
	goes_on(&caller);
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
	one_after_the_other();
	side_close(&p.a);
	CHECK_EQ(rmdir(dir), 0);
	peer_end(&caller.peer);
	peer_end(&near.peer);
	peer_end(&far.peer);
	peer_end(&other.peer);
	peer_end(&beside.peer);
	if (far6.peer.pid)
		peer_end(&far6.peer);
	return 0;
}
