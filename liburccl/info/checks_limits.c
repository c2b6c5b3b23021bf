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

static int has_uverbs(void)
{
	glob_t g;
	int n = glob("/dev/infiniband/uverbs*", 0, NULL, &g) ? 0 : (int)g.gl_pathc;

	if (n)
		globfree(&g);
	return n;
}

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
	if (has_uverbs()) {
		found(f, HEALTH_WRONG, "%s may be locked; RDMA needs as much as is registered",
		      have);
	} else {
		found(f, HEALTH_NOTE,
		      "%s may be locked: shm and tcp lock nothing, RDMA would need what is "
		      "registered",
		      have);
	}
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

	read_line("/proc/sys/vm/memfd_noexec", mode, sizeof(mode));
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

/* The process's group of version 2, or of the memory controller of version 1. */
static int group_file(const char *v2, const char *v1, char *line, size_t size)
{
	char own[512], path[1024], *group;
	FILE *file = fopen("/proc/self/cgroup", "re");
	int err = -ENOENT;

	if (!file)
		return -errno;
	while (err && fgets(own, sizeof(own), file)) {
		own[strcspn(own, "\n")] = 0;
		group = strrchr(own, ':');
		if (!group)
			continue;
		if (!strncmp(own, "0::", 3))
			snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", group + 1, v2);
		else if (strstr(own, ":memory:"))
			snprintf(path, sizeof(path), "/sys/fs/cgroup/memory%s/%s", group + 1, v1);
		else
			continue;
		err = read_line(path, line, size);
	}
	fclose(file);
	/* Inside a container the group is what is mounted. */
	if (err) {
		snprintf(path, sizeof(path), "/sys/fs/cgroup/%s", v2);
		err = read_line(path, line, size);
	}
	if (err) {
		snprintf(path, sizeof(path), "/sys/fs/cgroup/memory/%s", v1);
		err = read_line(path, line, size);
	}
	return err;
}

void check_cgroup(struct finding *f)
{
	unsigned long long most, now;
	char line[64], a[32], b[32];

	if (group_file("memory.max", "memory.limit_in_bytes", line, sizeof(line)) ||
	    !strcmp(line, "max") || (most = strtoull(line, NULL, 10)) > 1ull << 60) {
		found(f, HEALTH_OK, "no limit of a control group");
		return;
	}
	now = group_file("memory.current", "memory.usage_in_bytes", line, sizeof(line))
		      ? 0
		      : strtoull(line, NULL, 10);
	found(f, now + 64 * MIB > most ? HEALTH_WRONG : HEALTH_OK,
	      "the control group may have %s and has %s, files that can be dropped included",
	      size_text(most, a), size_text(now, b));
	if (f->health == HEALTH_WRONG)
		advise(f, "raise the group's memory.max (--memory of a container): what "
			  "urccl_alloc() gives is taken at once");
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

	chosen("/sys/kernel/mm/transparent_hugepage/enabled", heap, sizeof(heap));
	chosen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", shared, sizeof(shared));
	found(f, !strcmp(shared, "advise") || !strcmp(shared, "always") ? HEALTH_OK : HEALTH_NOTE,
	      "of ordinary memory: %s; of shared memory: %s", heap, shared);
	if (f->health == HEALTH_NOTE)
		advise(f, "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled, for "
			  "memory of urccl_alloc()");
}
