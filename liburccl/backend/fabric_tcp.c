/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libfabric's tcp, and net, before 1.18: where an endpoint is closed with a READ of which a part of
 * the bytes is here, they take it for two and free it twice (prov/tcp/src/tcpx_ep.c,
 * tcpx_ep_flush_all_queues; "Suspicion of bug where RX entry is freed twice" mended it in 1.18). A
 * connection that ends under a READ they get right: so before the endpoint is closed its
 * connections receive the end of what comes. Nobody tells their sockets: they are those of this
 * process at the port of the endpoint, or connected to that of the peer's, which are nobody else's.
 */
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "backend/fabric_key.h"

#define ROUNDS 4u /* of looks at the sockets, before there is a pause */
#define READS  8u /* for a provider to see what a socket has */

static uint16_t port_of(const struct sockaddr_storage *ss)
{
	if (ss->ss_family == AF_INET6)
		return ((const struct sockaddr_in6 *)ss)->sin6_port;
	return ss->ss_family == AF_INET ? ((const struct sockaddr_in *)ss)->sin_port : 0;
}

static int is_at(const struct sockaddr_storage *ss, const struct sockaddr_storage *place)
{
	return port_of(ss) && port_of(ss) == port_of(place) && addr_same(ss, place);
}

/* 1: the provider has not ended it. */
static int is_connected(int fd)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);

	return !getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) &&
	       (info.tcpi_state == TCP_ESTABLISHED || info.tcpi_state == TCP_CLOSE_WAIT);
}

/* 1: a connection of the two, still. */
static int is_between(int fd, const struct sockaddr_storage *ours,
		      const struct sockaddr_storage *theirs)
{
	struct sockaddr_storage from, to;
	socklen_t from_len = sizeof(from), to_len = sizeof(to);

	if (getsockname(fd, (struct sockaddr *)&from, &from_len) ||
	    getpeername(fd, (struct sockaddr *)&to, &to_len))
		return 0;
	return (is_at(&from, ours) || is_at(&to, theirs)) && is_connected(fd);
}

/* Of a descriptor of its own: the number may be another socket's by now. */
static int receives_end(int fd, const struct sockaddr_storage *ours,
			const struct sockaddr_storage *theirs)
{
	int own, is_one;

	if (!is_between(fd, ours, theirs))
		return 0;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0)
		return 1; /* the next look may find room */
	is_one = is_between(own, ours, theirs);
	if (is_one)
		shutdown(own, SHUT_RD);
	close(own);
	return is_one;
}

/* How many there are; -FI_EBUSY: that cannot be seen now. */
static int sockets_end(const struct sockaddr_storage *ours, const struct sockaddr_storage *theirs)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int n = 0;

	if (!dir)
		return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -FI_EBUSY : 0;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			n += receives_end(atoi(entry->d_name), ours, theirs);
	closedir(dir);
	return n;
}

static struct sockaddr_storage place_of(const uint8_t *name, uint32_t len)
{
	struct sockaddr_storage ss = {0};

	memcpy(&ss, name, len < sizeof(ss) ? len : sizeof(ss));
	return ss;
}

int fabric_tcp_settle(struct fabric_ep *e)
{
	struct sockaddr_storage ours = place_of(e->way.word, e->way.name_len);
	struct sockaddr_storage theirs = place_of(e->join_word, e->join_len);
	uint32_t i, k;
	int n;

	for (i = 0; i < ROUNDS; i++) {
		n = sockets_end(&ours, &theirs);
		if (n <= 0)
			return n;
		for (k = 0; k < READS; k++)
			fi_cq_read(e->way.cq, NULL, 0);
	}
	return -FI_EBUSY;
}
