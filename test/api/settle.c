/* SPDX-License-Identifier: Apache-2.0 */
/* No sanitizer sees what passes through a socket or through memory that is mapped twice: that what
 * one side did with its memory is before the CQE of the other. For ThreadSanitizer each open side
 * ends a NOP, on a ring of its own, before an entry is filled and after a CQE is taken. */
#include <pthread.h>
#include "pair.h"

#ifdef __SANITIZE_THREAD__
#define NEEDED 1
#else
#define NEEDED 0
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct side *sides;

void settle_begin(struct side *s)
{
	s->settler = NULL;
	if (!NEEDED || s->ring->flags & URCCL_RING_INLINE)
		return;
	CHECK_EQ(urccl_ring_open(s->ctx, NULL, &s->settler), 0);
	pthread_mutex_lock(&lock);
	s->settler_next = sides;
	sides = s;
	pthread_mutex_unlock(&lock);
}

void settle_end(struct side *s)
{
	struct side **at = &sides;

	pthread_mutex_lock(&lock);
	while (*at && *at != s)
		at = &(*at)->settler_next;
	if (*at)
		*at = s->settler_next;
	pthread_mutex_unlock(&lock);
	urccl_ring_close(s->settler);
	s->settler = NULL;
}

void settle(void)
{
	struct side *s;

	if (!NEEDED)
		return;
	pthread_mutex_lock(&lock);
	for (s = sides; s; s = s->settler_next) {
		/* A ring without flags is the parent's, and this a forked child. */
		if (!s->settler->flags)
			continue;
		urccl_prep_nop(urccl_get_sqe(s->settler));
		CHECK_EQ(urccl_submit_and_wait(s->settler, 1), 1);
		urccl_cq_advance(s->settler, 1);
	}
	pthread_mutex_unlock(&lock);
}
