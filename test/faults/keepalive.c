/* SPDX-License-Identifier: Apache-2.0 */
/* While nothing is awaited, and no WATCH names the peer, the kernel's keepalive watches over a
 * connection: no packet of ours, a peer that is frozen stays, one that is cut off is lost on both
 * sides; and it is found again. A peer that a WATCH names is asked while it is idle: if its sockets
 * live on and nobody answers, as when a forked child of the dead process keeps them, it is lost. */
#include "faults.h"

#define MS 1000000ull

static struct pair p;
static struct peer peer;
static struct settings place;
static struct urccl_remote remote;
static uint8_t local[64];

static void connect_it(void)
{
	struct urccl_cqe cqe = side_dialled(&p.a, NULL, peer.blob, peer.blob_len, 20000000);

	CHECK_EQ(cqe.res, 0);
	p.a.peer.id = (uint32_t)cqe.handle;
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &peer.advert, 1, &remote), 0);
}

static void begin(uint32_t dead_after_ms)
{
	memset(&p, 0, sizeof(p));
	p.params.size = sizeof(p.params);
	urccl_params_init(&p.params);
	p.params.transport = "tcp";
	p.params.dead_after_ms = dead_after_ms;
	p.ring_params.size = sizeof(p.ring_params);
	snprintf(place.transport, sizeof(place.transport), "tcp");
	snprintf(place.listen, sizeof(place.listen), NET_PEER ":7801");
	place.dead_after_ms = dead_after_ms;
	peer_start(&peer, &place);
	side_open(&p, &p.a);
	side_watch(&p.a, (struct urccl_peer){0}, 1);
	side_register(&p.a, local, sizeof(local), 0);
	connect_it();
}

static void works(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, remote, local, sizeof(local), 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, (int64_t)sizeof(local));
}

static void end(void)
{
	side_close(&p.a);
	peer_end(&peer);
}

/* Sent and received in our namespace, which is ours alone. */
static uint64_t segments(void)
{
	unsigned long long in = 0, out = 0;
	char line[512];
	FILE *f = fopen("/proc/self/net/snmp", "r");

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "Tcp: %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &in, &out) ==
		    2)
			break;
	fclose(f);
	CHECK(in && out);
	return in + out;
}

static void silence(void)
{
	uint64_t before;

	begin(10000);
	works();
	side_silent(&p.a, NULL, 300 * MS); /* the last acknowledgements */
	before = segments();
	side_silent(&p.a, NULL, 2000 * MS);
	CHECK_EQ(segments(), before);
	end();
}

static void frozen(void)
{
	begin(1000);
	works();
	peer_stop(&peer);
	side_silent(&p.a, NULL, 3500 * MS);
	peer_go_on(&peer);
	works();
	CHECK_EQ(peer_lost(&peer), 0);
	end();
}

static void watched(void)
{
	struct urccl_cqe cqe;

	begin(1000);
	works();
	side_watch(&p.a, p.a.peer, 2);
	side_silent(&p.a, NULL, 2500 * MS); /* it answers */
	peer_stop(&peer);
	cqe = side_event(&p.a, NULL, URCCL_KIND_LOST, NULL);
	CHECK_EQ(cqe.res, -ECONNRESET);
	check_sentence(&p.a, &cqe, "1000 ms");
	peer_go_on(&peer);
	CHECK_EQ(side_drop(&p.a, NULL, p.a.peer.id), 0);
	end();
}

static void cut_off(void)
{
	uint64_t before, since, ms;
	struct urccl_cqe cqe;

	begin(1000);
	works();
	before = now_ns(); /* it was heard last */
	net_drop(1);
	since = now_ns();
	side_take(&p.a, NULL, &cqe, NULL);
	ms = (now_ns() - since) / MS;
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_LOST);
	CHECK_EQ(cqe.res, -ECONNRESET);
	check_sentence(&p.a, &cqe, "1000 ms");
	CHECK_GE(now_ns() - before, 900 * MS);
	CHECK_LE(ms, 5000);
	while (!peer_lost(&peer))
		CHECK_LE(now_ns() - since, 10000 * MS);
	net_drop(0);
	CHECK_EQ(side_drop(&p.a, NULL, p.a.peer.id), 0);
	connect_it();
	works();
	printf("idle and cut off, dead_after 1000 ms: lost after %llu ms\n",
	       (unsigned long long)ms);
	end();
}

int main(int argc, char **argv)
{
	const char *no_net;

	peer_main(argc, argv);
	no_net = net_open();
	if (no_net)
		SKIP(no_net);
	silence();
	frozen();
	watched();
	cut_off();
	return 0;
}
