/* SPDX-License-Identifier: Apache-2.0 */
/* A context is closed while a region in a file of the program's waits for a peer that has it mapped
 * and does not let go, and is not moved since a device may have the file's pages, of another
 * region: that one ends as well, and then the memory is the program's alone. a is INLINE and not
 * called once it has the memory mapped. */
#include <fcntl.h>
#include <sys/mman.h>

#include "pins_rig.h"

#define WAIT_NS (600 * NSEC_PER_MSEC) /* three times what peers have to let go */

static struct pins_rig r;
static struct target mapped;
static int file;
static uint8_t *bytes, *view; /* b's, and what the peer sees */

static void file_open(void)
{
	file = memfd_create("pins_close", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK_EQ(fallocate(file, 0, 0, 2 * LEN), 0);
	CHECK_EQ(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	bytes = mmap(NULL, 2 * LEN, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	view = mmap(NULL, 2 * LEN, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(bytes != MAP_FAILED && view != MAP_FAILED);
}

static struct urccl_region registered(uint64_t off, uint64_t len, uint32_t rights)
{
	struct urccl_range range = {.addr = (uintptr_t)bytes + off,
				    .len = len,
				    .fd = file,
				    .fd_off = off};
	struct urccl_region region;

	CHECK_EQ(urccl_register(r.b.ctx, &range, 1, rights, &region), 0);
	return region;
}

static void unregisters(void)
{
	struct urccl_wait_args args = {.size = sizeof(args), .min_n = 1, .timeout_ns = WAIT_NS};
	struct urccl_sqe *sqe = urccl_get_sqe(r.b.ring);
	struct urccl_cqe *cqe;

	urccl_prep_unregister(sqe, mapped.region);
	urccl_sqe_set_data64(sqe, 12);
	CHECK_EQ(urccl_submit(r.b.ring), 1);
	CHECK_EQ(urccl_wait(r.b.ring, &cqe, &args), -ETIME);
}

int main(void)
{
	struct urccl_cqe cqe;
	uint32_t handle, unused;

	rig_open(&r);
	r.params.transport = "shm,sim";
	file_open();
	side_open(&r.b, &r.params);
	mapped.region = registered(0, 2 * LEN, RIGHTS);
	registered(LEN, LEN, RIGHTS | URCCL_RIGHT_ATOMIC); /* a piece of its own */
	CHECK_EQ(urccl_advertise(r.b.ctx, mapped.region, 0, LEN, RIGHTS, 0, &mapped.advert), 0);
	r.params.flags = URCCL_OPEN_INLINE;
	side_open(&r.a, &r.params);
	sides_connect(&r.a, &r.b, &handle, &unused);
	r.ab.id = handle;
	rig_register(&r.a, r.local, 0);
	cqe = writes(&r, &r.a, imports(&r.a, r.ab, &mapped));
	CHECK_EQ(cqe.res, LEN);
	CHECK_EQ(cqe.path & URCCL_PATH_TRANSPORT, URCCL_TRANSPORT_SHM);

	unregisters();
	side_close(&r.b);
	memset(bytes, 0x11, LEN);
	memset(view, 0x77, LEN);
	CHECK_EQ(bytes[0], 0x11);
	CHECK_EQ(bytes[LEN - 1], 0x11);
	side_close(&r.a);
	CHECK_EQ(urccl_sim_close(r.sim), 0);
	return 0;
}
