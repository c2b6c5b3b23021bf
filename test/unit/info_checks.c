/* SPDX-License-Identifier: Apache-2.0 */
/* What urccl_info --doctor says of a machine that lacks this or that, and what it advises. The
 * machine is a tree of files like the system's; where there is nothing in it, there is nothing. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "info/info.h"
#include "test.h"

#define GROUP	     "/sys/fs/cgroup/box/"
#define TRANSPORT_NS 1700000000ull /* for one, and a little more */
#define EACH_NS	     1200000000ull /* what each had if they did not share it */

static char root[64];
static struct finding f;
static struct urccl_params params;

/* ---- the machine ---- */

/* The folders above it are made, too. */
static const char *place(const char *name)
{
	static char path[512];
	char *slash;

	snprintf(path, sizeof(path), "%s%s", root, name);
	for (slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		CHECK(!mkdir(path, 0700) || errno == EEXIST);
		*slash = '/';
	}
	return path;
}

static void put(const char *name, const char *text)
{
	FILE *file = fopen(place(name), "w");

	CHECK(file);
	CHECK_GE(fprintf(file, "%s\n", text), 0);
	CHECK_EQ(fclose(file), 0);
}

static void put_link(const char *name, const char *to)
{
	CHECK_EQ(symlink(to, place(name)), 0);
}

static void begin(void)
{
	snprintf(root, sizeof(root), "/tmp/urccl-checks-XXXXXX");
	CHECK(mkdtemp(root));
}

static void end(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r %s", root);
	CHECK_EQ(system(command), 0);
}

/* ---- what is found ---- */

/* advice: words of it; NULL: there is none. */
static void says(void (*check)(struct finding *), enum health health, const char *state,
		 const char *advice)
{
	f = (struct finding){.root = root, .params = &params};
	check(&f);
	if (f.health != health || !strstr(f.state, state) ||
	    (advice ? !strstr(f.advice, advice) : *f.advice))
		fprintf(stderr, "%d: %s -> %s\n", (int)f.health, f.state, f.advice);
	CHECK_EQ(f.health, health);
	CHECK(strstr(f.state, state));
	CHECK(advice ? strstr(f.advice, advice) != NULL : !*f.advice);
}

/* As to a device that a control group withholds: rights allow what open() refuses. */
static void put_socket(const char *name)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	CHECK(fd >= 0);
	snprintf(at.sun_path, sizeof(at.sun_path), "%.100s", place(name));
	CHECK_EQ(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	close(fd);
	CHECK_EQ(access(at.sun_path, R_OK | W_OK), 0);
}

static void uverbs(void)
{
	begin();
	says(check_uverbs, HEALTH_NOTE, "no RDMA device, and no uverbs node", "modprobe mlx5_ib");
	put("/sys/class/infiniband/mlx5_0/node_type", "1: CA");
	put("/sys/class/infiniband/mlx5_1/node_type", "1: CA");
	says(check_uverbs, HEALTH_WRONG, "2 RDMA devices and no uverbs node", "modprobe ib_uverbs");
	says(check_uverbs, HEALTH_WRONG, "2 RDMA devices", "--device=/dev/infiniband");
	/* What root cannot open either. */
	put_link("/dev/infiniband/uverbs0", "uverbs0");
	says(check_uverbs, HEALTH_WRONG, "0 of 1 uverbs nodes can be opened", "rights 0666");
	CHECK_EQ(unlink(place("/dev/infiniband/uverbs0")), 0);
	/* The first need not be there. */
	put_socket("/dev/infiniband/uverbs1");
	says(check_uverbs, HEALTH_WRONG,
	     "0 of 1 uverbs nodes can be opened; uverbs1: ", "--device=/dev/infiniband/uverbs1");
	put("/dev/infiniband/uverbs0", "");
	says(check_uverbs, HEALTH_NOTE,
	     "1 of 2 uverbs nodes can be opened; uverbs1: ", "device cgroup");
	CHECK_EQ(unlink(place("/dev/infiniband/uverbs1")), 0);
	put("/dev/infiniband/uverbs1", "");
	says(check_uverbs, HEALTH_OK, "2 RDMA devices, 2 uverbs nodes", NULL);
	end();
}

static void groups(void)
{
	begin();
	put("/proc/self/cgroup", "0::/box");
	says(check_group_memory, HEALTH_OK, "no limit", NULL);
	says(check_group_threads, HEALTH_OK, "no limit", NULL);
	says(check_group_rdma, HEALTH_OK, "no limit", NULL);
	put(GROUP "memory.max", "1073741824");
	put(GROUP "memory.current", "536870912");
	says(check_group_memory, HEALTH_OK, "1.0 GiB and has 512.0 MiB", NULL);
	put(GROUP "memory.current", "1073000000");
	says(check_group_memory, HEALTH_WRONG, "1.0 GiB and has 1023.3 MiB", "memory.max");
	put(GROUP "pids.max", "64");
	put(GROUP "pids.current", "60");
	says(check_group_threads, HEALTH_OK, "64 threads and has 60", NULL);
	put(GROUP "pids.current", "61");
	says(check_group_threads, HEALTH_WRONG, "64 threads and has 61", "pids.max");
	put(GROUP "rdma.max", "mlx5_0 hca_handle=2 hca_object=1000");
	says(check_group_rdma, HEALTH_NOTE, "2 handles and 1000 objects, of mlx5_0", "rdma.max");
	put(GROUP "rdma.max", "mlx5_0 hca_handle=max hca_object=6");
	says(check_group_rdma, HEALTH_WRONG, "any number of handles and 6",
	     "'mlx5_0 hca_handle=max");
	end();
}

/* Of a rail, where no device is to be found: 4 KiB, and 8 for each peer that may have a path. */
static void pins(void)
{
	params.transport = "tcp,ib?";
	params.ibv_so = "/nowhere/libibverbs.so";
	says(check_memlock, HEALTH_WRONG,
	     "64 KiB may be locked; ib with 1 rail and 4096 peers (max_peers) needs 32.0 MiB itself",
	     "(URCCL_MAX_WARM, URCCL_MAX_QPS); ulimit -l");
	params.max_peers = 8;
	says(check_memlock, HEALTH_WRONG, "needs 68 KiB itself", "LimitMEMLOCK=infinity");
	CHECK(strstr(f.state, "0 KiB are left"));
	params.max_peers = 7;
	says(check_memlock, HEALTH_NOTE, "needs 60 KiB itself", "LimitMEMLOCK=infinity");
	CHECK(strstr(f.state, "4 KiB are left for what is registered"));
	CHECK(!strstr(f.advice, "fewer"));
	params.max_peers = 4096;
	params.max_warm = 5;
	says(check_memlock, HEALTH_NOTE, "5 peers (max_warm) needs 44 KiB itself", "ulimit -l");
	CHECK(strstr(f.state, "20 KiB are left"));
	params.max_peers = 4;
	says(check_memlock, HEALTH_NOTE, "4 peers (max_peers) needs 36 KiB itself", "ulimit -l");
	params.max_qps = 15;
	says(check_memlock, HEALTH_NOTE, "15 queue pairs (max_qps) needs 28 KiB itself",
	     "ulimit -l");
	params.max_qps = 2; /* of one peer, all the same */
	says(check_memlock, HEALTH_NOTE, "2 queue pairs (max_qps) needs 12 KiB itself",
	     "ulimit -l");
	params.max_qps = 16;
	says(check_memlock, HEALTH_NOTE, "4 peers (max_peers) needs 36 KiB itself", "ulimit -l");
	urccl_params_init(&params);
}

/* A capability counts in the first user namespace alone. */
static void memlock(void)
{
	struct rlimit limit = {.rlim_cur = 65536, .rlim_max = 65536};

	CHECK_EQ(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	begin();
	put("/proc/self/status", "CapEff:\t0000000000004000");
	put_link("/proc/self/ns/user", "user:[4026531837]");
	says(check_memlock, HEALTH_OK, "unlimited by CAP_IPC_LOCK", NULL);
	CHECK_EQ(unlink(place("/proc/self/ns/user")), 0);
	put_link("/proc/self/ns/user", "user:[4026532000]");
	says(check_memlock, HEALTH_NOTE, "64 KiB may be locked; these settings need nothing",
	     "ulimit -l unlimited");
	params.transport = "shm,fabric:verbs?";
	says(check_memlock, HEALTH_NOTE, "libfabric needs what is registered", "ulimit -l");
	pins();
	end();
}

static void processes(void)
{
	begin();
	says(check_proc, HEALTH_WRONG, "not mounted", "mount -t proc");
	says(check_pid_namespace, HEALTH_NOTE, "not to be told", "mount -t proc");
	says(check_seccomp, HEALTH_OK, "no filter", NULL);
	put("/proc/self/status", "Name:\tx\nSeccomp:\t2");
	says(check_proc, HEALTH_NOTE, "hidden", "your own processes");
	says(check_seccomp, HEALTH_NOTE, "a filter", "--security-opt seccomp=");
	put("/proc/1/status", "");
	says(check_proc, HEALTH_OK, "mounted", NULL);
	put_link("/proc/self/ns/pid", "pid:[4026532001]");
	says(check_pid_namespace, HEALTH_NOTE, "one of its own", "socket_dir");
	CHECK_EQ(unlink(place("/proc/self/ns/pid")), 0);
	put_link("/proc/self/ns/pid", "pid:[4026531836]");
	says(check_pid_namespace, HEALTH_OK, "the host's", NULL);
	end();
}

static void huge_pages(void)
{
	begin();
	put("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
	put("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "always advise [never]");
	says(check_huge, HEALTH_NOTE, "madvise; of shared memory: never", "echo advise >");
	put("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "always [advise] never");
	says(check_huge, HEALTH_OK, "of shared memory: advise", NULL);
	end();
}

/* ---- ways ---- */

/* None of them leads anywhere: they share the time, and whose is too short says that alone. */
static void ways(void)
{
	struct urccl_params p = {.size = sizeof(p)};
	uint64_t began;
	uint32_t i;

	urccl_params_init(&p);
	CHECK_EQ(urccl_sim_open("", &p.sim_network), 0);
	urccl_sim_freeze(p.sim_network, 1);
	began = now_ns();
	for (i = 0; i < 3; i++) {
		f = (struct finding){.params = &p, .root = "", .until_ns = began + TRANSPORT_NS};
		check_connects(&f, "sim");
		CHECK_EQ(f.health, i ? HEALTH_NOTE : HEALTH_WRONG);
		CHECK(strstr(f.state, i ? "not known" : "cannot meet"));
		CHECK(strstr(f.advice, "--transport sim"));
	}
	CHECK_GE(now_ns() - began, TRANSPORT_NS - 1000000);
	urccl_sim_freeze(p.sim_network, 0);
	CHECK_LE(now_ns() - began, 3 * EACH_NS);
	/* They meet as soon as the machine has time for it. */
	for (i = 0; i < 8 && f.health != HEALTH_OK; i++) {
		f = (struct finding){.params = &p, .root = "", .until_ns = now_ns() + 20000000000};
		check_connects(&f, "sim");
	}
	CHECK_EQ(f.health, HEALTH_OK);
	CHECK_EQ(urccl_sim_close(p.sim_network), 0);
}

int main(void)
{
	params.size = sizeof(params);
	urccl_params_init(&params);
	uverbs();
	groups();
	memlock();
	processes();
	huge_pages();
	ways();
	return 0;
}
