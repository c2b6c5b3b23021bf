/* SPDX-License-Identifier: Apache-2.0 */
/* A machine is read from XML as hwloc writes it. The file is written for this test in the form that
 * lstopo(1) of hwloc 2 gives, with a switch, a GPU, an InfiniBand and an EFA port. */
#include "german.h"
#include "load.h"

static const char expected[] = "node 0 cpus 0-1 distance 10 21\n"
			       "node 1 cpus 2-3 distance 21 10\n"
			       "host 0000:15 node 0\n"
			       "\tbridge 0000:15:01.0\n"
			       "\t\tbridge 0000:16:00.0\n"
			       "\t\t\tnic 0000:18:00.0 mlx5_0\n"
			       "\t\t\t\tport 1 up infiniband\n"
			       "\t\t\t\tport 2 down infiniband\n"
			       "\t\tbridge 0000:16:01.0\n"
			       "\t\t\tgpu 0000:1b:00.0\n"
			       "host 0000:44 node 1\n"
			       "\tnic 0000:45:00.0 rdmap69s0\n"
			       "\t\tport 1 up other\n";

int main(void)
{
	struct machine m;
	int err;

	german_begin();
	CHECK_EQ(machine_init(&m), 0);
	err = machine_read_file(&m, MACHINES "/../machine.xml");
	if (err == -EOPNOTSUPP || err == -ENOENT)
		SKIP(urccl_errmsg());
	if (err)
		fprintf(stderr, "%s\n", urccl_errmsg());
	CHECK_EQ(err, 0);
	check_read(&m, expected);

	/* This machine, which has a node at least. */
	CHECK_EQ(machine_init(&m), 0);
	CHECK_EQ(machine_read_hwloc(&m, NULL), 0);
	CHECK_GE(m.nnodes, 1);
	machine_write(&m, stdout);
	machine_fini(&m);

	/* XML of something else. */
	CHECK_EQ(machine_init(&m), 0);
	CHECK_EQ(machine_read_file(&m, MACHINES "/../other.xml"), -EINVAL);
	CHECK(strstr(urccl_errmsg(), "other.xml\": libhwloc"));
	CHECK_EQ(machine_read_file(&m, MACHINES "/nowhere.xml"), -ENOENT);
	CHECK(strstr(urccl_errmsg(), "nowhere.xml\" cannot be read"));
	CHECK_EQ(machine_read_file(&m, MACHINES), -EINVAL);
	CHECK_EQ(machine_read_file(&m, MACHINES "/../meson.build"), -EINVAL);
	machine_fini(&m);
	return 0;
}
