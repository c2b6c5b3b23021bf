/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end that measures: its connection to the server, the server's memory, and what the server
 * says.
 */
#ifndef URCCL_PERF_CLIENT_H
#define URCCL_PERF_CLIENT_H

#include "load.h"
#include "talk.h"

struct random_job;
struct sink;

struct client {
	const struct options *options;
	struct urccl *ctx;
	struct end end; /* the first ring */
	struct urccl_peer peer;
	struct area area, back; /* ours; back: what the server writes to, both ways */
	struct urccl_remote remote;
	uint64_t stride;	 /* from one ring's part of either memory to the next */
	uint64_t background_off; /* where the background's part begins */
	struct talk_offer offer;
	struct talk_result result;
	struct urccl_stats stats;  /* when the measured time began */
	uint32_t offers, results;  /* received so far */
	uint32_t pongs;		   /* likewise */
	struct random_job *random; /* while client_random() runs */
	struct sink *sink;	   /* MSG_RING: who takes the messages; NULL: we ourselves */
};

/* Opens a context, dials, and gets memory at the server for all that the options ask for. */
void client_open(struct client *c, const struct options *o, const struct whom *whom);
void client_close(struct client *c);

/* What ring number i moves between. */
struct target client_target(const struct client *c, uint32_t i);

/* Tells the server that the measured time begins or is over, and waits for its word. */
struct talk_result client_mark(struct client *c, enum talk mark);

/* The jobs: each measures and prints. */
void client_measure(struct client *c, uint32_t n); /* n clients at once */
void client_random(struct client *c);
void client_ping(struct client *c);

#endif
