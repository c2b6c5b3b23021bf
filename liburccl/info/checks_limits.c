/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of the process and of what it is confined to, and memory. */
#include "info.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
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

static int has_uverbs(struct finding *f)
{
	glob_t g;
	int n = glob(under(f, "/dev/infiniband/uverbs*"), 0, NULL, &g) ? 0 : (int)g.gl_pathc;

	if (n)
		globfree(&g);
	return n;
}

#define FIRST_USER_NAMESPACE "user:[4026531837]"
#define CAP_IPC_LOCK	     14

/* The kernel asks for the capability in the first user namespace: a container's own is none. */
static int is_exempt(struct finding *f)
{
	char link[64], caps[32];
	ssize_t n = readlink(under(f, "/proc/self/ns/user"), link, sizeof(link) - 1);

	if (n < 0 || read_field(under(f, "/proc/self/status"), "CapEff", caps, sizeof(caps)))
		return 0;
	link[n] = 0;
	return !strcmp(link, FIRST_USER_NAMESPACE) && strtoull(caps, NULL, 16) >> CAP_IPC_LOCK & 1;
}

#define REGISTERED_FEW (64 * MIB)

/* A NIC's registered memory stays in place, and counts. */
void check_memlock(struct finding *f)
{
	struct rlimit limit = {0};
	char have[32];

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (limit.rlim_cur == RLIM_INFINITY) {
		found(f, HEALTH_OK, "unlimited");
		return;
	}
	size_text(limit.rlim_cur, have);
	if (is_exempt(f)) {
		found(f, HEALTH_OK, "unlimited by CAP_IPC_LOCK; without it %s might be locked",
		      have);
		return;
	}
	found(f, has_uverbs(f) && limit.rlim_cur < REGISTERED_FEW ? HEALTH_WRONG : HEALTH_NOTE,
	      "%s may be locked. A context of ib needs, for each rail, what is registered, that again "
	      "where peers use adverts of it, %u KiB, and %u KiB a peer, its device's queues besides; "
	      "shm and tcp lock nothing",
	      have, IB_PINS_RAIL / 1024, IB_PINS_PEER / 1024);
	advise(f, "ulimit -l unlimited; LimitMEMLOCK=infinity in a systemd unit; "
		  "--ulimit memlock=-1:-1 for a container");
}

#define FILES_CONTEXT 40u /* of one context with a ring, some peers and the program's own */
#define FILES_MANY    4096u

void check_nofile(struct finding *f)
{
	struct rlimit limit = {0};

	getrlimit(RLIMIT_NOFILE, &limit);
	found(f,
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
		found(f, HEALTH_OK, "unlimited");
		return;
	}
	found(f, limit.rlim_cur < 64 * MIB ? HEALTH_WRONG : HEALTH_NOTE,
	      "files and shared memory of at most %s", size_text(limit.rlim_cur, have));
	advise(f, "ulimit -f unlimited: shm and urccl_alloc() make memory files");
}

/* ---- memory files ---- */

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

/* As the library makes them: never to be executed, where the kernel knows how to say so. */
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

	read_line(under(f, "/proc/sys/vm/memfd_noexec"), mode, sizeof(mode));
	if (fd < 0) {
		found(f, HEALTH_WRONG, "no memory file can be made: %s", strerror(errno));
		advise(f, "permit memfd_create() where seccomp denies it");
		return;
	}
	err = fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ? errno : 0;
	close(fd);
	if (err) {
		found(f, HEALTH_WRONG, "memory files cannot be sealed: %s", strerror(err));
		advise(f, "permit fcntl(F_ADD_SEALS): shm trusts no memory that may shrink");
		return;
	}
	found(f, HEALTH_OK, "memory files are made and sealed (vm.memfd_noexec is %s)", mode);
}

/* ---- control groups ---- */

void check_group_memory(struct finding *f)
{
	struct group_limit l;
	char most[32], now[32];

	if (group_limit(f->root, "memory", &l)) {
		found(f, HEALTH_OK, "no limit of a control group");
		return;
	}
	found(f, l.now + 64 * MIB > l.most ? HEALTH_WRONG : HEALTH_OK,
	      "the control group may have %s and has %s, files that can be dropped included",
	      size_text(l.most, most), size_text(l.now, now));
	if (f->health == HEALTH_WRONG)
		advise(f, "raise the group's memory.max (--memory of a container): what "
			  "urccl_alloc() gives is taken at once");
}

#define THREADS_CONTEXT 4u /* of one context: progress, control, and for a while some more */

void check_group_threads(struct finding *f)
{
	struct group_limit l;

	if (group_limit(f->root, "pids", &l)) {
		found(f, HEALTH_OK, "no limit of a control group");
		return;
	}
	found(f, l.now + THREADS_CONTEXT > l.most ? HEALTH_WRONG : HEALTH_OK,
	      "the control group may have %llu threads and has %llu: a context has up to %u",
	      l.most, l.now, THREADS_CONTEXT);
	if (f->health == HEALTH_WRONG)
		advise(f, "raise the group's pids.max (--pids-limit of a container, TasksMax= of a "
			  "systemd unit)");
}

#define OBJECTS_RAIL 5u /* a domain, two queues, memory, a channel of events */
#define OBJECTS_PEER 4u /* three queue pairs and memory */

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
		found(f, HEALTH_OK, "no limit of a control group");
		return;
	}
	found(f, !l.handles || l.objects < OBJECTS_RAIL + OBJECTS_PEER ? HEALTH_WRONG : HEALTH_NOTE,
	      "a control group may have %s handles and %s objects, of %s: a context of ib takes 1 "
	      "handle and %u objects a rail, %u a peer there, and one for each registered piece",
	      count_text(l.handles, handles), count_text(l.objects, objects), l.device,
	      OBJECTS_RAIL, OBJECTS_PEER);
	advise(f,
	       "echo '%s hca_handle=max hca_object=max' > rdma.max of the group and of those "
	       "above it",
	       l.device);
}

/* ---- huge pages ---- */

/* The word in brackets. */
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

	chosen(under(f, "/sys/kernel/mm/transparent_hugepage/enabled"), heap, sizeof(heap));
	chosen(under(f, "/sys/kernel/mm/transparent_hugepage/shmem_enabled"), shared,
	       sizeof(shared));
	found(f, !strcmp(shared, "advise") || !strcmp(shared, "always") ? HEALTH_OK : HEALTH_NOTE,
	      "of ordinary memory: %s; of shared memory: %s", heap, shared);
	if (f->health == HEALTH_NOTE)
		advise(f, "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled, for "
			  "memory of urccl_alloc()");
}
