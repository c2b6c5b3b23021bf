/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces and their answers. A WRITE goes as WRITE pieces, each answered by an ACK; a READ as READs,
 * each answered by DATA, or by an ACK that says why not; a SEND as one piece, whose ACK says that a
 * receive was there for it, or to come again. The target knows nothing of operations: all it holds
 * is pieces that wait for their turn, where the words ask for that.
 */
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "prov.h"

#define PACKETS	 64u		       /* taken off the socket at a time */
#define AGAIN_NS (100 * NSEC_PER_USEC) /* for a SEND that found no receive */

struct packet {
	uint32_t type, op;
	uint32_t len; /* of the piece; the bytes are behind it if it has them */
	int32_t err;
	uint32_t delivery; /* its ACK is to mean that it is placed */
	uint32_t reserved;
	uint64_t off; /* in the operation */
	uint64_t addr, key;
	uint8_t raw[RAW_BYTES];
	char from[NAME_BYTES];
	uint8_t bytes[];
};

struct reply {
	struct list link;
	char to[NAME_BYTES];
	struct packet p; /* DATA: its bytes are read when it goes */
};

struct held {
	struct list link;
	int acked;
	struct packet p;
};

/* ---- the socket ---- */

/* 0, or errno; EAGAIN: there is no room. Nor is there for the next to the same one, this time. */
static int transmit(struct prov_ep *ep, const char *to, const struct packet *p, const void *bytes,
		    size_t len)
{
	int err;
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct iovec iov[2] = {{(void *)(uintptr_t)p, sizeof(*p)}, {(void *)(uintptr_t)bytes, len}};
	struct msghdr msg = {.msg_name = &at,
			     .msg_namelen = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
							NAME_BYTES),
			     .msg_iov = iov,
			     .msg_iovlen = 2};

	if (!memcmp(ep->full, to, NAME_BYTES))
		return EAGAIN;
	memcpy(at.sun_path + 1, to, NAME_BYTES);
	if (sendmsg(ep->sock, &msg, MSG_NOSIGNAL) >= 0)
		return 0;
	err = errno == ENOBUFS ? EAGAIN : errno;
	if (err == EAGAIN)
		memcpy(ep->full, to, NAME_BYTES);
	return err;
}

/* ---- the initiator ---- */

/* The range that has the byte at off of the operation, which becomes its offset there. */
static const struct range *range_at(const struct op *op, size_t *off)
{
	const struct range *r = op->ranges;

	while (r < &op->ranges[op->n - 1] && *off >= r->len)
		*off -= r++->len;
	return r;
}

static struct packet piece_of(const struct prov_ep *ep, const struct op *op)
{
	size_t off = op->sent;
	const struct range *r = range_at(op, &off);
	size_t left = r->len - off;
	struct packet p = {
		.type = op->type,
		.op = op->id,
		.len = (uint32_t)(left < PIECE_BYTES ? left : PIECE_BYTES),
		.delivery = !!(op->flags & FI_DELIVERY_COMPLETE),
		.off = op->sent,
		.addr = r->addr + off,
	};

	memcpy(&p.key, r->raw, sizeof(p.key));
	memcpy(p.raw, r->raw, sizeof(p.raw));
	memcpy(p.from, ep->name, sizeof(p.from));
	return p;
}

static uint8_t *bytes_at(const struct op *op, size_t off)
{
	const struct range *r = range_at(op, &off);

	return r->buf + off;
}

/* 0: all of it is out, or it has ended; EAGAIN. */
static int op_push(struct prov_ep *ep, struct op *op)
{
	while (!op->begun || op->sent < op->len) {
		struct packet p = piece_of(ep, op);
		int err = transmit(ep, op->to, &p, bytes_at(op, op->sent),
				   op->type == PACKET_READ ? 0 : p.len);

		if (err == EAGAIN)
			return EAGAIN;
		if (err) {
			op_end(ep, op, err);
			return 0;
		}
		op->begun = 1;
		op->sent += p.len;
	}
	list_del(&op->link);
	return 0;
}

static struct op *op_find(struct prov_ep *ep, uint32_t id)
{
	struct op *op = &ep->ops[id % TX_SIZE];

	return op->type && op->id == id ? op : NULL;
}

static void send_again(struct prov_ep *ep, struct op *op)
{
	op->sent = 0;
	op->begun = 0;
	op->again_ns = now_ns() + AGAIN_NS;
	list_add_tail(&op->link, &ep->sending);
}

static void answered(struct prov_ep *ep, const struct packet *p)
{
	struct op *op = op_find(ep, p->op);

	if (!op)
		return;
	if (p->type == PACKET_DATA)
		memcpy(bytes_at(op, p->off), p->bytes, p->len);
	if (p->err == FI_EAGAIN) {
		send_again(ep, op);
		return;
	}
	if (p->err)
		op->err = p->err;
	op->answered += p->len;
	if (op->answered == op->len)
		op_end(ep, op, op->err);
}

/* ---- answers ---- */

static void reply(struct prov_ep *ep, const struct packet *to, enum packet_type type, int err)
{
	struct reply *r = calloc(1, sizeof(*r));

	if (!r)
		DIE("no memory for an answer");
	memcpy(r->to, to->from, sizeof(r->to));
	r->p = *to;
	r->p.type = type;
	r->p.err = err;
	list_add_tail(&r->link, &ep->replies);
}

/* What a READ asks for is looked up when it is sent: its region may be gone by then. */
static int reply_send(struct prov_ep *ep, struct reply *r)
{
	const uint8_t *bytes = NULL;

	if (r->p.type == PACKET_DATA) {
		bytes = memory_remote(ep, r->p.key, r->p.raw, r->p.addr, r->p.len, FI_REMOTE_READ,
				      &r->p.err);
		if (!bytes)
			r->p.type = PACKET_ACK;
	}
	return transmit(ep, r->to, &r->p, bytes, bytes ? r->p.len : 0);
}

static int replies_push(struct prov_ep *ep)
{
	struct list *pos, *tmp;
	int left = 0;

	list_for_each_safe(pos, tmp, &ep->replies) {
		struct reply *r = list_entry(pos, struct reply, link);

		if (reply_send(ep, r) == EAGAIN) {
			left = 1;
			continue;
		}
		list_del(&r->link);
		free(r);
	}
	return left;
}

/* ---- the target ---- */

static int arrive(struct prov_ep *ep, const struct packet *p)
{
	struct receive *r;

	if (list_empty(&ep->receives))
		return FI_EAGAIN;
	r = list_first(&ep->receives, struct receive, link);
	if (p->len <= r->len)
		memcpy(r->buf, p->bytes, p->len);
	ep_receive_end(ep, r, p->len, p->len <= r->len ? 0 : FI_ETRUNC);
	return 0;
}

static int reach(struct prov_ep *ep, const struct packet *p, uint8_t **at)
{
	uint64_t access = p->type == PACKET_READ ? FI_REMOTE_READ : FI_REMOTE_WRITE;
	int err;

	*at = memory_remote(ep, p->key, p->raw, p->addr, p->len, access, &err);
	return err;
}

static void execute(struct prov_ep *ep, const struct packet *p, int acked)
{
	uint8_t *at;
	int err;

	if (p->type == PACKET_SEND) {
		reply(ep, p, PACKET_ACK, arrive(ep, p));
		return;
	}
	/* A read pushes what was acknowledged before it, as a bus does. */
	if (p->type == PACKET_READ)
		wire_place(ep);
	err = reach(ep, p, &at);
	if (p->type == PACKET_READ) {
		reply(ep, p, err ? PACKET_ACK : PACKET_DATA, err);
		return;
	}
	if (!err)
		memcpy(at, p->bytes, p->len);
	if (!acked)
		reply(ep, p, PACKET_ACK, err);
}

static void held_execute(struct prov_ep *ep, struct held *h)
{
	list_del(&h->link);
	execute(ep, &h->p, h->acked);
	free(h);
}

void wire_place(struct prov_ep *ep)
{
	struct list *pos, *tmp;

	list_for_each_safe(pos, tmp, &ep->held)
		if (list_entry(pos, struct held, link)->acked)
			held_execute(ep, list_entry(pos, struct held, link));
}

static void hold(struct prov_ep *ep, const struct packet *p, size_t bytes)
{
	struct held *h = calloc(1, sizeof(*h) + bytes);
	uint8_t *at;

	if (!h)
		DIE("no memory for a piece");
	memcpy(&h->p, p, sizeof(*p) + bytes);
	list_add_tail(&h->link, &ep->held);
	h->acked = words()->early && p->type == PACKET_WRITE && !p->delivery && !reach(ep, p, &at);
	if (h->acked)
		reply(ep, p, PACKET_ACK, 0);
}

/* Some of those that are held, whichever. */
static void held_some(struct prov_ep *ep)
{
	struct list *pos, *tmp;

	list_for_each_safe(pos, tmp, &ep->held) {
		struct held *h = list_entry(pos, struct held, link);

		/* A READ takes others along, so that the next one may be gone. */
		if (!domain_random(ep->domain, 3)) {
			held_execute(ep, h);
			break;
		}
	}
}

/* 1: it is from nobody that the target has in its vector. A device would drop it, as we do where it
 * was removed, which its initiator cannot know; else that broke the rule to wait until it is
 * known. */
static int is_strange(const struct prov_ep *ep, const struct packet *p)
{
	if (!words()->av_initiator || p->type == PACKET_SEND || av_knows(ep->av, p->from))
		return 0;
	if (!av_knew(ep->av, p->from))
		DIE("%s has come, which is not in the vector of its target", p->from);
	return 1;
}

static void take(struct prov_ep *ep, const struct packet *p, size_t bytes)
{
	const struct words *w = words();

	if (p->type == PACKET_DATA || p->type == PACKET_ACK)
		answered(ep, p);
	else if (is_strange(ep, p))
		return;
	else if (w->random || (w->early && p->type == PACKET_WRITE))
		hold(ep, p, bytes);
	else
		execute(ep, p, 0);
}

/* ---- progress ---- */

static void receive_all(struct prov_ep *ep)
{
	static _Thread_local union {
		struct packet p;
		uint8_t room[sizeof(struct packet) + PIECE_BYTES];
	} in;
	uint32_t i;

	for (i = 0; i < PACKETS; i++) {
		ssize_t n = recv(ep->sock, &in, sizeof(in), MSG_TRUNC);

		if (n < 0)
			return;
		if (n >= (ssize_t)sizeof(in.p) && n <= (ssize_t)sizeof(in))
			take(ep, &in.p, (size_t)n - sizeof(in.p));
	}
}

void wire_push(struct prov_ep *ep)
{
	struct list *pos, *tmp;
	uint64_t now;

	if (list_empty(&ep->sending) || ep->more)
		return;
	now = now_ns();
	list_for_each_safe(pos, tmp, &ep->sending) {
		struct op *op = list_entry(pos, struct op, link);

		if (op->again_ns <= now)
			op_push(ep, op);
	}
}

int wire_progress(struct prov_ep *ep)
{
	size_t i, n = 0;
	struct list *pos;
	int left;

	receive_all(ep);
	ep->full[0] = '\0';
	list_for_each(pos, &ep->held)
		n++;
	for (i = 0; i < (n + 1) / 2; i++)
		held_some(ep);
	left = replies_push(ep);
	wire_push(ep);
	return left || !list_empty(&ep->sending) || !list_empty(&ep->held);
}

void wire_end(struct prov_ep *ep)
{
	wire_place(ep);
	replies_push(ep);
	while (!list_empty(&ep->held)) {
		struct held *h = list_first(&ep->held, struct held, link);

		list_del(&h->link);
		free(h);
	}
	while (!list_empty(&ep->replies)) {
		struct reply *r = list_first(&ep->replies, struct reply, link);

		list_del(&r->link);
		free(r);
	}
}
