/* SPDX-License-Identifier: Apache-2.0 */
/* A region that is in use is given back all the same: the peer's transfers fail with -EACCES and
 * ours are cancelled, within 2 s, and from then on its bytes are the program's alone. Thousands of
 * regions leave nothing behind. */
#include "fds.h"
#include "lateness.h"
#include "pair.h"

#define N      64u
#define LEN    (512u << 10)
#define ROUNDS 400u

static struct pair p;
static struct target t;
static uint8_t *local;
static struct urccl_region region;

static void submit_all(void)
{
	struct urccl_sqe *sqe;
	uint32_t i;

	for (i = 0; i < N; i++) {
		sqe = side_sqe(&p.a);
		if (i % 2)
			urccl_prep_read(sqe, t.remote, local + (i % 16) * LEN, LEN, (i % 16) * LEN);
		else
			urccl_prep_write(sqe, t.remote, local + (i % 16) * LEN, LEN,
					 (i % 16) * LEN);
	}
	CHECK_EQ(urccl_submit(p.a.ring), N);
}

/* What the engine takes only now finds no region, here or at the peer. */
static void take_all(int64_t res, const char *why)
{
	struct urccl_cqe cqe;
	uint32_t i;

	for (i = 0; i < N;) {
		side_take(&p.a, &p.b, &cqe, NULL);
		i += !(cqe.flags & URCCL_CQE_MORE);
		if (cqe.res == LEN || cqe.res == -EFAULT)
			continue;
		if (cqe.res == -ESTALE && res == -EACCES) {
			check_sentence(&p.a, &cqe, "unregistered the region");
			continue;
		}
		CHECK_EQ(cqe.res, res);
		check_sentence(&p.a, &cqe, why);
	}
}

static void drive(void)
{
	struct urccl_cqe cqe;
	uint32_t i;

	for (i = 0; i < 100; i++)
		side_take_within(&p.a, &p.b, 10000, &cqe, NULL);
}

static void check_still(const uint8_t *bytes)
{
	uint32_t i;

	drive();
	for (i = 0; i < 16 * LEN; i += 37)
		CHECK_EQ(bytes[i], 0x77);
}

/* The first entry fetches the key. */
static void write_one(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, local, 8, 0);
	urccl_sqe_set_data64(sqe, 1);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	CHECK_EQ(pair_end(&p, &p.a, 1).res, 8);
}

/* The owner takes it away from the peer: while it does, the peer moves on by itself. One that does
 * not, since this thread should drive it, and has the memory mapped must be driven first. */
static void of_the_peer(int shared)
{
	int stays = shared && p.transport == URCCL_TRANSPORT_SHM &&
		    p.params.flags & URCCL_OPEN_INLINE;

	target_open(&p, &t, 16ull * LEN, shared);
	if (shared)
		write_one();
	submit_all();
	if (stays) {
		CHECK_EQ(urccl_unregister(p.b.ctx, t.region), -ETIMEDOUT);
		take_all(-EACCES, "revoked");
		drive();
	}
	check_taken_back(urccl_unregister, p.b.ctx, t.region);
	memset(t.bytes, 0x77, 16ull * LEN);
	if (!stays)
		take_all(-EACCES, "revoked");
	check_still(t.bytes);
	CHECK_EQ(urccl_unimport(p.a.ctx, t.remote), 0);
	CHECK(!shared || !urccl_free(p.b.ctx, t.bytes));
}

static void of_ours(void)
{
	target_open(&p, &t, 16ull * LEN, 0);
	submit_all();
	check_taken_back(urccl_unregister, p.a.ctx, region);
	memset(local, 0x77, 16ull * LEN);
	take_all(-ECANCELED, "unregistered");
	check_still(local);
	target_close(&p, &t);
	region = side_register(&p.a, local, 16ull * LEN, 0);
}

static uint64_t resident_pages(void)
{
	unsigned long long size = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	CHECK(f);
	CHECK_EQ(fscanf(f, "%llu %llu", &size, &resident), 2);
	fclose(f);
	return resident;
}

static void rounds(uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		struct urccl_region r = side_register(&p.b, local, LEN, URCCL_RIGHT_WRITE);

		CHECK_NE(r.id, region.id);
		CHECK_EQ(urccl_unregister(p.b.ctx, r), 0);
	}
}

static void flat(void)
{
	uint64_t files, pages;

	rounds(200);
	files = fds_open();
	pages = resident_pages();
	rounds(ROUNDS);
	CHECK_EQ(fds_open(), files);
#ifdef __SANITIZE_ADDRESS__ /* which keeps what was freed */
	(void)pages;
#else
	CHECK_LE(resident_pages(), pages + 1024);
#endif
}

int main(int argc, char **argv)
{
	pair_begin(&p, argc, argv);
	canary_start();
	local = malloc(16ull * LEN);
	CHECK(local);
	memset(local, 0x11, 16ull * LEN);
	region = side_register(&p.a, local, 16ull * LEN, 0);
	of_the_peer(0);
	of_the_peer(1);
	/* An INLINE peer does not answer while this thread is in our call. */
	if (!(p.params.flags & URCCL_OPEN_INLINE))
		of_ours();
	flat();
	pair_close(&p);
	return 0;
}
