/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fault matrix: entries of each kind, one or a thousand at a time, over each transport, while
 * the peer is killed, frozen, cut off, started anew, or takes its memory back. The peer is a
 * process of its own (peer.c), for tcp and ib in a network namespace of its own (net.c, rails.c).
 */
#ifndef FAULTS_H
#define FAULTS_H

#include <sys/types.h>
#include "held.h"
#include "lateness.h"
#include "meet.h"

#define PLACES	  64u
#define PLACE_LEN 65536u
#define MEMORY	  ((uint64_t)PLACES * PLACE_LEN)
#define N_MAX	  1000u
#define THEIRS	  3u /* version of the peer's bytes at first */
#define OURS	  7u /* of what is written */

enum kind { WRITE, READ, WRITEV, PAGED, NOTIFY, ATOMIC, KINDS };
enum fault {
	KILL,
	STOP_SHORT,
	STOP_DEAD,
	DROP_SHORT,
	DROP_DEAD,
	LINK_DOWN,
	REVOKED,
	RESTART,
	RESET,
	FAULTS
};

struct cell {
	enum kind kind;
	enum fault fault;
	uint32_t n;
	int with_data;	     /* NOTIFY: the first is that of a write, the second bare */
	int mapped;	     /* the peer's memory is of urccl_alloc() */
	uint32_t tcp_driver; /* enum urccl_tcp_driver */
};

/* ---- peer.c ---- */

struct peer {
	pid_t pid;
	int fd;		 /* to talk to it */
	int memfd;	 /* its memory, unless mapped: */
	uint8_t *memory; /* as we see it */
	uint8_t blob[URCCL_METADATA_MAX];
	uint32_t blob_len;
	struct urccl_advert advert;
};

struct settings {
	char transport[40];
	char listen[64]; /* one of NET_PEER and so on, and a port: it is in its network */
	char dial[64];	 /* not empty: it dials this place too */
	char dir[64];	 /* not empty: where shm's sockets are */
	uint32_t mapped;
	uint32_t tcp_driver;
	uint32_t dead_after_ms;
};

void peer_start(struct peer *peer, const struct settings *s);
void peer_end(struct peer *peer); /* kills it, if that is not done */
/* Does what peers do until it is killed, if the command line says so. */
void peer_main(int argc, char **argv);
void peer_stop(const struct peer *peer);
void peer_go_on(const struct peer *peer);
void peer_kill(struct peer *peer);
void peer_revoke(const struct peer *peer);     /* asks for it, */
int64_t peer_revoked(const struct peer *peer); /* and takes the answer */
int64_t peer_lost(const struct peer *peer); /* LOST events that it got */
struct held peer_holds(const struct peer *peer);
void peer_registers_anew(const struct peer *peer);
/* What it was told of each tag: 0 nothing, 1 it came, -1 it will not, 2 it came twice or more. */
void peer_notes(const struct peer *peer, int8_t notes[N_MAX]);
/* 1: the place holds what is written there. */
void peer_places(const struct peer *peer, uint8_t places[PLACES]);
int peer_is_untouched(const struct peer *peer); /* 1: no byte of its memory was changed */

/* ---- net.c ---- */

/* Both processes get networks of their own, with a link between them. NULL, or why not. */
const char *net_open(void);
void net_enter_peers(void); /* in a fresh child */
void net_drop(int on);	    /* packets, both ways */
void net_link(int up);	    /* our end of it */
#define NET_PEER "10.77.0.2"
#define NET_OURS "10.77.0.1"
int net_shell(const char *command); /* its exit status */

/* ---- rails.c: the same of RDMA devices, in the guest of test/vm ---- */

/* Uses the guest's second host and its rail v. NULL, or why there are none. */
const char *rails_open(void);
/* Ends the test unless packets were dropped meanwhile. rxm: the peer is of this host. */
void rails_drop(int rxm, int on);
void rails_link(int up);
/* libfabric over them: rdma_cm finds a device by an address of the process's own network alone. */
#define RXM	    "fabric:verbs;ofi_rxm"
#define RXM_OURS    "rxe_v0"
#define RXM_PEER    "rxe_v1"
#define RAIL_OURS   "=rxe_v0"
#define RAIL_PEER   "=rxe_v1"
#define RAILS_PEERS "/run/netns/far"

/* ---- cell.c ---- */

struct outcome {
	uint32_t ended, failed;
	uint64_t last_ns; /* when the last outcome was seen */
	int64_t res[N_MAX];
	uint64_t old[N_MAX]; /* of atomics that succeeded */
	uint8_t told[N_MAX], unknown[N_MAX];
};

/* The fault comes after the entries, when some are through; just before them; or it is there by
 * then, and nothing that should meet it can miss it. */
enum early { LATE, EARLY, FIRST };

struct run {
	struct pair p; /* sim: b is the peer */
	struct peer peer;
	struct cell cell;
	int is_sim;
	int is_ib, is_rxm; /* of rails.c: */
	int is_nic; /* the peer's NIC does what it is asked for; its CPU takes notifications */
	uint32_t alive_ms; /* dead_after of a peer that is soon back */
	uint64_t met_ns;   /* it was heard after that */
	uint64_t struck_ns; /* the network was broken by then */
	struct urccl_remote remote;
	struct urccl_region region;
	struct target target; /* sim: the peer's memory */
	uint8_t *local;	      /* MEMORY bytes */
	uint64_t tags;	      /* the first entry's */
	uint32_t lost;	      /* LOST events seen */
	uint32_t peers_lost;  /* sim: those of the peer */
	uint32_t early;	      /* enum early */
	int missed;	      /* no entry met the fault */
	int revoked;	      /* sim: the peer's REVOKE has ended */
	struct outcome out;
	int8_t notes[N_MAX]; /* sim: as peer_notes() */
};

void run_submit(struct run *r, uint32_t n, uint32_t deadline_us);
/* Takes what came to a simulated peer. */
void run_events(struct run *r);
/* Takes the ends of n entries into r->out: each comes once. */
void run_take(struct run *r, uint32_t n);
/* The end of one more entry of the cell's kind. */
int64_t run_one(struct run *r, uint32_t deadline_us);
/* What succeeded is there. */
void run_check_bytes(struct run *r, uint32_t n, int alive);
/* Atomics: so is what did, once; as many more may have been done to the first word. */
void run_check_words(const struct run *r, uint32_t n, uint32_t more);
/* Each notification came where its entry succeeded, and was reported where it failed. */
void run_check_notes(struct run *r, uint32_t n);
/* The same of a peer that lost us, which stands for those that failed. */
void run_check_notes_lost(struct run *r, uint32_t n);

#define REVOKE 0x4e0cull /* user_data of a simulated peer's */

/* ---- sim.c: the same on a simulated network ---- */

void sim_open(struct run *r);
void sim_revoke(struct run *r);	 /* as peer_revoke() */
void sim_revoked(struct run *r); /* and peer_revoked() */
void sim_before(struct run *r);
void sim_during(struct run *r);
void sim_undo(const struct run *r);
void sim_anew(struct run *r);

/* ---- rows.c ---- */

/* The fault comes before the entries do, which are too few or too quick for another order. */
int run_is_cut_first(const struct run *r);

#define SAY_MAX 64u
/* Runs one cell and says what was seen. Ends the test where a promise is broken. */
void run_cell(const struct cell *cell, const char *transport, int in_net, char say[SAY_MAX]);

#endif
