/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared endpoints, for NICs that have few. Peers reach the target, which stays as long as the
 * device. This side reaches peers by the current initiator; a spare initiator is open. Each
 * initiator has a serial number. Before an ep uses one, two things must be known: its vector has
 * the peer's target (JOB_INSERT), and the peer's target has its name (MESSAGE_SOURCE, confirmed by
 * MESSAGE_SOURCE_KNOWN and repeated until then).
 *
 * When a data endpoint is closed, or its ep ends, nothing more is posted for it, and its operations
 * come back, most of them at once. If some do not within DRAIN_NS, or the deadline was shortened,
 * the current initiator retires and the spare replaces it. The old one is closed when the
 * operations of other eps on it are back, which ends those that are stuck. Then another spare is
 * opened. Operations that are not back after DRAIN_NS are dropped with it, and the data endpoints
 * of their eps break. They are posted again when their peers have made new keys, since the dropped
 * ones may land until then. An initiator also retires if its queue fails (at once), if all its
 * operations fail, or if it accepts and completes nothing for FULL_NS, as with peers that are
 * stopped.
 *
 * A failed operation may have used a key that the peer replaced meanwhile. A side that closes a
 * data endpoint for its own reason therefore says so before (MESSAGE_LEAVES), and again with the
 * next number (NUMBER_LEFT). The peer then closes it too, and does not count failures of its own
 * operations.
 */
#include "backend/fabric/key.h"

#define QUEUE 4096u /* completions */
/* Failures in a row after which an initiator retires: a failed chunk has one try left. */
#define ERRORS	 2u
#define DOUBT_NS NSEC_PER_SEC /* least time between two such retirements */
#define FULL_NS	 NSEC_PER_SEC /* longest time that it may accept and complete nothing */

static uint16_t initiator_slot(const struct fabric_device *d, const struct fabric_initiator *i)
{
	return (uint16_t)(i - d->initiators);
}

/* ---- address vectors: helper thread ---- */

static const struct fabric_name *name_find(const struct fabric_endpoint *endpoint,
					   const uint8_t *name)
{
	const struct fabric_name *n;

	list_for_each_entry(n, &endpoint->names, link) {
		if (!memcmp(n->name, name, FABRIC_NAME))
			return n;
	}
	return NULL;
}

/* Adds the name to the vector unless it is there. 0 or -errno. */
static int name_take(struct fabric_endpoint *endpoint, struct fabric_name *n, const uint8_t *name)
{
	const struct fabric_name *same = name_find(endpoint, name);
	int err = 0;

	if (same)
		n->addr = same->addr;
	else
		err = fabric_peer_add(endpoint->av, name, &n->addr);
	if (err)
		return err;
	memcpy(n->name, name, FABRIC_NAME);
	list_add_tail(&n->link, &endpoint->names);
	return 0;
}

/* If the provider does not remove it, it stays: it is not used again. */
static void name_put(struct fabric_endpoint *endpoint, struct fabric_name *n)
{
	if (list_empty(&n->link))
		return;
	list_del(&n->link);
	if (!name_find(endpoint, n->name))
		fi_av_remove(endpoint->av, &n->addr, 1, 0);
}

void fabric_shared_forget(struct fabric_endpoint *endpoint)
{
	while (!list_empty(&endpoint->names))
		list_del(endpoint->names.next);
}

/* ---- endpoints ---- */

int fabric_shared_spare(struct fabric_device *d, struct fabric_initiator *i)
{
	int err =
		fabric_endpoint_close(&i->endpoint); /* a failed try may have left an object busy */

	return err ? err : fabric_endpoint_open(d, &i->endpoint, QUEUE);
}

int fabric_shared_retire(struct fabric_initiator *i)
{
	return fabric_endpoint_close(&i->endpoint);
}

int fabric_shared_open(struct fabric_device *d)
{
	uint32_t k;
	int err;

	if (!d->shared)
		return 0;
	err = fabric_endpoint_open(d, &d->target, QUEUE);
	for (k = 0; !err && k < 2; k++) {
		struct fabric_initiator *i = &d->initiators[k];

		err = fabric_endpoint_open(d, &i->endpoint, QUEUE);
		i->state = INITIATOR_OPEN;
		i->serial = ++d->serial;
	}
	d->current = &d->initiators[0];
	d->spare = &d->initiators[1];
	return err;
}

int fabric_shared_close(struct fabric_device *d)
{
	uint32_t k;

	for (k = 0; k < FABRIC_INITIATORS; k++)
		if (fabric_endpoint_end(d, &d->initiators[k].endpoint))
			return -EBUSY;
	return fabric_endpoint_end(d, &d->target);
}

static void spare_open(struct fabric_device *d)
{
	struct fabric_initiator *i = NULL;
	uint32_t k;

	for (k = 0; k < FABRIC_INITIATORS; k++) {
		if (d->initiators[k].state == INITIATOR_OPENS)
			return;
		if (d->initiators[k].state == INITIATOR_NONE)
			i = &d->initiators[k];
	}
	if (d->spare || !i)
		return;
	d->spare_ns = 0;
	i->state = INITIATOR_OPENS;
	i->errors = i->bad = 0;
	i->full_ns = 0;
	i->serial = ++d->serial;
	i->job.type = JOB_SPARE;
	i->job.reply = &d->from_helper;
	mailbox_post(&d->to_helper, &i->job);
}

/* ---- names known to peers ---- */

int fabric_shared_must_insert(struct fabric_ep *e)
{
	struct fabric_device *d = fabric_ep_device(e);
	uint32_t k, any = 0;

	if (!d->shared || !e->joined)
		return 0;
	for (k = 0; k < FABRIC_INITIATORS; k++) {
		const struct fabric_initiator *i = &d->initiators[k];
		struct fabric_acquainted *a = &e->on[k];

		a->inserting =
			i->state == INITIATOR_OPEN && a->inserted != i->serial ? i->serial : 0;
		any |= a->inserting;
	}
	e->source = NULL;
	for (k = 0; k < FABRIC_INITIATORS && !e->source; k++)
		if (e->sources[k].taken != e->sources[k].serial)
			e->source = &e->sources[k];
	if (!e->source)
		return !!any;
	e->source_serial = e->source->serial;
	memcpy(e->source_name, e->source->name, sizeof(e->source_name));
	return 1;
}

int fabric_shared_insert(struct fabric_device *d, struct fabric_ep *e)
{
	uint32_t proof = d->target.address_len - d->target.name_len, k;
	uint8_t target[FABRIC_NAME] = {0};
	int err = 0;

	memcpy(target, e->join_address, e->join_len - proof);
	for (k = 0; !err && k < FABRIC_INITIATORS; k++) {
		struct fabric_endpoint *endpoint = &d->initiators[k].endpoint;

		if (!e->on[k].inserting)
			continue;
		name_put(endpoint, &e->on[k].target);
		err = name_take(endpoint, &e->on[k].target, target);
	}
	if (err || !e->source)
		return err;
	name_put(&d->target, &e->source->known);
	return name_take(&d->target, &e->source->known, e->source_name);
}

void fabric_shared_inserted(struct fabric_ep *e)
{
	uint32_t k;

	for (k = 0; k < FABRIC_INITIATORS; k++)
		if (e->on[k].inserting)
			e->on[k].inserted = e->on[k].inserting;
	if (!e->source)
		return;
	e->source->taken = e->source_serial;
	e->due |= DUE_SOURCE_KNOWN;
}

void fabric_shared_init(struct fabric_ep *e)
{
	uint32_t k;

	for (k = 0; k < FABRIC_INITIATORS; k++) {
		list_init(&e->on[k].target.link);
		list_init(&e->sources[k].known.link);
	}
}

void fabric_shared_part(struct fabric_device *d, struct fabric_ep *e)
{
	uint32_t k;

	for (k = 0; k < FABRIC_INITIATORS; k++) {
		name_put(&d->initiators[k].endpoint, &e->on[k].target);
		name_put(&d->target, &e->sources[k].known);
	}
}

static int is_unknown(const struct fabric_ep *e, uint32_t k)
{
	const struct fabric_initiator *i = &fabric_ep_device(e)->initiators[k];

	return i->state == INITIATOR_OPEN && e->on[k].known != i->serial;
}

int fabric_shared_awaits(const struct fabric_ep *e)
{
	uint32_t k;

	for (k = 0; fabric_ep_device(e)->shared && k < FABRIC_INITIATORS; k++)
		if (is_unknown(e, k))
			return 1;
	return 0;
}

static int say_sources(struct fabric_ep *e)
{
	struct fabric_device *d = fabric_ep_device(e);
	uint32_t k;

	for (k = 0; k < FABRIC_INITIATORS; k++) {
		const struct fabric_initiator *i = &d->initiators[k];

		if (is_unknown(e, k) && !fabric_send(e, MESSAGE_SOURCE, i->serial,
						     i->endpoint.address, i->endpoint.name_len))
			return 0;
	}
	return 1;
}

static int say_known(struct fabric_ep *e)
{
	uint32_t k;

	for (k = 0; k < FABRIC_INITIATORS; k++)
		if (e->sources[k].taken &&
		    !fabric_send(e, MESSAGE_SOURCE_KNOWN, e->sources[k].taken, NULL, 0))
			return 0;
	return 1;
}

void fabric_shared_send(struct fabric_ep *e)
{
	if (e->due & DUE_SOURCE && say_sources(e))
		e->due &= ~(uint32_t)DUE_SOURCE;
	if (e->due & DUE_SOURCE_KNOWN && say_known(e))
		e->due &= ~(uint32_t)DUE_SOURCE_KNOWN;
}

/* The place of this serial, or of the oldest one. */
static struct fabric_source *source_at(struct fabric_ep *e, uint32_t serial)
{
	struct fabric_source *s = &e->sources[0];
	uint32_t k;

	for (k = 0; k < FABRIC_INITIATORS; k++) {
		if (e->sources[k].serial == serial)
			return &e->sources[k];
		if (e->sources[k].serial < s->serial)
			s = &e->sources[k];
	}
	return s;
}

int fabric_shared_source_came(struct fabric_ep *e, uint32_t serial, const uint8_t *name,
			      uint32_t len)
{
	struct fabric_device *d = fabric_ep_device(e);
	struct fabric_source *s = source_at(e, serial);

	if (!d->shared || !serial || !fabric_name_fits(d, name, len))
		return -EPROTO;
	if (s->serial == serial && s->taken == serial)
		e->due |= DUE_SOURCE_KNOWN; /* the peer missed the confirmation */
	if (s->serial >= serial)
		return 0;
	s->serial = serial;
	memset(s->name, 0, sizeof(s->name));
	memcpy(s->name, name, len);
	fabric_ep_step(e);
	return 0;
}

int fabric_shared_knows(struct fabric_ep *e, uint32_t serial)
{
	struct fabric_device *d = fabric_ep_device(e);
	uint32_t k;

	if (!d->shared)
		return -EPROTO;
	for (k = 0; k < FABRIC_INITIATORS; k++)
		if (d->initiators[k].serial == serial)
			e->on[k].known = serial;
	return 0;
}

struct fabric_endpoint *fabric_shared_via(const struct fabric_ep *e, fi_addr_t *peer,
					  uint16_t *slot)
{
	struct fabric_device *d = fabric_ep_device(e);
	struct fabric_initiator *i = d->current;
	const struct fabric_acquainted *a;

	if (!i)
		return NULL;
	*slot = initiator_slot(d, i);
	a = &e->on[*slot];
	if (a->inserted != i->serial || a->known != i->serial)
		return NULL;
	*peer = a->target.addr;
	return &i->endpoint;
}

/* ---- closing a data endpoint ---- */

int fabric_shared_is_own(const struct fabric_ep *e)
{
	return e->peer_number <= e->number && e->peer_leaves != e->number;
}

static void leaves(struct fabric_ep *e)
{
	fabric_ep_device(e)->leaving++;
	e->leave_ns = clock_ns() + (e->no_wait ? 0 : DRAIN_NS);
	if (e->endpoint_state == ENDPOINT_READY)
		e->endpoint_state = ENDPOINT_LEAVES;
	/* Tell the peer before the keys end: it must not count the failures of its operations that
	 * follow. */
	if (e->state == EP_UP && fabric_shared_is_own(e))
		e->due |= DUE_LEAVES;
}

int fabric_shared_left(struct fabric_ep *e)
{
	struct fabric_device *d = fabric_ep_device(e);

	if (!d->shared)
		return 1;
	if (!e->leave_ns)
		leaves(e);
	if (e->ops_out || (e->due & DUE_LEAVES && clock_ns() < e->leave_ns))
		return 0;
	d->leaving--;
	e->leave_ns = 0;
	e->no_wait = 0;
	e->due &= ~(uint32_t)DUE_LEAVES; /* otherwise it would be sent for the next one */
	return 1;
}

int fabric_shared_leaves(struct fabric_ep *e, uint32_t number)
{
	if (!fabric_ep_device(e)->shared)
		return -EPROTO;
	if (number != e->number)
		return 0;
	e->peer_leaves = number;
	fabric_ep_break(e);
	return 0;
}

void fabric_shared_stop_waiting(struct fabric_ep *e)
{
	if (fabric_ep_remakes(e))
		return;
	e->no_wait = 1;
	if (e->leave_ns)
		e->leave_ns = 1;
}

/* Retires the current initiator. */
static void retire(struct fabric_device *d, uint64_t until)
{
	struct fabric_initiator *i = d->current;

	i->state = INITIATOR_RETIRES;
	i->until_ns = until;
	d->retiring = i;
	d->current = d->spare;
	d->spare = NULL;
}

/* Either the initiator is at fault, or a request of one peer: replace it, but not more often than
 * every DOUBT_NS. */
static void initiator_doubt(struct fabric_device *d)
{
	uint64_t now = clock_ns();

	if (!d->spare || d->retiring || now < d->doubt_ns)
		return;
	d->doubt_ns = now + DOUBT_NS;
	retire(d, now + DRAIN_NS);
}

void fabric_shared_refused(struct fabric_device *d, int err)
{
	int is_peers = err == FI_EKEYREJECTED || err == FI_ENOKEY || err == FI_EMSGSIZE;

	if (d->shared && !is_peers)
		initiator_doubt(d);
}

void fabric_shared_failed(struct fabric_device *d, uint16_t slot)
{
	struct fabric_initiator *i = &d->initiators[slot];

	if (++i->errors >= ERRORS && i == d->current)
		initiator_doubt(d);
}

void fabric_shared_full(struct fabric_device *d)
{
	if (d->shared && d->current && !d->current->full_ns)
		d->current->full_ns = clock_ns();
}

uint32_t fabric_shared_out(const struct fabric_device *d, uint16_t slot)
{
	struct list *pos;
	uint32_t n = 0;

	list_for_each(pos, &d->eps)
		n += list_entry(pos, struct fabric_ep, all)->on[slot].out;
	return n;
}

/* 1: it has operations of an ep that is not closing. */
static int is_used(const struct fabric_device *d, uint16_t slot)
{
	const struct fabric_ep *e;

	list_for_each_entry(e, &d->eps, all) {
		if (e->on[slot].out && !e->leave_ns)
			return 1;
	}
	return 0;
}

static void close_if_due(struct fabric_device *d, struct fabric_initiator *i, uint64_t now)
{
	uint16_t slot = initiator_slot(d, i);
	struct fabric_ep *e;

	if (i->state != INITIATOR_RETIRES || (now < i->until_ns && is_used(d, slot)))
		return;
	list_for_each_entry(e, &d->eps, all) {
		if (e->on[slot].out && !e->leave_ns)
			fabric_ep_break(e);
	}
	i->state = INITIATOR_CLOSES;
	d->retiring = NULL;
	i->job.type = JOB_RETIRE;
	i->job.reply = &d->from_helper;
	mailbox_post(&d->to_helper, &i->job);
	spare_open(d);
}

/* 1: an operation that should have ended by then is on the current initiator. */
static int is_stuck(const struct fabric_device *d, uint64_t now)
{
	const struct fabric_ep *e;
	uint16_t slot;

	if (!d->current || !d->leaving)
		return 0;
	slot = initiator_slot(d, d->current);
	list_for_each_entry(e, &d->eps, all) {
		if (e->leave_ns && now >= e->leave_ns && e->on[slot].out)
			return 1;
	}
	return 0;
}

/* 1: the current initiator must be replaced. *until: how long operations of others are waited
 * for. */
static int is_over(const struct fabric_device *d, uint64_t now, uint64_t *until)
{
	const struct fabric_initiator *i = d->current;

	*until = now + DRAIN_NS;
	if (!i)
		return 0;
	if (i->bad)
		*until = 0;
	return i->bad || (i->full_ns && now - i->full_ns >= FULL_NS) || is_stuck(d, now);
}

static void initiators_tick(struct fabric_device *d)
{
	uint64_t now = clock_ns(), until;

	if (d->retiring)
		close_if_due(d, d->retiring, now);
	else if ((d->spare || d->spare_ns) && is_over(d, now, &until))
		retire(d, until);
	if (d->spare_ns && now >= d->spare_ns)
		spare_open(d);
}

/* ---- results of the helper thread ---- */

/* 1: one is being closed. */
static int is_awaited(const struct fabric_device *d)
{
	uint32_t k;

	for (k = 0; k < FABRIC_INITIATORS; k++)
		if (d->initiators[k].state == INITIATOR_RETIRES ||
		    d->initiators[k].state == INITIATOR_CLOSES)
			return 1;
	return 0;
}

static void opened(struct fabric_device *d, struct fabric_initiator *i)
{
	struct fabric_ep *e;

	i->state = i->job.res ? INITIATOR_NONE : INITIATOR_OPEN;
	if (i->job.res)
		d->spare_ns = clock_ns() + AGAIN_NS;
	else if (d->current)
		d->spare = i;
	else
		d->current = i;
	list_for_each_entry_safe(e, &d->eps, all) {
		if (!d->current && !is_awaited(d)) /* the close gives back an endpoint */
			fabric_ep_down(e, -EIO);
		else if (e->state == EP_UP)
			e->due |= DUE_SOURCE;
		fabric_ep_step(e);
	}
}

static void closed(struct fabric_device *d, struct fabric_initiator *i)
{
	uint16_t slot = initiator_slot(d, i);
	struct fabric_ep *e;

	i->state = INITIATOR_NONE;
	list_for_each_entry_safe(e, &d->eps, all) {
		if (e->on[slot].out)
			fabric_move_reclaim(e, slot);
		fabric_ep_step(e);
	}
}

void fabric_shared_job_done(struct fabric_device *d, struct fabric_initiator *i)
{
	if (i->job.type == JOB_SPARE)
		opened(d, i);
	else
		closed(d, i);
	if (!i->job.res)
		spare_open(d);
}

/* ---- poll ---- */

/* No completion of ours comes there, but polling lets the peers' operations progress. */
static int target_read(struct fabric_device *d)
{
	struct fi_cq_err_entry err = {0};
	struct fi_cq_msg_entry entry;
	ssize_t n = fi_cq_read(d->target.cq, &entry, 1);

	if (n == -FI_EAVAIL)
		n = fi_cq_readerr(d->target.cq, &err, 0);
	return n < 0 && n != -FI_EAGAIN ? (int)n : 0;
}

static int is_looked_at(const struct fabric_device *d, const struct fabric_initiator *i)
{
	return i->state == INITIATOR_RETIRES || (i->state == INITIATOR_OPEN && i == d->current);
}

void fabric_shared_poll(struct fabric_device *d)
{
	uint32_t k;
	int err = target_read(d);

	if (err && !d->dead)
		store_release(&d->dead, err);
	for (k = 0; k < FABRIC_INITIATORS; k++) {
		struct fabric_initiator *i = &d->initiators[k];

		/* The queue has failed, or reports an error without an operation. */
		if (is_looked_at(d, i) && fabric_move_read(d, &i->endpoint)) {
			i->bad = 1;
			i->until_ns = 0;
		}
	}
	if (fabric_shared_waits(d))
		initiators_tick(d);
}

/* 1: an ep that is leaving waits for its next step, or for operations that may be stuck. */
static int is_left(const struct fabric_device *d)
{
	const struct fabric_ep *e;

	if (!d->leaving)
		return 0;
	list_for_each_entry(e, &d->eps, all) {
		if (e->leave_ns && !e->ops_out)
			return 1;
	}
	return is_stuck(d, NEVER_NS);
}

int fabric_shared_waits(const struct fabric_device *d)
{
	const struct fabric_initiator *i = d->current;

	return d->retiring || d->spare_ns || (i && (i->bad || i->full_ns)) || is_left(d);
}

int fabric_shared_has(struct fabric_device *d,
		      int (*has)(struct fabric_device *d, struct fabric_endpoint *endpoint))
{
	uint32_t k;

	if (has(d, &d->target))
		return 1;
	for (k = 0; k < FABRIC_INITIATORS; k++)
		if (is_looked_at(d, &d->initiators[k]) && has(d, &d->initiators[k].endpoint))
			return 1;
	return 0;
}
