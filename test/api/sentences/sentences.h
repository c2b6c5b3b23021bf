/* SPDX-License-Identifier: Apache-2.0 */
/* Faults that are made on purpose, and what is said of them. */
#ifndef SENTENCES_H
#define SENTENCES_H

#include "../meet.h"

extern struct pair p; /* over tcp; a has `local` registered, and `t` is b's */
extern struct target t;
extern uint8_t local[8192];
extern struct urccl_region region;

/* The sentence of a fault, to be looked up by its name. */
void said(const char *name, const char *sentence);
/* It cannot be made to fail so on this machine. */
void not_said(const char *name);
/* Of a call that failed with res. */
void said_call(const char *name, int64_t res, int64_t expected);
/* Of an entry's end. */
void said_entry(const char *name, struct side *s, const struct urccl_cqe *cqe, int64_t expected);

void calls(void);
void entries(void);
void meetings(void);
void networks(void);
void losses(void);

#endif
