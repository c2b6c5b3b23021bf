/* SPDX-License-Identifier: Apache-2.0 */
/* Names that are not known, or not now, or not in time, each fail with a sentence that says so; of
 * the addresses that one has, of both kinds, the one that answers is used, and one that has more
 * than are tried has that in its sentence. A name that is stuck holds up no other. */
#include <netdb.h>
#include <pthread.h>

#include "control_rig.h"

enum { MOST = 16, MANY = 200 }; /* addresses */

static pthread_mutex_t stuck = PTHREAD_MUTEX_INITIALIZER;
static struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
static struct sockaddr_in in;
static struct addrinfo second = {.ai_family = AF_INET,
				 .ai_addrlen = sizeof(in),
				 .ai_addr = (struct sockaddr *)&in};
static struct addrinfo first = {.ai_family = AF_INET6,
				.ai_addrlen = sizeof(in6),
				.ai_addr = (struct sockaddr *)&in6,
				.ai_next = &second};
static struct sockaddr_in ins[MANY];
static struct addrinfo many[MANY];

/* The first n: 127.0.1.1 and so on, where nobody listens. */
static struct addrinfo *first_of_many(uint32_t n, const char *port)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		ins[i] = rig_loopback((uint16_t)atoi(port));
		ins[i].sin_addr.s_addr = htonl(0x7f000101 + i);
		many[i] = (struct addrinfo){.ai_family = AF_INET,
					    .ai_addrlen = sizeof(ins[i]),
					    .ai_addr = (struct sockaddr *)&ins[i],
					    .ai_next = i + 1 < n ? &many[i + 1] : NULL};
	}
	return many;
}

/* In place of the system's, whose answers depend on the machine. */
int getaddrinfo(const char *restrict host, const char *restrict port,
		const struct addrinfo *restrict hints, struct addrinfo **restrict out)
{
	if (hints->ai_flags & AI_NUMERICHOST)
		return EAI_NONAME;
	if (!strcmp(host, "stuck")) {
		pthread_mutex_lock(&stuck);
		pthread_mutex_unlock(&stuck);
	}
	if (!strcmp(host, "later"))
		return EAI_AGAIN;
	if (!strcmp(host, "most") || !strcmp(host, "many")) {
		*out = first_of_many(strcmp(host, "many") ? MOST : MANY, port);
		return 0;
	}
	if (strcmp(host, "both"))
		return EAI_NONAME;
	in = rig_loopback((uint16_t)atoi(port));
	in6.sin6_port = in.sin_port;
	*out = &first;
	return 0;
}

void freeaddrinfo(struct addrinfo *ai)
{
	CHECK(ai == &first || ai == many);
}

static char why[512];

static void fails(struct side *a, const char *text, uint32_t us, int64_t res, const char *words)
{
	struct urccl_cqe cqe;
	uint32_t early;

	/* Told before the control thread could say what it waited for: once more. */
	do {
		side_connect(a, text, (uint32_t)strlen(text), us, 1);
		cqe = side_next(a);
		early = cqe.flags & URCCL_CQE_MORE;
		while (cqe.flags & URCCL_CQE_MORE)
			cqe = side_next(a);
	} while (early);
	CHECK_EQ(cqe.res, res);
	CHECK(urccl_explain(a->ctx, &cqe, why, sizeof(why)) > 0);
	CHECK_SAYS(why, words);
}

static void tried(struct side *a)
{
	uint16_t port;
	int fd = rig_port(&port);
	char text[32];

	snprintf(text, sizeof(text), "most:%u", port);
	fails(a, text, 0, -ECONNREFUSED, "nobody listens at 127.0.1.");
	CHECK(!strstr(why, "addresses"));
	snprintf(text, sizeof(text), "many:%u", port);
	fails(a, text, 0, -ECONNREFUSED, "its listen. Its name has 200 addresses");
	close(fd);
}

int main(void)
{
	struct urccl_params p = rig_params();
	struct side a, b;
	char text[32];
	uint16_t port;
	int fd;

	side_open(&a, &p);
	side_open(&b, &p);
	side_accept(&b, 1);
	fails(&a, "nowhere:80", 0, -EHOSTUNREACH, "Name or service not known");
	fails(&a, "later:80", 0, -EHOSTUNREACH, "Temporary failure");
	snprintf(text, sizeof(text), "both:%u", b.port);
	side_connect(&a, text, (uint32_t)strlen(text), 0, 2);
	CHECK_EQ(side_end_of(&a, 2), 0);
	tried(&a);
	/* One refuses, the other takes the connection and is silent. */
	fd = stranger_listen(&port);
	snprintf(text, sizeof(text), "both:%u", port);
	fails(&a, text, 1000000, -ETIMEDOUT, "1000000 us: 127.0.0.1:");
	close(fd);
	pthread_mutex_lock(&stuck);
	fails(&a, "stuck:80", 50000, -ETIMEDOUT, "resolver has not answered");
	/* Others are looked up meanwhile. */
	fails(&a, "nowhere:80", 0, -EHOSTUNREACH, "Name or service not known");
	snprintf(text, sizeof(text), "both:%u", b.port);
	side_connect(&a, text, (uint32_t)strlen(text), 0, 2);
	CHECK_EQ(side_end_of(&a, 2), 0);
	pthread_mutex_unlock(&stuck);
	side_close(&a);
	side_close(&b);
	return 0;
}
