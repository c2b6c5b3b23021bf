/* SPDX-License-Identifier: Apache-2.0 */
/* 64 GiB of addresses over one 64 MiB memfd that is mapped again and again, at both ends: every
 * offset is found, first and last bytes too, and one entry may be all of it. Each window begins a
 * page further into the file than the one before, so that no two addresses a multiple of 4 GiB from
 * each other are the same byte.
 *
 *	api-address_space [--whole] OPTIONS
 */
#include <sys/mman.h>
#include "pair.h"

#define WINDOW (64ull << 20)
#define WHOLE  (64ull << 30)
#define SHIFT  4096ull /* of each window */
#define RW     (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)
#define MOVES  300u
#define MOST   (1u << 20)

/* The window once more, by itself, to look at what is there. */
struct space {
	uint8_t *bytes, *window;
};

static struct pair p;
static struct space here, there;
static struct urccl_region region, exposed;
static struct urccl_remote remote;

/* The byte of the file that an offset in the space is. */
static uint64_t in_file(uint64_t at)
{
	return (at + at / WINDOW * SHIFT) % WINDOW;
}

static void map_at(uint8_t *at, uint64_t len, int fd, uint64_t off)
{
	if (len)
		CHECK(mmap(at, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
			   (off_t)off) == at);
}

static int space_open(struct space *s)
{
	int fd = memfd_create("space", MFD_CLOEXEC);
	uint64_t at, begins;

	CHECK(fd >= 0);
	CHECK_EQ(ftruncate(fd, WINDOW), 0);
	s->window = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(s->window != MAP_FAILED);
	s->bytes = mmap(NULL, WHOLE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (s->bytes == MAP_FAILED)
		return 0;
	for (at = 0; at < WHOLE; at += WINDOW) {
		begins = in_file(at);
		map_at(s->bytes + at, WINDOW - begins, fd, begins);
		map_at(s->bytes + at + WINDOW - begins, begins, fd, 0);
	}
	close(fd);
	return 1;
}

static void space_close(struct space *s)
{
	munmap(s->bytes, WHOLE);
	munmap(s->window, WINDOW);
}

static struct urccl_cqe run(uint64_t mine, uint64_t off, uint64_t len, int reads)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	if (reads)
		urccl_prep_read(sqe, remote, here.bytes + mine, len, off);
	else
		urccl_prep_write(sqe, remote, here.bytes + mine, len, off);
	urccl_sqe_set_region(sqe, region);
	urccl_sqe_set_deadline_us(sqe, 600000000);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	CHECK(side_take_within(&p.a, &p.b, 600000000000ull, &cqe, NULL));
	return cqe;
}

/* No move of the test passes the end of the file. */
static void move(uint64_t mine, uint64_t off, uint64_t len, int reads)
{
	const struct space *from = reads ? &there : &here, *to = reads ? &here : &there;
	uint64_t source = in_file(reads ? off : mine), target = in_file(reads ? mine : off);

	pattern_fill(from->window + source, len, source, mine ^ off);
	CHECK_EQ(run(mine, off, len, reads).res, (int64_t)len);
	CHECK(pattern_holds(to->window + target, len, source, mine ^ off));
}

/* A place for len bytes inside one window and in a row in the file. */
static uint64_t place(uint64_t *x, uint64_t len)
{
	uint64_t at;

	do {
		*x = *x * 6364136223846793005ull + 1442695040888963407ull;
		at = (*x >> 20) % (WHOLE / WINDOW) * WINDOW + (*x >> 34) % (WINDOW - len + 1);
	} while (in_file(at) + len > WINDOW);
	return at;
}

static void places(void)
{
	uint64_t x = p.seed, len, i;

	move(0, WHOLE - 64, 64, 0);
	move(WHOLE - 64, 0, 64, 1);
	move(WHOLE - 1, WHOLE - 1, 1, 0);
	for (i = 0; i < MOVES; i++) {
		len = 1 + place(&x, 1) % (i % 16 ? 4096 : MOST);
		move(place(&x, len), place(&x, len), len, i & 1);
	}
	CHECK_EQ(run(0, WHOLE - 63, 64, 0).res, -ERANGE);
	CHECK_EQ(run(WHOLE - 63, 0, 64, 0).res, -ERANGE);
}

/* Each window onto itself, so that the bytes stay whatever the order. */
static void whole(void)
{
	struct urccl_cqe cqe;

	pattern_fill(here.window, WINDOW, 0, 7);
	cqe = run(0, 0, WHOLE, 0);
	CHECK_EQ(cqe.res, (int64_t)WHOLE);
	CHECK_EQ(cqe.wire, WHOLE);
	CHECK(pattern_holds(there.window, WINDOW, 0, 7));
}

int main(int argc, char **argv)
{
	int all = argc > 1 && !strcmp(argv[1], "--whole");
	struct urccl_advert advert;

	pair_begin(&p, argc - all, argv + all);
	if (!space_open(&here) || !space_open(&there))
		SKIP("a limit on addresses");
	region = side_register(&p.a, here.bytes, WHOLE, 0);
	exposed = side_register(&p.b, there.bytes, WHOLE, RW);
	CHECK_EQ(urccl_advertise(p.b.ctx, exposed, 0, WHOLE, RW, 0, &advert), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &advert, 1, &remote), 0);
	places();
	if (all)
		whole();
	CHECK_EQ(urccl_unimport(p.a.ctx, remote), 0);
	CHECK_EQ(urccl_unregister(p.b.ctx, exposed), 0);
	CHECK_EQ(urccl_unregister(p.a.ctx, region), 0);
	pair_close(&p);
	space_close(&here);
	space_close(&there);
	return 0;
}
