/* SPDX-License-Identifier: Apache-2.0 */
/* Rails, from ep_open to ep_free. In between the engine has them. */
#include <stdlib.h>

#include "control/private.h"

uint64_t paths_possible(const struct control *c)
{
	uint64_t transports = 0;
	uint32_t i;

	for (i = 0; i < c->config.ndevices; i++)
		transports |= 1ull << c->config.devices[i]->ops->transport;
	return transports;
}

struct path *path_open(struct device *dev, uint32_t id, int *err)
{
	struct path *path = calloc(1, sizeof(*path));

	if (!path) {
		*err = -ENOMEM;
		return NULL;
	}
	*err = dev->ops->ep_open(dev, &path->rail.ep, path->addr, &path->addr_len);
	if (*err) {
		free(path);
		return NULL;
	}
	assert(path->addr_len <= EP_ADDR_MAX);
	path->id = id;
	return path;
}

uint32_t path_transport(const struct path *path)
{
	return path->rail.ep->dev->ops->transport;
}

void path_say(struct path *const *paths, uint32_t n, struct wire_hello *h)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		h->rails[i].transport = path_transport(paths[i]);
		h->rails[i].id = paths[i]->id;
		h->rails[i].addr_len = paths[i]->addr_len;
		memcpy(h->rails[i].addr, paths[i]->addr, paths[i]->addr_len);
	}
	h->nrails = n;
}

int path_answered(struct path *path, const struct wire_hello *ack)
{
	const struct wire_rail *r;

	for (r = ack->rails; r < ack->rails + ack->nrails; r++) {
		if (r->id != path->id || r->transport != path_transport(path))
			continue;
		path->rail.addr_len = r->addr_len;
		memcpy(path->rail.addr, r->addr, r->addr_len);
		return 1;
	}
	return 0;
}

struct path *path_next(const struct peer *p)
{
	uint32_t i;

	for (i = 0; i < p->npaths; i++)
		if (!p->paths[i]->tried)
			return p->paths[i];
	return NULL;
}

void path_close_others(struct control *c, struct peer *p)
{
	uint32_t i;

	for (i = p->npaths; i; i--)
		if (p->paths[i - 1] != p->path)
			path_close(c, p->paths[i - 1]);
}

void path_free(struct path *path)
{
	assert(!path->connect.out && !path->close.out);
	path->rail.ep->dev->ops->ep_free(path->rail.ep);
	free(path);
}

static void path_forget(struct path *path)
{
	struct peer *p = path->peer;
	uint32_t i;

	for (i = 0; p->paths[i] != path; i++)
		assert(i < p->npaths);
	for (p->npaths--; i < p->npaths; i++)
		p->paths[i] = p->paths[i + 1];
	if (p->path == path)
		p->path = NULL;
	path_free(path);
}

static void path_back(struct control *c, struct path *path)
{
	struct peer *p = path->peer;

	if (path->connect.out || path->close.out)
		return;
	path_forget(path);
	if (p->stage == STAGE_UP)
		raise_step(c, p);
	else
		peer_step(c, p);
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
	if (path->up)
		meet_path_up(c, path);
	else
		meet_path_failed(c, path);
}

static void path_close_back(struct control *c, struct cmd *cmd)
{
	path_back(c, container_of(cmd, struct path, close));
}

void path_connect(struct control *c, struct path *path, int active)
{
	assert(path->peer && !path->tried);
	path->tried = 1;
	path->rail.active = active;
	path->connect.e.rail = &path->rail;
	path->connect.e.peer = path->peer->engine;
	cmd_post(c, &path->connect, ENGINE_RAIL_CONNECT, path_connect_back);
}

void path_close(struct control *c, struct path *path)
{
	if (path->closing)
		return;
	path->closing = 1;
	if (!path->tried) {
		path_forget(path);
		return;
	}
	path->close.e.rail = &path->rail;
	path->close.e.peer = path->peer->engine;
	cmd_post(c, &path->close, ENGINE_RAIL_CLOSE, path_close_back);
}
