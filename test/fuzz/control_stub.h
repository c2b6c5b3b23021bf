/* SPDX-License-Identifier: Apache-2.0 */
/* A device that always works, for a control thread and an engine that are turned by hand: its ends
 * are up as soon as they connect, unless their peer's address says not, what is posted is done, and
 * notifications are acknowledged. */
#ifndef FUZZ_CONTROL_STUB_H
#define FUZZ_CONTROL_STUB_H

#include <stdlib.h>

#include "control/private.h"
#include "engine/message.h"
#include "fuzz.h"

#define ADDR	   4u /* bytes of an address: versions, and 1 in the third if it does not come up */
#define KEY	   8u
#define EVENTS_MAX 4096u

static struct event events[EVENTS_MAX];
static uint32_t nevents, neps;

static void tell_event(struct event ev)
{
	must(nevents < EVENTS_MAX);
	events[nevents++] = ev;
}

static int stub_ep_open(struct device *dev, struct ep **ep, void *addr, uint32_t *len)
{
	*ep = calloc(1, sizeof(**ep));
	must(!!*ep);
	(*ep)->dev = dev;
	neps++;
	memcpy(addr, "\1\1\0\0", ADDR);
	*len = ADDR;
	return 0;
}

static void stub_ep_free(struct ep *ep)
{
	neps--;
	free(ep);
}

static int stub_ep_connect(struct ep *ep, const void *addr, uint32_t len, int active,
			   const struct sockaddr_storage *via)
{
	const uint8_t *a = addr;
	int err = ep_version_check(1, a, len);

	(void)active, (void)via;
	if (err || len != ADDR)
		return err ? err : -EINVAL;
	tell_event((struct event){.type = a[2] ? EVENT_DOWN : EVENT_UP,
				  .res = a[2] ? -EIO : 0,
				  .ep = ep});
	return 0;
}

static void stub_ep_close(struct ep *ep)
{
	tell_event((struct event){.type = EVENT_CLOSED, .ep = ep});
}

static int stub_expose(struct exposure *x, void *key, uint32_t key_max)
{
	(void)x;
	must(key_max >= KEY);
	memset(key, 1, KEY);
	return KEY;
}

static int stub_unexpose(struct exposure *x)
{
	(void)x;
	return 0;
}

static int stub_import(struct ep *ep, const void *key, uint32_t key_len, uint64_t len,
		       struct rkey *rkey)
{
	(void)ep, (void)key, (void)len;
	*rkey = (struct rkey){.v = {1}};
	return key_len == KEY ? 0 : -EINVAL;
}

static void stub_forget(struct ep *ep, struct rkey *rkey)
{
	(void)ep;
	rkey->v[0] = 0;
}

static int stub_warm(struct ep *ep, struct rkey *rkey)
{
	(void)ep, (void)rkey;
	return 0;
}

static void acknowledge(struct ep *ep, const struct message *note)
{
	static struct message acks[EVENTS_MAX];
	static uint32_t n;
	struct message *ack = &acks[n++ % EVENTS_MAX];

	*ack = (struct message){.type = MESSAGE_ACK, .seq = note->seq, .tag = ~0ull};
	ack->more = note->more ? 1ull << (note->seq % NOTE_STATES) : 0;
	tell_event(
		(struct event){.type = EVENT_MESSAGE, .ep = ep, .data = ack, .len = sizeof(*ack)});
}

static uint32_t stub_post(struct ep *ep, struct chunk **chunks, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n && nevents < EVENTS_MAX / 2; i++) {
		const struct message *m = chunks[i]->local;

		chunks[i]->res = 0;
		chunks[i]->flags |= CHUNK_QUIET;
		tell_event((struct event){.type = EVENT_CHUNK, .chunk = chunks[i]});
		if (chunks[i]->kind == CHUNK_SEND && m->type == MESSAGE_NOTE)
			acknowledge(ep, m);
	}
	return i;
}

/* It is about to come out. */
static void stub_cancel(struct chunk *c, enum cancel_how how)
{
	(void)c, (void)how;
}

static uint32_t stub_poll(struct device *dev, struct event *out, uint32_t n)
{
	(void)dev;
	n = n < nevents ? n : nevents;
	memcpy(out, events, n * sizeof(*out));
	nevents -= n;
	memmove(events, events + n, nevents * sizeof(*out));
	return n;
}

static int stub_arm(struct device *dev)
{
	(void)dev;
	return nevents != 0;
}

static int stub_reg(struct device *dev, struct extent *extent)
{
	(void)dev, (void)extent;
	return 0;
}

static int stub_unreg(struct device *dev, struct extent *extent)
{
	(void)dev, (void)extent;
	return 0;
}

static const struct backend stub = {
	.name = "stub",
	.transport = URCCL_TRANSPORT_TCP,
	.chunk_bytes = 4096,
	.reg = stub_reg,
	.unreg = stub_unreg,
	.ep_open = stub_ep_open,
	.ep_free = stub_ep_free,
	.ep_connect = stub_ep_connect,
	.ep_close = stub_ep_close,
	.expose = stub_expose,
	.unexpose = stub_unexpose,
	.import = stub_import,
	.forget = stub_forget,
	.warm = stub_warm,
	.post = stub_post,
	.cancel = stub_cancel,
	.poll = stub_poll,
	.arm = stub_arm,
};

#endif
