/* SPDX-License-Identifier: Apache-2.0 */
/* The process at the other end of a link. Its pidfd shows its end, even if others hold the sockets
 * that it had. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "backend/shm/shm.h"

#define PEER_PIDFD   77 /* SO_PEERPIDFD of Linux 6.5, which older headers lack */
#define STAT_STARTED 22

/* Field 22 of /proc/PROCESS/stat; 0: unreadable. */
static uint64_t started(const char *process)
{
	char path[64], text[1024], *at;
	ssize_t n = -1;
	int fd, field;

	snprintf(path, sizeof(path), "/proc/%s/stat", process);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = 0;
	/* The name, field 2, may have spaces and parentheses. */
	at = strrchr(text, ')');
	for (field = 2; at && field < STAT_STARTED; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

uint64_t shm_process_started(void)
{
	return started("self");
}

/* A reused PID names a process that began later. The pidfd is opened before the time is read, so
 * another process is never taken for the peer. */
static int process_open(int sock, uint64_t since)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	char process[16];
	int fd;

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	if (cred.pid <= 0 || !since)
		return -ESRCH;
	fd = (int)syscall(SYS_pidfd_open, cred.pid, 0);
	if (fd < 0)
		return -errno;
	snprintf(process, sizeof(process), "%d", (int)cred.pid);
	if (started(process) == since)
		return fd;
	close(fd);
	return -ESRCH;
}

int shm_process_open(int sock, uint64_t since)
{
	socklen_t len = sizeof(int);
	int fd;

	if (!getsockopt(sock, SOL_SOCKET, PEER_PIDFD, &fd, &len))
		return fd;
	return process_open(sock, since);
}
