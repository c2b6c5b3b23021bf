/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared endpoints, for NICs that have few. Peers reach the target, which stays as long as the
 * device. This side reaches peers by the current initiator; a spare initiator is open. Each
 * initiator has a serial number. Before an ep uses one, two things must be known: its vector has
 * the peer's target (JOB_MEET), and the peer's target has its name (MESSAGE_SOURCE, confirmed by
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
 * next number (WAY_OWN). The peer then closes it too, and does not count failures of its own
 * operations.
 */
#include "backend/fabric_key.h"

#define QUEUE	 4096u	      /* completions */
/* Failures in a row after which an initiator retires: a failed chunk has one try left. */
#define ERRORS	 2u
#define DOUBT_NS NSEC_PER_SEC /* least time between two such retirements */
#define FULL_NS	 NSEC_PER_SEC /* longest time that it may accept and complete nothing */

static uint16_t slot_of(const struct fabric_device *d, const struct fabric_initiator *i)
{
	return (uint16_t)(i - d->initiators);
}

/* ---- address vectors: helper thread ---- */

static const struct fabric_name *name_find(const struct fabric_way *way, const uint8_t *name)
{
	struct list *pos;

	list_for_each(pos, &way->names) {
		const struct fabric_name *n = list_entry(pos, struct fabric_name, link);

		if (!memcmp(n->name, name, FABRIC_NAME))
			return n;
	}
	return NULL;
}

/* Adds the name to the vector unless it is there. 0 or -errno. */
static int name_take(struct fabric_way *way, struct fabric_name *n, const uint8_t *name)
{
	const struct fabric_name *same = name_find(way, name);
	int err = 0;

	if (same)
		n->addr = same->addr;
	else
		err = fabric_peer_add(way->av, name, &n->addr);
	if (err)
		return err;
	memcpy(n->name, name, FABRIC_NAME);
	list_add_tail(&n->link, &way->names);
	return 0;
}

/* If the provider does not remove it, it stays: it is not used again. */
static void name_put(struct fabric_way *way, struct fabric_name *n)
{
	if (list_empty(&n->link))
		return;
	list_del(&n->link);
	if (!name_find(way, n->name))
		fi_av_remove(way->av, &n->addr, 1, 0);
}

void fabric_shared_forget(struct fabric_way *way)
{
	while (!list_empty(&way->names))
		list_del(way->names.next);
}

/* ---- endpoints ---- */

int fabric_shared_spare(struct fabric_device *d, struct fabric_initiator *i)
{
	int err = fabric_way_close(&i->way); /* a failed try may have left an object busy */

	return err ? err : fabric_way_open(d, &i->way, QUEUE);
}

int fabric_shared_retire(struct fabric_initiator *i)
{
	return fabric_way_close(&i->way);
}

int fabric_shared_open(struct fabric_device *d)
{
	uint32_t k;
	int err;

	if (!d->shared)
		return 0;
	err = fabric_way_open(d, &d->target, QUEUE);
	for (k = 0; !err && k < 2; k++) {
		struct fabric_initiator *i = &d->initiators[k];

		err = fabric_way_open(d, &i->way, QUEUE);
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
		if (fabric_way_end(d, &d->initiators[k].way))
			return -EBUSY;
	return fabric_way_end(d, &d->target);
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

int fabric_shared_meets(struct fabric_ep *e)
{
	struct fabric_device *d = fabric_ep_device(e);
	uint32_t k, any = 0;

	if (!d->shared || !e->joined)
		return 0;
	for (k = 0; k < FABRIC_INITIATORS; k++) {
		const struct fabric_initiator *i = &d->initiators[k];
		struct fabric_acquaintance *a = &e->on[k];

		a->meets = i->state == INITIATOR_OPEN && a->met != i->serial ? i->serial : 0;
		any |= a->meets;
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

int fabric_shared_meet(struct fabric_device *d, struct fabric_ep *e)
{
	uint32_t proof = d->target.word_len - d->target.name_len, k;
	uint8_t target[FABRIC_NAME] = {0};
	int err = 0;

	memcpy(target, e->join_word, e->join_len - proof);
	for (k = 0; !err && k < FABRIC_INITIATORS; k++) {
		struct fabric_way *way = &d->initiators[k].way;

		if (!e->on[k].meets)
			continue;
		name_put(way, &e->on[k].target);
		err = name_take(way, &e->on[k].target, target);
	}
	if (err || !e->source)
		return err;
	name_put(&d->target, &e->source->known);
	return name_take(&d->target, &e->source->known, e->source_name);
}

void fabric_shared_met(struct fabric_ep *e)
{
	uint32_t k;

	for (k = 0; k < FABRIC_INITIATORS; k++)
		if (e->on[k].meets)
			e->on[k].met = e->on[k].meets;
	if (!e->source)
		return;
	e->source->taken = e->source_serial;
	e->wants |= WANT_SOURCE_KNOWN;
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
		name_put(&d->initiators[k].way, &e->on[k].target);
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

		if (is_unknown(e, k) &&
		    !fabric_say(e, MESSAGE_SOURCE, i->serial, i->way.word, i->way.name_len))
			return 0;
	}
	return 1;
}

static int say_known(struct fabric_ep *e)
{
	uint32_t k;

	for (k = 0; k < FABRIC_INITIATORS; k++)
		if (e->sources[k].taken &&
		    !fabric_say(e, MESSAGE_SOURCE_KNOWN, e->sources[k].taken, NULL, 0))
			return 0;
	return 1;
}

void fabric_shared_say(struct fabric_ep *e)
{
	if (e->wants & WANT_SOURCE && say_sources(e))
		e->wants &= ~(uint32_t)WANT_SOURCE;
	if (e->wants & WANT_SOURCE_KNOWN && say_known(e))
		e->wants &= ~(uint32_t)WANT_SOURCE_KNOWN;
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

int fabric_shared_hear(struct fabric_ep *e, uint32_t serial, const uint8_t *name, uint32_t len)
{
	struct fabric_device *d = fabric_ep_device(e);
	struct fabric_source *s = source_at(e, serial);

	if (!d->shared || !serial || !fabric_name_fits(d, name, len))
		return -EPROTO;
	if (s->serial == serial && s->taken == serial)
		e->wants |= WANT_SOURCE_KNOWN; /* the peer missed the confirmation */
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

struct fabric_way *fabric_shared_via(const struct fabric_ep *e, fi_addr_t *peer, uint16_t *slot)
{
	struct fabric_device *d = fabric_ep_device(e);
	struct fabric_initiator *i = d->current;
	const struct fabric_acquaintance *a;

	if (!i)
		return NULL;
	*slot = slot_of(d, i);
	a = &e->on[*slot];
	if (a->met != i->serial || a->known != i->serial)
		return NULL;
	*peer = a->target.addr;
	return &i->way;
}

/* ---- closing a data endpoint ---- */

int fabric_shared_is_own(const struct fabric_ep *e)
{
	return e->peer_number <= e->number && e->peer_leaves != e->number;
}

static void leaves(struct fabric_ep *e)
{
	fabric_ep_device(e)->leaving++;
	e->leave_ns = clock_ns() + (e->hurried ? 0 : DRAIN_NS);
	if (e->way_state == WAY_READY)
		e->way_state = WAY_LEAVES;
	/* Before the keys end: failures of the peer that follow must not count. */
	if (e->state == EP_UP && fabric_shared_is_own(e))
		e->wants |= WANT_LEAVES;
}

int fabric_shared_left(struct fabric_ep *e)
{
	struct fabric_device *d = fabric_ep_device(e);

	if (!d->shared)
		return 1;
	if (!e->leave_ns)
		leaves(e);
	if (e->ops_out || (e->wants & WANT_LEAVES && clock_ns() < e->leave_ns))
		return 0;
	d->leaving--;
	e->leave_ns = 0;
	e->hurried = 0;
	e->wants &= ~(uint32_t)WANT_LEAVES; /* otherwise it would be sent for the next one */
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

void fabric_shared_hurry(struct fabric_ep *e)
{
	if (fabric_ep_remakes(e))
		return;
	e->hurried = 1;
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
static void doubt(struct fabric_device *d)
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
		doubt(d);
}

void fabric_shared_failed(struct fabric_device *d, uint16_t slot)
{
	struct fabric_initiator *i = &d->initiators[slot];

	if (++i->errors >= ERRORS && i == d->current)
		doubt(d);
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
	struct list *pos;

	list_for_each(pos, &d->eps) {
		const struct fabric_ep *e = list_entry(pos, struct fabric_ep, all);

		if (e->on[slot].out && !e->leave_ns)
			return 1;
	}
	return 0;
}

static void close_if_due(struct fabric_device *d, struct fabric_initiator *i, uint64_t now)
{
	uint16_t slot = slot_of(d, i);
	struct list *pos;

	if (i->state != INITIATOR_RETIRES || (now < i->until_ns && is_used(d, slot)))
		return;
	list_for_each(pos, &d->eps) {
		struct fabric_ep *e = list_entry(pos, struct fabric_ep, all);

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
	struct list *pos;
	uint16_t slot;

	if (!d->current || !d->leaving)
		return 0;
	slot = slot_of(d, d->current);
	list_for_each(pos, &d->eps) {
		const struct fabric_ep *e = list_entry(pos, struct fabric_ep, all);

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

static void tick(struct fabric_device *d)
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
	struct list *pos, *tmp;

	i->state = i->job.res ? INITIATOR_NONE : INITIATOR_OPEN;
	if (i->job.res)
		d->spare_ns = clock_ns() + AGAIN_NS;
	else if (d->current)
		d->spare = i;
	else
		d->current = i;
	list_for_each_safe(pos, tmp, &d->eps) {
		struct fabric_ep *e = list_entry(pos, struct fabric_ep, all);

		if (!d->current && !is_awaited(d)) /* the close gives back an endpoint */
			fabric_ep_down(e, -EIO);
		else if (e->state == EP_UP)
			e->wants |= WANT_SOURCE;
		fabric_ep_step(e);
	}
}

static void closed(struct fabric_device *d, struct fabric_initiator *i)
{
	uint16_t slot = slot_of(d, i);
	struct list *pos, *tmp;

	i->state = INITIATOR_NONE;
	list_for_each_safe(pos, tmp, &d->eps) {
		struct fabric_ep *e = list_entry(pos, struct fabric_ep, all);

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
		if (is_looked_at(d, i) && fabric_move_read(d, &i->way)) {
			i->bad = 1;
			i->until_ns = 0;
		}
	}
	if (fabric_shared_waits(d))
		tick(d);
}

/* 1: an ep waits for something that the helper thread does not have, or for a message to leave. */
static int is_left(const struct fabric_device *d)
{
	struct list *pos;

	if (!d->leaving)
		return 0;
	list_for_each(pos, &d->eps) {
		const struct fabric_ep *e = list_entry(pos, struct fabric_ep, all);

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
		      int (*has)(struct fabric_device *d, struct fabric_way *way))
{
	uint32_t k;

	if (has(d, &d->target))
		return 1;
	for (k = 0; k < FABRIC_INITIATORS; k++)
		if (is_looked_at(d, &d->initiators[k]) && has(d, &d->initiators[k].way))
			return 1;
	return 0;
}
