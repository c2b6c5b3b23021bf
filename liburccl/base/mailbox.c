/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between threads, without locks: a stack to which any thread pushes, and which the owner
 * empties as a whole. */
#include "base/base.h"

void mailbox_init(struct mailbox *m, int fd)
{
	m->head = NULL;
	m->asleep = 0;
	m->fd = fd;
}

void mailbox_post(struct mailbox *m, struct msg *msg)
{
	struct msg *head = load_relaxed(&m->head);

	/* This push publishes the message. It is also the poster's store of the sleep handshake. */
	do {
		store_relaxed(&msg->next, head);
	} while (!__atomic_compare_exchange_n(&m->head, &head, msg, 1, __ATOMIC_SEQ_CST,
					      __ATOMIC_RELAXED));
	if (sleep_take(&m->asleep))
		wake_write(m->fd);
}

struct msg *mailbox_take(struct mailbox *m)
{
	struct msg *newest, *oldest = NULL, *older;

	/* An owner that looks for messages is awake, so posters need not write to its eventfd. */
	if (load_relaxed(&m->asleep))
		sleep_take(&m->asleep);
	if (!load_relaxed(&m->head))
		return NULL;
	/* The owner takes the whole list in one step, so the ABA problem of a single pop cannot
	 * arise when a message is posted again. */
	for (newest = __atomic_exchange_n(&m->head, NULL, __ATOMIC_ACQUIRE); newest;
	     newest = older) {
		older = newest->next;
		newest->next = oldest;
		oldest = newest;
	}
	return oldest;
}

int mailbox_arm(struct mailbox *m)
{
	sleep_announce(&m->asleep, 1);
	if (!__atomic_load_n(&m->head, __ATOMIC_SEQ_CST))
		return 0;
	sleep_take(&m->asleep);
	return 1;
}

void msg_reply(struct msg *msg, int res)
{
	msg->res = res;
	if (msg->reply)
		mailbox_post(msg->reply, msg);
}
