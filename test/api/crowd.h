/* SPDX-License-Identifier: Apache-2.0 */
/* Many contexts with one: each is INLINE, driven by the test's thread in turn with the others. */
#ifndef API_CROWD_H
#define API_CROWD_H

#include "meet.h"
#include "resident.h"

struct crowd {
	struct pair p; /* b is the one, as the command line says */
	struct side *sides;
	uint32_t *handles; /* b's, of each */
	uint32_t n;
	const char *faults;  /* of sim's network */
	uint32_t most;	     /* max_inflight_ops; 0: the default */
};

/* b with so many event slots, that accepts and (last) watches all; the others connect to it. */
void crowd_open(struct crowd *c, int argc, char **argv, uint32_t n, uint32_t slots);
void crowd_close(struct crowd *c);
void crowd_turn(struct crowd *c);
uint32_t crowd_find(const struct crowd *c, uint32_t handle); /* whose that is, at b */

#endif
