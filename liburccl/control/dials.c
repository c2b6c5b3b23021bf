/* SPDX-License-Identifier: Apache-2.0 */
/* Which CONNECTs wait for which dial, and which dials wait for which peer. */
#include <netinet/in.h>
#include <stdlib.h>

#include "control/dial.h"

/* ---- failures: of several addresses, the most specific failure is reported ---- */

static int reason_weight(uint32_t reason)
{
	switch (reason) {
	case REASON_NONE:
		return 0;
	case REASON_DIAL:
		return 1;
	case REASON_DIAL_REFUSED:
	case REASON_DIAL_CLOSING:
		return 2;
	case REASON_DIAL_GARBAGE:
	case REASON_DIAL_SILENT:
	case REASON_DIAL_HUNG_UP:
		return 3;
	case REASON_DIAL_SELF:
	case REASON_DIAL_STALE:
		return 4;
	default:
		return 5;
	}
}

void dial_note(struct dial *d, int res, uint32_t reason, uint64_t a, uint64_t b, uint64_t e)
{
	if (!d->error.res || reason_weight(reason) >= reason_weight(d->error.reason))
		error_set(&d->error, res, reason, a, b, e);
}

void dial_note_host(struct dial *d, const struct host *h, int res, uint32_t reason, int err)
{
	uint64_t arg[3];

	/* The upper 16 bits are what text_of_many() shows. */
	addr_args(&h->addr, (uint64_t)d->of_many << 32 | (uint64_t)err << 16, arg);
	dial_note(d, res, reason, arg[0], arg[1], arg[2]);
}

static void dial_free(struct control *c, struct dial *d)
{
	assert(list_empty(&d->waiters));
	dial_stop(c, d);
	list_del(&d->of_peer);
	list_del(&d->link);
	free(d);
	handshake_unhold(c);
}

static struct control_req *waiter_take(struct dial *d)
{
	struct waiter *w = list_first(&d->waiters, struct waiter, link);
	struct control_req *req = w->req;

	list_del(&w->link);
	free(w);
	return req;
}

void dial_fail(struct control *c, struct dial *d)
{
	assert(d->error.res < 0);
	while (!list_empty(&d->waiters))
		req_answer_error(waiter_take(d), &d->error);
	dial_free(c, d);
}

void dial_give_up(struct control *c, struct dial *d, int err)
{
	if (err == -EUSERS)
		error_set(&d->error, -EMFILE, REASON_PEERS_FULL, c->config.params->max_peers, 0, 0);
	else
		error_set(&d->error, err, REASON_NO_MEMORY, sizeof(struct peer), 0, 0);
	dial_fail(c, d);
}

void dial_backoff(struct control *c, struct dial *d)
{
	dial_stop(c, d);
	d->backing_off = 1;
	d->backoff_ns = d->backoff_ns ? d->backoff_ns * 2 : BACKOFF_NS;
	if (d->backoff_ns > BACKOFF_MAX_NS)
		d->backoff_ns = BACKOFF_MAX_NS;
	timer_set(c, &d->timer, d->backoff_ns);
}

/* ---- dials and peers ---- */

uint32_t dials_succeed(struct control *c, struct peer *p)
{
	uint32_t n = 0;

	while (!list_empty(&p->dials)) {
		struct dial *d = list_first(&p->dials, struct dial, of_peer);

		for (; !list_empty(&d->waiters); n++) {
			struct control_req *req = waiter_take(d);

			req->handle = p->handle;
			req_answer(req, 0, REASON_NONE, 0, 0, 0);
		}
		dial_free(c, d);
	}
	return n;
}

/* The metadata names the address and port of a peer that dialled us: record it as the place of the
 * peer. */
static void dial_placed(struct control *c, const struct dial *d, struct peer *p)
{
	struct sockaddr_storage from = p->remote;
	uint32_t i;

	addr_unmap(&from);
	for (i = 0; i < d->nhosts; i++) {
		if (addr_same(&d->hosts[i].addr, &from)) {
			peer_answers(c, p, &d->hosts[i].addr);
			return;
		}
	}
}

void dial_attach(struct control *c, struct dial *d, struct peer *p)
{
	dial_stop(c, d);
	d->peer = p;
	d->own = 0;
	if (d->expected && !p->at.ss_family)
		dial_placed(c, d, p);
	list_add_tail(&d->of_peer, &p->dials);
	if (p->stage == STAGE_UP)
		p->refs += dials_succeed(c, p);
	else
		handshake_dialled(c, p);
	handshake_unhold(c);
}

void dials_take(struct peer *from, struct list *to)
{
	while (!list_empty(&from->dials)) {
		struct dial *d = list_first(&from->dials, struct dial, of_peer);

		list_del(&d->of_peer);
		list_add_tail(&d->of_peer, to);
		d->peer = NULL;
	}
}

void dials_give(struct control *c, struct list *from, struct peer *to)
{
	while (!list_empty(from)) {
		struct dial *d = list_first(from, struct dial, of_peer);

		list_del(&d->of_peer);
		if (to)
			dial_attach(c, d, to);
		else
			dial_backoff(c, d);
	}
}

void dials_lost(struct control *c, struct peer *p)
{
	struct list lost;

	list_init(&lost);
	dials_take(p, &lost);
	while (!list_empty(&lost)) {
		struct dial *d = list_first(&lost, struct dial, of_peer);
		uint64_t arg[3];

		list_del(&d->of_peer);
		if (d->own) {
			down_args(p, p->lost.e.reason, p->lost.e.arg, arg);
			dial_note(d, p->lost.e.cause, p->lost.e.reason, arg[0], arg[1], arg[2]);
			dial_next(c, d);
		} else {
			dial_backoff(c, d);
		}
	}
}

void dials_adopt(struct control *c, struct peer *p)
{
	struct dial *d;

again:
	list_for_each_entry(d, &c->dials, link) {
		if (d->expected == p->incarnation && !d->peer) {
			dial_attach(c, d, p);
			goto again;
		}
	}
}

int dials_unknown(const struct control *c)
{
	uint64_t now = clock_ns();
	const struct dial *d;

	list_for_each_entry(d, &c->dials, link) {
		if (!d->expected && !d->peer && now - d->since < HOLD_NS)
			return 1;
	}
	return 0;
}

/* ---- requests ---- */

/* Stores addresses in one form, so that dials to the same address find each other. */
static void dial_add_host(struct dial *d, const struct sockaddr_storage *addr)
{
	struct sockaddr_storage at = *addr;

	addr_unmap(&at);
	if (d->nhosts < METADATA_HOSTS && !dial_host_at(d, &at))
		d->hosts[d->nhosts++].addr = at;
}

/* The scope of a link-local address is known to its own host alone: tries that address on each
 * interface that has one too. */
static void dial_add_scopes(struct control *c, struct dial *d, const struct sockaddr_storage *addr)
{
	struct sockaddr_storage at = *addr;
	uint32_t scopes[METADATA_HOSTS];
	int i, n = netif_scopes(scopes, METADATA_HOSTS, c->config.params->socket_ifname);

	for (i = 0; i < n; i++) {
		addr_scope_set(&at, scopes[i]);
		dial_add_host(d, &at);
	}
	if (n <= 0)
		dial_add_host(d, addr);
}

static void host_fill(struct sockaddr_storage *ss, const struct metadata_host *h, uint32_t port)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

	memset(ss, 0, sizeof(*ss));
	memcpy(&in6.sin6_addr, h->addr, 16);
	memcpy(&in.sin_addr, h->addr, 4);
	if (h->family == 6)
		memcpy(ss, &in6, sizeof(in6));
	else
		memcpy(ss, &in, sizeof(in));
}

enum { NEAR, FAR, HERE, RANKS };

/* NEAR: an address of a network that this host is on, tried first. HERE: loopback, tried last,
 * since every host has it. */
static int host_rank(const struct sockaddr_storage *ss, const struct netif *all, int n)
{
	int i;

	if (addr_loopback(ss))
		return HERE;
	if (addr_link_local(ss))
		return NEAR;
	for (i = 0; i < n; i++)
		if (!all[i].loopback && netif_near(&all[i], ss))
			return NEAR;
	return FAR;
}

static void dial_hosts_of(struct control *c, struct dial *d, const struct metadata *m)
{
	struct netif all[NETIFS_MAX];
	struct sockaddr_storage ss;
	int rank, n = 0;
	uint32_t i;

	if (m->nhosts > 1)
		n = netifs(all, NETIFS_MAX, c->config.params->socket_ifname);
	for (rank = NEAR; rank < RANKS; rank++) {
		for (i = 0; i < m->nhosts; i++) {
			host_fill(&ss, &m->hosts[i], m->port);
			if (host_rank(&ss, all, n) != rank)
				continue;
			if (addr_link_local(&ss))
				dial_add_scopes(c, d, &ss);
			else
				dial_add_host(d, &ss);
		}
	}
	d->expected = m->incarnation;
}

/* 0: the hosts are known or being resolved. */
static int dial_target(struct control *c, struct dial *d, struct control_req *req)
{
	struct metadata m;
	char host[256], port[8];
	struct sockaddr_storage ss;
	int rc;

	memcpy(d->target, req->data, req->len);
	d->target_len = (uint32_t)req->len;
	d->hello_len = req->hello_len;
	if (req->hello_len)
		memcpy(d->hello, req->hello, req->hello_len);
	if (!d->target[0]) {
		rc = metadata_get(d->target, d->target_len, &m);
		if (rc)
			return rc;
		dial_hosts_of(c, d, &m);
		return 0;
	}
	if (address_split((const char *)d->target, d->target_len, host, port))
		return -EINVAL;
	if (address_numeric(host, port, &ss)) {
		if (addr_link_local(&ss) && !addr_scope(&ss))
			dial_add_scopes(c, d, &ss);
		else
			dial_add_host(d, &ss);
		return 0;
	}
	d->job = resolver_ask(c, d, host, port);
	return d->job ? 0 : -ENOMEM;
}

static struct dial *dial_same(struct control *c, const struct control_req *req)
{
	struct dial *d;

	list_for_each_entry(d, &c->dials, link) {
		if (d->target_len == req->len && !memcmp(d->target, req->data, req->len))
			return d;
	}
	return NULL;
}

static void waiter_add(struct waiter *w, struct dial *d, struct control_req *req)
{
	w->dial = d;
	w->req = req;
	req->owner = w;
	list_add_tail(&w->link, &d->waiters);
}

static void dial_note_text(struct dial *d, int err)
{
	uint64_t arg[3];

	text_args(arg, 3, d->target, d->target_len);
	dial_note(d, err, REASON_DIAL_TEXT, arg[0], arg[1], arg[2]);
}

static void dial_note_target(struct dial *d, int err)
{
	if (err == -ENOMEM)
		dial_note(d, err, REASON_NO_MEMORY, sizeof(struct job), 0, 0);
	else if (err == -EPROTONOSUPPORT)
		dial_note(d, err, REASON_METADATA_VERSION, d->target[1], METADATA_VERSION, 0);
	else if (!d->target[0])
		dial_note(d, err, REASON_DIAL_BLOB, d->target_len, 0, 0);
	else
		dial_note_text(d, err);
}

static void dial_begin(struct control *c, struct waiter *w, struct control_req *req)
{
	struct dial *d = calloc(1, sizeof(*d));
	int rc;

	if (!d) {
		free(w);
		req_answer(req, -ENOMEM, REASON_NO_MEMORY, sizeof(*d), 0, 0);
		return;
	}
	list_init(&d->waiters);
	list_init(&d->of_peer);
	timer_init(&d->timer, dial_timer);
	d->since = clock_ns();
	list_add_tail(&d->link, &c->dials);
	waiter_add(w, d, req);
	rc = dial_target(c, d, req);
	if (!rc && d->expected == c->config.incarnation) {
		dial_note_host(d, &d->hosts[0], -EINVAL, REASON_DIAL_SELF, 0);
		dial_fail(c, d);
	} else if (rc) {
		dial_note_target(d, rc);
		dial_fail(c, d);
	} else if (!d->job) {
		dial_start(c, d);
	}
}

void dial_req(struct control *c, struct control_req *req)
{
	struct waiter *w;
	struct dial *d;

	req->owner = NULL;
	if (c->ending) {
		req_answer(req, -ESHUTDOWN, REASON_CLOSING, 0, 0, 0);
		return;
	}
	if (!req->len || req->len > TARGET_MAX) {
		req_answer(req, -EINVAL, REASON_DIAL_LONG, req->len, TARGET_MAX, 0);
		return;
	}
	if (req->hello_len > HELLO_MAX) {
		req_answer(req, -EINVAL, REASON_NOTE_LEN, req->hello_len, HELLO_MAX, 0);
		return;
	}
	w = calloc(1, sizeof(*w));
	if (!w) {
		req_answer(req, -ENOMEM, REASON_NO_MEMORY, sizeof(*w), 0, 0);
		return;
	}
	d = dial_same(c, req);
	if (d)
		waiter_add(w, d, req);
	else
		dial_begin(c, w, req);
}

static const struct host *dial_waits_for(const struct dial *d)
{
	const struct host *h = NULL;
	uint32_t i;

	for (i = 0; i < d->nhosts; i++) {
		if (d->hosts[i].state == HOST_HELLO)
			return &d->hosts[i];
		if (d->hosts[i].state == HOST_CONNECTING || d->hosts[i].state == HOST_COALESCED)
			h = &d->hosts[i];
	}
	return h;
}

/* Records what the dial waited for when its deadline passed. */
static void dial_note_late(struct dial *d)
{
	const struct host *h = dial_waits_for(d);
	uint64_t at[3];

	if (d->peer) {
		addr_args(&d->peer->remote, 0, at);
		dial_note(d, -ETIMEDOUT,
			  d->peer->stage == STAGE_RAILS ? REASON_DIAL_RAIL : REASON_DIAL_ACCEPT,
			  at[0], at[1], at[2]);
	} else if (d->job) {
		dial_note(d, -ETIMEDOUT, REASON_DIAL_NAME_LATE, 0, 0, 0);
	} else if (h) {
		dial_note_host(d, h, -ETIMEDOUT,
			       h->state == HOST_HELLO ? REASON_DIAL_SILENT : REASON_DIAL,
			       ETIMEDOUT);
	} else {
		dial_note(d, -ETIMEDOUT, REASON_DIAL_OLD, 0, 0, 0);
	}
}

void dial_drop(struct control *c, struct control_req *req)
{
	struct waiter *w = req->owner;
	struct control_error error;
	struct dial *d;
	struct peer *p;

	if (!w)
		return;
	d = w->dial;
	p = d->peer;
	list_del(&w->link);
	free(w);
	dial_note_late(d);
	error = d->error;
	error.res = -ECANCELED;
	/* A handshake that served only this CONNECT ends with it, before the program is told. */
	if (list_empty(&d->waiters)) {
		dial_free(c, d);
		if (p && p->dialled && p->stage != STAGE_UP && list_empty(&p->dials))
			peer_down(c, p, -ECANCELED, REASON_CANCELLED, 0, 0);
	}
	req_answer_error(req, &error);
}

void dials_close(struct control *c)
{
	while (!list_empty(&c->dials)) {
		struct dial *d = list_first(&c->dials, struct dial, link);

		error_set(&d->error, -ESHUTDOWN, REASON_CLOSING, 0, 0, 0);
		dial_fail(c, d);
	}
}

void dial_resolved(struct control *c, struct msg *msg)
{
	struct job *job = container_of(msg, struct job, msg);
	struct dial *d = job->dial;
	uint64_t name[2];
	uint32_t i;

	if (d) {
		d->job = NULL;
		for (i = 0; i < job->n; i++)
			dial_add_host(d, &job->addr[i]);
		if (job->found > job->n)
			d->of_many = job->found < UINT16_MAX ? (uint16_t)job->found : UINT16_MAX;
		text_args(name, 2, d->target, d->target_len);
		if (!job->n)
			dial_note(d, job->error, REASON_DIAL_NAME, (uint64_t)(int64_t)job->gai,
				  name[0], name[1]);
		dial_start(c, d);
	}
	free(job);
}
