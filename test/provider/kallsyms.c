/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded by tests over libfabric: its verbs provider reads all of /proc/kallsyms twice in each
 * process, which takes 0.14 s of CPU, most of that of many tests. Here there is no such file. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* By a label: where offsets have 64 bits fopen() is fopen64(), and libfabric calls the other. */
FILE *fopen_without(const char *path, const char *mode) __asm__("fopen");

FILE *fopen_without(const char *path, const char *mode)
{
	FILE *(*next)(const char *, const char *);

	if (!strcmp(path, "/proc/kallsyms")) {
		errno = ENOENT;
		return NULL;
	}
	next = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
	return next ? next(path, mode) : NULL;
}
