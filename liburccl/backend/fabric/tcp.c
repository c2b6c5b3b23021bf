/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Works around a fault of libfabric's tcp and net before 1.18. If an endpoint is closed while a
 * READ has received part of its bytes, they free it twice (prov/tcp/src/tcpx_ep.c,
 * tcpx_ep_flush_all_queues; "Suspicion of bug where RX entry is freed twice", corrected in 1.18).
 * They handle a connection that fails during a READ correctly. So the connections are made to fail
 * before the endpoint is closed, and the rest of their data is read. The provider does not reveal
 * its sockets: they are the sockets of this process that are bound to the endpoint's port or
 * connected to the peer's. While the peer lives, no other socket has these ports.
 */
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "backend/fabric/key.h"

/* Reads of the queue that suffice for the provider to take all data of a socket and to see its end.
 * Each read takes the data that the provider has buffered, or a part of one READ. */
#define READS (4 * FABRIC_OPS)

/* Opened with the device, so that a later lack of descriptors does not matter. */
struct fabric_tcp {
	DIR *all; /* the descriptors of the process */
	int own;  /* duplicate of the socket that is being closed */
};

static uint16_t port_of(const struct sockaddr_storage *ss)
{
	if (ss->ss_family == AF_INET6)
		return ((const struct sockaddr_in6 *)ss)->sin6_port;
	return ss->ss_family == AF_INET ? ((const struct sockaddr_in *)ss)->sin_port : 0;
}

static int is_socket_at(const struct sockaddr_storage *ss, const struct sockaddr_storage *place)
{
	return port_of(ss) && port_of(ss) == port_of(place) && addr_same(ss, place);
}

/* 1: a connection between the two. */
static int is_between(int fd, const struct sockaddr_storage *ours,
		      const struct sockaddr_storage *theirs)
{
	struct sockaddr_storage from, to;
	socklen_t from_len = sizeof(from), to_len = sizeof(to);

	if (getsockname(fd, (struct sockaddr *)&from, &from_len) ||
	    getpeername(fd, (struct sockaddr *)&to, &to_len))
		return 0;
	return is_socket_at(&from, ours) || is_socket_at(&to, theirs);
}

/* Works on a duplicate and checks it again, since fd may have become another socket meanwhile. A
 * disconnected socket has no data, and shutdown() makes it readable, so the provider sees its
 * end. */
static void fail_one(const struct fabric_tcp *t, int fd, const struct sockaddr_storage *ours,
		     const struct sockaddr_storage *theirs)
{
	static const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};

	if (!is_between(fd, ours, theirs) || dup3(fd, t->own, O_CLOEXEC) < 0 ||
	    !is_between(t->own, ours, theirs))
		return;
	connect(t->own, &nowhere, sizeof(nowhere));
	/* Reports an error after a disconnect, but works. It also suffices if the disconnect is not
	 * permitted. */
	shutdown(t->own, SHUT_RDWR);
}

static void fail_all(const struct fabric_tcp *t, const struct sockaddr_storage *ours,
		     const struct sockaddr_storage *theirs)
{
	struct dirent *entry;

	rewinddir(t->all);
	while ((entry = readdir(t->all)))
		if (entry->d_name[0] != '.')
			fail_one(t, atoi(entry->d_name), ours, theirs);
	dup3(dirfd(t->all), t->own, O_CLOEXEC); /* `own` refers to no socket any more */
}

static struct sockaddr_storage place_of(const uint8_t *name, uint32_t len)
{
	struct sockaddr_storage ss = {0};

	memcpy(&ss, name, len < sizeof(ss) ? len : sizeof(ss));
	return ss;
}

void fabric_tcp_settle(struct fabric_ep *e)
{
	struct sockaddr_storage ours = place_of(e->endpoint.address, e->endpoint.name_len);
	struct sockaddr_storage theirs = place_of(e->join_address, e->join_len);
	uint32_t i;

	fail_all(fabric_ep_device(e)->tcp, &ours, &theirs);
	for (i = 0; i < READS; i++)
		fi_cq_read(e->endpoint.cq, NULL, 0);
}

static int applies(const struct fabric_device *d)
{
	const char *prov = d->info->fabric_attr->prov_name;

	return FI_VERSION_LT(d->lib.version, FI_VERSION(1, 18)) &&
	       (!strncmp(prov, "tcp", 3) || !strcmp(prov, "net"));
}

int fabric_tcp_open(struct fabric_device *d)
{
	struct fabric_tcp *t;
	int err;

	if (!applies(d))
		return 0;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->all = opendir("/proc/self/fd");
	t->own = t->all ? fcntl(dirfd(t->all), F_DUPFD_CLOEXEC, 0) : -1;
	d->tcp = t;
	if (t->own >= 0)
		return 0;
	err = -errno;
	fabric_tcp_close(d);
	return err == -ENOENT ? 0 : err; /* without /proc there is no workaround */
}

void fabric_tcp_close(struct fabric_device *d)
{
	if (!d->tcp)
		return;
	fd_close(d->tcp->own);
	if (d->tcp->all)
		closedir(d->tcp->all);
	free(d->tcp);
	d->tcp = NULL;
}
