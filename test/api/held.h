/* SPDX-License-Identifier: Apache-2.0 */
/* What the whole process holds, exactly: to be compared with what it held before. A program that
 * links held.c has malloc(), mmap() and their kin counted, the library's calls and libc's own. */
#ifndef API_HELD_H
#define API_HELD_H

#include <stdint.h>
#include "fds.h"

struct held {
	int64_t blocks, bytes; /* of malloc(); 0 where a sanitizer has the allocations */
	int64_t mapped;	       /* bytes of mmap(), but for those of libc and its threads */
	int64_t fds;
};

struct held held_now(void);
/* The least of each that is held within some looks, a turn between them: what ends meanwhile is not
 * part of it. turn: lets the others work, and waits a little. */
struct held held_settled(void (*turn)(void));
/* 1: no more of anything than before. */
int held_within(const struct held *h, const struct held *before);
/* What of each is more, or less. */
void held_say(const char *what, const struct held *h, const struct held *before);
/* Ends the test unless as little is held as before, or will soon be. */
void check_held(const char *what, const struct held *before, void (*turn)(void));

#endif
