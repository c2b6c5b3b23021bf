/* SPDX-License-Identifier: Apache-2.0 */
/* Memory files, and pages that a forked child does not get. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/base.h"

/* Linux has this flag since 6.3; older C libraries do not define it. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

/* With vm.memfd_noexec a system may refuse any file that could be executed, so the flag is tried
 * first. An older kernel does not know the flag and answers EINVAL. */
int memfd_open(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd < 0 ? -errno : fd;
}

int wipe_on_fork(void *mem, size_t len, const char *what)
{
	int err = madvise(mem, len, MADV_WIPEONFORK) ? -errno : 0;

	if (err == -EINVAL)
		return fail(err,
			    "this kernel cannot keep %s out of forked processes: it lacks "
			    "MADV_WIPEONFORK, which came with Linux 4.14",
			    what);
	if (err)
		return fail(err,
			    "%s cannot be kept out of forked processes: madvise() of %zu bytes: "
			    "%s; vm.max_map_count limits the mappings of a process",
			    what, len, errno_text(-err));
	return 0;
}

int memfd_reader(int fd)
{
	char path[64];
	int reader;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	reader = open(path, O_RDONLY | O_CLOEXEC);
	return reader < 0 ? -errno : reader;
}
