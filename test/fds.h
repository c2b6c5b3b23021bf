/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FDS_H
#define FDS_H

#include <dirent.h>
#include <stdint.h>
#include "test.h"

/* Descriptors of this process that are open, and the same few more each time: for comparing. */
static inline uint32_t fds_open(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint32_t n = 0;

	CHECK(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

#endif
