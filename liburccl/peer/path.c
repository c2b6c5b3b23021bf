/* SPDX-License-Identifier: Apache-2.0 */
/* Rails from ep_open to ep_free. The engine uses them in between. */
#include <stdio.h>
#include <stdlib.h>

#include "peer/private.h"

struct path *path_next(const struct peer *p)
{
	uint32_t i;

	for (i = 0; i < p->npaths; i++)
		if (!p->paths[i]->tried)
			return p->paths[i];
	return NULL;
}

void paths_try(struct control *c, struct peer *p, struct path *path)
{
	uint32_t transport = path_transport(path), i;
	int beside = path->rail.ep->dev->caps & CAP_FAILOVER;

	path_connect(c, path, 1);
	for (i = 0; i < p->npaths && beside; i++)
		if (!p->paths[i]->tried && path_transport(p->paths[i]) == transport)
			path_connect(c, p->paths[i], 1);
}

int path_choose(struct peer *p, uint64_t id)
{
	uint32_t i;

	for (i = 0; i < p->npaths; i++)
		if (p->paths[i]->id == id)
			p->path = p->paths[i];
	return p->path != NULL;
}

uint32_t paths_trying(const struct peer *p, struct path **paths)
{
	uint32_t n = 0, i;

	for (i = 0; i < p->npaths; i++) {
		if (!p->paths[i]->tried || p->paths[i]->closing)
			continue;
		if (paths)
			paths[n] = p->paths[i];
		n++;
	}
	return n;
}

void path_close_others(struct control *c, struct peer *p)
{
	uint32_t i;

	rails_agree(p);
	for (i = p->npaths; i; i--) {
		struct path *path = p->paths[i - 1];

		if (path != p->path && (path->error || !p->failover ||
					path_transport(path) != path_transport(p->path)))
			path_close(c, path);
	}
}

void path_announce(struct control *c, struct path *path)
{
	struct peer *p = path->peer;

	p->path = path;
	timer_stop(&p->conn->timer);
	path_close_others(c, p);
	peer_send(c, p, WIRE_PATH, path->id);
}

void path_free(struct path *path)
{
	assert(!path->connect.out && !path->close.out && !path->taken.out && !path->prepare.out);
	assert(!path->grow.out);
	path->rail.ep->dev->ops->ep_free(path->rail.ep);
	free(path);
}

static void path_forget(struct control *c, struct path *path)
{
	struct peer *p = path->peer;
	uint32_t i;

	for (i = 0; p->paths[i] != path; i++)
		assert(i < p->npaths);
	for (p->npaths--; i < p->npaths; i++)
		p->paths[i] = p->paths[i + 1];
	if (p->path == path)
		p->path = NULL;
	keys_lose(p, path);
	for (i = 0; i < p->npaths && p->failover && !p->path; i++)
		if (path_carries(p->paths[i]))
			p->path = p->paths[i];
	if (!importer_keep(c, path))
		path_free(path);
}

static void path_back(struct control *c, struct path *path)
{
	uint32_t number = path->rail.number, is_rail = path_is_rail(path);
	struct peer *p = path->peer;

	if (path->connect.out || path->close.out || path->taken.out || path->prepare.out)
		return;
	if (path->up && is_rail)
		rails_backoff(p, path);
	path_forget(c, path);
	if (p->stage == STAGE_UP && is_rail)
		rails_closed(c, p, number);
	if (p->stage == STAGE_UP)
		resume_step(c, p);
	else
		peer_due(c, p);
}

static void path_connect_back(struct control *c, struct cmd *cmd)
{
	struct path *path = container_of(cmd, struct path, connect);

	if (path->closing) {
		path_back(c, path);
		return;
	}
	path->error = cmd->e.msg.res;
	path->up = !path->error;
	if (path->up) {
		process_begin(c, path);
		setup_path_up(c, path);
	} else
		setup_path_failed(c, path);
}

static void path_close_back(struct control *c, struct cmd *cmd)
{
	path_back(c, container_of(cmd, struct path, close));
}

/* The engine answers commands in order, so it has taken RAIL_CONNECT too: RAIL_ACK may be sent. */
static void path_taken_back(struct control *c, struct cmd *cmd)
{
	struct path *path = container_of(cmd, struct path, taken);

	if (path->closing)
		path_back(c, path);
	else if (path->peer->stage == STAGE_UP)
		rails_say(c, path, WIRE_RAIL_ACK);
}

void path_await(struct control *c, struct path *path)
{
	if (path->prepare.out) { /* ep_prepare() is still running */
		path->awaited = 1;
		return;
	}
	peer_cmd(c, path->peer, &path->taken, ENGINE_PEER_IDLE, path_taken_back);
}

static void path_post(struct control *c, struct path *path)
{
	path->posted = 1;
	path->connect.e.rail = &path->rail;
	peer_cmd(c, path->peer, &path->connect, ENGINE_RAIL_CONNECT, path_connect_back);
}

int paths_reaching(const struct peer *p)
{
	uint32_t i;

	for (i = 0; i < p->npaths; i++)
		if (p->paths[i]->prepare.out)
			return 1;
	return 0;
}

/* Runs on a thread of its own, which alone uses the ep and its address. */
static int path_reach(struct work *e)
{
	struct rail *rail = &container_of(e, struct path, prepare)->rail;

	return rail->ep->dev->ops->ep_prepare(rail->ep, rail->addr, rail->addr_len);
}

/* ep_prepare() has ended. path_back() frees a path that was closed meanwhile. */
static void path_reached(struct control *c, struct work *e)
{
	struct path *path = container_of(e, struct path, prepare);
	struct peer *p = path->peer;
	int res = e->res;

	if (path->closing) {
		path_back(c, path);
		return;
	}
	path->error = res;
	if (!res)
		path_post(c, path);
	if (!res && path->awaited)
		path_await(c, path);
	setup_reached(c, p);
	if (res)
		setup_path_failed(c, path);
}

static int path_grow(struct work *e)
{
	struct path *path = container_of(e, struct path, grow);
	struct ep *ep = path->rail.ep;
	int rc = ep->dev->ops->ep_add_qps(ep);

	if (rc)
		snprintf(path->small, sizeof(path->small), "%s", urccl_errmsg());
	return rc;
}

static void path_grown(struct control *c, struct work *e)
{
	struct path *path = container_of(e, struct path, grow);

	if (e->res && !path->closing)
		log_small(c, path);
	req_answer(&path->rail.grow, e->res, REASON_NONE, 0, 0, 0);
}

void path_grow_req(struct control *c, struct control_req *req)
{
	struct path *path = container_of(req->rail, struct path, rail);

	work_begin(c, &path->grow, WORK_PREPARE, path_grow, path_grown);
}

void path_connect(struct control *c, struct path *path, int active)
{
	assert(path->peer && !path->tried);
	path->tried = 1;
	path->rail.active = active;
	if (path->rail.ep->dev->ops->ep_prepare)
		work_begin(c, &path->prepare, WORK_PREPARE, path_reach, path_reached);
	else
		path_post(c, path);
}

void path_close(struct control *c, struct path *path)
{
	if (path->closing)
		return;
	path->closing = 1;
	work_drop(c, &path->grow);
	if (!path->tried) {
		path_forget(c, path);
		return;
	}
	if (!path->posted) { /* ep_prepare() is running, or it failed */
		if (!path->prepare.out)
			work_skip(c, &path->prepare, 0);
		return;
	}
	path->close.e.rail = &path->rail;
	peer_cmd(c, path->peer, &path->close, ENGINE_RAIL_CLOSE, path_close_back);
}

void paths_close(struct control *c, struct peer *p)
{
	uint32_t i;

	/* From the end: a path that was never connected leaves the array at once. */
	for (i = p->npaths; i; i--)
		path_close(c, p->paths[i - 1]);
}

void path_take(const struct control *c, struct peer *p, struct path *path)
{
	assert(p->npaths < WIRE_RAILS);
	path->peer = p;
	path->rail.peer = p->engine;
	path->rail.via = p->remote;
	path->rail.ep->bonded = p->bonded;
	memcpy(path->rail.ep->bond, p->bond, sizeof(p->bond));
	/* Connections of the ep leave from the same address as the control connection. */
	if (p->dialled && c->config.params->socket_ifname)
		conn_local(p->conn, &path->rail.ep->from);
	p->paths[p->npaths++] = path;
}
