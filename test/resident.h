/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RESIDENT_H
#define RESIDENT_H

#include <stdint.h>
#include "test.h"

/* Resident memory of this process, bytes; 0 where a sanitizer's is part of it. */
static inline uint64_t resident(void)
{
	unsigned long long all, pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	CHECK(f);
	CHECK_EQ(fscanf(f, "%llu %llu", &all, &pages), 2);
	fclose(f);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	pages = 0;
#endif
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

#endif
