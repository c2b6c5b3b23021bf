/* SPDX-License-Identifier: Apache-2.0 */
/* A process of its own with a context that accepts everybody, takes every event and has memory for
 * all, until it is killed. */
#ifndef API_CHILD_H
#define API_CHILD_H

#include <sys/types.h>
#include "pair.h"

struct child {
	pid_t pid;
	int lost; /* a pipe: a byte for each peer that it has lost */
	uint8_t blob[URCCL_METADATA_MAX];
	uint32_t blob_len;
	struct urccl_advert advert; /* of all its memory, ordinary and zero at first */
};

/* Makes its memory, which peers then may read and write; set it before child_main(). NULL: ordinary
 * memory, with all rights. */
extern void *(*child_memory)(uint64_t len);

/* First of main(), which is the child's, too: there it does not return. */
void child_main(int argc, char **argv);
/* Of the pair's command line and patience; listen as in its params. Ends the test where the child
 * cannot open. */
void child_start(const struct pair *p, struct child *c, uint64_t len, const char *listen);
void child_kill(struct child *c);
/* Waits until it has lost a peer: whatever that peer left with it has happened by then. */
void child_lost(const struct child *c);
/* p->a dials it. */
void child_connect(struct pair *p, const struct child *c);

#endif
