/* SPDX-License-Identifier: Apache-2.0 */
/* Starts this program again as a process of its own: a forked child has no CUDA. */
#ifndef API_ITSELF_H
#define API_ITSELF_H

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include "test.h"

/* With option and the number of fd, which stays open there, before its own arguments. Its pid. */
static inline pid_t itself_start(const char *option, int fd, int argc, char **argv)
{
	char first[32], *args[16];
	pid_t pid = fork();
	int i;

	CHECK(pid >= 0 && argc < 14);
	if (pid)
		return pid;
	snprintf(first, sizeof(first), "%s%d", option, fd);
	args[0] = argv[0];
	args[1] = first;
	for (i = 1; i < argc; i++)
		args[i + 1] = argv[i];
	args[argc + 1] = NULL;
	fcntl(fd, F_SETFD, 0);
	execv("/proc/self/exe", args);
	_exit(1);
}

#endif
