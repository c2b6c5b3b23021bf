/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NS_H
#define NS_H

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static inline int ns_put(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));

	if (fd >= 0)
		close(fd);
	return n == (ssize_t)strlen(text) ? 0 : -1;
}

/* Into a user namespace of this process's own, and those of flags (CLONE_NEWNET), while it has one
 * thread: as root there, or as who it is. 0; -1: that is denied here. */
static inline int ns_enter(int flags, int as_root)
{
	unsigned int uid = geteuid(), gid = getegid();
	char uids[64], gids[64];

	snprintf(uids, sizeof(uids), "%u %u 1", as_root ? 0 : uid, uid);
	snprintf(gids, sizeof(gids), "%u %u 1", as_root ? 0 : gid, gid);
	if (unshare(CLONE_NEWUSER | flags))
		return -1;
	ns_put("/proc/self/setgroups", "deny"); /* kernels before 3.19 have none */
	return ns_put("/proc/self/uid_map", uids) || ns_put("/proc/self/gid_map", gids) ? -1 : 0;
}

#endif
