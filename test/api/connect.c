/* SPDX-License-Identifier: Apache-2.0 */
/* CONNECT by each kind of address, each time with a notification over it and an end in order; and
 * addresses that lead nowhere or are none, each with its code and a sentence. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include "meet.h"

#define US 10000000u /* nothing here waits for anybody */

static struct pair p;

/* a comes, says something, and goes. */
static void visit(const void *target, uint32_t len)
{
	struct urccl_cqe cqe = side_dialled(&p.a, &p.b, target, len, US);
	uint32_t a, b;

	if (cqe.res)
		check_sentence(&p.a, &cqe, "no sentence can excuse it");
	a = (uint32_t)cqe.handle;
	b = side_event(&p.b, &p.a, URCCL_KIND_PEER, NULL).peer;
	CHECK(a && b);
	CHECK_EQ(side_tell(&p.a, &p.b, a, 7), 0);
	CHECK_EQ(side_event(&p.b, &p.a, URCCL_KIND_NOTE, NULL).tag, 7);
	CHECK_EQ(side_drop(&p.a, &p.b, a), 0);
	cqe = side_event(&p.b, &p.a, URCCL_KIND_LOST, NULL);
	CHECK_EQ(cqe.peer, b);
	CHECK_EQ(cqe.res, 0);
	CHECK_EQ(side_drop(&p.b, &p.a, b), 0);
}

static void visit_text(const char *text)
{
	visit(text, (uint32_t)strlen(text));
}

static void visit_blob(void)
{
	uint8_t blob[URCCL_METADATA_MAX];
	int len = urccl_metadata(p.b.ctx, blob, sizeof(blob));

	CHECK_GE(len, 1);
	CHECK_EQ(blob[0], 0);
	visit(blob, (uint32_t)len);
	CHECK_EQ(urccl_metadata(p.b.ctx, blob, (uint32_t)len - 1), -ENOSPC);
	CHECK(strstr(urccl_errmsg(), "buffer"));
}

static void fails(const void *target, uint32_t len, int64_t res, const char *why)
{
	struct urccl_cqe cqe = side_dialled(&p.a, &p.b, target, len, US);

	if (cqe.res != res)
		fprintf(stderr, "dialling \"%.*s\"\n", (int)len, (const char *)target);
	CHECK_EQ(cqe.res, res);
	check_sentence(&p.a, &cqe, why);
}

static void fails_text(const char *text, int64_t res, const char *why)
{
	fails(text, (uint32_t)strlen(text), res, why);
}

static void malformed(void)
{
	static const char *const texts[] = {
		":",	      ":7777",		 "127.0.0.1",	   "127.0.0.1:", "127.0.0.1:65536",
		"[::1]",      "[::1:7777",	 "127.0.0.1:-1",   "[]:7",	 "127.0.0.1:7x",
		"127.0.0.1 ", "127.0.0.1:7777 ", "127.0.0.1:0x10", "::1]:7777",
	};
	uint8_t long_text[URCCL_METADATA_MAX + 1];
	uint32_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		fails_text(texts[i], -EINVAL, "to dial");
	memset(long_text, 'x', sizeof(long_text));
	fails(long_text, 300, -EINVAL, "to dial");
	fails(long_text, sizeof(long_text), -EINVAL, "to dial");
	fails("127.0.0.1\0:7", 12, -EINVAL, "to dial");
	fails("\0\1\2\3", 4, -EINVAL, "to dial");
	fails("x", 0, -EINVAL, "no address to dial");
}

static void nobody(void)
{
	char text[PLACE_MAX];

	place_v4(text, free_port());
	fails_text(text, -ECONNREFUSED, "nobody listens");
}

static void oneself(const char *place)
{
	uint8_t blob[URCCL_METADATA_MAX];
	int len = urccl_metadata(p.a.ctx, blob, sizeof(blob));

	fails(blob, (uint32_t)len, -EINVAL, "own");
	fails_text(place, -EINVAL, "own");
}

static int has_v6(void)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), rc = -1;

	if (fd >= 0) {
		rc = bind(fd, (struct sockaddr *)&in6, sizeof(in6));
		close(fd);
	}
	return !rc;
}

/* A provider of libfabric has the one family of the address that its context listens on. */
static void visit_v6(const char *name)
{
	if (p.transport == URCCL_TRANSPORT_FABRIC) {
		fails_text(name, -EHOSTUNREACH, "EAFNOSUPPORT");
		return;
	}
	visit_text(name);
	visit_blob();
}

/* b at `listen`, with whom a talks. */
static void serve(const char *listen)
{
	p.params.listen = listen;
	side_open(&p, &p.b);
	side_accept(&p.b, 1);
	side_watch(&p.b, (struct urccl_peer){0}, 2);
}

int main(int argc, char **argv)
{
	struct urccl_cqe cqe;
	char own[PLACE_MAX], at[PLACE_MAX], name[PLACE_MAX];
	uint16_t port = free_port();

	pair_options(&p, argc, argv);
	pair_sim(&p);
	place_v4(own, free_port());
	p.params.listen = own;
	side_open(&p, &p.a);
	place_v4(at, port);
	serve(at);
	visit_text(at);
	snprintf(name, sizeof(name), "localhost:%u", port);
	visit_text(name);
	visit_blob();
	malformed();
	nobody();
	oneself(own);
	visit_text(at);
	side_close(&p.b);
	fails_text(at, -ECONNREFUSED, "nobody listens");
	if (has_v6()) {
		port = free_port();
		snprintf(name, sizeof(name), "[::1]:%u", port);
		serve(name);
		visit_v6(name);
		side_close(&p.b);
	}
	side_close(&p.a);
	/* One that nobody can dial dials as well as any. */
	p.params.listen = "";
	side_open(&p, &p.a);
	CHECK_EQ(urccl_metadata(p.a.ctx, name, sizeof(name)), -EOPNOTSUPP);
	CHECK(strstr(urccl_errmsg(), "listen"));
	side_accept(&p.a, 7);
	cqe = side_end(&p.a, NULL, 7);
	CHECK_EQ(cqe.res, -EOPNOTSUPP);
	check_sentence(&p.a, &cqe, "nobody can dial this context");
	serve(at);
	visit_text(at);
	pair_close(&p);
	return 0;
}
