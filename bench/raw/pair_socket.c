/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Congestion control of streams that a library makes and has no setting for: linked into a program
 * that exports its symbols, the library's calls of socket() come here. Who accepts has it from who
 * listens.
 */
#include "pair.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TYPE(type) ((type) & ~(SOCK_NONBLOCK | SOCK_CLOEXEC))

static const char *congestion;

void pair_congestion(const char *cc)
{
	congestion = cc;
}

int socket(int domain, int type, int protocol)
{
	int fd = (int)syscall(SYS_socket, domain, type, protocol);
	int is_stream = (domain == AF_INET || domain == AF_INET6) && TYPE(type) == SOCK_STREAM;

	if (fd >= 0 && is_stream && congestion &&
	    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion, (socklen_t)strlen(congestion)) <
		    0)
		bench_die("congestion control %s: %s", congestion, strerror(errno));
	return fd;
}
