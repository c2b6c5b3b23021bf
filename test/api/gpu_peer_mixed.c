/* SPDX-License-Identifier: Apache-2.0 */
/* Random entries, vectors and pages from and to a remote of two adverts: a region of memory of GPUs
 * and of the host in turn, whose ranges are of odd lengths, and a region of the host alone. Each
 * moves the bytes that it names and no other. */
#include <stdlib.h>
#include "relay.h"
#include "random.h"

#define RANGES 5u /* the last is the second region */
#define MOST   (150u << 10)
#define SEGS   40u
#define RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static const uint32_t lens[RANGES] = {700001, 50003, 1u << 20, 4097, 300001};

static struct pair p;
static struct relay_local there[RANGES], here[2]; /* of a GPU and of the host in turn */
static struct urccl_region region;		  /* here */
static struct urccl_remote remote;
static uint8_t *copy[2]; /* of what is there, and of what is here */
static uint64_t all, seed;

static struct urccl_region register_at(struct side *s, const struct relay_local *m, uint32_t n,
				       uint32_t rights)
{
	struct urccl_range ranges[RANGES];
	struct urccl_region r;
	uint32_t i;

	for (i = 0; i < n; i++)
		ranges[i] = (struct urccl_range)URCCL_RANGE(relay_at(&m[i], 0),
							    m == here ? all : lens[m - there + i]);
	CHECK_EQ(urccl_register(s->ctx, ranges, n, rights, &r), 0);
	return r;
}

static void begin(void)
{
	struct urccl_advert adverts[2];
	struct urccl_region r[2];
	uint32_t i;

	for (i = 0; i < RANGES; i++) {
		there[i] =
			i & 1 || i == RANGES - 1 ? relay_ordinary(lens[i]) : relay_device(lens[i]);
		all += lens[i];
	}
	r[0] = register_at(&p.b, there, RANGES - 1, RIGHTS);
	r[1] = register_at(&p.b, there + RANGES - 1, 1, RIGHTS);
	CHECK_EQ(urccl_advertise(p.b.ctx, r[0], 0, all - lens[RANGES - 1], RIGHTS, 0, &adverts[0]),
		 0);
	CHECK_EQ(urccl_advertise(p.b.ctx, r[1], 0, lens[RANGES - 1], RIGHTS, 0, &adverts[1]), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, adverts, 2, &remote), 0);
	here[0] = relay_device(all);
	here[1] = relay_ordinary(all);
	region = register_at(&p.a, here, 2, 0);
	for (i = 0; i < 2; i++) {
		copy[i] = calloc(2, all);
		CHECK(copy[i]);
	}
}

/* Puts (1) or compares bytes of a side. */
static void side_bytes(int put, const struct relay_local *m, uint64_t len, uint8_t *bytes)
{
	static uint8_t now[4u << 20];

	CHECK_LE(len, sizeof(now));
	if (put && m->host)
		memcpy(m->host, bytes, len);
	else if (put)
		device_put(m->device, bytes, len);
	if (put)
		return;
	if (m->host)
		memcpy(now, m->host, len);
	else
		device_get(now, m->device, len);
	CHECK(!memcmp(now, bytes, len));
}

static void both_bytes(int put)
{
	uint64_t at = 0;
	uint32_t i;

	for (i = 0; i < RANGES; at += lens[i++])
		side_bytes(put, &there[i], lens[i], copy[0] + at);
	for (i = 0; i < 2; i++)
		side_bytes(put, &here[i], all, copy[1] + i * all);
}

/* The same in the copies. */
static void moved(int reads, uint64_t there_off, uint64_t here_off, uint64_t len)
{
	if (reads)
		memcpy(copy[1] + here_off, copy[0] + there_off, len);
	else
		memcpy(copy[0] + there_off, copy[1] + here_off, len);
}

static uint64_t random_len(uint64_t most)
{
	return random_below(&seed, 3) ? 1 + random_below(&seed, most) : 1 + random_below(&seed, 9);
}

/* Of one kind; how many bytes. */
static uint64_t range(struct urccl_sqe *sqe, int reads)
{
	uint64_t len = random_len(MOST), off = random_below(&seed, all - len),
		 k = random_below(&seed, 2);
	uint64_t at = random_below(&seed, all - len);

	if (reads)
		urccl_prep_read(sqe, remote, relay_at(&here[k], at), len, off);
	else
		urccl_prep_write(sqe, remote, relay_at(&here[k], at), len, off);
	moved(reads, off, k * all + at, len);
	return len;
}

/* Neither side has a byte twice. */
static uint64_t vector(struct urccl_sqe *sqe, int reads, struct urccl_seg segs[SEGS])
{
	uint64_t n = 1 + random_below(&seed, SEGS), part = all / n, len, off, at, sum = 0;
	uint32_t i;

	for (i = 0; i < n; i++) {
		len = random_len(part < MOST ? part : MOST);
		off = (n - 1 - i) * part + random_below(&seed, part - len + 1);
		at = i * part + random_below(&seed, part - len + 1);
		segs[i] = (struct urccl_seg){.addr = (uintptr_t)relay_at(&here[i & 1], at),
					     .len = len,
					     .off = off,
					     .remote = remote.id};
		moved(reads, off, (i & 1) * all + at, len);
		sum += len;
	}
	if (reads)
		urccl_prep_readv(sqe, p.a.peer, segs, (uint32_t)n);
	else
		urccl_prep_writev(sqe, p.a.peer, segs, (uint32_t)n);
	return sum;
}

/* Of both kinds here, one behind the other. */
static uint64_t pages(struct urccl_sqe *sqe, int reads, struct urccl_paged *d)
{
	uint64_t n = 1 + random_below(&seed, 60), step = all / n, block = random_len(step), i;

	*d = (struct urccl_paged){.size = sizeof(*d), .ndims = 1, .block = block};
	d->dim[0].count = (uint32_t)n;
	d->dim[0].local_stride = (int64_t)(2 * step);
	d->dim[0].remote_stride = (int64_t)step;
	for (i = 0; i < n; i++)
		if (2 * i * step < all && 2 * i * step + block > all)
			return 0;
	for (i = 0; i < n; i++)
		moved(reads, i * step, 2 * i * step, block);
	if (reads)
		urccl_prep_read_paged(sqe, remote, region, d, 1);
	else
		urccl_prep_write_paged(sqe, remote, region, d, 1);
	return n * block;
}

static void round_of(uint32_t i)
{
	static struct urccl_seg segs[SEGS];
	static struct urccl_paged d;
	struct urccl_sqe *sqe = side_sqe(&p.a);
	int reads = (int)random_below(&seed, 2);
	uint64_t k, len = 0;

	for (k = 0; k < all; k += 8)
		copy[random_below(&seed, 2)][k] = (uint8_t)(i + k);
	both_bytes(1);
	switch (i % 3) {
	case 0:
		len = vector(sqe, reads, segs);
		break;
	case 1:
		len = pages(sqe, reads, &d);
		break;
	default:
		break;
	}
	if (!len)
		len = range(sqe, reads);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, (int64_t)len);
	both_bytes(0);
}

int main(int argc, char **argv)
{
	uint32_t i;

	relay_begin(&p, argc, argv);
	seed = p.seed * 0x9e3779b97f4a7c15ull + 1;
	begin();
	for (i = 0; i < 60; i++)
		round_of(i);
	pair_close(&p);
	for (i = 0; i < 2; i++)
		free(copy[i]);
	for (i = 0; i < RANGES; i++)
		free(there[i].host);
	free(here[1].host);
	return 0;
}
