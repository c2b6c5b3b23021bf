/* SPDX-License-Identifier: Apache-2.0 */
/* Files of memory. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/base.h"

/* Since Linux 6.3; C libraries have the name later. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

/* A system may refuse a file that could be executed (vm.memfd_noexec), and an older one does not
 * know how to say that this one never will be. */
int memfd_open(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd < 0 ? -errno : fd;
}

int memfd_reader(int fd)
{
	char path[64];
	int reader;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	reader = open(path, O_RDONLY | O_CLOEXEC);
	return reader < 0 ? -errno : reader;
}
