/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that the library has for a while alone, for what takes the kernel long: PREFAULT runs on
 * several where there are several CPUs, REGISTERs of a device that pins run beside one another, and
 * their names begin as those of the others do. They run where the program does, whatever CPUs the
 * control thread is kept to. */
#include <dirent.h>
#include <sched.h>
#include <sys/mman.h>
#include "pair.h"

#define NAME   "kvcache"
#define PART   (64ull << 20) /* a thread of PREFAULT has so much at least */
#define LEN    4096u
#define PINNED 4u
#define TRIES  20u /* on a busy machine nobody may look while they are there */
#define RW     (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static uint8_t memory[PINNED][LEN];
static cpu_set_t cpus; /* of the program */

/* As long as the thread is there. */
static void runs_everywhere(const char *tid)
{
	cpu_set_t its;

	if (!sched_getaffinity(atoi(tid), sizeof(its), &its))
		CHECK(CPU_EQUAL(&its, &cpus));
}

/* Threads of this process with this name. */
static uint32_t named(const char *name)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *d;
	uint32_t n = 0;

	if (!dir)
		SKIP("no /proc to find threads in");
	while ((d = readdir(dir))) {
		char path[300], comm[64] = "";
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", d->d_name);
		f = d->d_name[0] == '.' ? NULL : fopen(path, "r");
		if (!f)
			continue;
		if (fgets(comm, sizeof(comm), f))
			comm[strcspn(comm, "\n")] = 0;
		fclose(f);
		if (strcmp(comm, name))
			continue;
		runs_everywhere(d->d_name);
		n++;
	}
	closedir(dir);
	return n;
}

static void post(struct urccl_range *r, void *addr, uint64_t len, uint32_t rights)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	*r = (struct urccl_range){.addr = (uintptr_t)addr, .len = len, .fd = -1};
	urccl_prep_register(sqe, r, 1, rights);
	urccl_sqe_set_data64(sqe, 1);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

/* 1: so many were there at once before an entry ended; 0: one did, which is in *cqe. */
static int seen(const char *name, uint32_t wanted, struct urccl_cqe *cqe)
{
	while (named(name) < wanted)
		if (side_take_within(&p.a, &p.b, 100000, cqe, NULL))
			return 0;
	return 1;
}

/* The REGISTER, and what cancels it. */
static void cancel(struct urccl_cqe *cqe)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe own;

	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, 1);
	urccl_sqe_set_data64(sqe, 2);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	do {
		side_take(&p.a, &p.b, cqe, NULL);
		CHECK_EQ(cqe->user_data, 1);
	} while (cqe->flags & URCCL_CQE_MORE);
	side_take(&p.a, &p.b, &own, NULL);
	CHECK_EQ(own.user_data, 2);
}

static void unregister(const struct urccl_cqe *cqe)
{
	CHECK_EQ(urccl_unregister(p.a.ctx, (struct urccl_region){(uint32_t)cqe->handle}), 0);
}

/* One thread for each CPU, up to four. */
static int prefaults(uint32_t wanted)
{
	uint64_t much = wanted * PART;
	uint8_t *m = mmap(NULL, much, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct urccl_cqe cqe = {0};
	struct urccl_range r;
	int enough;

	CHECK(m != MAP_FAILED);
	post(&r, m, much, RW | URCCL_REG_PREFAULT);
	enough = seen(NAME "-pages", wanted, &cqe);
	if (enough)
		cancel(&cqe);
	if (cqe.res == -EOPNOTSUPP)
		SKIP("this kernel cannot be asked for pages");
	if (cqe.res)
		CHECK_EQ(cqe.res, -ECANCELED);
	else
		unregister(&cqe);
	munmap(m, much);
	return enough;
}

/* Of a device that takes its time with each. */
static int registers(void)
{
	struct urccl_range r[PINNED];
	struct urccl_cqe cqe = {0};
	uint32_t i;
	int enough;

	for (i = 0; i < PINNED; i++)
		post(&r[i], memory[i], LEN, RW);
	enough = seen(NAME "-errand", 2, &cqe);
	for (i = 0; i < PINNED; i++) {
		if (i || enough)
			side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.res, 0);
		unregister(&cqe);
	}
	return enough;
}

int main(int argc, char **argv)
{
	uint32_t wanted, i;
	char first[16];

	CHECK_EQ(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
	wanted = CPU_COUNT(&cpus) < 4 ? (uint32_t)CPU_COUNT(&cpus) : 4;
	for (i = 0; !CPU_ISSET(i, &cpus);)
		i++;
	snprintf(first, sizeof(first), "%u", i);
	pair_options(&p, argc, argv);
	p.faults = "pin=300ms";
	p.params.thread_name = NAME;
	p.params.control_cpus = first;
	pair_open(&p);
	for (i = 0; i < TRIES && !prefaults(wanted); i++)
		;
	CHECK(i < TRIES);
	for (i = 0; i < TRIES && !registers(); i++)
		;
	CHECK(i < TRIES);
	CHECK_EQ(named("urccl-pages") + named("urccl-errand"), 0);
	pair_close(&p);
	return 0;
}
