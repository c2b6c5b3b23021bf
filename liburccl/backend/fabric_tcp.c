/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libfabric's tcp, and net, before 1.18: where an endpoint is closed with a READ of which a part of
 * the bytes is here, they take it for two and free it twice (prov/tcp/src/tcpx_ep.c,
 * tcpx_ep_flush_all_queues; "Suspicion of bug where RX entry is freed twice" mended it in 1.18). A
 * connection that fails under a READ they get right: so before the endpoint is closed its
 * connections fail, and what had come on one that the peer has reset is taken. Nobody tells their
 * sockets: they are those of this process at the port of the endpoint, or connected to that of the
 * peer's, which are nobody else's while the peer lives.
 */
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "backend/fabric_key.h"

/* For a provider to take what a socket may have, and to see its end: each takes what it has copied
 * out of the socket beforehand, or a part of one READ. */
#define READS (4 * FABRIC_OPS)

/* Opened with the device: a process that has no descriptor free is not kept waiting for one. */
struct fabric_tcp {
	DIR *all; /* descriptors of the process */
	int own;  /* to hold the one that is looked at */
};

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

/* 1: a connection of the two. */
static int is_between(int fd, const struct sockaddr_storage *ours,
		      const struct sockaddr_storage *theirs)
{
	struct sockaddr_storage from, to;
	socklen_t from_len = sizeof(from), to_len = sizeof(to);

	if (getsockname(fd, (struct sockaddr *)&from, &from_len) ||
	    getpeername(fd, (struct sockaddr *)&to, &to_len))
		return 0;
	return is_at(&from, ours) || is_at(&to, theirs);
}

/* By a descriptor of its own: the number may be another socket's by now. Disconnected, a socket has
 * nothing more to be received but the fault; that it is to be read for that, the provider hears of
 * one that is shut down. */
static void fail_one(const struct fabric_tcp *t, int fd, const struct sockaddr_storage *ours,
		     const struct sockaddr_storage *theirs)
{
	static const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};

	if (!is_between(fd, ours, theirs) || dup3(fd, t->own, O_CLOEXEC) < 0 ||
	    !is_between(t->own, ours, theirs))
		return;
	connect(t->own, &nowhere, sizeof(nowhere));
	/* Done, and refused all the same; alone it does, where disconnecting is not permitted. */
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
	dup3(dirfd(t->all), t->own, O_CLOEXEC); /* which keeps no socket open */
}

static struct sockaddr_storage place_of(const uint8_t *name, uint32_t len)
{
	struct sockaddr_storage ss = {0};

	memcpy(&ss, name, len < sizeof(ss) ? len : sizeof(ss));
	return ss;
}

void fabric_tcp_settle(struct fabric_ep *e)
{
	struct sockaddr_storage ours = place_of(e->way.word, e->way.name_len);
	struct sockaddr_storage theirs = place_of(e->join_word, e->join_len);
	uint32_t i;

	fail_all(fabric_ep_device(e)->tcp, &ours, &theirs);
	for (i = 0; i < READS; i++)
		fi_cq_read(e->way.cq, NULL, 0);
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
	return err == -ENOENT ? 0 : err; /* there is no /proc, and no help */
}

void fabric_tcp_close(struct fabric_device *d)
{
	if (!d->tcp)
		return;
	if (d->tcp->own >= 0)
		close(d->tcp->own);
	if (d->tcp->all)
		closedir(d->tcp->all);
	free(d->tcp);
	d->tcp = NULL;
}
