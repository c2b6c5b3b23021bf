/* SPDX-License-Identifier: Apache-2.0 */
/* Two contexts relay to each other at once: random writes and reads of memory of each other's GPU,
 * from and to memory of a GPU and of the host, some cancelled, some with a deadline that is hard to
 * meet. Each ends once; what succeeded is there, byte by byte; nothing lands later. */
#include "relay.h"
#include "random.h"

#define SLOTS	   24u
#define SLOT_BYTES (160u << 10)
#define SPARE	   400u
#define LEN	   (SLOTS * (uint64_t)SLOT_BYTES)

static struct pair p;
static uint64_t seed;

struct slot {
	uint32_t busy, reads, timed;
	uint64_t len, version;
};

/* Entries of a side on memory of a GPU of the other. */
static struct way {
	struct side *from, *to;
	struct relay_local there, local[2];
	struct urccl_remote remote;
	struct slot slots[SLOTS];
	uint32_t place[SLOTS], places; /* there */
	uint32_t busy, started, ended, well;
} ways[2];

static void open_way(struct way *w, struct side *from, struct side *to)
{
	const uint32_t rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE;
	uint64_t len = (SLOTS + SPARE) * (uint64_t)SLOT_BYTES;
	struct urccl_advert advert;
	struct urccl_region r;
	uint32_t i;

	w->from = from;
	w->to = to;
	w->there = relay_device(len);
	w->local[0] = relay_device(LEN);
	w->local[1] = relay_ordinary(LEN);
	r = side_register(to, relay_at(&w->there, 0), len, rights);
	side_register(from, relay_at(&w->local[0], 0), LEN, 0);
	side_register(from, relay_at(&w->local[1], 0), LEN, 0);
	CHECK_EQ(urccl_advertise(to->ctx, r, 0, len, rights, 0, &advert), 0);
	CHECK_EQ(urccl_import(from->ctx, from->peer, &advert, 1, &w->remote), 0);
	for (i = 0; i < SLOTS; i++)
		w->place[i] = w->places++;
}

static struct relay_local *local_of(struct way *w, uint32_t i)
{
	return &w->local[i & 1];
}

static void cancel(struct way *w, uint64_t user_data)
{
	struct urccl_sqe *sqe = side_sqe(w->from);

	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, user_data);
	urccl_sqe_set_data64(sqe, SLOTS);
	w->busy++;
}

static void start(struct way *w, uint32_t i)
{
	uint64_t off = i * (uint64_t)SLOT_BYTES, there = w->place[i] * (uint64_t)SLOT_BYTES;
	struct slot *s = &w->slots[i];
	struct urccl_sqe *sqe = side_sqe(w->from);

	*s = (struct slot){.busy = 1,
			   .reads = random_below(&seed, 2) != 0,
			   .version = ++w->started};
	s->len = 1 + random_below(&seed, random_below(&seed, 3) ? 3000 : SLOT_BYTES);
	s->timed = !random_below(&seed, 16);
	if (s->reads) {
		relay_fill_as(&w->there, there, s->len, 0, s->version);
		urccl_prep_read(sqe, w->remote, relay_at(local_of(w, i), off), s->len, there);
	} else {
		relay_fill_as(local_of(w, i), off, s->len, 0, s->version);
		urccl_prep_write(sqe, w->remote, relay_at(local_of(w, i), off), s->len, there);
	}
	urccl_sqe_set_data64(sqe, i);
	if (s->timed)
		urccl_sqe_set_deadline_us(sqe, (uint32_t)(1 + random_below(&seed, 2000)));
	w->busy++;
	if (!random_below(&seed, 12))
		cancel(w, i);
}

static void end(struct way *w, const struct urccl_cqe *cqe)
{
	uint32_t i = (uint32_t)cqe->user_data;
	struct slot *s = &w->slots[i < SLOTS ? i : 0];

	if (cqe->flags & URCCL_CQE_MORE) { /* a copy holds the buffer past the deadline */
		CHECK(i < SLOTS && s->timed);
		CHECK(cqe->res == -ETIMEDOUT || cqe->res == -ECANCELED);
		return;
	}
	CHECK(w->busy--);
	if (i == SLOTS)
		return;
	CHECK(i < SLOTS && s->busy);
	s->busy = 0;
	w->ended++;
	if (cqe->res >= 0) {
		CHECK_EQ(cqe->res, (int64_t)s->len);
		w->well++;
		CHECK(relay_holds_as(s->reads ? local_of(w, i) : &w->there,
				     (s->reads ? i : w->place[i]) * (uint64_t)SLOT_BYTES, s->len, 0,
				     s->version));
		return;
	}
	CHECK_EQ(cqe->res, s->timed && cqe->res == -ETIMEDOUT ? -ETIMEDOUT : -ECANCELED);
	if (cqe->flags & URCCL_CQE_REMOTE_QUIET || s->reads)
		return;
	CHECK(w->places < SLOTS + SPARE);
	w->place[i] = w->places++;
}

static void step(struct way *w, uint32_t rounds)
{
	struct urccl_cqe cqe;
	uint32_t i, k;

	for (k = 0; k < 6 && w->started < rounds; k++) {
		i = (uint32_t)random_below(&seed, SLOTS);
		if (!w->slots[i].busy)
			start(w, i);
	}
	CHECK_GE(urccl_submit(w->from->ring), 0);
	while (side_take_within(w->from, w->to, random_below(&seed, 4) ? 0 : 20000, &cqe, NULL))
		if (urccl_cqe_kind(&cqe) == URCCL_KIND_OP)
			end(w, &cqe);
}

int main(int argc, char **argv)
{
	uint32_t i, rounds = 300;

	device_load();
	if (!strncmp(argv[argc - 1], "--rounds=", 9))
		rounds = (uint32_t)atoi(argv[--argc] + 9);
	relay_options(&p, argc, argv);
	p.params.staging_bytes = 8 << 20;
	pair_open(&p);
	seed = p.seed * 0x9e3779b97f4a7c15ull + 1;
	open_way(&ways[0], &p.a, &p.b);
	open_way(&ways[1], &p.b, &p.a);
	for (i = 0;
	     ways[0].ended < rounds || ways[1].ended < rounds || ways[0].busy || ways[1].busy; i++)
		step(&ways[i & 1], rounds);
	printf("%u and %u of %u succeeded\n", ways[0].well, ways[1].well, rounds);
	CHECK_GE(ways[0].well + ways[1].well, rounds);
	pair_close(&p);
	for (i = 0; i < 2; i++)
		free(ways[i].local[1].host);
	return 0;
}
