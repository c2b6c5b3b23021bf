/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of connections stand on: dialling, accepting, closing one by one, and bare sockets
 * that do not speak our protocol. */
#ifndef API_MEET_H
#define API_MEET_H

#include "pair.h"

/* Loopback in text, with a port that nobody listens at now: "127.0.0.1:4711". */
#define PLACE_MAX 64u
uint16_t free_port(void);
void place_v4(char text[PLACE_MAX], uint16_t port);

void side_accept(struct side *s, uint64_t user_data);
void side_watch(struct side *s, struct urccl_peer peer, uint64_t user_data);

/* A CONNECT to target, of a timeout in us. */
void side_dial(struct side *from, const void *target, uint32_t len, uint32_t us,
	       uint64_t user_data);
/* Its end, and nothing but its end; other (may be NULL) is turned meanwhile. */
struct urccl_cqe side_end(struct side *from, struct side *other, uint64_t user_data);
/* Both at once. */
struct urccl_cqe side_dialled(struct side *from, struct side *other, const void *target,
			      uint32_t len, uint32_t us);
/* The next CQE, which must be an event of this kind; note as in side_take(). */
struct urccl_cqe side_event(struct side *s, struct side *other, enum urccl_cqe_kind kind,
			    void *note);
/* One more side, which the hub dials, and that hears what becomes of it (user_data 2): the hub's
 * name of it. */
struct urccl_peer pair_meet(struct pair *p, struct side *hub, struct side *s);
/* The res of a CLOSE. */
int64_t side_drop(struct side *s, struct side *other, uint32_t peer);
/* The res of a NOTIFY without payload. */
int64_t side_tell(struct side *s, struct side *other, uint32_t peer, uint64_t tag);
/* Nothing comes at s for ns. */
void side_silent(struct side *s, struct side *other, uint64_t ns);

/* Sockets of loopback. */
int raw_listen(uint16_t *port);
int raw_dial(uint16_t port);

#endif
