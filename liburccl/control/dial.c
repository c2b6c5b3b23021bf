/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tries the addresses of a dial, one after the other. Each gets STAGGER_NS before the next one
 * starts, so that an address which drops packets delays nobody. The first address that connects is
 * sent HELLO. If another context answers there, the remaining addresses follow.
 */
#include <stdlib.h>

#include "control/dial.h"

static const struct conn_ops dial_conn_ops;

static struct host *dial_host(struct dial *d, enum host_state state)
{
	uint32_t i;

	for (i = 0; i < d->nhosts; i++)
		if (d->hosts[i].state == state)
			return &d->hosts[i];
	return NULL;
}

static struct host *dial_host_of(struct dial *d, const struct conn *n)
{
	uint32_t i = 0;

	while (d->hosts[i].conn != n) {
		i++;
		assert(i < d->nhosts);
	}
	return &d->hosts[i];
}

static void dial_leave(struct control *c, struct host *h, enum host_state state)
{
	if (h->conn) {
		conn_close(c, h->conn);
		h->conn = NULL;
		dials_release(c, &h->addr);
	}
	h->state = state;
}

static void dial_free_paths(struct dial *d)
{
	while (d->npaths)
		path_free(d->paths[--d->npaths]);
}

void dial_stop(struct control *c, struct dial *d)
{
	uint32_t i;

	for (i = 0; i < d->nhosts; i++)
		dial_leave(c, &d->hosts[i], HOST_FRESH);
	dial_free_paths(d);
	timer_stop(&d->timer);
	d->backing_off = 0;
	if (d->job)
		d->job->dial = NULL;
	d->job = NULL;
}

/* Records the errno of a failed connection as a reason for the CONNECT. */
static void dial_note_errno(struct dial *d, const struct host *h, int err)
{
	switch (err) {
	case ECONNREFUSED:
		dial_note_host(d, h, -ECONNREFUSED, REASON_DIAL_REFUSED, err);
		break;
	case EPROTO:
		dial_note_host(d, h, -EPROTO, REASON_DIAL_GARBAGE, err);
		break;
	case ETIMEDOUT:
	case ENETUNREACH:
	case EADDRNOTAVAIL:
	case EHOSTDOWN:
		dial_note_host(d, h, -EHOSTUNREACH, REASON_DIAL, err);
		break;
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case ENOBUFS:
		dial_note(d, -err, REASON_DIAL_SOCKET, (uint64_t)err, 0, 0);
		break;
	case 0:
	case EPIPE:
		dial_note_host(d, h, -ECONNRESET, REASON_DIAL_HUNG_UP, ECONNRESET);
		break;
	default:
		dial_note_host(d, h, -err, REASON_DIAL, err);
		break;
	}
}

void dial_start(struct control *c, struct dial *d)
{
	struct peer *p = d->expected ? peer_find(c, d->expected) : NULL;
	uint32_t i;

	d->backing_off = 0;
	if (p) {
		dial_attach(c, d, p);
		return;
	}
	for (i = 0; i < d->nhosts; i++)
		d->hosts[i].state = HOST_FRESH;
	dial_next(c, d);
}

static enum host_state dial_try(struct control *c, struct dial *d, struct host *h)
{
	if (dials_coalesce(c, d, &h->addr))
		return HOST_COALESCED;
	h->conn = conn_dial(c, &h->addr, &dial_conn_ops, d);
	return h->conn ? HOST_CONNECTING : HOST_FAILED;
}

void dial_next(struct control *c, struct dial *d)
{
	struct peer *p;
	struct host *h;

	timer_stop(&d->timer);
	if (dial_host(d, HOST_HELLO))
		return;
	while ((h = dial_host(d, HOST_FRESH))) {
		p = dials_found(c, d, &h->addr);
		if (p) {
			dial_attach(c, d, p);
			return;
		}
		h->state = dial_try(c, d, h);
		if (h->state != HOST_FAILED) {
			if (dial_host(d, HOST_FRESH))
				timer_set(c, &d->timer, STAGGER_NS);
			return;
		}
		/* Without a scope: no interface here has a link-local address. */
		dial_note_errno(d, h,
				addr_link_local(&h->addr) && !addr_scope(&h->addr) ? ENETUNREACH
										   : errno);
	}
	if (!dial_host(d, HOST_CONNECTING) && !dial_host(d, HOST_COALESCED))
		dial_fail(c, d);
}

void dial_timer(struct control *c, struct control_timer *a)
{
	struct dial *d = container_of(a, struct dial, timer);
	struct host *h = dial_host(d, HOST_HELLO);

	if (d->backing_off) {
		dial_start(c, d);
		return;
	}
	/* The connection was accepted and HELLO got no answer: try the next address. */
	if (h) {
		dial_leave(c, h, HOST_FAILED);
		dial_note_host(d, h, -EHOSTUNREACH, REASON_DIAL_SILENT, ETIMEDOUT);
	}
	dial_next(c, d);
}

/* ---- HELLO ---- */

static int dial_open_paths(struct control *c, struct dial *d)
{
	int err = -ENODEV;

	d->npaths = paths_open(c, 0, d->paths, &err);
	if (d->npaths)
		return 0;
	dial_note(d, err, REASON_DIAL_DEVICE, (uint64_t)-err, 0, 0);
	return err;
}

/* With a secret, the hello carries a nonce and begins the chain of keys. */
static int dial_send_hello(struct control *c, struct conn *n, struct wire_hello *h)
{
	uint32_t len;
	int err = 0;

	if (c->config.secret->is_set) {
		h->features = WIRE_HAS_SECRET;
		n->auth = calloc(1, sizeof(*n->auth));
		err = n->auth ? random_bytes(h->nonce, sizeof(h->nonce)) : -ENOMEM;
	}
	len = wire_put_hello(c->tx, WIRE_HELLO, h);
	if (!err && n->auth)
		err = auth_said(n->auth, c->config.secret, c->tx + WIRE_HEADER, len - WIRE_HEADER);
	if (!err)
		conn_send(c, n, c->tx, len);
	return err;
}

static int dial_say_hello(struct control *c, struct dial *d, struct conn *n)
{
	struct sockaddr_storage from;
	struct wire_hello h = hello_make(c, d->paths, d->npaths, d->hello, d->hello_len);

	conn_local(n, &from);
	h.expected = d->expected;
	h.port = listener_port(c, &from);
	return dial_send_hello(c, n, &h);
}

static void dial_connected(struct control *c, struct conn *n)
{
	struct dial *d = n->owner;
	struct host *h = dial_host_of(d, n), *other;

	h->state = HOST_HELLO;
	while ((other = dial_host(d, HOST_CONNECTING)))
		dial_leave(c, other, HOST_FRESH);
	while ((other = dial_host(d, HOST_COALESCED)))
		other->state = HOST_FRESH;
	if (!d->npaths && dial_open_paths(c, d)) {
		dial_fail(c, d);
		return;
	}
	if (dial_say_hello(c, d, n)) {
		dial_note(d, -ENOMEM, REASON_NO_MEMORY, sizeof(*n->auth), 0, 0);
		dial_fail(c, d);
		return;
	}
	/* The last address may take as long as the CONNECT. */
	if (dial_host(d, HOST_FRESH))
		timer_set(c, &d->timer, HELLO_NS);
	else
		timer_stop(&d->timer);
}

/* ---- the answer ---- */

/* Called before any CONNECT ends: the program may then at once use the handle of the peer that was
 * at this address before. */
static void dial_found(struct control *c, const struct host *h, struct peer *p)
{
	peer_answers(c, p, &h->addr);
	dials_share(c, &h->addr, p);
}

static void dial_no_path(struct dial *d, const struct host *h, const struct wire_refuse *r)
{
	uint64_t ours = 0, arg[3];
	uint32_t i;

	for (i = 0; i < d->npaths; i++)
		ours |= 1ull << d->paths[i]->rail.ep->dev->ops->transport;
	if (r->required && !(ours >> r->required & 1))
		dial_note(d, -EHOSTUNREACH, REASON_DIAL_POLICY, 1ull << r->required, ours, 0);
	else if (ours & r->transports) {
		addr_args(&h->addr, rails_arg(0, r->required, 0, (int)(r->error & 0xfff)), arg);
		dial_note(d, -EHOSTUNREACH,
			  r->required ? REASON_DIAL_POLICY_DOWN : REASON_DIAL_NO_PATH, arg[0],
			  arg[1], arg[2]);
	} else
		dial_note(d, -EHOSTUNREACH, REASON_DIAL_COMMON, ours, r->transports, 0);
}

/* The errno of the resource that the acceptor lacks, if it named one. Otherwise its limit of peers
 * (-EMFILE). */
static int what_ran_out(const struct wire_refuse *r)
{
	return r->error == ENOMEM || r->error == ENFILE ? -(int)r->error : -EMFILE;
}

static void dial_refused(struct control *c, struct dial *d, struct host *h,
			 const struct wire_refuse *r)
{
	/* Refusals that differ only in their error and reason. */
	static const struct {
		int res;
		uint32_t reason;
	} refusals[] = {
		[WIRE_STALE] = {-ESTALE, REASON_DIAL_STALE},
		[WIRE_SELF] = {-EINVAL, REASON_DIAL_SELF},
		[WIRE_SECRET] = {-EACCES, REASON_DIAL_SECRET},
		[WIRE_NO_SECRET] = {-EACCES, REASON_DIAL_NO_SECRET},
		[WIRE_OTHER_SECRET] = {-EACCES, REASON_DIAL_OTHER_SECRET},
		[WIRE_CLOSING] = {-ECONNREFUSED, REASON_DIAL_CLOSING},
	};
	struct peer *p = r->code == WIRE_EXISTS ? peer_find(c, r->incarnation) : NULL;

	if (p)
		dial_found(c, h, p);
	dial_leave(c, h, HOST_FAILED);
	switch (r->code) {
	case WIRE_EXISTS:
		/* Something is not finished, here or there: a handshake that will give us the peer,
		 * or the end of an older connection. */
		if (p)
			dial_attach(c, d, p);
		else
			dial_backoff(c, d);
		return;
	case WIRE_BUSY:
		dial_note_host(d, h, -EMFILE, REASON_DIAL_FULL, 0);
		dial_backoff(c, d);
		return;
	case WIRE_NO_VERSION:
		dial_note(d, -EPROTONOSUPPORT, REASON_DIAL_VERSION,
			  versions_arg(WIRE_VERSION, WIRE_VERSION, r->version_min, r->version_max),
			  0, 0);
		break;
	case WIRE_FULL:
		dial_note_host(d, h, what_ran_out(r),
			       r->error ? REASON_DIAL_EXHAUSTED : REASON_DIAL_FULL,
			       (int)(r->error & 0xfff));
		break;
	case WIRE_NO_PATH:
		dial_no_path(d, h, r);
		break;
	default:
		if (r->code < ARRAY_SIZE(refusals) && refusals[r->code].res)
			dial_note_host(d, h, refusals[r->code].res, refusals[r->code].reason, 0);
		else
			dial_note_errno(d, h, EPROTO);
		break;
	}
	dial_next(c, d);
}

/* Gives the peer an ep for each rail that both sides have, best first. */
static void dial_hand_over(struct control *c, struct dial *d, struct peer *p,
			   const struct wire_hello *ack)
{
	uint32_t i;

	p->required = policy_required(c, ack->host);

	for (i = 0; i < d->npaths; i++) {
		struct path *path = d->paths[i];

		if (path_answered(path, ack) && policy_allows(c, ack->host, path_transport(path)))
			path_take_known(c, p, path);
		else
			path_free(path);
	}
	d->npaths = 0;
}

/* HELLO_ACK came: the connection now belongs to the peer. */
static void dial_met(struct control *c, struct dial *d, struct host *h,
		     const struct wire_hello *ack, struct list *others)
{
	struct peer *p;
	int err;

	p = peer_new(c, h->conn, ack, 1, &err);
	if (!p) {
		if (err == -EBUSY)
			dial_backoff(c, d);
		else
			dial_give_up(c, d, err);
		dials_give(c, others, NULL);
		return;
	}
	auth_free(h->conn->auth);
	h->conn->auth = NULL;
	h->conn = NULL;
	h->state = HOST_FAILED; /* tried next only if this does not become a peer */
	timer_stop(&d->timer);
	d->peer = p;
	d->own = 1;
	list_add_tail(&d->of_peer, &p->dials);
	dial_hand_over(c, d, p, ack);
	dial_found(c, h, p);
	dials_give(c, others, p);
	handshake_unhold(c);
	setup_dial(c, p);
}

static void dial_answered(struct control *c, struct dial *d, struct host *h,
			  const struct wire_hello *ack)
{
	struct peer *old = peer_find(c, ack->incarnation);
	struct list others;

	list_init(&others);
	if (ack->incarnation == c->config.incarnation ||
	    (d->expected && ack->incarnation != d->expected)) {
		int self = ack->incarnation == c->config.incarnation;

		dial_note_host(d, h, self ? -EINVAL : -ESTALE,
			       self ? REASON_DIAL_SELF : REASON_DIAL_STALE, 0);
		dial_leave(c, h, HOST_FAILED);
		dial_next(c, d);
		return;
	}
	/* Both contexts dialled at once: the dial of the smaller incarnation is kept, unless the
	 * other one has completed. */
	if (old && (old->dialled || old->stage != STAGE_RAILS ||
		    c->config.incarnation > ack->incarnation)) {
		dial_found(c, h, old);
		dial_attach(c, d, old);
		return;
	}
	if (old) {
		dials_take(old, &others);
		handshake_yield(c, old);
	}
	dial_met(c, d, h, ack, &others);
}

/* ---- the secret ---- */

static int dial_challenged(struct control *c, struct conn *n, const uint8_t *body, uint32_t len)
{
	uint8_t proof[HMAC_BYTES], frame[WIRE_HEADER + HMAC_BYTES];

	if (auth_challenge_come(n->auth, body, len, proof))
		return -EPROTO;
	conn_send(c, n, frame, wire_put_bytes(frame, WIRE_PROOF, proof, sizeof(proof)));
	return 0;
}

/* The other side does not have the secret. */
static void dial_unproved(struct control *c, struct dial *d, struct host *h)
{
	dial_leave(c, h, HOST_FAILED);
	dial_note_host(d, h, -EACCES, REASON_DIAL_UNPROVED, 0);
	dial_next(c, d);
}

static int dial_ack(struct control *c, struct conn *n, const uint8_t *body, uint32_t len)
{
	struct dial *d = n->owner;
	struct host *h = dial_host_of(d, n);
	struct wire_hello ack;

	if (wire_get_hello(body, len, &ack))
		return -EPROTO;
	if (n->auth && auth_ack_come(n->auth, body, len))
		dial_unproved(c, d, h);
	else
		dial_answered(c, d, h, &ack);
	return 0;
}

static int dial_frame(struct control *c, struct conn *n, uint32_t type, const uint8_t *body,
		      uint32_t len)
{
	struct dial *d = n->owner;
	struct host *h = dial_host_of(d, n);
	struct wire_refuse r;

	if (type == WIRE_HELLO_ACK)
		return dial_ack(c, n, body, len);
	if (type == WIRE_CHALLENGE && n->auth)
		return dial_challenged(c, n, body, len);
	if (type == WIRE_PROOF && n->auth)
		return auth_proof_come(n->auth, body, len);
	if (type != WIRE_REFUSE || wire_get_refuse(body, len, &r))
		return -EPROTO;
	dial_refused(c, d, h, &r);
	return 0;
}

static void dial_ended(struct control *c, struct conn *n, int err)
{
	struct dial *d = n->owner;
	struct host *h = dial_host_of(d, n);

	dial_leave(c, h, HOST_FAILED);
	dial_note_errno(d, h, -err);
	dial_next(c, d);
}

static const struct conn_ops dial_conn_ops = {
	.connected = dial_connected,
	.frame = dial_frame,
	.ended = dial_ended,
};
