/* SPDX-License-Identifier: Apache-2.0 */
/* A driver that stores no words for streams, as some for virtual machines: copies end all the
 * same. */
#include <stdlib.h>
#include "pair.h"
#include "cuda/device.h"

#define LEN (3u << 20)

int main(int argc, char **argv)
{
	struct urccl_sqe *sqe;
	struct target t;
	uint64_t device, i;
	struct pair p;

	device_load();
	pair_begin(&p, argc, argv);
	device = device_alloc(LEN, 0);
	side_register(&p.a, (void *)(uintptr_t)device, LEN, 0);
	target_open(&p, &t, LEN, p.shared);
	device_set("refuse=cuStreamWriteValue64:801");
	device_fill(device, LEN, 0, 1);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, t.remote, (void *)(uintptr_t)device, LEN, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, LEN);
	for (i = 0; i < LEN; i++)
		CHECK_EQ(t.bytes[i], device_byte(i, 1));
	device_fill(device, LEN, 0, 2);
	sqe = side_sqe(&p.a);
	urccl_prep_read(sqe, t.remote, (void *)(uintptr_t)device, LEN, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, LEN);
	CHECK(device_check(device, LEN, 0, 1));
	device_set("refuse=none");
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
