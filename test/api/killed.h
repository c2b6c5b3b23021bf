/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer process that is killed while a child that it forked keeps its sockets open, so that none
 * of them hangs up. The child ends with the test, or before.
 */
#ifndef API_KILLED_H
#define API_KILLED_H

#include "meet.h"

#define KILLED_LEN (4u << 20)
/* In which it is to be lost; of several tries the best counts. */
#define KILLED_NS    (PAIR_SLOW ? 1000000000ull : 100000000ull)
#define KILLED_TRIES 5u

/* Memory that the two processes share. */
struct killed_page {
	uint8_t blob[URCCL_METADATA_MAX];
	uint32_t blob_len;
	uint32_t dialled; /* ours: its CONNECT has ended */
	uint32_t stage;
	struct urccl_advert advert; /* of KILLED_LEN bytes of the peer's */
	struct urccl_advert of_us;  /* the test's, before the peer starts */
	uint64_t word;		    /* the test's own */
};

struct killed {
	struct pair pair; /* the peer is its b; may be changed before killed_start() */
	int plain;	  /* its memory is not of urccl_alloc() */
	void (*use)(struct side *s, struct killed_page *page); /* there, connected, before the fork;
								* NULL: nothing */
	void (*serve)(struct side *s, struct killed_page *page); /* there, behind it; NULL: takes
								  * events */
	struct killed_page *page;
	pid_t pid;
	int life; /* a pipe whose end is that of the forked child */
};

/* Skips the test where no pidfd can be had. */
void killed_possible(void);
/* For a peer of the pair's command line, with threads. */
void killed_open(const struct pair *p, struct killed *k);
/* It is there, a of the pair has dialled it, and its child holds its sockets. */
void killed_start(struct pair *p, struct killed *k);
/* SIGKILL, or another signal. Returns the time before it. */
uint64_t killed_signal(const struct killed *k, int signal);
/* Its child ends, too. */
void killed_end(struct killed *k);
/* Waits by urccl_wait(), or (by_fd) asleep on the ring's descriptor. */
struct urccl_cqe killed_next(struct side *s, int by_fd);
/* Until LOST, which is the next; returns its time. */
uint64_t killed_lost(struct side *s, int by_fd, const char *sentence);

#endif
