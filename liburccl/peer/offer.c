/* SPDX-License-Identifier: Apache-2.0 */
/* Eps are opened, and offered as rails by HELLO and HELLO_ACK. */
#include <stdlib.h>

#include "peer/private.h"

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

/* The number for one more rail of this transport. */
static uint32_t path_number(struct path *const *paths, uint32_t n, uint32_t transport)
{
	uint32_t number = 0, i;

	for (i = 0; i < n; i++)
		number += path_transport(paths[i]) == transport;
	return number;
}

uint32_t paths_open(struct control *c, uint32_t required, struct path **paths, int *err)
{
	uint32_t n = 0, i, number;

	for (i = 0; i < c->config.ndevices && n < WIRE_RAILS; i++) {
		struct device *dev = c->config.devices[i];

		number = path_number(paths, n, dev->ops->transport);
		if ((required && required != dev->ops->transport) || number == RAIL_NUMBERS)
			continue;
		paths[n] = path_open(dev, i, err);
		if (paths[n])
			paths[n++]->rail.number = number;
	}
	return n;
}

struct wire_hello hello_make(const struct control *c, struct path *const *paths, uint32_t n,
			     const void *note, uint32_t note_len)
{
	struct wire_hello h = {.version_min = WIRE_VERSION,
			       .version_max = WIRE_VERSION,
			       .incarnation = c->config.incarnation,
			       .host = c->host,
			       .key_window = KEY_WINDOW,
			       .note_len = note_len,
			       .nrails = n};
	uint32_t i;

	if (note_len)
		memcpy(h.note, note, note_len);
	for (i = 0; i < n; i++) {
		h.rails[i].transport = path_transport(paths[i]);
		h.rails[i].id = paths[i]->id;
		h.rails[i].addr_len = paths[i]->addr_len;
		memcpy(h.rails[i].addr, paths[i]->addr, paths[i]->addr_len);
	}
	return h;
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

/* The number of the i-th rail of a hello, counted among the rails of its transport. */
static uint32_t rail_number(const struct wire_hello *h, uint32_t i)
{
	uint32_t number = 0, k;

	for (k = 0; k < i; k++)
		number += h->rails[k].transport == h->rails[i].transport;
	return number;
}

/* The device that is paired with the dialler's device of this number, or NULL. */
static struct device *accept_device(const struct control *c, uint32_t transport, uint32_t number)
{
	struct device *of[DEVICES_MAX];
	uint32_t n = 0, i;

	for (i = 0; i < c->config.ndevices; i++)
		if (c->config.devices[i]->ops->transport == transport)
			of[n++] = c->config.devices[i];
	return n ? of[number % n] : NULL;
}

static struct path *accept_path(struct control *c, const struct wire_hello *h, uint32_t i, int *err)
{
	const struct wire_rail *theirs = &h->rails[i];
	uint32_t number = rail_number(h, i);
	struct device *dev = accept_device(c, theirs->transport, number);
	struct path *path;

	if (!dev || number >= RAIL_NUMBERS)
		return NULL;
	if (!policy_allows(c, h->host, theirs->transport)) {
		*err = *err ? *err : -EACCES;
		return NULL;
	}
	path = path_open(dev, theirs->id, err);
	if (!path)
		return NULL;
	path->rail.number = number;
	path->rail.addr_len = theirs->addr_len;
	memcpy(path->rail.addr, theirs->addr, theirs->addr_len);
	return path;
}

uint32_t accept_paths(struct control *c, const struct wire_hello *h, struct path **paths, int *err)
{
	uint32_t n = 0, i;

	for (i = 0; i < h->nrails; i++) {
		paths[n] = accept_path(c, h, i, err);
		if (paths[n])
			n++;
	}
	return n;
}

/* With a secret, sends the acceptor's PROOF before the HELLO_ACK that the proof covers. */
static int accept_send(struct control *c, struct peer *p, const struct wire_hello *ack)
{
	uint32_t len = wire_put_hello(c->tx, WIRE_HELLO_ACK, ack);
	uint8_t proof[HMAC_BYTES], frame[WIRE_HEADER + HMAC_BYTES];

	if (p->conn->auth) {
		if (auth_answer(p->conn->auth, c->tx + WIRE_HEADER, len - WIRE_HEADER, proof))
			return -ENOMEM;
		conn_send(c, p->conn, frame,
			  wire_put_bytes(frame, WIRE_PROOF, proof, sizeof(proof)));
		auth_free(p->conn->auth);
		p->conn->auth = NULL;
	}
	conn_send(c, p->conn, c->tx, len);
	return 0;
}

int accept_answer(struct control *c, struct peer *p)
{
	struct wire_hello ack = hello_make(c, p->paths, p->npaths, c->config.params->hello,
					   c->config.params->hello_len);

	return accept_send(c, p, &ack);
}
