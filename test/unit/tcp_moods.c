/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets that take and give a few bytes, are interrupted, or short of memory for a moment: every
 * chunk comes out once all the same, and every byte is where it belongs. */
#include <sys/syscall.h>
#include "tcp_pair.h"

#define CHUNKS 64u
#define SLOT   (24u * 1024)

static struct tcp_node a, b;
static struct chunk chunks[CHUNKS];
static uint8_t local[CHUNKS * SLOT], remote[CHUNKS * SLOT];
static uint64_t seed = 1;
static uint32_t refusals, shorts;

static uint32_t draw(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)((seed >> 33) % below);
}

/* How many of len bytes it does now; 0: none, with errno. */
static size_t mood(size_t len)
{
	static const int why[] = {EAGAIN, EINTR, ENOBUFS, ENOMEM};

	switch (draw(4)) {
	case 0:
		errno = why[draw(ARRAY_SIZE(why))];
		refusals++;
		return 0;
	case 1:
		shorts++;
		return 1 + draw(len < 70 ? (uint32_t)len : 70);
	default:
		return len;
	}
}

/* The library's calls come here. */
ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	/* A hello is sent whole. */
	size_t n = len == TCP_HELLO ? len : mood(len);

	return n ? syscall(SYS_sendto, fd, buf, n, flags, NULL, 0) : -1;
}

ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	size_t n = mood(len);

	return n ? syscall(SYS_recvfrom, fd, buf, n, flags, NULL, NULL) : -1;
}

/* The first pieces, the last of them cut. */
static ssize_t vector(long call, int fd, const struct msghdr *m, int flags)
{
	struct iovec iov[STREAM_IOV];
	struct msghdr part = *m;
	size_t total = 0, left, i;

	for (i = 0; i < m->msg_iovlen; i++)
		total += m->msg_iov[i].iov_len;
	left = mood(total);
	if (!left)
		return -1;
	for (i = 0; left; i++) {
		iov[i] = m->msg_iov[i];
		if (iov[i].iov_len > left)
			iov[i].iov_len = left;
		left -= iov[i].iov_len;
	}
	part.msg_iov = iov;
	part.msg_iovlen = i;
	return syscall(call, fd, &part, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	return vector(SYS_sendmsg, fd, m, flags);
}

ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	return vector(SYS_recvmsg, fd, m, flags);
}

static void move(uint8_t kind, const struct rkey *rkey)
{
	struct chunk *c;
	uint32_t i;

	a.chunks = 0;
	for (i = 0; i < CHUNKS; i++) {
		c = &chunks[i];
		memset(c, 0, sizeof(*c));
		c->ep = a.ep;
		c->kind = kind;
		c->cls = (uint8_t)(i % 3);
		c->local = local + i * SLOT;
		c->off = i * SLOT;
		c->len = draw(3) ? draw(SLOT) : draw(600);
		c->key = rkey;
		CHECK_EQ(backend_tcp.post(a.ep, &c, 1), 1);
	}
	TCP_WAIT(&a, &b, a.chunks == CHUNKS);
	for (i = 0; i < CHUNKS; i++) {
		CHECK_EQ(chunks[i].res, 0);
		CHECK(!memcmp(local + i * SLOT, remote + i * SLOT, chunks[i].len));
	}
}

static void fill(uint8_t *to)
{
	uint32_t i;

	for (i = 0; i < CHUNKS * SLOT; i++)
		to[i] = (uint8_t)draw(256);
}

int main(void)
{
	static union {
		struct memory memory;
		uint8_t space[sizeof(struct memory) + sizeof(struct span)];
	} m;
	struct urccl_params p = tcp_params();
	struct exposure e = {.memory = &m.memory, .len = sizeof(remote), .expires_ns = NEVER_NS};
	uint8_t key[KEY_MAX];
	struct rkey rkey;
	uint32_t i;
	int n;

	m.memory.len = sizeof(remote);
	m.memory.nspans = 1;
	m.memory.spans[0] =
		(struct span){.len = sizeof(remote), .addr = (uintptr_t)remote, .fd = -1};
	CHECK_EQ(tcp_try_open(&a, &p, AF_INET), 0);
	CHECK_EQ(tcp_try_open(&b, &p, AF_INET), 0);
	tcp_up(&a, &b, AF_INET);
	e.ep = b.ep;
	e.rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE;
	n = backend_tcp.expose(&e, key, sizeof(key));
	CHECK_GE(n, 1);
	CHECK_EQ(backend_tcp.import(a.ep, key, (uint32_t)n, e.len, &rkey), 0);
	for (i = 0; i < 10; i++) {
		fill(local);
		move(CHUNK_WRITE, &rkey);
		fill(remote);
		move(CHUNK_READ, &rkey);
	}
	CHECK(refusals > 100 && shorts > 100 && !a.down && !b.down);
	CHECK_EQ(backend_tcp.unexpose(&e), 0);
	tcp_close_eps(&a, &b);
	backend_tcp.close(a.dev);
	backend_tcp.close(b.dev);
	return 0;
}
