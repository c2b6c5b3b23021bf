/* SPDX-License-Identifier: Apache-2.0 */
/* The completion queue of a device's streams: chunks and messages that wait for its poll. */
#include "backend/stream/wire.h"

void stream_cq_init(struct stream_cq *k)
{
	chunk_queue_init(&k->done);
	k->messages = k->given = k->used = 0;
}

void stream_cq_recycle(struct stream_cq *k)
{
	if (k->given == k->messages)
		k->messages = k->given = k->used = 0;
}

uint32_t stream_cq_room(const struct stream_cq *k)
{
	uint32_t messages = STREAM_MESSAGES - k->messages;
	uint32_t bytes = STREAM_INBOX - k->used;

	/* Each message takes a header in the stream; one may already be half received. */
	if (messages < 2 || bytes < 2 * MESSAGE_MAX)
		return 0;
	bytes -= MESSAGE_MAX;
	messages = (messages - 1) * STREAM_HEADER;
	return bytes < messages ? bytes : messages;
}

int stream_cq_full(const struct stream_cq *k)
{
	return k->messages == STREAM_MESSAGES || k->used > STREAM_INBOX - MESSAGE_MAX;
}

int stream_cq_add(struct stream_cq *k, struct ep *ep, const void *data, uint32_t len)
{
	struct stream_message *m = &k->message[k->messages];

	if (stream_cq_full(k))
		return 0;
	m->ep = ep;
	m->at = k->used;
	m->len = len;
	if (len)
		memcpy(k->bytes + k->used, data, len);
	k->used += (len + 7) & ~7u;
	k->messages++;
	return 1;
}

static uint32_t cq_messages(struct stream_cq *k, struct event *events, uint32_t n)
{
	uint32_t out = 0;

	while (out < n && k->given < k->messages) {
		const struct stream_message *m = &k->message[k->given++];
		struct event *e = &events[out];

		if (!m->ep)
			continue;
		e->type = EVENT_MESSAGE;
		e->res = 0;
		e->ep = m->ep;
		e->data = k->bytes + m->at;
		e->len = m->len;
		out++;
	}
	return out;
}

uint32_t stream_events(struct stream_cq *k, struct event *events, uint32_t n)
{
	uint32_t out = k->given < k->messages ? cq_messages(k, events, n) : 0;

	while (out < n && k->done.head) {
		struct chunk *c = k->done.head;

		k->done.head = c->next;
		events[out].type = EVENT_CHUNK;
		events[out].res = c->res;
		events[out].chunk = c;
		out++;
	}
	if (!k->done.head)
		k->done.tail = &k->done.head;
	return out;
}

int stream_cq_heard(const struct stream_cq *k)
{
	return k->given < k->messages;
}

int stream_cq_empty(const struct stream_cq *k)
{
	return !k->done.head && !stream_cq_heard(k);
}

void stream_cq_forget(struct stream_cq *k, const struct ep *ep)
{
	uint32_t i;

	for (i = k->given; i < k->messages; i++) {
		if (k->message[i].ep == ep)
			k->message[i].ep = NULL;
	}
}
