/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of resource limits, control groups and memory files. */
#include "info.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define MIB (1ull << 20)

static const char *size_text(unsigned long long n, char to[32])
{
	if (n >= 1ull << 30)
		snprintf(to, 32, "%.1f GiB", (double)n / (double)(1ull << 30));
	else if (n >= MIB)
		snprintf(to, 32, "%.1f MiB", (double)n / (double)MIB);
	else
		snprintf(to, 32, "%.0f KiB", (double)n / 1024);
	return to;
}

#define FIRST_USER_NAMESPACE "user:[4026531837]"
#define CAP_IPC_LOCK	     14

/* The kernel honours CAP_IPC_LOCK only in the initial user namespace. */
static int is_exempt(struct finding *f)
{
	char link[64], caps[32];
	ssize_t n = readlink(path_under(f, "/proc/self/ns/user"), link, sizeof(link) - 1);

	if (n < 0 || read_field(path_under(f, "/proc/self/status"), "CapEff", caps, sizeof(caps)))
		return 0;
	link[n] = 0;
	return !strcmp(link, FIRST_USER_NAMESPACE) && strtoull(caps, NULL, 16) >> CAP_IPC_LOCK & 1;
}

/* ---- memory that a NIC's driver pins: it counts against RLIMIT_MEMLOCK ---- */

/* Whether the setting names a transport, "ib" in "shm,ib?" or "fabric" in "fabric:verbs". */
static int is_asked_for(const struct urccl_params *p, const char *name)
{
	const char *at = p->transport ? p->transport : "";
	size_t len = strlen(name);

	for (; *at; at += at[strcspn(at, ",")] ? strcspn(at, ",") + 1 : strlen(at))
		if (!strncmp(at, name, len) && strcspn(at, "?!:,") == len)
			return 1;
	return 0;
}

/* Counts rails of transport ib that these settings open, or fail to open with -ENOMEM. */
static uint32_t count_rails(const struct urccl_params *asked)
{
	struct urccl_device d = {.size = sizeof(d)};
	struct urccl_params p = *asked;
	struct urccl *ctx;
	uint32_t i, n = 0;

	p.transport = "shm?,ib?";
	p.listen = NULL;
	if (urccl_open(&p, &ctx))
		return 0;
	for (i = 0; !urccl_devices(ctx, i, &d); i++)
		n += d.transport == URCCL_TRANSPORT_IB &&
		     (d.state == URCCL_DEVICE_OPEN || d.error == -ENOMEM);
	urccl_close(ctx);
	return n;
}

/* The most paths (a peer on a rail) at a time; the text in `of` names the limit. */
static unsigned long long count_paths(const struct urccl_params *p, uint32_t rails, char of[48])
{
	uint32_t warm = p->max_warm && p->max_warm < p->max_peers;
	uint32_t peers = warm ? p->max_warm : p->max_peers;
	unsigned long long paths = (unsigned long long)peers * rails, most = p->max_qps / IB_QPS;

	most = most < rails ? rails : most; /* one peer always gets its queue pairs */
	if (p->max_qps && most < paths) {
		snprintf(of, 48, "%u queue pairs (max_qps)", p->max_qps);
		return most;
	}
	snprintf(of, 48, "%u peers (%s)", peers, warm ? "max_warm" : "max_peers");
	return paths;
}

/* have: bytes that may be locked. Memory that the program registers is unknown here. */
static void check_pins(struct finding *f, unsigned long long have)
{
	uint32_t rails = count_rails(f->params);
	char has[32], needs[32], left[32], of[48];
	unsigned long long need;

	rails = rails ? rails : 1; /* check_open() reports why there is none */
	need = rails * IB_PINS_RAIL + count_paths(f->params, rails, of) * IB_PINS_PEER;
	size_text(have, has);
	size_text(need, needs);
	size_text(need > have ? 0 : have - need, left);
	finding_set(
		f, need > have ? HEALTH_WRONG : HEALTH_NOTE,
		"%s may be locked; ib with %u %s and %s needs %s itself, its devices' queues "
		"besides: %s are left for what is registered, for each rail and again where peers "
		"use adverts of it",
		has, rails, rails == 1 ? "rail" : "rails", of, needs, left);
	if (need > have)
		advise(f, "fewer peers with a path at a time (URCCL_MAX_WARM, URCCL_MAX_QPS)");
}

static void check_unpinned(struct finding *f, unsigned long long have)
{
	const struct urccl_params *p = f->params;
	int by_provider =
		is_asked_for(p, "efa") || is_asked_for(p, "cxi") || is_asked_for(p, "fabric");
	char has[32];

	finding_set(
		f, HEALTH_NOTE,
		"%s may be locked; %s. ib, not asked for, needs for each rail what is registered, that "
		"again where peers use adverts of it, %u KiB, and %u KiB a peer, its device's queues "
		"besides",
		size_text(have, has),
		by_provider ? "a provider of libfabric needs what is registered, or more"
			    : "these settings need nothing of it",
		IB_PINS_RAIL / 1024, IB_PINS_PEER / 1024);
}

void check_memlock(struct finding *f)
{
	struct rlimit limit = {0};
	char have[32];

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (limit.rlim_cur == RLIM_INFINITY) {
		finding_set(f, HEALTH_OK, "unlimited");
		return;
	}
	if (is_exempt(f)) {
		finding_set(f, HEALTH_OK,
			    "unlimited by CAP_IPC_LOCK; without it %s might be locked",
			    size_text(limit.rlim_cur, have));
		return;
	}
	if (is_asked_for(f->params, "ib"))
		check_pins(f, limit.rlim_cur);
	else
		check_unpinned(f, limit.rlim_cur);
	advise(f, "ulimit -l unlimited; LimitMEMLOCK=infinity in a systemd unit; "
		  "--ulimit memlock=-1:-1 for a container");
}

/* ---- files ---- */

#define FILES_CONTEXT 40u /* a context with a ring and some peers, and the program's own */
#define FILES_MANY    4096u

void check_nofile(struct finding *f)
{
	struct rlimit limit = {0};

	getrlimit(RLIMIT_NOFILE, &limit);
	finding_set(
		f,
		limit.rlim_cur < FILES_CONTEXT ? HEALTH_WRONG
		: limit.rlim_cur < FILES_MANY  ? HEALTH_NOTE
					       : HEALTH_OK,
		"%llu file descriptors (at most %llu): a context needs about %u, each peer a few more",
		(unsigned long long)limit.rlim_cur, (unsigned long long)limit.rlim_max,
		FILES_CONTEXT);
	if (f->health != HEALTH_OK)
		advise(f, "ulimit -n %llu, or setrlimit(RLIMIT_NOFILE) in the program",
		       (unsigned long long)limit.rlim_max);
}

void check_fsize(struct finding *f)
{
	struct rlimit limit = {0};
	char have[32];

	getrlimit(RLIMIT_FSIZE, &limit);
	if (limit.rlim_cur == RLIM_INFINITY) {
		finding_set(f, HEALTH_OK, "unlimited");
		return;
	}
	finding_set(f, limit.rlim_cur < 64 * MIB ? HEALTH_WRONG : HEALTH_NOTE,
		    "files and shared memory of at most %s", size_text(limit.rlim_cur, have));
	advise(f, "ulimit -f unlimited: shm and urccl_alloc() make memory files");
}

/* ---- memory files ---- */

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

/* Like the library, uses MFD_NOEXEC_SEAL, which older kernels refuse with EINVAL. */
static int memory_file(void)
{
	int fd = memfd_create("urccl_info", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("urccl_info", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd;
}

void check_memfd(struct finding *f)
{
	char mode[16] = "0";
	int fd = memory_file(), err;

	read_line(path_under(f, "/proc/sys/vm/memfd_noexec"), mode, sizeof(mode));
	if (fd < 0) {
		finding_set(f, HEALTH_WRONG, "no memory file can be made: %s", strerror(errno));
		advise(f, "permit memfd_create() where seccomp denies it");
		return;
	}
	err = fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ? errno : 0;
	close(fd);
	if (err) {
		finding_set(f, HEALTH_WRONG, "memory files cannot be sealed: %s", strerror(err));
		advise(f, "permit fcntl(F_ADD_SEALS): shm trusts no memory that may shrink");
		return;
	}
	finding_set(f, HEALTH_OK, "memory files are made and sealed (vm.memfd_noexec is %s)", mode);
}

/* ---- control groups ---- */

void check_group_memory(struct finding *f)
{
	struct group_limit l;
	char most[32], now[32];

	if (group_limit(f->root, "memory", &l)) {
		finding_set(f, HEALTH_OK, "no limit of a control group");
		return;
	}
	finding_set(f, l.now + 64 * MIB > l.most ? HEALTH_WRONG : HEALTH_OK,
		    "the control group may have %s and has %s, files that can be dropped included",
		    size_text(l.most, most), size_text(l.now, now));
	if (f->health == HEALTH_WRONG)
		advise(f, "raise the group's memory.max (--memory of a container): what "
			  "urccl_alloc() gives is taken at once");
}

#define THREADS_CONTEXT 4u /* a context's progress, control and short-lived threads */

void check_group_threads(struct finding *f)
{
	struct group_limit l;

	if (group_limit(f->root, "pids", &l)) {
		finding_set(f, HEALTH_OK, "no limit of a control group");
		return;
	}
	finding_set(f, l.now + THREADS_CONTEXT > l.most ? HEALTH_WRONG : HEALTH_OK,
		    "the control group may have %llu threads and has %llu: a context has up to %u",
		    l.most, l.now, THREADS_CONTEXT);
	if (f->health == HEALTH_WRONG)
		advise(f, "raise the group's pids.max (--pids-limit of a container, TasksMax= of a "
			  "systemd unit)");
}

#define OBJECTS_RAIL  5u /* a domain, two queues, memory, a channel of events */
#define OBJECTS_PEER  5u /* up to four queue pairs, and memory */
#define OBJECTS_LEAST 2u /* one queue pair, and memory */

static const char *count_text(unsigned long long n, char to[32])
{
	if (n == ~0ull)
		return "any number of";
	snprintf(to, 32, "%llu", n);
	return to;
}

void check_group_rdma(struct finding *f)
{
	char handles[32], objects[32];
	struct group_rdma l;

	if (group_rdma(f->root, &l)) {
		finding_set(f, HEALTH_OK, "no limit of a control group");
		return;
	}
	finding_set(
		f,
		!l.handles || l.objects < OBJECTS_RAIL + OBJECTS_LEAST ? HEALTH_WRONG : HEALTH_NOTE,
		"a control group may have %s handles and %s objects, of %s: a context of ib takes 1 "
		"handle and %u objects a rail, up to %u a peer there, and one for each registered piece",
		count_text(l.handles, handles), count_text(l.objects, objects), l.device,
		OBJECTS_RAIL, OBJECTS_PEER);
	advise(f,
	       "echo '%s hca_handle=max hca_object=max' > rdma.max of the group and of those "
	       "above it",
	       l.device);
}

/* ---- huge pages ---- */

/* Copies the word in brackets, which is the active one. */
static void chosen(const char *path, char *to, size_t size)
{
	char line[128], *open, *close;

	snprintf(to, size, "?");
	if (read_line(path, line, sizeof(line)))
		return;
	open = strchr(line, '[');
	close = open ? strchr(open, ']') : NULL;
	if (close)
		snprintf(to, size, "%.*s", (int)(close - open - 1), open + 1);
}

void check_huge(struct finding *f)
{
	char heap[32], shared[32];

	chosen(path_under(f, "/sys/kernel/mm/transparent_hugepage/enabled"), heap, sizeof(heap));
	chosen(path_under(f, "/sys/kernel/mm/transparent_hugepage/shmem_enabled"), shared,
	       sizeof(shared));
	finding_set(f,
		    !strcmp(shared, "advise") || !strcmp(shared, "always") ? HEALTH_OK
									   : HEALTH_NOTE,
		    "of ordinary memory: %s; of shared memory: %s", heap, shared);
	if (f->health == HEALTH_NOTE)
		advise(f, "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled, for "
			  "memory of urccl_alloc()");
}
