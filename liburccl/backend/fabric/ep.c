/* SPDX-License-Identifier: Apache-2.0 */
/* An ep from its address to its end. Its address: lowest and highest version u8, bytes of the
 * message endpoint's name u8, bytes of the data endpoint's name and proof part u8, cookie [16],
 * then the two. */
#include <stdlib.h>
#include "backend/fabric/key.h"

struct ep_addr {
	uint8_t versions[EP_VERSIONS];
	uint8_t msg_len, endpoint_len;
	uint8_t cookie[FABRIC_COOKIE];
	uint8_t names[FABRIC_NAME + FABRIC_ADDRESS];
};

#define ADDR_HEAD offsetof(struct ep_addr, names)

_Static_assert(sizeof(struct ep_addr) <= EP_ADDR_MAX, "it fits");

/* ---- before the engine has it ---- */

static void slab_init(struct fabric_slab *slab)
{
	uint32_t i;

	for (i = 0; i < 2 * FABRIC_SLOTS; i++) {
		slab->slots[i].desc = slab->mr ? fi_mr_desc(slab->mr) : NULL;
		slab->slots[i].receives = i < FABRIC_SLOTS;
		list_init(&slab->slots[i].link);
	}
}

static int slab_open(struct fabric_device *d, struct fabric_slab **out)
{
	struct fabric_slab *slab = calloc(1, sizeof(*slab));
	int err;

	if (!slab)
		return -ENOMEM;
	if (d->mr_mode & FI_MR_LOCAL) {
		err = fabric_region_open(d, NULL, slab->slots, sizeof(slab->slots),
					 FI_SEND | FI_RECV, &slab->mr);
		if (err) {
			free(slab);
			return err;
		}
	}
	slab_init(slab);
	*out = slab;
	return 0;
}

void fabric_slab_close(struct fabric_device *d, struct fabric_slab *slab)
{
	/* Memory that the provider still uses is leaked. */
	if (slab && slab->mr && fabric_fid_end(d, &slab->mr->fid))
		return;
	free(slab);
}

static struct fabric_ep *ep_new(struct device *dev)
{
	struct fabric_ep *e = calloc(1, sizeof(*e));
	uint32_t i;

	if (!e)
		return NULL;
	e->spare = calloc(1, sizeof(*e->spare));
	if (!e->spare) {
		free(e);
		return NULL;
	}
	e->ep.dev = dev;
	list_init(&e->all);
	list_init(&e->telling);
	list_init(&e->send_queue);
	list_init(&e->sent_list);
	list_init(&e->grants);
	list_init(&e->keys);
	chunk_queue_init(&e->sends);
	chunk_queue_init(&e->urgent);
	chunk_queue_init(&e->bulk);
	chunk_queue_init(&e->unproved);
	e->resend_in = RESEND_NS;
	fabric_shared_init(e);
	for (i = 0; i < FABRIC_OPS; i++) {
		e->ops[i].next = e->free_ops;
		e->free_ops = &e->ops[i];
	}
	return e;
}

static void address_put(const struct fabric_device *d, const struct fabric_ep *e, void *addr,
			uint32_t *len)
{
	struct ep_addr a = {
		.versions = {fabric_version(d), fabric_version(d)},
		.msg_len = (uint8_t)d->msg.name_len,
		.endpoint_len = (uint8_t)e->endpoint.address_len,
	};

	memcpy(a.cookie, e->ours, sizeof(a.cookie));
	memcpy(a.names, d->msg.address, d->msg.name_len);
	memcpy(a.names + d->msg.name_len, e->endpoint.address, e->endpoint.address_len);
	*len = (uint32_t)ADDR_HEAD + d->msg.name_len + e->endpoint.address_len;
	memcpy(addr, &a, *len);
}

int fabric_ep_open(struct device *dev, struct ep **ep, void *addr, uint32_t *len)
{
	struct fabric_device *d = fabric_device(dev);
	int err = load_acquire(&d->dead);
	struct fabric_ep *e;

	if (err)
		return fail(-EIO, "libfabric: the endpoint for messages%s of %s failed: %s",
			    d->shared ? ", or that for peers' bytes," : "",
			    d->info->domain_attr->name, d->lib.strerror(-err));
	e = ep_new(dev);
	if (!e)
		return fail(-ENOMEM, "no memory for a connection's state");
	err = random_bytes(e->ours, sizeof(e->ours));
	if (!err)
		err = slab_open(d, &e->slab);
	if (err) {
		err = fail(err, "libfabric: no buffers for a connection: %s", errno_text(-err));
		goto free_ep;
	}
	err = fabric_endpoint_make(d, &e->endpoint);
	if (err)
		goto endpoint_close_own;
	e->endpoint_state = ENDPOINT_WAITS;
	address_put(d, e, addr, len);
	*ep = &e->ep;
	return 0;

endpoint_close_own:
	if (fabric_endpoint_end(d, &e->endpoint))
		return err;
	fabric_slab_close(d, e->slab);
free_ep:
	free(e->spare);
	free(e);
	return err;
}

void fabric_ep_free(struct ep *ep)
{
	struct fabric_ep *e = fabric_ep(ep);
	struct fabric_device *d = fabric_ep_device(e);

	while (!list_empty(&e->keys))
		fabric_key_free(e, list_first(&e->keys, struct fabric_key, link));
	if (fabric_endpoint_end(d, &e->endpoint))
		return; /* the provider may still use the memory: leak it */
	fabric_slab_close(d, e->slab);
	free(e->spare);
	free(e);
}

/* ---- by cookie ---- */

static uint32_t place_of(const uint8_t *cookie)
{
	return (cookie[0] | (uint32_t)cookie[1] << 8) % FABRIC_TABLE;
}

struct fabric_ep *fabric_ep_find(const struct fabric_device *d, const uint8_t *cookie)
{
	struct fabric_ep *e = d->table[place_of(cookie)];

	while (e && !equal_const_time(e->ours, cookie, FABRIC_COOKIE))
		e = e->same;
	return e;
}

static void table_add(struct fabric_device *d, struct fabric_ep *e)
{
	struct fabric_ep **at = &d->table[place_of(e->ours)];

	e->same = *at;
	*at = e;
}

static void table_remove(struct fabric_device *d, struct fabric_ep *e)
{
	struct fabric_ep **at = &d->table[place_of(e->ours)];

	while (*at != e)
		at = &(*at)->same;
	*at = e->same;
}

/* ---- data endpoint ---- */

static void job_post(struct fabric_ep *e, enum fabric_job type)
{
	struct fabric_device *d = fabric_ep_device(e);

	e->job.type = type;
	e->job.reply = &d->from_helper;
	e->job_out = 1;
	e->reads = (uint32_t)fabric_move_reads(e);
	if (type != JOB_INSERT)
		e->endpoint_state = ENDPOINT_JOB;
	mailbox_post(&d->to_helper, &e->job);
}

int fabric_ep_remakes(const struct fabric_ep *e)
{
	return e->job_out && e->job.type != JOB_JOIN && e->job.type != JOB_INSERT;
}

/* 1: tell the peer that we closed the data endpoint for a reason of our own. deadline_ns is set
 * after an earlier failure, which the peer may have caused: 0 then. With shared endpoints still 1,
 * since MESSAGE_LEAVES said so before. */
static int claims_own(const struct fabric_ep *e)
{
	return fabric_shared_is_own(e) && (fabric_ep_device(e)->shared || !e->deadline_ns);
}

/* Takes the next step of the data endpoint, unless the helper thread has it. */
static void endpoint_step(struct fabric_ep *e)
{
	if (e->job_out || e->ended)
		return;
	if (e->ending) {
		if (fabric_shared_left(e))
			job_post(e, JOB_END);
		return;
	}
	if (e->endpoint_state == ENDPOINT_CLOSED) {
		e->number = e->peer_number > e->number ? e->peer_number : e->number + 1;
		fabric_grants_close(e);
		job_post(e, JOB_OPEN);
		return;
	}
	if (e->broken || e->peer_number > e->number) {
		if (!fabric_shared_left(e))
			return;
		e->own = (uint32_t)claims_own(e);
		e->broken = 0;
		fabric_bound_leave(e);
		job_post(e, JOB_CLOSE);
		return;
	}
	if (e->endpoint_state == ENDPOINT_WAITS && e->peer_number == e->number) {
		memcpy(e->join_address, e->peer_address, sizeof(e->join_address));
		e->join_len = e->peer_len;
		job_post(e, JOB_JOIN);
		return;
	}
	if (fabric_shared_must_insert(e))
		job_post(e, JOB_INSERT);
}

void fabric_ep_step(struct fabric_ep *e)
{
	if (e->state != EP_NEW && e->state != EP_CLOSED)
		endpoint_step(e);
}

void fabric_ep_break(struct fabric_ep *e)
{
	if (e->state != EP_UP || fabric_ep_remakes(e))
		return;
	e->broken = 1;
	endpoint_step(e);
}

void fabric_ep_peer_endpoint(struct fabric_ep *e, uint32_t number, const void *address,
			     uint32_t len)
{
	uint32_t bare = number & ~NUMBER_LEFT;

	if (bare > NUMBER_MAX) {
		fabric_ep_down(e, -EPROTO);
		return;
	}
	/* The peer sent it again: it does not know that we joined. */
	if (bare == e->number && bare == e->peer_number && e->endpoint_state == ENDPOINT_READY)
		e->due |= DUE_JOINED;
	if (bare < e->number || bare <= e->peer_number || len > FABRIC_ADDRESS)
		return;
	e->peer_number = bare;
	e->peer_left = number != bare;
	e->peer_len = len;
	memset(e->peer_address, 0, sizeof(e->peer_address));
	memcpy(e->peer_address, address, len);
	endpoint_step(e);
}

static void joined(struct fabric_ep *e)
{
	e->endpoint_state = ENDPOINT_READY;
	if (e->state == EP_UP)
		e->deadline_ns = 0;
	if (e->joined) {
		e->due |= DUE_JOINED;
	} else {
		e->joined = 1;
		if (e->heard) {
			e->due |= DUE_HELLO;
			fabric_ep_up(e);
		}
	}
	e->due |= DUE_REVOKED;
}

static void end_done(struct fabric_ep *e)
{
	e->endpoint_state = ENDPOINT_CLOSED;
	e->ended = 1;
	if (e->state == EP_DOWN)
		fabric_report(e, NEWS_DOWN);
}

void fabric_ep_job_done(struct fabric_ep *e)
{
	int res = e->job.res;

	e->job_out = 0;
	if (e->job.type == JOB_CLOSE || e->job.type == JOB_END) {
		e->endpoints_closed++;
		fabric_bound_left(e);
		fabric_move_reclaim(e, 0);
		fabric_move_begin(e);
	}
	if (e->job.type == JOB_INSERT) {
		if (res)
			fabric_ep_down(e, res);
		else
			fabric_shared_inserted(e);
	} else if (e->job.type == JOB_END) {
		end_done(e);
	} else if (res) {
		e->endpoint_state = ENDPOINT_CLOSED;
		fabric_ep_down(e, res);
	} else if (e->job.type == JOB_CLOSE) {
		e->endpoint_state = ENDPOINT_CLOSED;
	} else if (e->job.type == JOB_JOIN) {
		joined(e);
	} else {
		e->endpoint_state = ENDPOINT_WAITS;
		e->due |= DUE_ENDPOINT;
	}
	endpoint_step(e);
}

/* ---- begin ---- */

static int parse_addr(const struct fabric_device *d, struct ep_addr *a, const void *addr,
		      uint32_t len)
{
	int err = ep_version_check(fabric_version(d), addr, len);

	if (err)
		return err;
	if (len < ADDR_HEAD || len > sizeof(*a))
		return -EINVAL;
	memset(a, 0, sizeof(*a));
	memcpy(a, addr, len);
	if (!a->msg_len || a->msg_len > FABRIC_NAME || !a->endpoint_len ||
	    a->endpoint_len > FABRIC_ADDRESS || len < ADDR_HEAD + a->msg_len + a->endpoint_len)
		return -EINVAL;
	/* A newer version may append fields that this one does not know. */
	if (a->versions[1] <= fabric_version(d) && len != ADDR_HEAD + a->msg_len + a->endpoint_len)
		return -EINVAL;
	return 0;
}

/* Repeated while connecting: the peer drops the first message as long as its engine lacks the ep.
 * Only the active side starts: two connections in opposite directions at once overload some
 * providers. */
static void say_hello(struct fabric_ep *e, uint64_t now)
{
	if (!e->active || !e->joined || now < e->hello_ns || !list_empty(&e->send_queue))
		return;
	e->hello_ns = now + HELLO_NS;
	e->due |= DUE_HELLO;
}

/* With a bond, the cookie in message headers is derived from it: a sender without the bond cannot
 * know it. */
static void cookies_set(struct fabric_ep *e, const struct ep_addr *a)
{
	uint8_t out[FABRIC_COOKIE];

	memcpy(e->theirs, a->cookie, sizeof(e->theirs));
	if (!e->ep.bonded)
		return;
	siphash128(e->ep.bond, e->ours, FABRIC_COOKIE, out);
	memcpy(e->ours, out, sizeof(out));
	siphash128(e->ep.bond, e->theirs, FABRIC_COOKIE, out);
	memcpy(e->theirs, out, sizeof(out));
}

static uint64_t connect_timeout(const struct fabric_device *d)
{
	uint64_t ns = d->dead_after_ms * NSEC_PER_MSEC;

	return ns < CONNECT_NS ? ns : CONNECT_NS;
}

int fabric_ep_connect(struct ep *ep, const void *addr, uint32_t len, int active,
		      const struct sockaddr_storage *via)
{
	struct fabric_ep *e = fabric_ep(ep);
	struct fabric_device *d = fabric_ep_device(e);
	uint8_t name[FABRIC_NAME] = {0};
	struct ep_addr a;
	int err = parse_addr(d, &a, addr, len);

	(void)via;
	if (!err && d->dead)
		err = -EIO;
	if (!err)
		err = fabric_name_error(d, a.names, a.msg_len);
	if (!err && !fabric_address_fits(d, a.names + a.msg_len, a.endpoint_len))
		err = -EINVAL;
	if (err)
		return err;
	cookies_set(e, &a);
	memcpy(name, a.names, a.msg_len);
	e->av_entry = fabric_av_get(d, name, &e->spare);
	memcpy(e->peer_address, a.names + a.msg_len, a.endpoint_len);
	e->peer_len = a.endpoint_len;
	e->number = e->peer_number = 1;
	e->state = EP_CONNECTING;
	e->active = active;
	e->deadline_ns = clock_ns() + connect_timeout(d);
	table_add(d, e);
	list_add_tail(&e->all, &d->eps);
	fabric_msg_add(d, e);
	endpoint_step(e);
	return 0;
}

/* Extends the deadline, and asks the peer for an answer meanwhile. */
static void put_off(struct fabric_ep *e, uint64_t now)
{
	e->deadline_ns = now + AGAIN_NS;
	e->answered = 0;
	e->due |= DUE_ANSWER;
}

void fabric_ep_fault(struct fabric_ep *e)
{
	uint64_t now = clock_ns();

	if (e->state == EP_UP && !e->deadline_ns) {
		e->again_ns = now + AGAIN_MAX_NS;
		put_off(e, now);
	}
	fabric_ep_break(e);
}

/* One helper thread opens the data endpoints of all eps one after the other, on each side: allow
 * for that. */
static void endpoint_is_late(struct fabric_ep *e, uint64_t now)
{
	if (now < e->again_ns && (e->job_out || e->answered))
		put_off(e, now);
	else
		fabric_ep_down(e, -EIO);
}

/* A message of the peer shows that it has joined our first data endpoint. */
void fabric_ep_up(struct fabric_ep *e)
{
	e->heard = 1;
	if (!e->peer_joined)
		e->peer_joined = 1;
	if (e->state != EP_CONNECTING || !e->joined)
		return;
	e->state = EP_UP;
	e->deadline_ns = 0;
	e->due |= fabric_ep_device(e)->shared ? DUE_SOURCE : 0;
	fabric_report(e, NEWS_UP);
}

/* ---- end ---- */

static void begin_end(struct fabric_ep *e, enum fabric_state state, int res)
{
	int says = e->joined && e->heard && res != -ECONNRESET;

	e->state = state;
	e->res = res;
	e->ending = 1;
	e->due = says ? DUE_BYE : 0;
	e->deadline_ns = clock_ns() + BYE_NS;
	fabric_msg_end(e);
	fabric_move_end(e);
	endpoint_step(e);
}

void fabric_ep_down(struct fabric_ep *e, int res)
{
	if (e->state == EP_CONNECTING || e->state == EP_UP)
		begin_end(e, EP_DOWN, res);
}

/* Only its memory is left. */
static void closed(struct fabric_ep *e)
{
	struct fabric_device *d = fabric_ep_device(e);

	fabric_msg_leave(e);
	e->state = EP_CLOSED;
	e->deadline_ns = 0;
	list_del(&e->all);
	/* An ep whose peer address was refused is not in the table. */
	if (e->av_entry) {
		table_remove(d, e);
		d->neps--;
		fabric_av_put(d, e->av_entry);
	}
	fabric_report(e, NEWS_CLOSED);
}

void fabric_ep_close(struct ep *ep)
{
	struct fabric_ep *e = fabric_ep(ep);

	if (e->state == EP_CLOSING || e->state == EP_CLOSED)
		return;
	e->news = 0;
	if (e->state == EP_NEW)
		list_add_tail(&e->all, &fabric_ep_device(e)->eps);
	if (e->state == EP_DOWN)
		e->state = EP_CLOSING;
	else
		begin_end(e, EP_CLOSING, -ECANCELED);
	fabric_ep_tick(e);
}

void fabric_ep_tick(struct fabric_ep *e)
{
	uint64_t now = e->deadline_ns ? clock_ns() : 0;
	int late = e->deadline_ns && now >= e->deadline_ns;

	if (e->state == EP_CONNECTING && late)
		fabric_ep_down(e, -ETIMEDOUT);
	if (e->state == EP_UP && late)
		endpoint_is_late(e, now);
	if (e->leave_ns)
		endpoint_step(e);
	fabric_msg_tick(e);
	if (e->state == EP_CONNECTING)
		say_hello(e, now);
	if (e->state == EP_CLOSING && e->ended && !e->keys_out &&
	    (late || (!e->bye_out && !e->due)))
		closed(e);
}
