/* SPDX-License-Identifier: Apache-2.0 */
/*
 * survivors [--transport=tcp|shm] [--rounds=N] [--bound=F] [--figures]: how long writes of 4 KiB to
 * the ordinary memory of one peer take, one at a time, while another peer is idle, is frozen with
 * 256 entries in flight to it, and dies with them. Each round has all of them one after the other;
 * what is compared is p99 of a round with p99 of its idle part. Fails where the median of the
 * ratios is above the bound (0: never). It measures: run it where nothing else runs. With --figures
 * one round, for bench/compare.py.
 */
#include "faults.h"

#define SAMPLES_MAX 1000000u
#define PART_NS	    400000000ull
#define STUCK	    256u
#define ROUNDS_MAX  100u

enum part { IDLE, FROZEN, DYING, PARTS };

static struct pair p;
static struct peer peers[2];
static struct settings place[2];
static struct urccl_peer handles[2];
static struct urccl_remote remotes[2];
static uint8_t *local;
static uint64_t samples[SAMPLES_MAX];
static uint32_t stuck;

static const char *transport = "tcp";
static uint32_t rounds = 10;
static double bound = 1.25;
static int figures;

static void meet(uint32_t i)
{
	struct urccl_cqe cqe;

	place_v4(place[i].listen, free_port());
	snprintf(place[i].transport, sizeof(place[i].transport), "%s", transport);
	peer_start(&peers[i], &place[i]);
	cqe = side_dialled(&p.a, NULL, peers[i].blob, peers[i].blob_len, 20000000);
	CHECK_EQ(cqe.res, 0);
	handles[i].id = (uint32_t)cqe.handle;
	CHECK_EQ(urccl_import(p.a.ctx, handles[i], &peers[i].advert, 1, &remotes[i]), 0);
}

static void submit(uint32_t i, uint32_t len, uint64_t user_data)
{
	struct urccl_sqe *sqe = urccl_get_sqe(p.a.ring);

	CHECK(sqe);
	urccl_prep_write(sqe, remotes[i], local, len, 0);
	urccl_sqe_set_data64(sqe, user_data);
	urccl_submit(p.a.ring);
}

/* Ends of the stuck ones are counted on the way; 1: ours is there. */
static int take(void)
{
	struct urccl_cqe *cqe;
	int ours = 0;

	while (!ours && (cqe = urccl_peek_cqe(p.a.ring))) {
		int is_end = !(cqe->flags & URCCL_CQE_MORE);

		ours = is_end && cqe->user_data == 0;
		stuck -= is_end && cqe->user_data == 1;
		if (ours)
			CHECK_EQ(cqe->res, 4096);
		urccl_cqe_seen(p.a.ring, cqe);
	}
	return ours;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* p99 in ns; halfway through it the other peer may die. */
static uint64_t part(enum part what)
{
	uint64_t start = now_ns(), t, n = 0;
	uint32_t i;

	for (i = 0; what != IDLE && i < STUCK; i++) {
		submit(1, 65536, 1);
		stuck++;
	}
	for (t = start; t - start < PART_NS && n < SAMPLES_MAX; n++) {
		if (what == DYING && peers[1].pid && t - start > PART_NS / 2)
			peer_kill(&peers[1]);
		submit(0, 4096, 0);
		while (!take())
			;
		samples[n] = now_ns() - t;
		t += samples[n];
	}
	qsort(samples, n, sizeof(samples[0]), by_size);
	return samples[n * 99 / 100];
}

static void await_stuck(void)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;

	while (stuck) {
		CHECK(now_ns() < late);
		take();
	}
}

static void one_round(uint64_t p99[PARTS])
{
	enum part what;

	for (what = IDLE; what < PARTS; what++) {
		if (what == FROZEN)
			peer_stop(&peers[1]);
		p99[what] = part(what);
		if (what == FROZEN)
			peer_go_on(&peers[1]);
		await_stuck();
	}
	CHECK_EQ(side_drop(&p.a, NULL, handles[1].id), 0);
	peer_end(&peers[1]);
	meet(1);
	submit(1, 1, 1); /* its keys */
	stuck++;
	await_stuck();
}

static int by_ratio(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void say(const uint64_t p99[PARTS])
{
	static const char *const names[PARTS] = {"idle", "frozen", "dying"};
	int what;

	if (!figures)
		printf("p99 in us:");
	for (what = IDLE; what < PARTS; what++)
		printf(figures ? "survivors.%s %.1f us\n" : " other %s %.1f", names[what],
		       (double)p99[what] / 1e3);
	if (!figures)
		printf("\n");
}

static void options(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++)
		if (!strncmp(argv[i], "--transport=", 12))
			transport = argv[i] + 12;
		else if (!strncmp(argv[i], "--rounds=", 9))
			rounds = (uint32_t)strtoul(argv[i] + 9, NULL, 0);
		else if (!strncmp(argv[i], "--bound=", 8))
			bound = strtod(argv[i] + 8, NULL);
		else if (!strcmp(argv[i], "--figures"))
			figures = 1;
		else
			CHECK(!"an option that this program knows");
	if (figures) {
		rounds = 1;
		bound = 0;
	}
	CHECK(rounds && rounds <= ROUNDS_MAX);
}

static void begin(void)
{
	p.params.size = sizeof(p.params);
	urccl_params_init(&p.params);
	p.params.transport = transport;
	p.ring_params = (struct urccl_ring_params){.size = sizeof(p.ring_params), .entries = 1024};
	side_open(&p, &p.a);
	local = calloc(1, 65536);
	CHECK(local);
	side_register(&p.a, local, 65536, 0);
	meet(0);
	meet(1);
	part(IDLE); /* warm */
}

/* By the medians of what the parts were beside the idle one. */
static void judge(double ratios[PARTS][ROUNDS_MAX])
{
	int what;

	for (what = FROZEN; what < PARTS; what++)
		qsort(ratios[what], rounds, sizeof(double), by_ratio);
	if (!figures)
		printf("median of the ratios: frozen %.2f, dying %.2f\n",
		       ratios[FROZEN][rounds / 2], ratios[DYING][rounds / 2]);
	if (bound > 0)
		CHECK(ratios[FROZEN][rounds / 2] <= bound && ratios[DYING][rounds / 2] <= bound);
}

int main(int argc, char **argv)
{
	static double ratios[PARTS][ROUNDS_MAX];
	uint64_t p99[PARTS];
	uint32_t i;
	int what;

	peer_main(argc, argv);
	options(argc, argv);
	begin();
	for (i = 0; i < rounds; i++) {
		one_round(p99);
		say(p99);
		for (what = FROZEN; what < PARTS; what++)
			ratios[what][i] = (double)p99[what] / (double)p99[IDLE];
	}
	judge(ratios);
	peer_end(&peers[0]);
	peer_end(&peers[1]);
	side_close(&p.a);
	free(local);
	return 0;
}
