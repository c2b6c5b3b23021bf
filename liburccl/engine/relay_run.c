/* SPDX-License-Identifier: Apache-2.0 */
/* The relay: gives runs of slots to peers and takes them back, and gets the keys of peers' runs. */
#include <stdlib.h>
#include "engine/op.h"
#include "engine/peer.h"

#define RUN_NUMBERS ((1u << 30) - 1)
#define LEAVING_NS  (100 * NSEC_PER_MSEC) /* as long as a peer has to answer a REVOKE */

/* ---- runs of this side ---- */

int relays_open(struct engine *e, uint8_t *half, uint32_t nslots, uint8_t *reads, uint32_t nreads)
{
	struct relays *all = &e->relays;
	uint32_t i;

	all->nruns = nslots / RELAY_RUN;
	all->runs = calloc(all->nruns, sizeof(*all->runs));
	all->reads = calloc(nreads, sizeof(uint8_t *));
	if (!all->runs || !all->reads)
		return -ENOMEM;
	all->base = half;
	for (i = 0; i < all->nruns; i++)
		list_add_tail(&all->runs[i].link, &all->free_runs);
	for (i = 0; i < nreads; i++)
		all->reads[i] = reads + (size_t)i * SLOT_BYTES;
	all->nreads = nreads;
	return 0;
}

void relays_init(struct relays *all)
{
	list_init(&all->active);
	list_init(&all->free_runs);
}

void relays_close(struct relays *all)
{
	free(all->runs);
	free(all->reads);
}

/* The offset of the run in the staging memory. */
static uint64_t run_off(const struct engine *e, const struct run *run)
{
	return (uint64_t)(run - e->relays.runs) * RELAY_RUN * SLOT_BYTES;
}

static void run_publish(struct engine *e, struct engine_peer *p, const struct run *run)
{
	uint64_t index = run ? (uint64_t)(run - e->relays.runs) + 1 : 0;

	store_release(&p->run_public, run ? (uint64_t)run->number << 32 | index : 0);
}

uint32_t engine_peer_run(const struct engine_peer *p, uint64_t *off)
{
	uint64_t stats = load_acquire(&p->run_public);

	*off = ((stats & UINT32_MAX) - 1) * RELAY_RUN * SLOT_BYTES;
	return (uint32_t)(stats >> 32);
}

static struct run *run_take(struct engine *e, struct relay *r)
{
	struct relays *all = &e->relays;
	struct run *run;

	if (list_empty(&all->free_runs)) {
		all->wanting++;
		return NULL;
	}
	run = list_first(&all->free_runs, struct run, link);
	list_del(&run->link);
	run->peer = r->peer;
	all->number = all->number % RUN_NUMBERS + 1;
	run->number = all->number;
	run->uses = run->used = run->leaving = 0;
	r->run = run;
	run_publish(e, r->peer, run);
	return run;
}

void run_give_back(struct engine *e, struct relay *r)
{
	struct run *run = r->run;

	if (!run)
		return;
	run_publish(e, r->peer, NULL);
	r->run = NULL;
	run->peer = NULL;
	list_add_tail(&run->link, &e->relays.free_runs);
}

/* A context without regions of GPU memory has no staging memory until it first needs it. */
static void memory_request(struct engine *e)
{
	struct relays *all = &e->relays;

	if (all->stage_out)
		return;
	all->stage_out = 1;
	all->stage = (struct control_req){.msg = {.type = CONTROL_STAGE, .reply = &e->mailbox}};
	control_ask(e, &all->stage);
}

int run_slot_take(struct engine *e, struct engine_peer *p, uint8_t **bytes)
{
	struct run *run = p->relay->run;
	uint32_t i;

	if (!e->stage.memory) {
		memory_request(e);
		return -1;
	}
	if (!run)
		run = run_take(e, p->relay);
	if (!run || run->leaving || (e->relays.wanted && run->uses >= RUN_USES))
		return -1;
	for (i = 0; i < RELAY_RUN && run->used >> i & 1;)
		i++;
	if (i == RELAY_RUN)
		return -1;
	run->used |= (uint8_t)(1u << i);
	run->uses++;
	*bytes = e->relays.base + run_off(e, run) + (size_t)i * SLOT_BYTES;
	return (int)i;
}

void run_slot_free(struct relay *r, uint32_t slot)
{
	if (r->run)
		r->run->used &= (uint8_t) ~(1u << slot);
}

/* Other peers wait: takes runs from peers that do not use theirs, or that have used it for long. */
void runs_take_back(struct engine *e)
{
	struct relays *all = &e->relays;
	uint32_t i, n = all->wanted;

	for (i = 0; i < all->nruns && n; i++) {
		struct run *run = &all->runs[i];
		struct relay *r = run->peer ? run->peer->relay : NULL;

		if (!r || run->peer->state > PEER_UP || (run->used && !run->leaving))
			continue;
		if (!run->leaving && run->uses < RUN_USES && !list_empty(&r->link))
			continue;
		/* A peer that does not answer keeps no other run from being taken back. */
		n -= !run->leaving || e->now < run->leaving_ns + LEAVING_NS;
		if (run->leaving)
			continue;
		run->leaving = 1;
		run->leaving_ns = e->now;
		run_publish(e, r->peer, NULL); /* the peer gets no more keys of the run */
		peer_awaited(e, r->peer);
		r->end_out = 1;
		r->end =
			(struct control_req){.msg = {.type = CONTROL_RUN_END, .reply = &e->mailbox},
					     .handle = r->peer->handle,
					     .arg = {run_off(e, run)}};
		control_ask(e, &r->end);
	}
}

/* ---- the run of a peer ---- */

static void source_ask(struct engine *e, struct relay *r, enum control_req_type type,
		       uint32_t handle, uint32_t run)
{
	r->ask_out = 1;
	r->ask = (struct control_req){.msg = {.type = type, .reply = &e->mailbox},
				      .handle = handle,
				      .arg = {run}};
	control_ask(e, &r->ask);
}

/* The remote for the peer's run of this number. NULL: not yet, or never: *res says why. */
static struct engine_remote *source(struct engine *e, struct relay *r, uint32_t run, int *res)
{
	struct engine_remote *old = r->source;

	if (r->ask_out)
		return NULL;
	/* Numbers grow: a peer that names an older run breaks the protocol. */
	if (r->source_last && ((run - r->source_last) & RUN_NUMBERS) > RUN_NUMBERS / 2) {
		*res = -EREMOTEIO;
		return NULL;
	}
	r->source_last = run;
	if (r->source_run == run) {
		*res = old && !old->failed ? 0 : -EREMOTEIO;
		r->source_run = old ? run : 0;
		return *res ? NULL : old;
	}
	r->source = NULL;
	r->source_run = old ? 0 : run;
	if (old)
		source_ask(e, r, CONTROL_RUN_FORGET, old->handle, 0);
	else
		source_ask(e, r, CONTROL_RUN, r->peer->handle, run);
	return NULL;
}

const struct rkey *relay_key(struct engine_peer *p, uint32_t run, int *res)
{
	struct relay *r = p->relay;
	struct engine_remote *remote = source(p->engine, r, run, res);
	uint32_t number;

	if (!remote || !p->rail)
		return NULL;
	number = p->rail->number;
	if (remote->parts[0].rails >> number & 1) {
		struct rkey *key = &remote->rail_keys[number][0].key;

		r->source_tries = 0;
		key->run = 1;
		/* A run is memory of the host. A peer that says otherwise breaks the protocol. */
		*res = key->relay || key->gpu ? -EREMOTEIO : 0;
		return *res ? NULL : key;
	}
	if (!remote->asked && ++r->source_tries >= RELAY_TRIES)
		*res = -EREMOTEIO;
	else
		remote_ask(remote);
	return NULL;
}

int relay_lacks_key(const struct relay *r)
{
	const struct engine_peer *p = r->peer;

	return r->source && p->rail && p->rail->up &&
	       !(r->source->parts[0].rails >> p->rail->number & 1);
}

int relay_source_busy(const struct engine_remote *remote)
{
	const struct relay *r = remote->peer->relay;
	uint32_t i;

	for (i = 0; r && i < RELAY_WINDOW; i++) {
		const struct relay_record *rec = &r->records[i];
		const struct relay_slot *s = &r->slots[i];

		if (rec->used && rec->state == RECORD_READS &&
		    key_of(rec->read.key)->remote == remote)
			return 1;
		if (s->chunk && s->state == RELAY_READING &&
		    key_of(s->chunk->key)->remote == remote)
			return 1;
	}
	return 0;
}

/* ---- requests that are back ---- */

void relay_ask_back(struct engine *e, struct control_req *req)
{
	struct relay *r = container_of(req, struct relay, ask);

	r->ask_out = 0;
	if (req->msg.type == CONTROL_RUN && !req->msg.res)
		r->source = remote_get(e, req->handle);
	relay_kick(e, r);
}

/* -ECONNRESET: the peer is lost, and relay_reset() gives the run back. */
void relay_end_back(struct engine *e, struct control_req *req)
{
	struct relay *r = container_of(req, struct relay, end);

	r->end_out = 0;
	if (!req->msg.res)
		run_give_back(e, r);
	relay_kick(e, r);
}
