/* SPDX-License-Identifier: Apache-2.0 */
/* A dial: whom one or more CONNECTs ask for, until there is a peer. dial.c tries its addresses,
 * dials.c knows who waits for it and for what. */
#ifndef DIAL_H
#define DIAL_H

#include "control/private.h"

enum host_state {
	HOST_FRESH,
	HOST_FOLLOWING, /* another dial is connecting there: what it finds is for this one too */
	HOST_CONNECTING,
	HOST_HELLO,
	HOST_FAILED
};

struct host {
	struct sockaddr_storage addr;
	enum host_state state;
	struct conn *conn;
};

struct waiter {		  /* a CONNECT */
	struct list link; /* of dial.waiters */
	struct dial *dial;
	struct control_req *req;
};

struct dial {
	struct list link;    /* of control.dials */
	struct list of_peer; /* of peer.dials, while it waits for one */
	struct list waiters;
	struct peer *peer; /* what it waits for; NULL: it is on its own */
	int own;	   /* peer comes from its own handshake */
	uint64_t since;
	uint64_t expected; /* incarnation; 0: any */
	struct job *job;   /* its name is being resolved */
	uint16_t of_many;  /* addresses that it has, if not all of them are hosts; else 0 */
	struct alarm alarm;
	int resting; /* until the alarm, then all addresses again */
	uint64_t rest_ns;
	struct path *paths[WIRE_RAILS]; /* not yet of a peer */
	uint32_t npaths;
	int res; /* the most telling failure so far */
	uint32_t reason;
	uint64_t arg[3];
	uint32_t hello_len, target_len;
	uint8_t hello[HELLO_MAX];
	uint8_t target[TARGET_MAX];
	uint32_t nhosts;
	struct host hosts[METADATA_HOSTS];
};

/* dial.c */
void dial_start(struct control *c, struct dial *d); /* its hosts, from the first */
void dial_next(struct control *c, struct dial *d);  /* the next fresh one, or it fails */
void dial_stop(struct control *c, struct dial *d);  /* no connection, ep, alarm or job is left */
void dial_alarm(struct control *c, struct alarm *a);

/* dials.c */
void dial_note(struct dial *d, int res, uint32_t reason, uint64_t a, uint64_t b, uint64_t e);
/* A reason with %a and %h. */
void dial_note_host(struct dial *d, const struct host *h, int res, uint32_t reason, int err);
void dial_fail(struct control *c, struct dial *d);	       /* with what was noted */
void dial_give_up(struct control *c, struct dial *d, int err); /* with err of peer_new() */
void dial_attach(struct control *c, struct dial *d,
		 struct peer *p); /* d may be done and gone afterwards */
void dial_rest(struct control *c, struct dial *d);

/* follow.c */
struct host *dial_host_at(struct dial *d, const struct sockaddr_storage *addr);
/* Is another dial connecting there that may find what this one looks for? */
int dials_lead(const struct control *c, const struct dial *d, const struct sockaddr_storage *addr);
/* The peer that another has found there, and waits for; NULL: none has. */
struct peer *dials_found(const struct control *c, const struct dial *d,
			 const struct sockaddr_storage *addr);
/* It found the peer there: those that follow it have it too. */
void dials_follow(struct control *c, const struct sockaddr_storage *addr, struct peer *p);
/* It left: they look for themselves. */
void dials_release(struct control *c, const struct sockaddr_storage *addr);

#endif
