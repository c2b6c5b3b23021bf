/* SPDX-License-Identifier: Apache-2.0 */
/* An engine with a ring and a peer, and no library around them: the test is the program, the
 * control thread, and a device with rails to that peer that keeps what it takes until the test lets
 * it out. */
#ifndef ENGINE_RIG_H
#define ENGINE_RIG_H

#include <stdlib.h>

#include "engine/post.h"
#include "ring_rig.h"

/* Handles of the peer, of the region, and of remotes from it on. */
#define RIG_PEER    (HANDLE_OF_KIND(HANDLE_PEER) | 1u << HANDLE_SLOT_BITS)
#define RIG_REGION  (HANDLE_OF_KIND(HANDLE_REGION) | 1u << HANDLE_SLOT_BITS)
#define RIG_REMOTE  (HANDLE_OF_KIND(HANDLE_REMOTE) | 1u << HANDLE_SLOT_BITS)
#define RIG_RAILS   2u
#define RIG_REMOTES 2u
#define RIG_BYTES   (256u << 10) /* of the region, and of each remote */
#define RIG_CHUNKS  8192u
#define RIG_EVENTS  2048u
#define RIG_TURNS   64u /* more than anything here takes */

struct engine_rig {
	struct urccl_params params;
	struct mailbox control, back, home;
	struct engine *e;
	struct ring *r;
	struct engine_ring *er;
	struct device dev, *devices[1];
	struct memory *memory;
	uint8_t *bytes;
	struct engine_peer *peer;
	struct engine_remote *remote[RIG_REMOTES];
	struct ep ep[RIG_RAILS];
	struct rail rail[RIG_RAILS];
	uint32_t closed[RIG_RAILS];	 /* by the engine */
	struct chunk *taken[RIG_CHUNKS]; /* oldest first */
	uint32_t ntaken, nevents;
	uint64_t next_ns;
	uint32_t hung;			 /* 1: it is deaf to being asked for what it took; */
	uint32_t stuck;			 /* 1: and keeps it when an ep is closed, which never is */
	struct event events[RIG_EVENTS]; /* for the next polls */
};

/* ---- the device ---- */

static inline struct engine_rig *rig_of(struct device *dev)
{
	return container_of(dev, struct engine_rig, dev);
}

static inline uint32_t rig_number(const struct engine_rig *rig, const struct ep *ep)
{
	return (uint32_t)(ep - rig->ep);
}

static inline void rig_event(struct engine_rig *rig, struct event ev)
{
	CHECK(rig->nevents < RIG_EVENTS);
	rig->events[rig->nevents++] = ev;
	rig->next_ns = 0; /* a simulated clock stands still for it */
}

/* The i-th of those that it has comes out. */
static inline void rig_out(struct engine_rig *rig, uint32_t i, int32_t res, uint8_t flags)
{
	struct chunk *c = rig->taken[i];

	CHECK(i < rig->ntaken);
	memmove(&rig->taken[i], &rig->taken[i + 1], (--rig->ntaken - i) * sizeof(rig->taken[0]));
	c->res = res;
	c->flags |= flags;
	rig_event(rig, (struct event){.type = EVENT_CHUNK, .chunk = c});
}

/* That it has. */
static inline uint64_t rig_bytes_taken(const struct engine_rig *rig)
{
	uint64_t n = 0;
	uint32_t i;

	for (i = 0; i < rig->ntaken; i++)
		n += rig->taken[i]->len;
	return n;
}

static inline uint32_t rig_post(struct ep *ep, struct chunk **chunks, uint32_t n)
{
	struct engine_rig *rig = rig_of(ep->dev);
	uint32_t i;

	CHECK(!rig->closed[rig_number(rig, ep)]);
	for (i = 0; i < n && rig->ntaken < RIG_CHUNKS; i++) {
		CHECK(chunks[i]->ep == ep);
		chunks[i]->flags &= CHUNK_ACKED; /* it may have been out before */
		rig->taken[rig->ntaken++] = chunks[i];
	}
	return i;
}

static inline void rig_cancel(struct chunk *c, enum cancel_how how)
{
	struct engine_rig *rig = rig_of(c->ep->dev);
	uint32_t i;

	(void)how;
	for (i = 0; i < rig->ntaken && !rig->hung; i++)
		if (rig->taken[i] == c)
			rig_out(rig, i, -ECANCELED, CHUNK_QUIET);
}

static inline uint32_t rig_poll(struct device *dev, struct event *events, uint32_t n)
{
	struct engine_rig *rig = rig_of(dev);

	n = n < rig->nevents ? n : rig->nevents;
	memcpy(events, rig->events, n * sizeof(events[0]));
	rig->nevents -= n;
	memmove(rig->events, rig->events + n, rig->nevents * sizeof(events[0]));
	if (!rig->nevents)
		rig->next_ns = NEVER_NS;
	return n;
}

/* It is, with what it still has. */
static inline void rig_closed(struct engine_rig *rig, struct ep *ep)
{
	uint32_t i;

	for (i = rig->ntaken; i-- > 0;)
		if (rig->taken[i]->ep == ep)
			rig_out(rig, i, -ECONNRESET, CHUNK_FAILOVER);
	rig_event(rig, (struct event){.type = EVENT_CLOSED, .ep = ep});
}

static inline void rig_ep_close(struct ep *ep)
{
	struct engine_rig *rig = rig_of(ep->dev);

	rig->closed[rig_number(rig, ep)] = 1;
	if (!rig->stuck)
		rig_closed(rig, ep);
}

static inline int rig_ep_connect(struct ep *ep, const void *addr, uint32_t len, int active,
				 const struct sockaddr_storage *via)
{
	(void)addr, (void)len, (void)active, (void)via;
	rig_event(rig_of(ep->dev), (struct event){.type = EVENT_UP, .ep = ep});
	return 0;
}

static inline int rig_import(struct ep *ep, const void *key, uint32_t key_len, uint64_t len,
			     struct rkey *rkey)
{
	(void)ep, (void)key, (void)key_len, (void)len;
	*rkey = (struct rkey){.v = {1}};
	return 0;
}

static inline void rig_forget(struct ep *ep, struct rkey *rkey)
{
	(void)ep;
	rkey->v[0] = 0;
}

static inline int rig_arm(struct device *dev)
{
	return rig_of(dev)->nevents != 0;
}

/* Of a copy of rig_backend that exposes memory: keys of a byte. */
static inline int rig_expose(struct exposure *x, void *key, uint32_t key_max)
{
	(void)x;
	CHECK_GE(key_max, 1);
	memset(key, 0, 1);
	return 1;
}

static inline struct clock *rig_clock(struct device *dev, uint64_t *next_ns)
{
	*next_ns = rig_of(dev)->next_ns;
	return NULL;
}

static const struct backend rig_backend = {
	.name = "rig",
	.transport = URCCL_TRANSPORT_SIM,
	.chunk_bytes = 64u << 10,
	.ep_connect = rig_ep_connect,
	.ep_close = rig_ep_close,
	.import = rig_import,
	.forget = rig_forget,
	.clock = rig_clock,
	.post = rig_post,
	.cancel = rig_cancel,
	.poll = rig_poll,
	.arm = rig_arm,
};

/* ---- the control thread ---- */

/* What the engine asks for comes back as it went. */
static inline void rig_answer(struct engine_rig *rig)
{
	struct msg *m = mailbox_take(&rig->control), *next;

	for (; m; m = next) {
		next = m->next;
		msg_reply(m, 0);
	}
}

/* A turn of the engine, and all that follows of it by itself. */
static inline void rig_turns(struct engine_rig *rig)
{
	uint32_t i;

	for (i = 0; i < 4 || (rig->nevents && i < RIG_TURNS); i++) {
		engine_drive(rig->e);
		rig_answer(rig);
	}
}

static inline void rig_send(struct engine_rig *rig, struct engine_cmd *cmd,
			    enum engine_cmd_type type)
{
	cmd->msg = (struct msg){.type = type, .reply = &rig->back};
	mailbox_post(engine_mailbox(rig->e), &cmd->msg);
}

/* One is out, and comes back now. */
static inline int32_t rig_returns(struct engine_rig *rig, const struct engine_cmd *cmd)
{
	const struct msg *m = NULL;
	uint32_t i;

	for (i = 0; i < RIG_TURNS && !m; i++) {
		rig_turns(rig);
		m = mailbox_take(&rig->back);
	}
	CHECK(m == &cmd->msg && !m->next);
	return m->res;
}

static inline void rig_command(struct engine_rig *rig, struct engine_cmd *cmd,
			       enum engine_cmd_type type)
{
	rig_send(rig, cmd, type);
	CHECK_EQ(rig_returns(rig, cmd), 0);
}

/* ---- life ---- */

/* Moves a simulated clock, so that no time passes but what the test lets pass. */
static inline void rig_clock_add(struct clock *clock, uint64_t ns)
{
	pthread_mutex_lock(&clock->lock);
	store_release(&clock->now, clock->now + ns);
	pthread_mutex_unlock(&clock->lock);
}

/* The clock: NULL for the real one. The fd tells of the device; -1: it is polled on a timer. */
static inline void rig_engine_open_by(struct engine_rig *rig, struct clock *clock, int fd,
				      uint32_t entries, uint32_t event_slots)
{
	struct engine_config config = {.params = &rig->params,
				       .control = &rig->control,
				       .devices = rig->devices,
				       .ndevices = 1,
				       .is_inline = 1,
				       .incarnation = 1,
				       .left_out = "",
				       .clock = clock};
	struct engine_cmd cmd = {0};

	memset(rig, 0, sizeof(*rig));
	rig->params.size = sizeof(rig->params);
	urccl_params_init(&rig->params);
	mailbox_init(&rig->control, wake_open());
	mailbox_init(&rig->back, wake_open());
	rig->dev = (struct device){.ops = &rig_backend, .fd = fd, .caps = CAP_FAILOVER};
	rig->next_ns = NEVER_NS;
	rig->devices[0] = &rig->dev;
	CHECK_EQ(engine_open(&config, &rig->e), 0);
	rig->r = rig_open(entries, event_slots, URCCL_RING_INLINE, &rig->home);
	CHECK_EQ(engine_ring_new(rig->e, rig->r, &rig->er), 0);
	cmd.ring = rig->er;
	rig_command(rig, &cmd, ENGINE_RING_ADD);
	rig->bytes = calloc(1, RIG_BYTES);
	rig->memory = calloc(1, sizeof(*rig->memory) + sizeof(rig->memory->spans[0]));
	CHECK(rig->bytes && rig->memory);
	rig->memory->handle = RIG_REGION;
	rig->memory->len = RIG_BYTES;
	rig->memory->nspans = 1;
	rig->memory->spans[0] =
		(struct span){.len = RIG_BYTES, .addr = (uintptr_t)rig->bytes, .fd = -1};
	cmd = (struct engine_cmd){.memory = rig->memory};
	rig_command(rig, &cmd, ENGINE_REGION_ADD);
}

static inline void rig_engine_open(struct engine_rig *rig, uint32_t entries, uint32_t event_slots)
{
	rig_engine_open_by(rig, NULL, -1, entries, event_slots);
}

static inline void rig_engine_close(struct engine_rig *rig)
{
	struct engine_cmd cmd = {.memory = rig->memory};

	rig_command(rig, &cmd, ENGINE_REGION_DEL);
	cmd = (struct engine_cmd){.ring = rig->er};
	rig_command(rig, &cmd, ENGINE_RING_DEL);
	engine_ring_free(rig->er);
	rig_close(rig->r);
	engine_close(rig->e);
	free(rig->memory);
	free(rig->bytes);
	close(rig->control.fd);
	close(rig->back.fd);
}

static inline void rig_rail_open(struct engine_rig *rig, uint32_t number)
{
	struct engine_cmd cmd = {.peer = rig->peer, .rail = &rig->rail[number]};

	rig->closed[number] = 0;
	rig->ep[number] = (struct ep){.dev = &rig->dev};
	rig->rail[number] = (struct rail){.ep = &rig->ep[number], .number = number, .active = 1};
	rig_command(rig, &cmd, ENGINE_RAIL_CONNECT);
}

/* The rail has a key for the remote from now on. */
static inline void rig_key(struct engine_rig *rig, uint32_t remote, uint32_t number)
{
	uint64_t key = 0;
	struct engine_cmd cmd = {.remote = rig->remote[remote],
				 .rail = &rig->rail[number],
				 .data = &key,
				 .len = sizeof(key)};

	rig_command(rig, &cmd, ENGINE_REMOTE_KEYS);
}

/* Rail 0 is up, and the peer not yet; its remotes have no keys. */
static inline void rig_peer_add(struct engine_rig *rig)
{
	struct engine_cmd cmd = {0};
	uint64_t len = RIG_BYTES;
	uint32_t i;

	rig->peer = engine_peer_new(rig->e, RIG_PEER, 1, "peer");
	CHECK(rig->peer);
	cmd.peer = rig->peer;
	rig_command(rig, &cmd, ENGINE_PEER_ADD);
	rig_rail_open(rig, 0);
	for (i = 0; i < RIG_REMOTES; i++) {
		rig->remote[i] = engine_remote_new(RIG_REMOTE + i, rig->peer, &len, 1);
		CHECK(rig->remote[i]);
		cmd = (struct engine_cmd){.remote = rig->remote[i]};
		rig_command(rig, &cmd, ENGINE_REMOTE_ADD);
	}
}

static inline void rig_peer_up(struct engine_rig *rig)
{
	struct engine_cmd cmd = {.peer = rig->peer, .rail = &rig->rail[0], .failover = 1};

	rig_command(rig, &cmd, ENGINE_PEER_UP);
}

static inline void rig_peer_open(struct engine_rig *rig)
{
	rig_peer_add(rig);
	rig_peer_up(rig);
}

static inline void rig_remotes_close(struct engine_rig *rig)
{
	struct engine_cmd cmd;
	uint32_t i;

	for (i = 0; i < RIG_REMOTES; i++) {
		cmd = (struct engine_cmd){.remote = rig->remote[i]};
		rig_command(rig, &cmd, ENGINE_REMOTE_DEL);
		engine_remote_free(rig->remote[i]);
	}
}

static inline void rig_peer_lost(struct engine_rig *rig)
{
	struct engine_cmd cmd = {
		.peer = rig->peer, .cause = -ECONNRESET, .reason = REASON_PEER_RESET};

	rig_command(rig, &cmd, ENGINE_PEER_LOST);
	CHECK_EQ(rig->ntaken, 0);
}

static inline void rig_peer_del(struct engine_rig *rig)
{
	struct engine_cmd cmd = {.peer = rig->peer};

	rig_command(rig, &cmd, ENGINE_PEER_DEL);
	engine_peer_free(rig->peer);
	rig->peer = NULL;
}

/* Its entries end, whatever the device still has. */
static inline void rig_peer_close(struct engine_rig *rig)
{
	rig_remotes_close(rig);
	rig_peer_lost(rig);
	rig_peer_del(rig);
}

/* ---- the program ---- */

static inline struct urccl_sqe *rig_sqe(struct engine_rig *rig, uint64_t user_data)
{
	struct urccl_sqe *sqe = urccl_get_sqe(&rig->r->pub);

	CHECK(sqe);
	sqe->user_data = user_data;
	return sqe;
}

static inline struct urccl_sqe *rig_write(struct engine_rig *rig, uint32_t remote, uint32_t len,
					  uint64_t user_data)
{
	struct urccl_sqe *sqe = rig_sqe(rig, user_data);

	urccl_prep_write(sqe, (struct urccl_remote){RIG_REMOTE + remote}, rig->bytes, len, 0);
	urccl_sqe_set_region(sqe, (struct urccl_region){RIG_REGION});
	sqe->user_data = user_data;
	return sqe;
}

/* So many blocks of RIG_BYTES, all from and to one place; *paged stays until the entry ends. */
static inline struct urccl_sqe *rig_write_blocks(struct engine_rig *rig, struct urccl_paged *paged,
						 uint32_t blocks, uint64_t user_data)
{
	struct urccl_sqe *sqe = rig_sqe(rig, user_data);

	*paged = (struct urccl_paged){.size = sizeof(*paged),
				      .ndims = 1,
				      .block = RIG_BYTES,
				      .dim[0] = {.count = blocks}};
	urccl_prep_write_paged(sqe, (struct urccl_remote){RIG_REMOTE},
			       (struct urccl_region){RIG_REGION}, paged, 1);
	sqe->user_data = user_data;
	return sqe;
}

/* What was prepared is there for the engine, which is turned by hand. */
static inline void rig_enter(struct engine_rig *rig)
{
	rig->r->producer_line.sq_tail = rig->r->pub.sqe_tail;
}

static inline void rig_watch(struct engine_rig *rig, uint32_t peer, uint64_t user_data)
{
	struct urccl_sqe *sqe = rig_sqe(rig, user_data);

	urccl_prep_watch(sqe, (struct urccl_peer){peer});
	sqe->user_data = user_data; /* each urccl_prep_ call sets it to 0 */
	rig_enter(rig);
	rig_turns(rig);
}

/* 1: the next CQE is taken. */
static inline int rig_cqe(struct engine_rig *rig, struct urccl_cqe *cqe)
{
	struct ring *r = rig->r;

	if (r->consumer_line.cq_head == r->publish_line.cq_tail)
		return 0;
	*cqe = r->pub.cqes[r->consumer_line.cq_head & r->pub.cq_mask];
	urccl_cq_advance(&r->pub, 1);
	return 1;
}

/* All that was submitted has ended; how does not matter. */
static inline void rig_all_ended(struct engine_rig *rig)
{
	CHECK_EQ(rig->r->own.done, rig->r->own.sq_head);
	while (rig_cqe(rig, &(struct urccl_cqe){0}))
		;
}

/* It comes next. */
static inline struct urccl_cqe rig_ended(struct engine_rig *rig, uint64_t user_data)
{
	struct urccl_cqe cqe;

	CHECK(rig_cqe(rig, &cqe));
	CHECK_EQ(cqe.user_data, user_data);
	return cqe;
}

#endif
