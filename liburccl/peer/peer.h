/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that have or had a data path: their paths and rails, idle eviction, and their end. */
#ifndef PEER_H
#define PEER_H

#include "conn/shared.h"

/* ---- path.c: a rail from ep_open() to ep_free() ---- */

void path_free(struct path *path); /* only if it was never connected or is closed */
/* Gives a path of the first HELLO to the peer. */
void path_take_known(const struct control *c, struct peer *p, struct path *path);
void path_grow_req(struct control *c, struct control_req *req);

/* ---- offer.c: eps are opened, and offered as rails by HELLO and HELLO_ACK ---- */

/* Opens the eps that a dialler offers, up to WIRE_RAILS, and returns their number. required: the
 * only transport to open; 0: any. Returns 0 with *err if none could be opened. */
uint32_t paths_open(struct control *c, uint32_t required, struct path **paths, int *err);
/* A HELLO or HELLO_ACK that offers the n paths and carries the note. */
struct wire_hello hello_make(const struct control *c, struct path *const *paths, uint32_t n,
			     const void *note, uint32_t note_len);
/* 1: HELLO_ACK names the path, and its address there is stored. */
int path_answered(struct path *path, const struct wire_hello *ack);
/* Opens an ep for each rail of theirs that a device here can serve; *err: of the last failure. */
uint32_t accept_paths(struct control *c, const struct wire_hello *h, struct path **paths, int *err);

/* ---- rails.c: the rails of a peer that has its data path ---- */

void rails_begin(struct control *c, struct peer *p);		     /* both sides are up */
int rails_port(struct control *c, struct peer *p);		     /* a PORT frame */
int rails_fence(struct control *c, struct peer *p, uint64_t number); /* a FENCE frame */
int rails_frame(struct control *c, struct peer *p, uint32_t type,    /* a RAIL or RAIL_ACK frame */
		const uint8_t *body, uint32_t len);

/* ---- down.c: the end begins ---- */

void peer_bye(struct control *c, struct peer *p);
/* The peer is lost, or (graceful) closed by us. peers_step() does the rest. */
void peer_down(struct control *c, struct peer *p, int cause, uint32_t reason, uint64_t arg,
	       int graceful);
void peer_close(struct control *c, struct peer *p); /* the last reference was dropped */
/* The back() of commands with a peer as owner: makes the peer due. */
void peer_cmd_back(struct control *c, struct cmd *cmd);

/* ---- peer.c: the life of a peer ---- */

/* Takes over the connection n. NULL with *err: -ENOMEM; at max_peers -EUSERS, or -EBUSY if a slot
 * may become free. */
struct peer *peer_new(struct control *c, struct conn *n, const struct wire_hello *hello,
		      int dialled, int *err);
/* The peer answered at this address. Peers recorded there before are earlier incarnations: each is
 * sent a PING. */
void peer_answers(struct control *c, struct peer *p, const struct sockaddr_storage *at);
/* Likewise for a peer that dialled us and names its listen port. */
void peer_comes(struct control *c, struct peer *p, uint32_t port);
void peers_step(struct control *c); /* the next steps of those that are due */
void peer_close_req(struct control *c, struct control_req *req);
void peer_rail_down_req(struct control *c, struct control_req *req);
void peer_awaited_req(struct control *c, struct control_req *req);

/* ---- suspend.c: idle eviction ---- */

/* It has a data path now: others may have to be suspended. */
void suspend_active(struct control *c, struct peer *p);
int suspend_frame(struct control *c, struct peer *p, uint32_t type);
void suspend_timer(struct control *c, struct control_timer *a);
void suspend_idle(struct control *c, struct control_timer *a);

/* ---- setup.c: sets a data path up, at first and when it resumes ---- */

void setup_dial(struct control *c, struct peer *p); /* dialler: it has its paths */
/* Acceptor: gives the n paths to the peer and connects them. */
void setup_accept(struct control *c, struct peer *p, struct path *const *paths, uint32_t n);
int setup_path(struct control *c, struct peer *p, uint64_t id); /* a PATH frame */
void setup_expired(struct control *c, struct conn *n);		/* conn_ops.expired of a peer */
void resume_req(struct control *c, struct control_req *req);	/* CONTROL_RESUME */
int resume_hello(struct control *c, struct peer *p, uint32_t type, const struct wire_hello *h);
int resume_ready(struct control *c, struct peer *p);

#endif
