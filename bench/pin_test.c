/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that was pinned for a while runs again wherever the program may, and CPUs are handed out
 * in their order. */
#include <sched.h>
#include "common/common.h"
#include "test.h"

static cpu_set_t now(void)
{
	cpu_set_t set;

	CHECK(!sched_getaffinity(0, sizeof(set), &set));
	return set;
}

int main(void)
{
	cpu_set_t all = now(), set;
	int first = bench_cpu(0), last = bench_cpu(CPU_COUNT(&all) - 1);

	CHECK(first >= 0 && last >= first);
	CHECK_EQ(bench_cpu(CPU_COUNT(&all)), -1);
	bench_pin(last);
	set = now();
	CHECK_EQ(CPU_COUNT(&set), 1);
	CHECK(CPU_ISSET((unsigned int)last, &set));
	CHECK_EQ(bench_cpu(0), first);
	bench_pin(-1);
	set = now();
	CHECK(CPU_EQUAL(&set, &all));

	CHECK_EQ(bench_cpu_after(-1, 3), -1);
	CHECK_EQ(bench_cpu_after(first, 0), first);
	CHECK_EQ(bench_cpu_after(last, 1), first);
	CHECK_EQ(bench_cpu_after(first, (uint32_t)CPU_COUNT(&all) - 1), last);
	return 0;
}
