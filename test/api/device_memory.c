/* SPDX-License-Identifier: Apache-2.0 */
/* What came to memory of a device, which a NIC's word does not prove to be there, is said to be
 * NOT_FLUSHED: by the CQE of a write to a peer's and of a read into one's own, and by notifications
 * of who may have written to it; and nothing else is. A device's memory is a dma-buf; here it is a
 * file, which the made-up libibverbs takes for one. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "pair.h"

#define LEN   8192u
#define PLACE 0x10000u /* nothing is mapped there */
#define RW    (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static uint8_t local[LEN];

struct device {
	int fd;
	uint8_t *bytes;
	struct urccl_region region;
};

/* A file whose system has no seals, by which a memfd is known. */
static int file_open(void)
{
	static const char *const dirs[] = {".", "/var/tmp", "/tmp"};
	uint32_t i;
	int fd;

	for (i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		fd = open(dirs[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
		if (fd >= 0 && fcntl(fd, F_GET_SEALS) < 0)
			return fd;
		close(fd);
	}
	SKIP("no directory has files that are told from a memfd");
}

static void device_open(struct device *d, struct side *s)
{
	struct urccl_range range = {.addr = PLACE, .len = LEN};

	range.fd = d->fd = file_open();
	CHECK_EQ(ftruncate(d->fd, LEN), 0);
	d->bytes = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, d->fd, 0);
	CHECK(d->bytes != MAP_FAILED);
	CHECK_EQ(urccl_register(s->ctx, &range, 1, RW, &d->region), 0);
}

static void device_close(struct device *d, struct side *s)
{
	CHECK_EQ(urccl_unregister(s->ctx, d->region), 0);
	munmap(d->bytes, LEN);
	close(d->fd);
}

/* NOT_FLUSHED, or 0. */
static uint32_t owes(const struct urccl_cqe *cqe)
{
	return cqe->flags & URCCL_CQE_NOT_FLUSHED;
}

static uint32_t writes(struct urccl_remote to, const void *from, uint32_t flags)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	urccl_prep_write(sqe, to, from, LEN, 0);
	urccl_sqe_set_flags(sqe, flags);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, LEN);
	return owes(&cqe);
}

static uint32_t reads(struct urccl_remote from, void *to)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	urccl_prep_read(sqe, from, to, LEN, 0);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, LEN);
	return owes(&cqe);
}

/* By b's event. */
static uint32_t notified(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	urccl_prep_notify(sqe, p.a.peer, 7, NULL, 0);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, 0);
	CHECK(!owes(&cqe));
	side_take(&p.b, &p.a, &cqe, NULL);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_NOTE);
	return owes(&cqe);
}

int main(int argc, char **argv)
{
	void *place = (void *)(uintptr_t)PLACE;
	struct device theirs, ours;
	struct urccl_remote remote;
	struct urccl_advert ad;
	struct target host;

	pair_begin(&p, argc, argv);
	if (!getenv("UCCL_IBV_SO"))
		SKIP("UCCL_IBV_SO is not set: no device here takes a file for a dma-buf");
	target_open(&p, &host, LEN, 0);
	side_register(&p.a, local, LEN, 0);
	device_open(&theirs, &p.b);
	device_open(&ours, &p.a);
	CHECK_EQ(urccl_advertise(p.b.ctx, theirs.region, 0, LEN, RW, 0, &ad), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &ad, 1, &remote), 0);

	pattern_fill(local, LEN, 0, 1);
	CHECK(!writes(host.remote, local, 0));
	CHECK(!notified());
	CHECK(writes(remote, local, 0));
	CHECK(pattern_holds(theirs.bytes, LEN, 0, 1));
	CHECK(notified());
	CHECK(writes(remote, local, URCCL_SQE_ACKED));
	CHECK(!writes(host.remote, local, 0));
	CHECK(!reads(remote, local));
	CHECK(pattern_holds(local, LEN, 0, 1));
	CHECK(reads(host.remote, place));
	CHECK(pattern_holds(ours.bytes, LEN, 0, 1));
	pattern_fill(ours.bytes, LEN, 0, 2);
	CHECK(!writes(host.remote, place, 0));
	CHECK(pattern_holds(host.bytes, LEN, 0, 2));

	target_close(&p, &host);
	device_close(&theirs, &p.b);
	device_close(&ours, &p.a);
	pair_close(&p);
	return 0;
}
