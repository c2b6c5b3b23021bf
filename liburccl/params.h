/* SPDX-License-Identifier: Apache-2.0 */
/* A context's settings, copied from the program's and checked. */
#ifndef PARAMS_H
#define PARAMS_H

#include <sys/socket.h>
#include "base/base.h"

#define TRANSPORTS_MAX 10u /* each of enum urccl_transport once */

struct settings {
	struct urccl_params p; /* its strings are copies, and its zeroes the defaults */
	uint32_t transports[TRANSPORTS_MAX]; /* enum urccl_transport, best first */
	uint32_t ntransports;
	int is_default; /* the program named no transport: what does not open is left out */
	int listens;
	struct sockaddr_storage listen; /* if it listens */
	char *transport, *listen_text, *tcp_congestion, *socket_dir;
	uint8_t hello[URCCL_NOTE_MAX];
};

/* p NULL: all defaults. 0, or -errno with fail() text; then there is nothing to free. */
int settings_read(struct settings *s, const struct urccl_params *p);
void settings_free(struct settings *s);

/* The same for a ring: out is whole and its zeroes the defaults. */
int ring_params_read(struct urccl_ring_params *out, const struct urccl_ring_params *p);

/* "127.0.0.1:0", "[::1]:7777": 0, or -EINVAL with fail() text. */
int listen_parse(const char *text, struct sockaddr_storage *ss);
/* "shm,tcp" into enum urccl_transport, in order. How many, or -EINVAL with fail() text. */
int transports_parse(const char *text, uint32_t list[TRANSPORTS_MAX]);

#endif
