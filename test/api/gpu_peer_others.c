/* SPDX-License-Identifier: Apache-2.0 */
/* There are fewer runs of slots for peers than peers: each has one in turn, those that wait and
 * those that do not stop alike. */
#include "relay.h"

#define LEN    (2u << 20)
#define ROUNDS 12u
#define PEERS  3u

static struct pair p;
static struct side others[PEERS];
static struct urccl_remote remotes[PEERS];
static uint8_t *host[PEERS];
static uint64_t device;

static void open_other(uint32_t i)
{
	const uint32_t rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE;
	struct urccl_advert advert;
	struct urccl_region r;

	side_open(&p, &others[i]);
	side_connect(&others[i], &p.b);
	host[i] = malloc(LEN);
	CHECK(host[i]);
	side_register(&others[i], host[i], LEN, 0);
	r = side_register(&p.b, (void *)(uintptr_t)(device + i * LEN), LEN, rights);
	CHECK_EQ(urccl_advertise(p.b.ctx, r, 0, LEN, rights, 0, &advert), 0);
	CHECK_EQ(urccl_import(others[i].ctx, others[i].peer, &advert, 1, &remotes[i]), 0);
}

static void start(uint32_t i, uint32_t round)
{
	struct urccl_sqe *sqe = side_sqe(&others[i]);

	if (round & 1)
		urccl_prep_read(sqe, remotes[i], host[i], LEN, 0);
	else
		urccl_prep_write(sqe, remotes[i], host[i], LEN, 0);
	CHECK_EQ(urccl_submit(others[i].ring), 1);
}

/* Of its own turn each checks what came back. */
static void ended(uint32_t i, uint32_t round)
{
	const struct relay_local m = {.host = host[i]};

	CHECK(relay_holds(&m, 0, LEN, i));
	if (round & 1)
		return;
	CHECK(device_check(device + i * LEN, LEN, 0, i));
	memset(host[i], 0, LEN);
}

int main(int argc, char **argv)
{
	uint32_t i, rounds[PEERS] = {0}, left = PEERS;
	struct urccl_cqe cqe;

	device_load();
	relay_options(&p, argc, argv);
	p.params.staging_bytes = 8 << 20; /* one run */
	pair_open(&p);
	device = device_alloc(PEERS * LEN, 0);
	for (i = 0; i < PEERS; i++) {
		struct relay_local m;

		open_other(i);
		m = (struct relay_local){.host = host[i]};
		relay_fill(&m, 0, LEN, i);
	}
	for (i = 0; i < PEERS; i++)
		start(i, 0);
	for (i = 0; left; i = (i + 1) % PEERS) {
		side_turn(&others[i]);
		if (rounds[i] == ROUNDS || !side_take_within(&others[i], &p.b, 100000, &cqe, NULL))
			continue;
		if (urccl_cqe_kind(&cqe) != URCCL_KIND_OP)
			continue;
		CHECK_EQ(cqe.res, LEN);
		ended(i, rounds[i]);
		if (++rounds[i] < ROUNDS)
			start(i, rounds[i]);
		else
			left--;
	}
	for (i = 0; i < PEERS; i++) {
		side_close(&others[i]);
		free(host[i]);
	}
	pair_close(&p);
	return 0;
}
