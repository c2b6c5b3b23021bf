/* SPDX-License-Identifier: Apache-2.0 */
/* Thousands of dials at once, to very many peers that were never met and take nobody until all of
 * them are under way: each ends once and with its own peer, those of one peer share one handshake,
 * what they hold meanwhile is bounded, and a second time it is no more.
 *
 *	api-dials_cold [--peers=N,DIALS to each] OPTIONS
 */
#include <sys/resource.h>
#include "held.h"
#include "meet.h"

#define DIAL_US	  200000000u
#define DIAL_MOST 1024	  /* bytes that a dial may have until its end, of malloc() */
#define PEER_MOST 1048576 /* and a handshake, at both ends */
#define SPARE	  64u	  /* descriptors of the test itself, and of libc */

static struct pair p; /* a dials */
static struct side *sides;
static uint8_t (*blobs)[URCCL_METADATA_MAX];
static uint32_t *blob_lens, *handles, *ends; /* of each side, and of the dials to it */
static uint32_t peers = 20, dials = 25;

static void turn_all(void)
{
	uint32_t i;

	side_turn(&p.a);
	for (i = 0; i < peers; i++)
		side_turn(&sides[i]);
	usleep(1000);
}

/* Descriptors of a connection, at both ends. */
static uint32_t peer_fds(void)
{
	return p.transport == URCCL_TRANSPORT_FABRIC ? 32 : 8; /* a provider has its own */
}

/* Each has some already when nobody is connected. */
static void check_room(uint32_t each)
{
	uint64_t wanted = (uint64_t)peers * (each + peer_fds()) + SPARE;
	struct rlimit files;
	char why[128];

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
	snprintf(why, sizeof(why), "%llu descriptors are needed, and ulimit -Hn is %llu",
		 (unsigned long long)wanted, (unsigned long long)files.rlim_max);
	if (files.rlim_max < wanted)
		SKIP(why);
	files.rlim_cur = files.rlim_max;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
}

static void open_all(void)
{
	uint32_t i, before, most = p.params.max_peers;
	int len;

	p.ring_params.entries = 16384;
	p.params.max_peers = peers + 16;
	pair_sim(&p);
	side_open(&p, &p.a);
	p.params.max_peers = most;
	p.ring_params.entries = p.ring_params.event_slots = 16;
	p.params.flags |= URCCL_OPEN_INLINE;
	for (i = 0; i < peers; i++) {
		before = fds_open();
		side_open(&p, &sides[i]);
		len = urccl_metadata(sides[i].ctx, blobs[i], URCCL_METADATA_MAX);
		CHECK_GE(len, 1);
		blob_lens[i] = (uint32_t)len;
		if (!i)
			check_room(fds_open() - before);
	}
}

/* ---- the dials ---- */

static void dial_all(void)
{
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	uint32_t i;

	for (i = 0; i < peers * dials; i++) {
		sqe = side_sqe(&p.a);
		urccl_prep_connect(sqe, blobs[i % peers], blob_lens[i % peers]);
		urccl_sqe_set_deadline_us(sqe, DIAL_US);
		urccl_sqe_set_data64(sqe, i % peers);
	}
	CHECK_EQ(urccl_submit(p.a.ring), (int)(peers * dials));
	CHECK(!side_take_within(&p.a, NULL, 0, &cqe, NULL));
}

static void check_bounded(const char *what, const struct held *before)
{
	struct held now = held_now();

	printf("%u dials %s: %+lld bytes, %+lld descriptors\n", peers * dials, what,
	       (long long)(now.bytes - before->bytes), (long long)(now.fds - before->fds));
	CHECK_LE(now.fds, before->fds + peer_fds() * (int64_t)peers);
	if (p.transport != URCCL_TRANSPORT_FABRIC)
		CHECK_LE(now.bytes, before->bytes + (int64_t)peers * PEER_MOST +
					    (int64_t)peers * dials * DIAL_MOST);
}

/* Of every peer there is a connection, of which both ends are here, and no dial has ended. */
static void await_under_way(const struct held *before)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	struct urccl_cqe cqe;

	while (fds_open() < before->fds + 2 * (int64_t)peers) {
		CHECK(!is_late(late));
		turn_all();
	}
	CHECK(!side_take_within(&p.a, NULL, 0, &cqe, NULL));
}

static void on_end(const struct urccl_cqe *cqe)
{
	uint32_t to = (uint32_t)cqe->user_data;

	CHECK(to < peers && !(cqe->flags & URCCL_CQE_MORE));
	if (cqe->res)
		check_sentence(&p.a, cqe, "no sentence can excuse it");
	CHECK(ends[to]++ < dials);
	CHECK(cqe->handle && (!handles[to] || cqe->handle == handles[to]));
	handles[to] = (uint32_t)cqe->handle;
}

/* Takes as many ends of a's. */
static void take_all(uint32_t n, void (*end)(const struct urccl_cqe *))
{
	uint64_t late = now_ns() + PAIR_LATE_NS + n * 1000000ull;
	struct urccl_cqe cqe;

	while (n) {
		CHECK(!is_late(late));
		turn_all();
		while (n && side_take_within(&p.a, NULL, 0, &cqe, NULL)) {
			end(&cqe);
			n--;
		}
	}
}

static void accept_all(void)
{
	struct urccl_cqe cqe;
	uint32_t i, k;

	for (i = 0; i < peers; i++)
		side_accept(&sides[i], 1);
	take_all(peers * dials, on_end);
	for (i = 0; i < peers; i++) {
		CHECK_EQ(ends[i], dials);
		for (k = 0; k < i; k++)
			CHECK_NE(handles[k], handles[i]);
		sides[i].peer.id = side_event(&sides[i], &p.a, URCCL_KIND_PEER, NULL).peer;
		CHECK(!side_take_within(&sides[i], NULL, 0, &cqe, NULL)); /* one handshake */
	}
}

/* ---- the end ---- */

static void on_closed(const struct urccl_cqe *cqe)
{
	CHECK_EQ(cqe->res, 0);
}

/* Each dial is a reference. */
static void part_all(void)
{
	struct urccl_sqe *sqe;
	uint32_t i;

	for (i = 0; i < peers * dials; i++) {
		sqe = side_sqe(&p.a);
		urccl_prep_close(sqe, (struct urccl_peer){handles[i % peers]});
	}
	CHECK_EQ(urccl_submit(p.a.ring), (int)(peers * dials));
	take_all(peers * dials, on_closed);
	for (i = 0; i < peers; i++) {
		CHECK_EQ(side_drop(&sides[i], &p.a, sides[i].peer.id), 0);
		urccl_prep_cancel(side_sqe(&sides[i]), URCCL_CANCEL_BY_USER_DATA, 1);
		CHECK_EQ(urccl_submit(sides[i].ring), 1);
		/* The ACCEPT, and what the CANCEL says. */
		side_event(&sides[i], NULL, URCCL_KIND_OP, NULL);
		side_event(&sides[i], NULL, URCCL_KIND_OP, NULL);
	}
	memset(handles, 0, peers * sizeof(*handles));
	memset(ends, 0, peers * sizeof(*ends));
}

static struct held meet_all(void)
{
	struct held before = held_settled(turn_all);

	dial_all();
	await_under_way(&before);
	check_bounded("under way", &before);
	accept_all();
	check_bounded("ended", &before);
	part_all();
	return held_settled(turn_all);
}

int main(int argc, char **argv)
{
	int set = argc > 1 && sscanf(argv[1], "--peers=%u,%u", &peers, &dials) == 2;
	struct held once;
	uint32_t i;

	pair_options(&p, argc - set, argv + set);
	sides = calloc(peers, sizeof(*sides));
	blobs = calloc(peers, sizeof(*blobs));
	blob_lens = calloc(peers, sizeof(*blob_lens));
	handles = calloc(peers, sizeof(*handles));
	ends = calloc(peers, sizeof(*ends));
	CHECK(sides && blobs && blob_lens && handles && ends);
	printf("%u peers, %u dials to each\n", peers, dials);
	open_all();
	once = meet_all();
	meet_all();
	check_held("the second time", &once, turn_all);
	side_close(&p.a);
	for (i = 0; i < peers; i++)
		side_close(&sides[i]);
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
	free(sides);
	free(blobs);
	free(blob_lens);
	free(handles);
	free(ends);
	return 0;
}
