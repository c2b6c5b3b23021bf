/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rails of a peer that has its data path and whose rails may come back (peer.failover). Each
 * rail has a number, which is the same at both ends.
 *
 *  open (a path) -> closing -> closed here, FENCE -> and there (peer.theirs) -> open again
 *
 * The side that sees its end break closes that end. When its engine has closed it, no more data of
 * the other side can land, and the side sends FENCE. The other side then closes its own end and
 * sends FENCE too. After both, the engine is told (ENGINE_RAIL_FENCED), and the dialler sets the
 * rail up again: RAIL carries its new ep, RAIL_ACK that of the acceptor. If the acceptor answers
 * FENCE instead, the dialler tries again after a backoff. A rail that failed during the handshake
 * counts as closed.
 *
 * Each failed try lengthens the backoff and the connect timeout, since the machines may be slow.
 * Both are reset if another rail of the peer comes up after failures, if the last rail breaks, or
 * if a port of either side has its link again (ib). The peer is lost if it has no rail for
 * dead_after, or if its connection ends.
 */
#include "peer/private.h"

void rails_known(struct peer *p, const struct path *path)
{
	assert(p->nknown < WIRE_RAILS);
	p->known[p->nknown].transport = (uint8_t)path_transport(path);
	p->known[p->nknown].number = (uint8_t)path->rail.number;
	p->known[p->nknown++].device = (uint8_t)path->rail.ep->dev->index;
}

void rails_agree(struct peer *p)
{
	const struct device *dev = p->path->rail.ep->dev;
	uint32_t i;

	p->failover = (dev->caps & CAP_FAILOVER) != 0;
	p->rails = p->theirs = 0;
	for (i = 0; i < p->nknown && p->failover; i++)
		if (p->known[i].transport == dev->ops->transport)
			p->rails |= 1u << p->known[i].number;
}

/* ---- setting a rail up again ---- */

static uint64_t doubled(uint64_t ns, uint32_t times, uint64_t most)
{
	for (; times && ns < most; times--)
		ns *= 2;
	return ns < most ? ns : most;
}

/* The backoff doubles with each try. It stays short if the peer has no rail, or if a reset came
 * during the try. */
static void rail_backoff(struct peer *p, uint32_t number)
{
	uint64_t most = rails_up(p) && !p->rail[number].backoff_reset ? RAIL_BACKOFF_MAX
								      : RAIL_BACKOFF_ONLY;

	p->rail[number].at = clock_ns() + doubled(RAIL_BACKOFF_NS, p->rail[number].tries++, most);
	p->rail[number].backoff_reset = 0;
}

void rails_backoff(struct peer *p, const struct path *path)
{
	uint64_t now = clock_ns(), lived = now - path->since;

	p->rail[path->rail.number].tries = p->rail[path->rail.number].backoff_reset = 0;
	p->rail[path->rail.number].at = lived < RAIL_LIVED_NS ? now + RAIL_BACKOFF_NS : 0;
}

/* Resets the backoff of all rails. A try under way keeps its time and is reset afterwards. */
static void rails_reset_backoff(struct peer *p)
{
	const struct path *path;
	uint32_t n;

	for (n = 0; n < RAIL_NUMBERS; n++) {
		path = rail_path(p, n);
		p->rail[n].backoff_reset = path && !path->up && !path->closing;
		if (!p->rail[n].backoff_reset)
			p->rail[n].at = p->rail[n].tries = 0;
	}
}

static struct device *rail_device(const struct control *c, const struct peer *p, uint32_t number)
{
	uint32_t i;

	for (i = 0; i < p->nknown; i++)
		if (p->known[i].transport == p->transport && p->known[i].number == number)
			return c->config.devices[p->known[i].device];
	assert(0);
	return NULL;
}

static struct path *rail_open(struct control *c, struct peer *p, uint32_t number)
{
	int err;
	struct path *path = path_open(rail_device(c, p, number), number, &err);

	if (!path)
		return NULL;
	path->rail.number = number;
	path->since = clock_ns();
	path_take(c, p, path);
	return path;
}

void rails_say(struct control *c, const struct path *path, uint32_t type)
{
	struct wire_rail rail = {.transport = path_transport(path),
				 .id = path->rail.number,
				 .addr_len = path->addr_len};

	memcpy(rail.addr, path->addr, path->addr_len);
	conn_send(c, path->peer->conn, c->tx, wire_put_rail(c->tx, type, &rail));
}

static void rail_make(struct control *c, struct peer *p, uint32_t number)
{
	struct path *path = rail_open(c, p, number);

	if (!path) {
		rail_backoff(p, number);
		return;
	}
	p->theirs &= ~(1u << number);
	rails_say(c, path, WIRE_RAIL);
}

/* A path that the engine never had is gone at once. */
static void rail_close(struct control *c, struct path *path)
{
	uint32_t number = path->rail.number, tried = path->tried;
	struct peer *p = path->peer;

	path_close(c, path);
	if (!tried)
		rails_closed(c, p, number);
}

/* ---- timers ---- */

static int is_open(const struct peer *p)
{
	return p->stage == STAGE_UP && p->failover && p->path_state < PATH_SUSPENDED && p->conn &&
	       !p->said_bye;
}

/* Checks the ports of missing rails. A port whose link is back resets the backoff, here or at the
 * dialler. Returns the time of the next check; NEVER_NS: none is needed. */
static uint64_t ports_look(struct control *c, struct peer *p)
{
	uint32_t missing = is_open(p) ? p->rails & ~rails_up(p) : 0, unlinked = 0, n;
	int reported = 0;

	for (n = 0; n < RAIL_NUMBERS; n++) {
		struct device *dev = missing >> n & 1 ? rail_device(c, p, n) : NULL;

		if (!dev || !dev->ops->is_cut)
			continue;
		reported = 1;
		unlinked |= (uint32_t)port_is_cut(c, dev) << n;
	}
	if (p->unlinked & missing & ~unlinked && p->dialled)
		rails_reset_backoff(p);
	else if (p->unlinked & missing & ~unlinked)
		peer_send(c, p, WIRE_PORT, 0);
	p->unlinked = unlinked;
	return reported ? link_look(c, p) : NEVER_NS;
}

static uint64_t rail_timeout(const struct peer *p, uint32_t number)
{
	return doubled(RAIL_TRY_NS, p->rail[number].tries, RAIL_TRY_MAX);
}

/* The time of the next step for the rail; 0: no step is due. */
static uint64_t rail_due(const struct peer *p, uint32_t number)
{
	const struct path *path = rail_path(p, number);

	if (path)
		return path->closing || path->up ? 0 : path->since + rail_timeout(p, number);
	if (!(p->theirs >> number & 1) || p->rail[number].fenced.out)
		return 0;
	if (p->path_state != PATH_ACTIVE) /* the eviction may still be declined */
		return clock_ns() + RAIL_BACKOFF_NS;
	return p->rail[number].at ? p->rail[number].at : 1;
}

static void rail_step(struct control *c, struct peer *p, uint32_t number)
{
	struct path *path = rail_path(p, number);

	if (path) {
		log_rail(c, p, p->transport, -ETIMEDOUT);
		rail_backoff(p, number);
		rail_close(c, path);
	} else {
		rail_make(c, p, number);
	}
}

/* Only the dialler sets rails up; both sides check their ports. */
static void rails_step(struct control *c, struct peer *p)
{
	uint64_t next = ports_look(c, p), now = clock_ns(), due;
	uint32_t n;

	timer_stop(&p->rails_timer);
	for (n = 0; n < RAIL_NUMBERS && is_open(p) && p->dialled; n++) {
		if (!(p->rails >> n & 1))
			continue;
		due = rail_due(p, n);
		if (due && due <= now) {
			rail_step(c, p, n);
			due = is_open(p) ? rail_due(p, n) : 0;
		}
		if (due && due < next)
			next = due;
	}
	if (next != NEVER_NS && is_open(p))
		timer_set(c, &p->rails_timer, next > now ? next - now : 1);
}

void rails_timer(struct control *c, struct control_timer *a)
{
	rails_step(c, container_of(a, struct peer, rails_timer));
}

int rails_port(struct control *c, struct peer *p)
{
	if (!p->dialled)
		return -EPROTO;
	rails_reset_backoff(p);
	rails_step(c, p);
	return 0;
}

/* ---- closed at both ends ---- */

static void fenced_back(struct control *c, struct cmd *cmd)
{
	struct peer *p = cmd->e.owner;

	p->fences_out--;
	if (p->stage == STAGE_UP)
		rails_step(c, p);
	else
		peer_due(c, p);
}

static void rail_fenced(struct control *c, struct peer *p, uint32_t number)
{
	struct cmd *cmd = &p->rail[number].fenced;

	if (cmd->out)
		return;
	cmd->e.part = number;
	p->fences_out++;
	peer_cmd(c, p, cmd, ENGINE_RAIL_FENCED, fenced_back);
}

void rails_closed(struct control *c, struct peer *p, uint32_t number)
{
	if (!is_open(p))
		return;
	grants_detach(p, number);
	peer_send(c, p, WIRE_FENCE, number);
	if (p->theirs >> number & 1)
		rail_fenced(c, p, number);
	rails_step(c, p);
}

int rails_fence(struct control *c, struct peer *p, uint64_t number)
{
	struct path *path;

	if (p->stage != STAGE_UP || !p->failover || number >= RAIL_NUMBERS ||
	    !(p->rails >> number & 1))
		return -EPROTO;
	if (p->path_state >= PATH_SUSPENDED)
		return 0;
	p->theirs |= 1u << number;
	path = rail_path(p, (uint32_t)number);
	if (!path) {
		rail_fenced(c, p, (uint32_t)number);
	} else {
		rails_broke(c, path, -ECONNRESET);
	}
	return 0;
}

/* ---- frames of the peer ---- */

static int rail_asked(struct control *c, struct peer *p, const struct wire_rail *r)
{
	struct path *path;

	if (p->dialled || rail_path(p, r->id) || !(p->theirs >> r->id & 1))
		return -EPROTO;
	p->theirs &= ~(1u << r->id);
	path = rail_open(c, p, r->id);
	if (!path) {
		peer_send(c, p, WIRE_FENCE, r->id);
		return 0;
	}
	path->rail.addr_len = r->addr_len;
	memcpy(path->rail.addr, r->addr, r->addr_len);
	path_connect(c, path, 0);
	path_await(c, path);
	return 0;
}

static int rail_answered(struct control *c, struct peer *p, const struct wire_rail *r)
{
	struct path *path = rail_path(p, r->id);

	if (!p->dialled)
		return -EPROTO;
	if (!path || path->tried || path->closing)
		return 0;
	path->rail.addr_len = r->addr_len;
	memcpy(path->rail.addr, r->addr, r->addr_len);
	path_connect(c, path, 1);
	return 0;
}

int rails_frame(struct control *c, struct peer *p, uint32_t type, const uint8_t *body, uint32_t len)
{
	struct wire_rail r;

	if (p->stage != STAGE_UP || !p->failover || wire_get_rail(body, len, &r) ||
	    r.id >= RAIL_NUMBERS || !(p->rails >> r.id & 1) || r.transport != p->transport)
		return -EPROTO;
	if (p->path_state >= PATH_SUSPENDED)
		return 0;
	return type == WIRE_RAIL ? rail_asked(c, p, &r) : rail_answered(c, p, &r);
}

/* ---- results of the engine ---- */

void rails_came(struct control *c, struct path *path)
{
	struct peer *p = path->peer;

	if (!p->failover)
		return;
	path->since = clock_ns();
	if (!p->path)
		p->path = path;
	if (p->broken) {
		p->broken = 0;
		timer_stop(&p->delay);
	}
	link_back(c, p);
	keys_of_rail(c, p);
	if (p->rail[path->rail.number].tries)
		rails_reset_backoff(p);
	rails_step(c, p);
}

void rails_missed(struct control *c, struct path *path)
{
	struct peer *p = path->peer;

	log_rail(c, p, p->transport, path->error);
	rail_backoff(p, path->rail.number);
	rail_close(c, path);
}

void rails_broke(struct control *c, struct path *path, int err)
{
	struct peer *p = path->peer;

	if (path->closing)
		return;
	log_rail(c, p, p->transport, err);
	if (!path->up)
		rail_backoff(p, path->rail.number);
	rail_close(c, path);
	if (rails_up(p) || p->broken || p->stage != STAGE_UP)
		return;
	p->broken = err;
	p->delay_spans = SPANS;
	peer_span(c, &p->delay);
	rails_reset_backoff(p);
	rails_step(c, p);
}

/* ---- begin and end ---- */

void rails_begin(struct control *c, struct peer *p)
{
	uint32_t n;

	for (n = 0; n < RAIL_NUMBERS && is_open(p); n++) {
		struct path *path = p->rails >> n & 1 ? rail_path(p, n) : NULL;

		p->rail[n].at = p->rail[n].tries = p->rail[n].backoff_reset = 0;
		if (path)
			path->since = clock_ns();
		if (path && path->error)
			rails_broke(c, path, path->error);
		else if (!path && p->rails >> n & 1)
			peer_send(c, p, WIRE_FENCE, n);
	}
	if (!is_open(p))
		return;
	keys_of_rail(c, p);
	rails_step(c, p);
}

void rails_end(struct peer *p)
{
	timer_stop(&p->rails_timer);
	p->theirs = 0;
}

void path_take_known(const struct control *c, struct peer *p, struct path *path)
{
	path_take(c, p, path);
	rails_known(p, path);
}
