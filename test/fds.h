/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FDS_H
#define FDS_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
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

/* Allows this process as many as it may have. 0: that is fewer than n. */
static inline int fds_allow(uint64_t n)
{
	struct rlimit limit;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	return limit.rlim_cur >= n;
}

/* Mappings of memfds in this process. */
static inline uint32_t memfds_mapped(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	uint32_t n = 0;

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "memfd:") != NULL;
	fclose(f);
	return n;
}

#endif
