/* SPDX-License-Identifier: Apache-2.0 */
/* A context with as many peers as it may have refuses one more, whoever dials, with a sentence
 * that names the limit; those that it has go on; after a CLOSE there is room again. */
#include "meet.h"

#define MAX 3u

static struct pair p;
static struct side guests[MAX + 1];
static uint8_t blob[URCCL_METADATA_MAX];
static uint32_t blob_len, handles[MAX + 1];

static int64_t dial(uint32_t i, const char *why)
{
	struct urccl_cqe cqe = side_dialled(&guests[i], &p.b, blob, blob_len, 20000000);

	if (cqe.res)
		check_sentence(&guests[i], &cqe, why);
	else
		guests[i].peer.id = (uint32_t)cqe.handle;
	return cqe.res;
}

static void check_alive(uint32_t i)
{
	CHECK_EQ(side_tell(&guests[i], &p.b, guests[i].peer.id, i), 0);
	CHECK_EQ(side_event(&p.b, &guests[i], URCCL_KIND_NOTE, NULL).tag, i);
}

static void accepting(void)
{
	uint32_t i;

	for (i = 0; i < MAX; i++) {
		CHECK_EQ(dial(i, ""), 0);
		handles[i] = side_event(&p.b, &guests[i], URCCL_KIND_PEER, NULL).peer;
	}
	CHECK_EQ(dial(MAX, "full"), -EMFILE);
	for (i = 0; i < MAX; i++)
		check_alive(i);
	/* The end of one, seen at both, makes room. */
	CHECK_EQ(side_drop(&guests[0], &p.b, guests[0].peer.id), 0);
	CHECK_EQ(side_event(&p.b, &guests[0], URCCL_KIND_LOST, NULL).peer, handles[0]);
	CHECK_EQ(side_drop(&p.b, &guests[0], handles[0]), 0);
	CHECK_EQ(dial(MAX, ""), 0);
	side_event(&p.b, &guests[MAX], URCCL_KIND_PEER, NULL);
	check_alive(MAX);
	check_alive(1);
}

/* b has MAX peers and dials a further one. */
static void dialling(void)
{
	uint8_t to[URCCL_METADATA_MAX];
	int len = urccl_metadata(guests[0].ctx, to, sizeof(to));
	struct urccl_cqe cqe;

	CHECK_GE(len, 1);
	side_accept(&guests[0], 1);
	cqe = side_dialled(&p.b, &guests[0], to, (uint32_t)len, 20000000);
	CHECK_EQ(cqe.res, -EMFILE);
	check_sentence(&p.b, &cqe, "max_peers (3)");
	check_alive(2);
}

int main(int argc, char **argv)
{
	uint32_t i;
	int len;

	pair_options(&p, argc, argv);
	pair_sim(&p);
	for (i = 0; i <= MAX; i++)
		side_open(&p, &guests[i]);
	p.params.max_peers = MAX;
	side_open(&p, &p.b);
	side_accept(&p.b, 1);
	side_watch(&p.b, (struct urccl_peer){0}, 2);
	len = urccl_metadata(p.b.ctx, blob, sizeof(blob));
	CHECK_GE(len, 1);
	blob_len = (uint32_t)len;
	accepting();
	dialling();
	for (i = 0; i <= MAX; i++)
		side_close(&guests[i]);
	side_close(&p.b);
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
