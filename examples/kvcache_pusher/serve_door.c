/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pushers that find no place at all: each is told so, and its handle goes back. Some entries of the
 * ring are kept for that, one for each that is at the door; more of them wait until it is free.
 */
#include <stdlib.h>
#include <string.h>
#include "serve.h"

static const char full[] = "decode is full: come again when one of its pushers has left";

static struct node *door_node(struct serve *s, uint64_t data)
{
	return serve_node(s, data >> 32 & 0xff);
}

static void tell(struct serve *s, uint64_t data)
{
	s->at_door++;
	node_note(door_node(s, data), (struct urccl_peer){(uint32_t)data},
		  tag_make(MSG_REFUSAL, 0, 0), full, (uint32_t)strlen(full), data);
}

static void wait_at(struct serve *s, uint64_t data)
{
	uint32_t max = s->door_max ? 2 * s->door_max : SERVE_DOOR;
	uint64_t *queue = s->door_queue;

	if (s->door_waits == s->door_max) {
		queue = realloc(s->door_queue, max * sizeof(*queue));
		if (!queue) {
			say("no memory to refuse another pusher: it waits for nothing");
			return;
		}
		s->door_queue = queue;
		s->door_max = max;
	}
	queue[s->door_waits++] = data;
}

void door_refuse(struct serve *s, uint32_t context, struct urccl_peer peer)
{
	uint64_t data = serve_door_data(SENTRY_NO_PLACE, context, peer.id);
	struct urccl_peer_info info = {.size = sizeof(info)};

	urccl_get_peer_info(serve_node(s, context)->ctx, peer, &info);
	say("pusher %u (%s) is refused: no place beside %u", ++s->came, info.address, s->npushers);
	s->vanished++;
	if (s->at_door < SERVE_DOOR)
		tell(s, data);
	else
		wait_at(s, data);
}

void door_end_of_entry(struct serve *s, const struct urccl_cqe *cqe)
{
	uint32_t peer = (uint32_t)cqe->user_data, context = cqe->user_data >> 32 & 0xff;
	struct urccl_sqe *sqe;

	if (cqe->user_data >> 56 == SENTRY_NO_PLACE) {
		sqe = node_sqe(door_node(s, cqe->user_data));
		urccl_prep_close(sqe, (struct urccl_peer){peer});
		urccl_sqe_set_data64(sqe, serve_door_data(SENTRY_SHUT, context, peer));
		return;
	}
	s->at_door--;
	if (s->door_waits)
		tell(s, s->door_queue[--s->door_waits]);
}
