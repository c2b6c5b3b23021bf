/* SPDX-License-Identifier: Apache-2.0 */
/* A forked child that only holds what it was forked with, until it is killed. */
#ifndef SLEEPER_H
#define SLEEPER_H

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "test.h"

static inline pid_t fork_sleeper(void)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

#endif
