/* SPDX-License-Identifier: Apache-2.0 */
/* Two ranks exchange what each must know of the other over a socket, and connect. */
#include "remote.h"

#include <arpa/inet.h>
#include <cstring>
#include <netdb.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

struct greeting {
	struct urccl_advert memory, words;
	uint8_t blob[URCCL_METADATA_MAX];
	int32_t len;
};

static void usage(void)
{
	fprintf(stderr, "usage: benchmark_remote RANK ADDRESS [OPTIONS] or --self [OPTIONS]; the "
			"options are at the top of bench/gpu/benchmark_remote.cu\n");
	exit(2);
}

void options_read(struct remote_options *o, int argc, char **argv)
{
	int i = 1;

	*o = {};
	o->transport = "shm";
	o->lanes = 8;
	o->len = 7168;
	o->window = 64;
	o->messages = 200000;
	o->port = 18515;
	if (argc > 2 && argv[1][0] != '-') {
		o->rank = atoi(argv[1]);
		o->address = argv[2];
		i = 3;
	}
	for (; i < argc; i++) {
		std::string name = argv[i];

		if (name == "--self" || name == "--host") {
			*(name == "--self" ? &o->self : &o->host) = 1;
			continue;
		}
		if (i + 1 == argc)
			usage();
		const char *value = argv[++i];

		if (name == "--transport")
			o->transport = value;
		else if (name == "--part")
			o->parts += "," + std::string(value) + ",";
		else if (name == "--lanes")
			o->lanes = (uint32_t)atoi(value);
		else if (name == "--len")
			o->len = (uint32_t)atoi(value);
		else if (name == "--window")
			o->window = (uint32_t)atoi(value);
		else if (name == "--messages")
			o->messages = strtoull(value, NULL, 10);
		else if (name == "--port")
			o->port = atoi(value);
		else
			usage();
	}
	if (!o->self && !o->address)
		usage();
	if (o->self)
		o->address = "127.0.0.1";
}

pid_t rank_start(char **argv, int rank)
{
	std::vector<char *> args = {argv[0], strdup(rank ? "1" : "0"), strdup("127.0.0.1")};
	pid_t pid;

	for (char **arg = argv + 1; *arg; arg++)
		if (strcmp(*arg, "--self"))
			args.push_back(*arg);
	args.push_back(NULL);
	pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execv(argv[0], args.data());
	_exit(127);
}

/* ---- The socket ---- */

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int socket_accept(int port)
{
	struct sockaddr_in at = {};
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1, fd;

	at.sin_family = AF_INET;
	at.sin_port = htons((uint16_t)port);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 1))
		fail("listen");
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		fail("accept");
	close(listener);
	return fd;
}

/* Until rank 1 is there. */
static int socket_connect(const char *address, int port)
{
	struct addrinfo hints = {}, *found;
	std::string service = std::to_string(port);
	int fd, tries;

	hints.ai_family = AF_INET;
	hints.ai_socktype = SOCK_STREAM;
	if (getaddrinfo(address, service.c_str(), &hints, &found))
		fail(address);
	for (tries = 0; tries < 600; tries++, usleep(50000)) {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		if (!connect(fd, found->ai_addr, found->ai_addrlen)) {
			freeaddrinfo(found);
			return fd;
		}
		close(fd);
	}
	fail("connect");
	return -1;
}

static void swap(int fd, const void *ours, void *theirs, size_t len)
{
	if (send(fd, ours, len, 0) != (ssize_t)len ||
	    recv(fd, theirs, len, MSG_WAITALL) != (ssize_t)len)
		fail("the other rank is gone");
}

void link_barrier(struct remote_link *s)
{
	char byte = 0, other;

	swap(s->fd, &byte, &other, 1);
}

/* ---- The connection ---- */

static void link_share(struct remote_link *s, const struct remote_options *o, struct greeting *g)
{
	size_t len = (size_t)o->lanes * o->window * o->len;
	uint32_t rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE;

	s->memory = (char *)(o->host ? host_alloc(len) : gpu_alloc(len));
	s->local = (char *)(o->host ? host_alloc(len) : gpu_alloc(len));
	s->arrived = (uint64_t *)host_alloc(o->lanes * 8);
	end_register(&s->end, s->local, len, URCCL_RIGHT_READ);
	must(urccl_advertise(s->end.ctx, end_register(&s->end, s->memory, len, rights), 0, len,
			     rights, 0, &g->memory),
	     "urccl_advertise");
	must(urccl_advertise(s->end.ctx,
			     end_register(&s->end, s->arrived, o->lanes * 8, URCCL_RIGHT_ATOMIC), 0,
			     o->lanes * 8, URCCL_RIGHT_ATOMIC, 0, &g->words),
	     "urccl_advertise");
	g->len = urccl_metadata(s->end.ctx, g->blob, sizeof(g->blob));
	must(g->len, "urccl_metadata");
}

static void link_connect(struct remote_link *s, int rank, const struct greeting *theirs)
{
	struct urccl_sqe *sqe = urccl_get_sqe(s->end.ring);
	struct urccl_cqe cqe;

	if (rank) {
		urccl_prep_accept(sqe);
		urccl_sqe_add_flags(sqe, URCCL_SQE_WATCH);
	} else {
		link_barrier(s);
		urccl_prep_connect(sqe, theirs->blob, (uint32_t)theirs->len);
	}
	urccl_submit(s->end.ring);
	if (rank)
		link_barrier(s);
	cqe = end_take(&s->end);
	s->end.peer = urccl_cqe_peer(&cqe);
	must(urccl_import(s->end.ctx, s->end.peer, &theirs->memory, 1, &s->remote), "urccl_import");
	must(urccl_import(s->end.ctx, s->end.peer, &theirs->words, 1, &s->counters),
	     "urccl_import");
}

void link_open(struct remote_link *s, struct remote_options *o)
{
	struct greeting ours = {}, theirs;
	int gpus;

	CUDA(cudaGetDeviceCount(&gpus));
	o->gpu = o->rank % gpus;
	CUDA(cudaSetDevice(o->gpu));
	CUDA(cudaFree(0));
	end_open(&s->end, o->transport, s->deadline_ms);
	link_share(s, o, &ours);
	s->fd = o->rank ? socket_accept(o->port) : socket_connect(o->address, o->port);
	swap(s->fd, &ours, &theirs, sizeof(ours));
	link_connect(s, o->rank, &theirs);
	link_barrier(s);
}

void link_close(struct remote_link *s)
{
	end_close(&s->end);
	close(s->fd);
}
