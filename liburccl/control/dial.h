/* SPDX-License-Identifier: Apache-2.0 */
/* A dial serves one or more CONNECTs to the same target until there is a peer. dial.c tries its
 * addresses. dials.c knows which CONNECTs wait for the dial, and which peer the dial waits for. */
#ifndef DIAL_H
#define DIAL_H

#include "control/private.h"

enum host_state {
	HOST_FRESH,
	HOST_COALESCED, /* coalesced: another dial is connecting there, and its result serves this
			 * one too */
	HOST_CONNECTING,
	HOST_HELLO,
	HOST_FAILED
};

struct host {
	struct sockaddr_storage addr;
	enum host_state state;
	struct conn *conn;
};

struct waiter {		  /* one CONNECT */
	struct list link; /* in dial.waiters */
	struct dial *dial;
	struct control_req *req;
};

struct dial {
	struct list link;    /* in control.dials */
	struct list of_peer; /* in peer.dials while the dial waits for a peer */
	struct list waiters;
	struct peer *peer; /* the peer that it waits for; NULL: none yet */
	int own;	   /* the peer comes from this dial's own handshake */
	uint64_t since;
	uint64_t expected; /* the incarnation that must answer; 0: any */
	struct job *job;   /* its name is being resolved */
	uint16_t of_many;  /* how many addresses the name has, if more than hosts[] holds; else 0 */
	struct control_timer timer;
	int backing_off; /* in backoff: the timer starts again with all addresses */
	uint64_t backoff_ns;
	struct path *paths[WIRE_RAILS]; /* eps that do not belong to a peer yet */
	uint32_t npaths;
	struct control_error error; /* the most specific failure so far */
	uint32_t hello_len, target_len;
	uint8_t hello[HELLO_MAX];
	uint8_t target[TARGET_MAX];
	uint32_t nhosts;
	struct host hosts[METADATA_HOSTS];
};

/* dial.c. */
void dial_start(struct control *c, struct dial *d); /* starts with the first host */
/* Tries the next fresh host; fails if there is none. */
void dial_next(struct control *c, struct dial *d);
void dial_stop(struct control *c, struct dial *d);  /* leaves no connection, ep, timer or job */
void dial_timer(struct control *c, struct control_timer *a);

/* dials.c */
void dial_note(struct dial *d, int res, uint32_t reason, uint64_t a, uint64_t b, uint64_t e);
/* As dial_note(), for a reason with %a and %h. */
void dial_note_host(struct dial *d, const struct host *h, int res, uint32_t reason, int err);
/* Ends it with the recorded failure. */
void dial_fail(struct control *c, struct dial *d);
/* Ends it with the error of peer_new(). */
void dial_give_up(struct control *c, struct dial *d, int err);
void dial_attach(struct control *c, struct dial *d,
		 struct peer *p); /* d may be done and freed afterwards */
void dial_backoff(struct control *c, struct dial *d);

/* coalesce.c */
/* The host of the dial with this address and port, or NULL. */
struct host *dial_host_at(struct dial *d, const struct sockaddr_storage *addr);
/* 1: another dial is connecting to this address, and may find the peer that d looks for. */
int dials_coalesce(const struct control *c, const struct dial *d,
		   const struct sockaddr_storage *addr);
/* The peer at this address that another dial has found and waits for; NULL: there is none. */
struct peer *dials_found(const struct control *c, const struct dial *d,
			 const struct sockaddr_storage *addr);
/* A dial found this peer at the address: the dials coalesced with it get the peer too. */
void dials_share(struct control *c, const struct sockaddr_storage *addr, struct peer *p);
/* The connecting dial gave up the address: the dials coalesced with it try the address
 * themselves. */
void dials_release(struct control *c, const struct sockaddr_storage *addr);

#endif
