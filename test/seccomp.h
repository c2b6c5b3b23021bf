/* SPDX-License-Identifier: Apache-2.0 */
/* System calls that fail as a filter says, from now on and in this thread and its children. */
#ifndef TEST_SECCOMP_H
#define TEST_SECCOMP_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include "test.h"

static inline void seccomp_set(struct sock_filter *code, size_t n)
{
	struct sock_fprog filter = {.len = (unsigned short)n, .filter = code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		SKIP("no seccomp filter may be set here");
}

#endif
