/* SPDX-License-Identifier: Apache-2.0 */
/* Many contexts with one: each is INLINE, driven by the test's thread in turn with the others. */
#ifndef API_CROWD_H
#define API_CROWD_H

#include "meet.h"

struct crowd {
	struct pair p; /* b is the one, as the command line says */
	struct side *sides;
	uint32_t *handles; /* b's, of each */
	uint32_t n;
};

/* b with so many event slots, that accepts and (last) watches all; the others connect to it. */
void crowd_open(struct crowd *c, int argc, char **argv, uint32_t n, uint32_t slots);
void crowd_close(struct crowd *c);
void crowd_turn(struct crowd *c);
uint32_t crowd_find(const struct crowd *c, uint32_t handle); /* whose that is, at b */

/* Resident memory of this process, bytes; 0 where a sanitizer's shadow is part of it. */
uint64_t resident(void);

#endif
