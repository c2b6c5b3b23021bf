/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory control groups leave a process: the least that its own group or one above it
 * does, where file pages that can be dropped count as free. Read from folders made as the kernel
 * makes them, of version 1 and 2. */
#include "memory/memory.h"
#include "tree.h"

#define V2  "/sys/fs/cgroup"
#define V1  "/sys/fs/cgroup/memory"
#define ALL UINT64_MAX

static void put_in(const char *mount, const char *folder, const char *file, const char *text)
{
	char name[256];

	snprintf(name, sizeof(name), "%s%s/%s", mount, folder, file);
	put(name, text);
}

static void group(const char *folder, const char *most, const char *used)
{
	put_in(V2, folder, "memory.max", most);
	put_in(V2, folder, "memory.current", used);
}

static void group_v1(const char *folder, const char *most, const char *used)
{
	put_in(V1, folder, "memory.limit_in_bytes", most);
	put_in(V1, folder, "memory.usage_in_bytes", used);
}

static void has(uint64_t room)
{
	CHECK_EQ(memory_groups_room(root), room);
}

static void begin(const char *groups)
{
	tree_begin();
	has(ALL);
	put("/proc/self/cgroup", groups);
	has(ALL);
}

static void test_second(void)
{
	begin("0::/pods/pod7/box");
	group("/pods/pod7/box", "max", "1000");
	has(ALL);
	group("/pods/pod7", "5000", "2000");
	has(3000);
	put(V2 "/pods/pod7/memory.stat", "anon 800\ninactive_file 700\nactive_file 500");
	has(4200);
	group("/pods", "9000", "8000");
	has(1000);
	group("/pods/pod7/box", "1300", "1000");
	has(300);
	group("/pods", "7000", "8000");
	has(0);
	tree_end();
}

/* A container sees its own group as the root, or a way to it that is not mounted there. */
static void test_container(void)
{
	begin("0::/");
	group("", "4096", "96");
	has(4000);
	tree_end();
	begin("0::/../elsewhere/box");
	group("", "4096", "96");
	has(4000);
	tree_end();
}

static void test_first(void)
{
	begin("12:cpu,cpuacct:/no\n9:memory:/job/step\n0::/init.scope");
	group_v1("/job/step", "9223372036854771712", "0");
	group_v1("/no", "1", "0");
	has(9223372036854771712ull);
	group_v1("/job", "7000", "6000");
	has(1000);
	put(V1 "/job/memory.stat", "inactive_file 5\ntotal_inactive_file 40\ntotal_active_file 2");
	has(1042);
	group_v1("", "500", "200");
	has(300);
	tree_end();
}

int case_room(void)
{
	test_second();
	test_container();
	test_first();
	return 0;
}
