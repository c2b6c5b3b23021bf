/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Idle eviction: closes the data path of peers that nobody uses.
 *
 * Too many data paths (max_warm) or queue pairs (max_qps): the least recently used peers are asked
 * to suspend theirs. A peer that nobody used for idle_after_ms is asked too. The connection,
 * handles, numbers, adverts and all that the program knows stay; keys end with the rails.
 *
 *   asker: SUSPEND -> other side pauses the peer, if it is idle there too
 *                        <- SUSPEND_YES (or SUSPEND_NO)
 *           pauses it: SUSPENDED -> (or SUSPEND_NO: the other side resumes the peer)
 *                        <- SUSPENDED, and both close their rails
 *
 * If two SUSPENDs cross, the dialler's counts. Nothing is paused before the other side's engine has
 * answered; that of an INLINE context answers when it is driven. Some transports do not show this
 * side what the peer reads and writes here. A peer that uses such a path says no. It also says no
 * if it used the path since the last SUSPEND; with idle_after_ms, that was at least so long ago.
 *
 * Every peer begins with a data path, even if that costs queue pairs, for three reasons. CONNECT
 * reports whether a transport reaches the peer, and an exchange of addresses does not show that. An
 * open path moves bytes while the process at its other end is stopped, or while its INLINE program
 * is busy; opening one needs both. A device's lack of resources is reported by CONNECT and not by
 * an entry under its deadline.
 */
#include "peer/private.h"

#define SUSPEND_RECENT_NS \
	(10 * NSEC_PER_MSEC) /* a peer that used the path within this time says no */
/* Least time between two SUSPENDs to a peer that said no or nothing. It counts from the SUSPEND; if
 * a SUSPEND_NO comes later than that time, it counts from the SUSPEND_NO. */
#define SUSPEND_RETRY_NS (25 * NSEC_PER_MSEC)
/* Longest backoff while no peer can be suspended; it doubles up to this. */
#define SUSPEND_BACKOFF_NS (2 * NSEC_PER_SEC)
#define SUSPEND_BATCH	   16u
#define IDLE_LOOKS	   4u /* checks for use of a peer within idle_after_ms */

/* 1: no request for keys, revocation or rail set-up is under way between the two. */
static int suspend_is_free(const struct peer *p)
{
	uint32_t i;

	if (p->fetch_out || p->asked || !list_empty(&p->fetching) || !list_empty(&p->busy) ||
	    !list_empty(&p->warming) || !list_empty(&p->revoke_unacked) ||
	    !list_empty(&p->revoking) || p->revokes_seen != p->revokes_answered)
		return 0;
	for (i = 0; i < KEY_WINDOW; i++)
		if (p->fetch[i].id)
			return 0;
	for (i = 0; i < p->npaths; i++) /* a rail that is being set up asks for keys soon */
		if (!p->paths[i]->up || p->paths[i]->closing)
			return 0;
	return !p->said_bye && !p->leaving && !p->broken && !p->closing;
}

/* ---- which peer to ask ---- */

static void suspend_look(struct control *c, struct peer *p, int unused);

static int suspend_may_ask(const struct peer *p, uint64_t now)
{
	return p->path_state == PATH_ACTIVE && !p->suspend.out && !p->up.out &&
	       now - p->suspend_ns >= SUSPEND_RETRY_NS && suspend_is_free(p);
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
static struct peer *suspend_candidate(const struct control *c, const struct kept *k, uint64_t now)
{
	int any = kept_peers_over(c, k);
	uint64_t used, least = UINT64_MAX;
	struct peer *best = NULL;
	struct peer *p;

	list_for_each_entry(p, &c->active, active) {
		used = peer_used(p);
		if (used >= least || !suspend_may_ask(p, now) || (!any && !p->qps))
			continue;
		least = used;
		best = p;
	}
	return best;
}

/* Subtracts the peers that are being suspended and have reached the state `least`. A peer that does
 * not answer for SUSPEND_RETRY_NS counts as staying; a peer that said yes counts as gone. */
static void suspend_less_going(const struct control *c, enum path_state least, struct kept *k,
			       uint64_t now)
{
	const struct peer *p;

	list_for_each_entry(p, &c->active, active) {
		if (p->path_state == PATH_PAUSING || p->path_state == PATH_COMMITTED ||
		    (p->path_state >= least && now - p->suspend_ns < SUSPEND_RETRY_NS))
			kept_less(k, p);
	}
}

static void suspend_some(struct control *c)
{
	struct kept kept = {c->nactive, c->nqps, c->nowners};
	uint64_t now = clock_ns();
	struct peer *p;
	uint32_t n;

	if (c->ending)
		return;
	if (!kept_over(c, &kept)) {
		timer_stop(&c->suspend_timer);
		return;
	}
	suspend_less_going(c, PATH_LOOKING, &kept, now);
	for (n = 0; n < SUSPEND_BATCH && kept_over(c, &kept); n++) {
		p = suspend_candidate(c, &kept, now);
		if (!p)
			break;
		suspend_look(c, p, 0);
		kept_less(&kept, p);
	}
	if (timer_is_set(&c->suspend_timer))
		return;
	c->suspend_backoff_ns =
		c->suspend_backoff_ns ? 2 * c->suspend_backoff_ns : SUSPEND_RETRY_NS;
	if (c->suspend_backoff_ns > SUSPEND_BACKOFF_NS)
		c->suspend_backoff_ns = SUSPEND_BACKOFF_NS;
	timer_set(c, &c->suspend_timer, c->suspend_backoff_ns);
}

void suspend_timer(struct control *c, struct control_timer *a)
{
	(void)a;
	suspend_some(c);
}

/* ---- idle peers ---- */

static void idle_arm(struct control *c)
{
	uint64_t after = c->config.params->idle_after_ms * NSEC_PER_MSEC;

	if (after && !list_empty(&c->active) && !timer_is_set(&c->idle_timer))
		timer_set(c, &c->idle_timer, after / IDLE_LOOKS);
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

void suspend_idle(struct control *c, struct control_timer *a)
{
	uint64_t now = clock_ns();
	struct peer *p;

	(void)a;
	if (c->ending)
		return;
	list_for_each_entry(p, &c->active, active) {
		if (is_idle(c, p, now) && suspend_may_ask(p, now))
			suspend_look(c, p, 1);
	}
	idle_arm(c);
}

/* The situation changed: ask again without a backoff. */
static void suspend_soon(struct control *c)
{
	c->suspend_backoff_ns = 0;
	timer_stop(&c->suspend_timer);
	suspend_some(c);
}

static void suspend_up_back(struct control *c, struct cmd *cmd)
{
	struct peer *p = cmd->e.owner;

	if (p->stage != STAGE_UP) {
		peer_due(c, p);
		return;
	}
	/* This side counts the resume as a use. It is a reason to say no to the peer's SUSPEND only
	 * if an entry of this side caused the resume (resume_own). */
	p->used_seen = engine_peer_used(p->engine);
	p->used_ns = p->resume_own ? clock_ns() : 0;
	p->resume_own = 0;
	suspend_soon(c);
}

static uint32_t peer_qps(const struct peer *p)
{
	uint32_t rails = p->failover ? (uint32_t)__builtin_popcount(p->rails) : 1;

	return rails * p->path->rail.ep->dev->ops->qps;
}

void suspend_active(struct control *c, struct peer *p)
{
	p->path_state = PATH_ACTIVE;
	p->resume_wanted = p->resume_sent = 0;
	p->resume_ns = p->suspend_ns = 0;
	p->idle_seen = peer_used(p);
	p->idle_ns = clock_ns();
	list_add_tail(&p->active, &c->active);
	c->nactive++;
	p->qps = peer_qps(p);
	c->nqps += p->qps;
	c->nowners += p->qps != 0;
	idle_arm(c);
	p->up.e.rail = &p->path->rail;
	p->up.e.failover = p->failover;
	peer_cmd(c, p, &p->up, ENGINE_PEER_UP, suspend_up_back);
}

void suspend_leave(struct control *c, struct peer *p)
{
	timer_stop(&p->resume_timer);
	if (list_empty(&p->active))
		return;
	list_del(&p->active);
	c->nactive--;
	c->nqps -= p->qps;
	c->nowners -= p->qps != 0;
	if (!kept_over(c, &(struct kept){c->nactive, c->nqps, c->nowners}))
		timer_stop(&c->suspend_timer);
	if (!c->nactive)
		timer_stop(&c->idle_timer);
}

/* ---- the side that asks ---- */

static void suspend_stay(struct control *c, struct peer *p)
{
	uint64_t now = clock_ns();

	p->path_state = PATH_ACTIVE;
	p->idle_ns = now;
	if (now - p->suspend_ns >= SUSPEND_RETRY_NS)
		p->suspend_ns = now;
	suspend_some(c);
}

static void suspend_looked(struct control *c, struct cmd *cmd)
{
	struct peer *p = cmd->e.owner;

	if (p->stage != STAGE_UP) {
		peer_due(c, p);
	} else if (cmd->e.msg.res) {
		suspend_stay(c, p);
	} else {
		p->path_state = PATH_ASKING;
		peer_send(c, p, WIRE_SUSPEND, 0);
	}
}

/* Unused: because the peer is idle, not because there are too many. */
static void suspend_look(struct control *c, struct peer *p, int unused)
{
	p->path_state = PATH_LOOKING;
	p->suspend_unused = (uint8_t)unused;
	p->suspend_ns = clock_ns();
	peer_cmd(c, p, &p->suspend, ENGINE_PEER_IDLE, suspend_looked);
}

static void suspend_undo(struct control *c, struct peer *p)
{
	p->resume_wanted = p->resume_own = 0;
	peer_cmd(c, p, &p->suspend, ENGINE_PEER_RESUME, peer_cmd_back);
}

/* The engine has paused the peer, or not (res): tells the other side. */
static void suspend_paused(struct control *c, struct cmd *cmd)
{
	struct peer *p = cmd->e.owner;
	int asks = p->path_state == PATH_PAUSING;

	if (p->stage != STAGE_UP) {
		peer_due(c, p);
		return;
	}
	if (!cmd->e.msg.res && suspend_is_free(p) && !(asks && p->resume_wanted)) {
		if (asks)
			p->suspend_ns = clock_ns();
		p->path_state = asks ? PATH_COMMITTED : PATH_YIELDED;
		peer_send(c, p, asks ? WIRE_SUSPENDED : WIRE_SUSPEND_YES, 0);
		return;
	}
	if (!cmd->e.msg.res)
		suspend_undo(c, p);
	peer_send(c, p, WIRE_SUSPEND_NO, 0);
	if (asks)
		suspend_stay(c, p);
	else
		p->path_state = PATH_ACTIVE;
}

/* If the engine still finds the peer idle, it pauses it: new entries wait. */
static void suspend_pause(struct control *c, struct peer *p, enum path_state state)
{
	p->path_state = state;
	p->suspend_ns = clock_ns();
	p->resume_wanted = p->resume_own = 0;
	peer_cmd(c, p, &p->suspend, ENGINE_PEER_PAUSE, suspend_paused);
}

/* SUSPEND_YES came. Contexts that nobody drove for a while, ours or theirs, may have been asked one
 * after the other and answer all at once. Suspend no more peers than necessary. */
static int suspend_yes(struct control *c, struct peer *p)
{
	struct kept kept = {c->nactive, c->nqps, c->nowners};

	if (p->path_state != PATH_ASKING)
		return -EPROTO;
	suspend_less_going(c, PATH_PAUSING, &kept, clock_ns());
	if (!p->suspend_unused && !kept_peers_over(c, &kept) &&
	    !(p->qps && kept_qps_over(c, &kept))) {
		peer_send(c, p, WIRE_SUSPEND_NO, 0);
		suspend_stay(c, p);
		return 0;
	}
	suspend_pause(c, p, PATH_PAUSING);
	return 0;
}

/* ---- the side that is asked ---- */

static int suspend_used_lately(struct peer *p)
{
	uint64_t used = engine_peer_used(p->engine), now = clock_ns();

	/* The time of use since the last check is unknown: take now. */
	if (used != p->used_seen) {
		p->used_seen = used;
		p->used_ns = now;
	}
	return p->used_ns && now - p->used_ns < SUSPEND_RECENT_NS;
}

static int suspend_asked(struct control *c, struct peer *p)
{
	if (p->path_state == PATH_ASKING && p->dialled)
		return 0;
	if (p->path_state == PATH_ASKING)
		p->path_state = PATH_ACTIVE;
	if (p->path_state > PATH_LOOKING)
		return -EPROTO;
	if (p->path_state == PATH_LOOKING || p->suspend.out || !suspend_is_free(p) ||
	    suspend_used_lately(p)) {
		peer_send(c, p, WIRE_SUSPEND_NO, 0);
		return 0;
	}
	suspend_pause(c, p, PATH_YIELDING);
	return 0;
}

static int suspend_no(struct control *c, struct peer *p)
{
	if (p->path_state == PATH_YIELDED) {
		p->path_state = PATH_ACTIVE;
		suspend_undo(c, p);
		return 0;
	}
	if (p->path_state != PATH_ASKING)
		return -EPROTO;
	suspend_stay(c, p);
	return 0;
}

/* ---- both sides ---- */

/* One peer could be suspended, so others may be too: start again with the shortest backoff. */
static void suspend_advanced(struct control *c)
{
	if (c->suspend_backoff_ns <= SUSPEND_RETRY_NS || !timer_is_set(&c->suspend_timer))
		return;
	c->suspend_backoff_ns = SUSPEND_RETRY_NS;
	timer_stop(&c->suspend_timer);
	timer_set(c, &c->suspend_timer, SUSPEND_RETRY_NS);
}

static int suspend_commit(struct control *c, struct peer *p)
{
	if (p->path_state == PATH_SUSPENDED) /* both sides gave up a resume at the same time */
		return 0;
	if (p->path_state == PATH_RESUMING) {
		resume_refused(c, p);
		return 0;
	}
	if (p->path_state != PATH_YIELDED && p->path_state != PATH_COMMITTED)
		return -EPROTO;
	if (p->path_state == PATH_YIELDED)
		peer_send(c, p, WIRE_SUSPENDED, 0);
	p->path_state = PATH_SUSPENDED;
	p->broken = 0;
	timer_stop(&p->delay);
	link_back(c, p);
	suspend_leave(c, p);
	suspend_advanced(c);
	keys_forget(p);
	log_path_state(c, p);
	rails_end(p);
	paths_close(c, p);
	return 0;
}

int suspend_frame(struct control *c, struct peer *p, uint32_t type)
{
	if (p->stage != STAGE_UP)
		return -EPROTO;
	switch (type) {
	case WIRE_SUSPEND:
		return suspend_asked(c, p);
	case WIRE_SUSPEND_YES:
		return suspend_yes(c, p);
	case WIRE_SUSPEND_NO:
		return suspend_no(c, p);
	case WIRE_SUSPENDED:
		return suspend_commit(c, p);
	case WIRE_RESUME:
		return resume_asked(c, p);
	default:
		return -EPROTO;
	}
}
