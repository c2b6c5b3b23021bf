/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Idle eviction: closes the data path of peers that nobody uses.
 *
 * Too many data paths (max_warm) or queue pairs (max_qps): the least recently used peers are asked
 * to suspend theirs. A peer that nobody used for idle_after_ms is asked too. The connection,
 * handles, numbers, adverts and all that the program knows stay; keys end with the rails.
 *
 *   asker:  COOL ->                            other side pauses the peer, if it is idle there too
 *                        <- COOL_YES (or COOL_NO)
 *           pauses it: COLD ->                 (or COOL_NO: the other side resumes the peer)
 *                        <- COLD, and both close their rails
 *
 * If two COOLs cross, the dialler's counts. Nothing is paused before the other side's engine has
 * answered; that of an INLINE context answers when it is driven. Some transports do not show this
 * side what the peer reads and writes here. A peer that uses such a path says no. It also says no
 * if it used the path since it was last asked, which for idle eviction is idle_after_ms ago.
 *
 * Every peer begins with a data path, even if that costs queue pairs, for three reasons. CONNECT
 * reports whether a transport reaches the peer, and an exchange of addresses does not show that. An
 * open path moves bytes while the process at its other end is stopped, or while its INLINE program
 * is busy; opening one needs both. A device's lack of resources is reported by CONNECT and not by
 * an entry under its deadline.
 */
#include "control/private.h"

#define COOL_RECENT_NS (10 * NSEC_PER_MSEC) /* a peer that used the path within this time says no */
/* Least time between two COOLs to a peer that said no or nothing. The first peers asked are asked
 * first again. It counts from the COOL_NO, if that came later. */
#define COOL_AGAIN_NS (25 * NSEC_PER_MSEC)
/* Longest backoff while no peer can be suspended; it doubles up to this. */
#define COOL_REST_NS (2 * NSEC_PER_SEC)
#define COOL_BATCH   16u
#define IDLE_LOOKS   4u /* checks for use of a peer within idle_after_ms */

/* 1: no request for keys, revocation or rail set-up is under way between the two. */
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
	for (i = 0; i < p->npaths; i++) /* a rail that is being set up asks for keys soon */
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

/* ---- which peer to ask ---- */

static void cool_look(struct control *c, struct peer *p, int unused);

static int cool_can(const struct peer *p, uint64_t now)
{
	return p->heat == HEAT_WARM && !p->cool.out && !p->up.out &&
	       now - p->cool_ns >= COOL_AGAIN_NS && cool_free(p);
}

/* Time of the last use by either side, by the engine's clock. */
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

/* Totals over the peers that are not about to be suspended. */
struct kept {
	uint32_t peers, qps, owners; /* owners: peers with queue pairs */
};

static int kept_peers_over(const struct control *c, const struct kept *k)
{
	return c->config.params->max_warm && k->peers > c->config.params->max_warm;
}

/* One peer alone may exceed max_qps, since it has several rails. */
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

/* The least recently used peer that may be asked now, or NULL. Counts only peers with queue pairs
 * if max_qps alone is exceeded. */
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

/* Subtracts the peers that are being suspended and have reached the state `least`. A peer that does
 * not answer for COOL_AGAIN_NS counts as staying; a peer that said yes counts as gone. */
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

/* ---- idle peers ---- */

static void idle_rest(struct control *c)
{
	uint64_t after = c->config.params->idle_after_ms * NSEC_PER_MSEC;

	if (after && !list_empty(&c->warm) && !alarm_is_set(&c->idle_alarm))
		alarm_set(c, &c->idle_alarm, after / IDLE_LOOKS);
}

static int is_idle(const struct control *c, struct peer *p, uint64_t now)
{
	uint64_t used = peer_used(p);

	/* The time of use since the last check is unknown: take now. */
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

/* The situation changed: ask again without a backoff. */
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
	/* This side counts the resume as a use of its own. It counts against a request of the peer
	 * only if an entry here caused it. */
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

/* ---- the side that asks ---- */

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

/* Unused: because the peer is idle, not because there are too many. */
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

/* COOL_YES came. Contexts that nobody drove for a while, ours or theirs, may have been asked one
 * after the other and answer all at once. Suspend no more peers than necessary. */
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

/* ---- the side that is asked ---- */

static int cool_recent(struct peer *p)
{
	uint64_t used = engine_peer_used(p->engine), now = clock_ns();

	/* The time of use since the last check is unknown: take now. */
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

/* ---- both sides ---- */

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

/* One peer could be suspended, so others may be too: start again with the shortest backoff. */
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

	if (p->heat == HEAT_COLD) /* both sides gave up a resume at the same time */
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
