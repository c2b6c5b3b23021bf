/* SPDX-License-Identifier: Apache-2.0 */
/* How late this machine is: a thread on each CPU wants to run every millisecond, and the kernel
 * counts how long each thread of this process was ready to run and had no processor. A thread that
 * sleeps most of the time gets a processor sooner than one that copies: the first alone does not
 * show how long the second waited. */
#ifndef API_LATENESS_H
#define API_LATENESS_H

#include <stdint.h>
#include <liburccl.h>

#define CANARY_LATE_NS 10000000ull /* no CPU for so long: nothing is to be said of time */

void canary_start(void);
void canary_reset(void);
/* Since the reset: the longest wait of one of its threads, or the sum of all; takes some ms. */
uint64_t canary_ns(void);

/* What the guest's processor, which is emulated, takes longer; 0 elsewhere. */
uint64_t emulated_ns(void);

/* Ends the test if more than ns passed since start, just after the reset, and no thread was late
 * meanwhile; returns what passed. */
uint64_t check_within(uint64_t start, uint64_t ns);
/* The same of what passed, where a thread was late by so much meanwhile. */
void check_took(uint64_t took, uint64_t ns, uint64_t late);
/* Takes the region back by urccl_unregister() or urccl_revoke(), which give up after 2 s: another
 * call is made, and they have longer, only where a thread was late meanwhile. What passed. */
uint64_t check_taken_back(int (*call)(struct urccl *, struct urccl_region), struct urccl *ctx,
			  struct urccl_region region);

#endif
