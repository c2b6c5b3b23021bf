/* SPDX-License-Identifier: Apache-2.0 */
/* Calls between the files of the room: listening, dialling and the handshake. */
#ifndef CONTROL_PRIVATE_H
#define CONTROL_PRIVATE_H

#include "conn/shared.h"
#include "control/control.h"
#include "peer/peer.h"
#include "region/region.h"

/* handshake.c: the handshake from PATH to READY, on both sides. */
extern const struct peer_ops handshake_ops;
/* Ends our dial, since both contexts dialled each other and the other dial is kept. */
void handshake_yield(struct control *c, struct peer *p);
void handshake_unhold(struct control *c); /* continues those that waited for dials_unknown() */
void handshake_dialled(struct control *c,
		  struct peer *p); /* a CONNECT waits for it, so no PEER event is needed */

/* process.c */
void process_event(struct control *c, uint64_t data);

/* ---- listener.c ---- */

int listener_open(struct control *c); /* 0 or -errno with fail() text */
/* Ptr: from an epoll event. NULL: it is not a listener. */
struct listener *listener_of(struct control *c, const void *ptr);
/* The port where peers can dial us at this local address; 0: none. */
uint32_t listener_port(const struct control *c, const struct sockaddr_storage *from);
/* Writes the address and port of the i-th listener. Returns as snprintf(), or -errno with fail()
 * text. */
int listener_text(const struct control *c, uint32_t i, char *buf, uint32_t len);
void listener_close(struct control *c);
/* Stops to take connections for LISTEN_PAUSE_NS. */
void listener_pause(struct control *c);
/* Keeps a descriptor in reserve for diallers that come when none is left, if one is free now. */
void listener_reserve(struct control *c);

/* ---- accept.c: pending connections ---- */

void listener_event(struct control *c, struct listener *l);

/* ---- dial.c: a CONNECT until there is a peer ---- */

struct dial;
void dial_req(struct control *c, struct control_req *req);
void dial_drop(struct control *c, struct control_req *req); /* the entry no longer waits */
/* The peer is up: the CONNECTs that wait for it succeed. Returns their number. */
uint32_t dials_succeed(struct control *c, struct peer *p);
/* It went down before it was up: the dials try again, or fail with its error if the handshake was
 * their own. */
void dials_lost(struct control *c, struct peer *p);
/* Attaches the dials whose metadata names this peer. */
void dials_adopt(struct control *c, struct peer *p);
/* Two dials of two contexts met: moves the dials that waited for one peer to another (NULL: to a
 * new try). */
void dials_take(struct peer *from, struct list *to);
void dials_give(struct control *c, struct list *from, struct peer *to);
/* 1: an unanswered dial may be to any context. */
int dials_unknown(const struct control *c);
void dials_close(struct control *c); /* all of them fail with -ESHUTDOWN */
void dial_resolved(struct control *c, struct msg *msg);

/* ---- resolve.c ---- */

#define MSG_RESOLVED 200 /* differs from all types of commands, requests and calls */
struct job {		 /* a name to resolve for a dial */
	struct msg msg;
	struct dial *dial; /* used by the control thread only; NULL: the dial has ended */
	char host[256], port[8];
	uint32_t n; /* results stored, */
	uint32_t found; /* out of this many found */
	int error;  /* -errno */
	int gai;    /* the return value of getaddrinfo() */
	struct sockaddr_storage addr[METADATA_HOSTS];
};

/* dial_resolved() follows. NULL: no memory, or no thread. */
struct job *resolver_ask(struct control *c, struct dial *d, const char *host, const char *port);
void resolver_close(struct control *c);

/* ---- calls ---- */

void call_run(struct control *c, struct control_call *call);
void control_request(struct control *c, struct control_req *req);
/* Writes the metadata blob of this context. Returns its length, or -errno with fail() text. */
int metadata_make(struct control *c, void *buf, uint32_t len);
/* Takes the next step of SHUTDOWN. */
void control_step(struct control *c);

/* ---- the thread ---- */

/* Sleeps until there is work, and does all of it. */
void control_turn(struct control *c);

#endif
