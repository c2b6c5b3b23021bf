/* SPDX-License-Identifier: Apache-2.0 */
/* What control groups let a process have: the least of its own group's limits and of those of the
 * groups above it. Read from folders made as the kernel makes them, of version 1 and 2. */
#include "info/info.h"
#include "tree.h"

#define V2 "/sys/fs/cgroup"

/* A machine of its own each. */
static void begin(const char *groups)
{
	tree_begin();
	put("/proc/self/cgroup", groups);
}

static void limited(const char *controller, unsigned long long most, unsigned long long now)
{
	struct group_limit l;

	CHECK_EQ(group_limit(root, controller, &l), 0);
	CHECK_EQ(l.most, most);
	CHECK_EQ(l.now, now);
}

static void unlimited(const char *controller)
{
	struct group_limit l;

	CHECK_EQ(group_limit(root, controller, &l), -ENOENT);
}

static void test_second(void)
{
	begin("0::/kubepods/pod7/box");
	unlimited("memory");
	put(V2 "/kubepods/pod7/box/memory.max", "max");
	put(V2 "/kubepods/pod7/box/memory.current", "1000");
	unlimited("memory");
	put(V2 "/kubepods/pod7/memory.max", "5000000");
	put(V2 "/kubepods/pod7/memory.current", "2000000");
	limited("memory", 5000000, 2000000);
	/* More, and less of it left. */
	put(V2 "/kubepods/memory.max", "9000000");
	put(V2 "/kubepods/memory.current", "8000000");
	limited("memory", 9000000, 8000000);
	put(V2 "/kubepods/pod7/box/memory.max", "500000");
	limited("memory", 500000, 1000);
	/* What is above the limit has nothing left. */
	put(V2 "/kubepods/pod7/memory.current", "6000000");
	limited("memory", 5000000, 6000000);
	unlimited("pids");
	put(V2 "/kubepods/pids.max", "64");
	put(V2 "/kubepods/pids.current", "60");
	limited("pids", 64, 60);
	tree_end();
}

/* A container sees its own group as the root, or a way to it that is not mounted there. */
static void test_container(void)
{
	begin("0::/");
	put(V2 "/memory.max", "4096");
	limited("memory", 4096, 0);
	tree_end();
	begin("0::/../elsewhere/box");
	put(V2 "/pids.max", "100");
	put(V2 "/pids.current", "3");
	limited("pids", 100, 3);
	tree_end();
}

static void test_first(void)
{
	begin("12:cpu,cpuacct:/no\n9:memory:/job/step\n4:pids:/job\n0::/init.scope");
	put(V2 "/memory/job/step/memory.limit_in_bytes", "9223372036854771712");
	unlimited("memory");
	put(V2 "/memory/job/memory.limit_in_bytes", "7000");
	put(V2 "/memory/job/memory.usage_in_bytes", "6000");
	put(V2 "/memory/no/memory.limit_in_bytes", "1");
	limited("memory", 7000, 6000);
	put(V2 "/pids/job/pids.max", "5");
	limited("pids", 5, 0);
	tree_end();
}

static void test_rdma(void)
{
	struct group_rdma l;

	begin("0::/a/b");
	CHECK_EQ(group_rdma(root, &l), -ENOENT);
	put(V2 "/a/b/rdma.max", "mlx5_0 hca_handle=max hca_object=max");
	CHECK_EQ(group_rdma(root, &l), -ENOENT);
	put(V2 "/a/rdma.max", "mlx5_0 hca_handle=max hca_object=max\n"
			      "mlx5_1 hca_handle=max hca_object=2000");
	CHECK_EQ(group_rdma(root, &l), 0);
	CHECK_EQ(l.handles, ~0ull);
	CHECK_EQ(l.objects, 2000);
	CHECK(!strcmp(l.device, "mlx5_1"));
	put(V2 "/a/b/rdma.max", "mlx5_0 hca_handle=0 hca_object=3000");
	CHECK_EQ(group_rdma(root, &l), 0);
	CHECK_EQ(l.handles, 0);
	CHECK_EQ(l.objects, 2000);
	tree_end();
}

int main(void)
{
	test_second();
	test_container();
	test_first();
	test_rdma();
	return 0;
}
