/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where more peers than max_warm have a data path, or these have more queue pairs than max_qps,
 * those that were not used for the longest time are asked to let theirs go, and so is who was not
 * used for idle_after_ms. The connection stays, and so do handles, numbers, adverts and what the
 * program knows; keys go with the rails.
 *
 *	asker: COOL ->	other pauses the peer, if it is idle there too
 *	       <- COOL_YES		(or COOL_NO)
 *	pauses it: COLD ->		(or COOL_NO: the other goes on)
 *	       <- COLD, and both close their rails
 *
 * Of two COOLs that meet the dialler's counts. Nothing is paused before the other side's engine has
 * shown that it runs, though that of an INLINE context does so when it is driven. Not every
 * transport shows what a peer reads and writes here by itself, so one that does says no as long as
 * it does; and where it did since it was last asked, which is idle_after_ms ago for who goes by
 * that.
 *
 * A peer begins with a data path all the same, also where that costs devices queue pairs. CONNECT
 * says that the transport reaches the peer, or why none does, which no exchange of addresses shows.
 * A path that is there moves bytes while the process at its other end is stopped, or its INLINE
 * program does something else; one that is to be made waits for both. And what a device has too
 * little of is told to who connects, and not to an entry that meets it under its deadline.
 */
#include "control/private.h"

#define COOL_RECENT_NS (10 * NSEC_PER_MSEC) /* who used the path so lately says no */
/* From one time that somebody is asked to the next, if it said no, or nothing: who was asked first
 * is so again. From its no on, if that came later. */
#define COOL_AGAIN_NS (25 * NSEC_PER_MSEC)
#define COOL_REST_NS  (2 * NSEC_PER_SEC) /* as long as nobody can go: doubles up to that */
#define COOL_BATCH    16u
#define IDLE_LOOKS    4u /* in idle_after_ms, whether somebody used a peer */

/* Nothing that concerns keys is between the two. */
static int cool_free(const struct peer *p)
{
	uint32_t i;

	if (p->fetch_out || p->asked || !list_empty(&p->fetching) || !list_empty(&p->busy) ||
	    !list_empty(&p->warming) || !list_empty(&p->untold) || !list_empty(&p->revoking) ||
	    p->revokes_seen != p->revokes_told)
		return 0;
	for (i = 0; i < KEY_WINDOW; i++)
		if (p->fetch[i].id)
			return 0;
	for (i = 0; i < p->npaths; i++) /* a rail that is being made asks for keys soon */
		if (!p->paths[i]->up || p->paths[i]->closing)
			return 0;
	return !p->said_bye && !p->leaving && !p->broken && !p->closing;
}

static void cool_post(struct control *c, struct peer *p, enum engine_cmd_type type,
		      void (*back)(struct control *c, struct cmd *cmd))
{
	p->cool.e.peer = p->engine;
	p->cool.e.owner = p;
	cmd_post(c, &p->cool, type, back);
}

/* ---- whom to ask ---- */

static void cool_look(struct control *c, struct peer *p, int unused);

static int cool_can(const struct peer *p, uint64_t now)
{
	return p->heat == HEAT_WARM && !p->cool.out && !p->up.out &&
	       now - p->cool_ns >= COOL_AGAIN_NS && cool_free(p);
}

/* By either side: the engine's turn. */
static uint64_t peer_used(const struct peer *p)
{
	uint64_t used = engine_peer_used(p->engine), heard = engine_peer_heard(p->engine);
	uint32_t i;

	used = heard > used ? heard : used;
	for (i = 0; i < p->npaths; i++) {
		heard = load_relaxed(&p->paths[i]->rail.ep->used);
		used = heard > used ? heard : used;
	}
	return used;
}

/* What peers have that are not about to go. */
struct kept {
	uint32_t peers, qps, owners; /* of queue pairs */
};

static int kept_peers_over(const struct control *c, const struct kept *k)
{
	return c->config.params->max_warm && k->peers > c->config.params->max_warm;
}

/* One may have more than all, as it has several rails. */
static int kept_qps_over(const struct control *c, const struct kept *k)
{
	uint32_t max = c->config.params->max_qps;

	return max && k->qps > max && k->owners > 1;
}

static int kept_over(const struct control *c, const struct kept *k)
{
	return kept_peers_over(c, k) || kept_qps_over(c, k);
}

static void kept_less(struct kept *k, const struct peer *p)
{
	k->peers--;
	k->qps -= p->qps;
	k->owners -= p->qps != 0;
}

/* Of what there are too many. */
static struct peer *cool_next(const struct control *c, const struct kept *k, uint64_t now)
{
	int any = kept_peers_over(c, k);
	uint64_t used, least = UINT64_MAX;
	struct peer *best = NULL;
	struct list *pos;

	list_for_each(pos, &c->warm) {
		struct peer *p = list_entry(pos, struct peer, warm);

		used = peer_used(p);
		if (used >= least || !cool_can(p, now) || (!any && !p->qps))
			continue;
		least = used;
		best = p;
	}
	return best;
}

/* Without those that are about to go and have come so far: one that does not answer is there, and
 * one that said yes is not. */
static void cool_going(const struct control *c, enum heat least, struct kept *k, uint64_t now)
{
	const struct list *pos;

	list_for_each(pos, &c->warm) {
		const struct peer *p = list_entry(pos, struct peer, warm);

		if (p->heat == HEAT_PAUSING || p->heat == HEAT_COMMITTED ||
		    (p->heat >= least && now - p->cool_ns < COOL_AGAIN_NS))
			kept_less(k, p);
	}
}

static void cool_some(struct control *c)
{
	struct kept kept = {c->nwarm, c->nqps, c->nowners};
	uint64_t now = clock_ns();
	struct peer *p;
	uint32_t n;

	if (c->ending)
		return;
	if (!kept_over(c, &kept)) {
		alarm_stop(&c->cool_alarm);
		return;
	}
	cool_going(c, HEAT_LOOKING, &kept, now);
	for (n = 0; n < COOL_BATCH && kept_over(c, &kept); n++) {
		p = cool_next(c, &kept, now);
		if (!p)
			break;
		cool_look(c, p, 0);
		kept_less(&kept, p);
	}
	if (alarm_is_set(&c->cool_alarm))
		return;
	c->cool_rest_ns = c->cool_rest_ns ? 2 * c->cool_rest_ns : COOL_AGAIN_NS;
	if (c->cool_rest_ns > COOL_REST_NS)
		c->cool_rest_ns = COOL_REST_NS;
	alarm_set(c, &c->cool_alarm, c->cool_rest_ns);
}

void cool_alarm(struct control *c, struct alarm *a)
{
	(void)a;
	cool_some(c);
}

/* ---- whom nobody uses ---- */

static void idle_rest(struct control *c)
{
	uint64_t after = c->config.params->idle_after_ms * NSEC_PER_MSEC;

	if (after && !list_empty(&c->warm) && !alarm_is_set(&c->idle_alarm))
		alarm_set(c, &c->idle_alarm, after / IDLE_LOOKS);
}

static int is_idle(const struct control *c, struct peer *p, uint64_t now)
{
	uint64_t used = peer_used(p);

	/* Since the last look: when, nobody noted. */
	if (used != p->idle_seen) {
		p->idle_seen = used;
		p->idle_ns = now;
	}
	return now - p->idle_ns >= c->config.params->idle_after_ms * NSEC_PER_MSEC;
}

void cool_idle(struct control *c, struct alarm *a)
{
	uint64_t now = clock_ns();
	struct list *pos;

	(void)a;
	if (c->ending)
		return;
	list_for_each(pos, &c->warm) {
		struct peer *p = list_entry(pos, struct peer, warm);

		if (is_idle(c, p, now) && cool_can(p, now))
			cool_look(c, p, 1);
	}
	idle_rest(c);
}

/* Something changed: asking is worth it soon. */
static void cool_soon(struct control *c)
{
	c->cool_rest_ns = 0;
	alarm_stop(&c->cool_alarm);
	cool_some(c);
}

static void cool_upped(struct control *c, struct cmd *cmd)
{
	struct peer *p = cmd->e.owner;

	if (p->stage != STAGE_UP) {
		peer_step(c, p);
		return;
	}
	/* For us that is as if an entry had named it; to be asked about it, only if one did. */
	p->used_seen = engine_peer_used(p->engine);
	p->used_ns = p->own_want ? clock_ns() : 0;
	p->own_want = 0;
	cool_soon(c);
}

static uint32_t peer_qps(const struct peer *p)
{
	uint32_t rails = p->stays ? (uint32_t)__builtin_popcount(p->rails) : 1;

	return rails * p->path->rail.ep->dev->ops->qps;
}

void cool_warm(struct control *c, struct peer *p)
{
	p->heat = HEAT_WARM;
	p->wanted = p->want_said = 0;
	p->raise_ns = p->cool_ns = 0;
	p->idle_seen = peer_used(p);
	p->idle_ns = clock_ns();
	list_add_tail(&p->warm, &c->warm);
	c->nwarm++;
	p->qps = peer_qps(p);
	c->nqps += p->qps;
	c->nowners += p->qps != 0;
	idle_rest(c);
	p->up.e.peer = p->engine;
	p->up.e.rail = &p->path->rail;
	p->up.e.replays = p->stays;
	p->up.e.owner = p;
	cmd_post(c, &p->up, ENGINE_PEER_UP, cool_upped);
}

void cool_leave(struct control *c, struct peer *p)
{
	alarm_stop(&p->raise_alarm);
	if (list_empty(&p->warm))
		return;
	list_del(&p->warm);
	c->nwarm--;
	c->nqps -= p->qps;
	c->nowners -= p->qps != 0;
	if (!kept_over(c, &(struct kept){c->nwarm, c->nqps, c->nowners}))
		alarm_stop(&c->cool_alarm);
	if (!c->nwarm)
		alarm_stop(&c->idle_alarm);
}

/* ---- who asks ---- */

static void cool_stay(struct control *c, struct peer *p)
{
	uint64_t now = clock_ns();

	p->heat = HEAT_WARM;
	p->idle_ns = now;
	if (now - p->cool_ns >= COOL_AGAIN_NS)
		p->cool_ns = now;
	cool_some(c);
}

static void cool_looked(struct control *c, struct cmd *cmd)
{
	struct peer *p = cmd->e.owner;

	if (p->stage != STAGE_UP) {
		peer_step(c, p);
	} else if (cmd->e.msg.res) {
		cool_stay(c, p);
	} else {
		p->heat = HEAT_ASKING;
		peer_send(c, p, WIRE_COOL, 0);
	}
}

/* unused: not because there are too many. */
static void cool_look(struct control *c, struct peer *p, int unused)
{
	p->heat = HEAT_LOOKING;
	p->cool_unused = (uint8_t)unused;
	p->cool_ns = clock_ns();
	cool_post(c, p, ENGINE_PEER_IDLE, cool_looked);
}

static void cool_resumed(struct control *c, struct cmd *cmd)
{
	peer_step(c, cmd->e.owner);
}

static void cool_resume(struct control *c, struct peer *p)
{
	p->wanted = p->own_want = 0;
	cool_post(c, p, ENGINE_PEER_RESUME, cool_resumed);
}

static void cool_paused(struct control *c, struct cmd *cmd)
{
	struct peer *p = cmd->e.owner;

	if (p->stage != STAGE_UP) {
		peer_step(c, p);
		return;
	}
	if (!cmd->e.msg.res && cool_free(p) && !p->wanted) {
		p->heat = HEAT_COMMITTED;
		p->cool_ns = clock_ns();
		peer_send(c, p, WIRE_COLD, 0);
		return;
	}
	if (!cmd->e.msg.res)
		cool_resume(c, p);
	peer_send(c, p, WIRE_COOL_NO, 0);
	cool_stay(c, p);
}

/* Those that answer late, as contexts that nobody drove for a while, ours or theirs, may have been
 * asked one after the other, and all answer at once: no more go than have to. */
static int cool_yes(struct control *c, struct peer *p)
{
	struct kept kept = {c->nwarm, c->nqps, c->nowners};
	uint64_t now = clock_ns();

	if (p->heat != HEAT_ASKING)
		return -EPROTO;
	cool_going(c, HEAT_PAUSING, &kept, now);
	if (!p->cool_unused && !kept_peers_over(c, &kept) && !(p->qps && kept_qps_over(c, &kept))) {
		peer_send(c, p, WIRE_COOL_NO, 0);
		cool_stay(c, p);
		return 0;
	}
	p->heat = HEAT_PAUSING;
	p->cool_ns = now;
	p->wanted = p->own_want = 0;
	cool_post(c, p, ENGINE_PEER_PAUSE, cool_paused);
	return 0;
}

/* ---- who is asked ---- */

static int cool_recent(struct peer *p)
{
	uint64_t used = engine_peer_used(p->engine), now = clock_ns();

	/* Since the last look: when, nobody noted. */
	if (used != p->used_seen) {
		p->used_seen = used;
		p->used_ns = now;
	}
	return p->used_ns && now - p->used_ns < COOL_RECENT_NS;
}

static void cool_yielded(struct control *c, struct cmd *cmd)
{
	struct peer *p = cmd->e.owner;

	if (p->stage != STAGE_UP) {
		peer_step(c, p);
		return;
	}
	if (!cmd->e.msg.res && cool_free(p)) {
		p->heat = HEAT_YIELDED;
		peer_send(c, p, WIRE_COOL_YES, 0);
		return;
	}
	if (!cmd->e.msg.res)
		cool_resume(c, p);
	p->heat = HEAT_WARM;
	peer_send(c, p, WIRE_COOL_NO, 0);
}

static int cool_asked(struct control *c, struct peer *p)
{
	if (p->heat == HEAT_ASKING && p->dialled)
		return 0;
	if (p->heat == HEAT_ASKING)
		p->heat = HEAT_WARM;
	if (p->heat > HEAT_LOOKING)
		return -EPROTO;
	if (p->heat == HEAT_LOOKING || p->cool.out || !cool_free(p) || cool_recent(p)) {
		peer_send(c, p, WIRE_COOL_NO, 0);
		return 0;
	}
	p->heat = HEAT_YIELDING;
	p->cool_ns = clock_ns();
	p->wanted = p->own_want = 0;
	cool_post(c, p, ENGINE_PEER_PAUSE, cool_yielded);
	return 0;
}

static int cool_no(struct control *c, struct peer *p)
{
	if (p->heat == HEAT_YIELDED) {
		p->heat = HEAT_WARM;
		cool_resume(c, p);
		return 0;
	}
	if (p->heat != HEAT_ASKING)
		return -EPROTO;
	cool_stay(c, p);
	return 0;
}

/* ---- both ---- */

static void cool_forget_keys(struct peer *p)
{
	struct list *pos;

	list_for_each(pos, &p->remotes) {
		struct remote *r = list_entry(pos, struct remote, of_peer);

		if (r->deleting || r->revoked)
			continue;
		memset(r->has, 0, r->n);
		r->refused = 0;
	}
}

/* Where one could, others may: they are asked again as soon as at first. */
static void cool_went(struct control *c)
{
	if (c->cool_rest_ns <= COOL_AGAIN_NS || !alarm_is_set(&c->cool_alarm))
		return;
	c->cool_rest_ns = COOL_AGAIN_NS;
	alarm_stop(&c->cool_alarm);
	alarm_set(c, &c->cool_alarm, COOL_AGAIN_NS);
}

static int cool_cold(struct control *c, struct peer *p)
{
	uint32_t i;

	if (p->heat == HEAT_COLD) /* two that gave up the way back meet */
		return 0;
	if (p->heat == HEAT_RAISING) {
		raise_refused(c, p);
		return 0;
	}
	if (p->heat != HEAT_YIELDED && p->heat != HEAT_COMMITTED)
		return -EPROTO;
	if (p->heat == HEAT_YIELDED)
		peer_send(c, p, WIRE_COLD, 0);
	p->heat = HEAT_COLD;
	p->broken = 0;
	alarm_stop(&p->delay);
	link_back(c, p);
	cool_leave(c, p);
	cool_went(c);
	cool_forget_keys(p);
	log_heat(c, p);
	rails_end(p);
	for (i = p->npaths; i; i--)
		path_close(c, p->paths[i - 1]);
	return 0;
}

int cool_word(struct control *c, struct peer *p, uint32_t type)
{
	if (p->stage != STAGE_UP)
		return -EPROTO;
	switch (type) {
	case WIRE_COOL:
		return cool_asked(c, p);
	case WIRE_COOL_YES:
		return cool_yes(c, p);
	case WIRE_COOL_NO:
		return cool_no(c, p);
	case WIRE_COLD:
		return cool_cold(c, p);
	case WIRE_WANT:
		return raise_wanted(c, p);
	default:
		return -EPROTO;
	}
}
