/* SPDX-License-Identifier: Apache-2.0 */
/* A context's settings, copied from the program's and checked. */
#ifndef PARAMS_H
#define PARAMS_H

#include <sys/socket.h>
#include "setting.h"

#define TRANSPORTS_MAX 10u /* each of enum urccl_transport once */

enum transport_how {
	TRANSPORT_NAMED,    /* must open */
	TRANSPORT_MAYBE,    /* is left out if it does not open */
	TRANSPORT_REQUIRED, /* must open; peers that it reaches use no other */
};

/* Best first. */
struct transports {
	uint32_t n;
	struct {
		uint32_t transport; /* enum urccl_transport */
		enum transport_how how;
	} list[TRANSPORTS_MAX];
};

struct settings {
	struct urccl_params p; /* strings are copies, defaults replace zeroes */
	struct transports transports;
	int listens;
	struct sockaddr_storage listen[LISTEN_MAX]; /* if it listens; all have one port */
	uint32_t nlisten;
	char *copies[SETTINGS_MAX]; /* copies of strings, by row of the table */
	uint8_t hello[URCCL_NOTE_MAX];
};

/* p NULL: all defaults. 0, or -errno with fail() text; then there is nothing to free. */
int settings_read(struct settings *s, const struct urccl_params *p);
void settings_free(struct settings *s);

/* The same for a ring: fills all of *out, with defaults for zeroes. */
int ring_params_read(struct urccl_ring_params *out, const struct urccl_ring_params *p,
		     const struct settings *s);

/* Parses "127.0.0.1:0" or "10.0.0.1:7777,[::1]:7777". Returns the number of addresses, or -EINVAL
 * with fail() text. */
int listen_parse(const char *text, struct sockaddr_storage out[LISTEN_MAX]);
/* The same, limited to the interfaces that rules name; text NULL: all their addresses, any port.
 * Also -EADDRNOTAVAIL, -E2BIG. */
int listen_choose(const char *text, const char *rules, struct sockaddr_storage out[LISTEN_MAX]);
/* "shm!,tcp?": 0, or -EINVAL with fail() text. */
int transports_parse(const char *text, struct transports *t);

#endif
