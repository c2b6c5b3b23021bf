/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the program maps by hand (cuMemMap), of one handle or of several behind each other,
 * is one range. At this side the bytes move over the end of a handle. CUDA shares a handle, so over
 * shm the peer's memory is reached by CUDA IPC if it is of one, and else by relay. */
#include "pair.h"
#include "cuda/device.h"

#define EACH (2u << 20)

static struct pair p;

struct mapped {
	uint64_t addr, len;
	struct urccl_region region;
};

static struct mapped mapped_open(struct side *s, uint32_t handles, uint32_t rights)
{
	struct mapped m = {.len = (uint64_t)handles * EACH};

	m.addr = device_map_handles(EACH, handles, s == &p.a && device_cuda.gpus > 1);
	m.region = side_register(s, (void *)(uintptr_t)m.addr, m.len, rights);
	return m;
}

static void mapped_close(struct side *s, const struct mapped *m)
{
	CHECK_EQ(urccl_unregister(s->ctx, m->region), 0);
	device_unmap(m->addr, m->len);
}

static void move(struct urccl_sqe *sqe, uint64_t len, int relayed)
{
	struct urccl_cqe cqe = pair_run(&p, &p.a, sqe);

	CHECK_EQ(cqe.res, (int64_t)len);
	CHECK(cqe.path & URCCL_PATH_DEVICE);
	CHECK_EQ(!!(cqe.path & URCCL_PATH_BOUNCE_REMOTE), relayed);
}

static void round_trip(const struct mapped *ours, const struct mapped *theirs,
		       struct urccl_remote r, uint64_t off, uint64_t len, int relayed)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	device_fill(ours->addr, ours->len, 0, 1);
	device_fill(theirs->addr, theirs->len, 0, 2);
	urccl_prep_write(sqe, r, (void *)(uintptr_t)(ours->addr + off), len, off);
	move(sqe, len, relayed);
	CHECK(device_check(theirs->addr, off, 0, 2));
	CHECK(device_check(theirs->addr + off, len, off, 1));
	CHECK(device_check(theirs->addr + off + len, theirs->len - off - len, off + len, 2));
	device_fill(ours->addr, ours->len, 0, 3);
	sqe = side_sqe(&p.a);
	urccl_prep_read(sqe, r, (void *)(uintptr_t)(ours->addr + off), len, off);
	move(sqe, len, relayed);
	CHECK(device_check(ours->addr, off, 0, 3));
	CHECK(device_check(ours->addr + off, len, off, 1));
	CHECK(device_check(ours->addr + off + len, ours->len - off - len, off + len, 3));
}

/* Blocks of which some lie across the end of a handle. */
static void pages(const struct mapped *ours, const struct mapped *theirs, struct urccl_remote r,
		  int relayed)
{
	const struct urccl_paged d = {
		.size = sizeof(d),
		.ndims = 1,
		.block = 3000,
		.dim = {{.count = ours->len / 6000, .local_stride = 6000, .remote_stride = 6000}},
	};
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint64_t i;

	device_fill(ours->addr, ours->len, 0, 4);
	device_fill(theirs->addr, theirs->len, 0, 5);
	urccl_prep_write_paged(sqe, r, ours->region, &d, 1);
	move(sqe, d.dim[0].count * 3000, relayed);
	for (i = 0; i < 2 * d.dim[0].count; i++)
		CHECK(device_check(theirs->addr + i * 3000, 3000, i * 3000, 4 + (i & 1)));
}

static void handles(uint32_t n)
{
	int relayed = p.transport != URCCL_TRANSPORT_SHM || n > 1;
	const uint32_t rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE;
	struct mapped ours = mapped_open(&p.a, n, 0), theirs = mapped_open(&p.b, n, rights);
	struct urccl_remote r;
	struct urccl_advert ad;

	CHECK_EQ(urccl_advertise(p.b.ctx, theirs.region, 0, theirs.len, rights, 0, &ad), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &ad, 1, &r), 0);
	round_trip(&ours, &theirs, r, 0, ours.len, relayed);
	round_trip(&ours, &theirs, r, (n - 1) * EACH + 1, 70001, relayed);
	if (n > 1)
		round_trip(&ours, &theirs, r, EACH - 4001, EACH + 8002, relayed);
	pages(&ours, &theirs, r, relayed);
	mapped_close(&p.b, &theirs);
	mapped_close(&p.a, &ours);
}

int main(int argc, char **argv)
{
	device_load();
	pair_begin(&p, argc, argv);
	handles(1);
	handles(3);
	pair_close(&p);
	return 0;
}
