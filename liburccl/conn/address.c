/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses as text, and text as addresses. */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>

#include "conn/shared.h"

void addr_text(const struct sockaddr_storage *ss, char *buf, size_t len)
{
	const struct sockaddr_in6 *in6 = (const void *)ss;
	const struct sockaddr_in *in = (const void *)ss;
	char host[INET6_ADDRSTRLEN] = "?";

	if (ss->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
		inet_ntop(AF_INET, &in6->sin6_addr.s6_addr[12], host, sizeof(host));
		snprintf(buf, len, "%s:%u", host, ntohs(in6->sin6_port));
	} else if (ss->ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		if (addr_scope(ss))
			snprintf(buf, len, "[%s%%%u]:%u", host, addr_scope(ss),
				 ntohs(in6->sin6_port));
		else
			snprintf(buf, len, "[%s]:%u", host, ntohs(in6->sin6_port));
	} else if (ss->ss_family == AF_INET) {
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(buf, len, "%s:%u", host, ntohs(in->sin_port));
	} else {
		snprintf(buf, len, "nowhere");
	}
}

/* The port lies at the same offset in both families. */
#define PORT_AT offsetof(struct sockaddr_in, sin_port)
_Static_assert(PORT_AT == offsetof(struct sockaddr_in6, sin6_port), "as said");

uint32_t addr_port(const struct sockaddr_storage *ss)
{
	uint16_t port;

	memcpy(&port, (const char *)ss + PORT_AT, sizeof(port));
	return ntohs(port);
}

int addr_port_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	return addr_same(a, b) && addr_port(a) == addr_port(b);
}

void addr_port_set(struct sockaddr_storage *ss, uint32_t port)
{
	uint16_t value = htons((uint16_t)port);

	memcpy((char *)ss + PORT_AT, &value, sizeof(value));
}

void addr_args(const struct sockaddr_storage *ss, uint64_t more, uint64_t arg[3])
{
	const struct sockaddr_in6 *in6 = (const void *)ss;
	const struct sockaddr_in *in = (const void *)ss;
	uint8_t addr[16] = {[10] = 0xff, [11] = 0xff};

	if (ss->ss_family == AF_INET6)
		memcpy(addr, &in6->sin6_addr, 16);
	else
		memcpy(addr + 12, &in->sin_addr, 4);
	memcpy(arg, addr, 16);
	arg[2] = addr_port(ss) | more << 16;
}

static int port_valid(const char *port, uint64_t len)
{
	uint32_t value = 0;
	uint64_t i;

	if (!len || len > 5)
		return 0;
	for (i = 0; i < len; i++) {
		if (port[i] < '0' || port[i] > '9')
			return 0;
		value = value * 10 + (uint32_t)(port[i] - '0');
	}
	return value && value <= 0xffff;
}

/* Host names are printable and have no space. A host without brackets has no colon: in an IPv6
 * address without brackets the begin of the port would be ambiguous. */
static int host_valid(const char *host, uint64_t len, int bracketed)
{
	uint64_t i;

	if (!len || len > 255)
		return 0;
	for (i = 0; i < len; i++)
		if (host[i] <= ' ' || host[i] > '~' || host[i] == '[' || host[i] == ']' ||
		    (host[i] == ':' && !bracketed))
			return 0;
	return 1;
}

int address_split(const char *text, uint64_t len, char host[256], char port[8])
{
	uint64_t colon = len, from = 0, to;
	int bracketed;

	while (colon && text[colon - 1] != ':')
		colon--;
	if (!colon || !port_valid(text + colon, len - colon))
		return -EINVAL;
	to = colon - 1;
	bracketed = to >= 2 && text[0] == '[' && text[to - 1] == ']';
	if (bracketed) {
		from++;
		to--;
	}
	if (!host_valid(text + from, to - from, bracketed))
		return -EINVAL;
	memcpy(host, text + from, to - from);
	host[to - from] = 0;
	memcpy(port, text + colon, len - colon);
	port[len - colon] = 0;
	return 0;
}

uint32_t address_numeric(const char *host, const char *port, struct sockaddr_storage *out)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
	struct addrinfo *ai;

	if (getaddrinfo(host, port, &hints, &ai))
		return 0;
	memset(out, 0, sizeof(*out));
	memcpy(out, ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(ai);
	return 1;
}
