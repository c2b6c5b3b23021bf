/* SPDX-License-Identifier: Apache-2.0 */
/* Eps of the simulated network: open, connect, close, and the memory that peers may access. */
#include <stdlib.h>
#include "backend/sim/sim.h"

/* The address of an ep and the key of an exposure. Both ends are one process: no byte order. */
struct sim_addr {
	uint64_t cookie, place;
	uint32_t id, reserved;
};

struct sim_key {
	uint64_t cookie, place;
	uint64_t len;
	uint32_t exposure, reserved;
};

/* ---- ep: control thread ---- */

static void ep_init(struct sim_ep *ep, struct sim_device *dev)
{
	uint32_t i;

	ep->ep.dev = &dev->device;
	ep->dev = dev;
	list_init(&ep->link);
	list_init(&ep->change);
	list_init(&ep->sending);
	list_init(&ep->ops);
	list_init(&ep->unsent);
	for (i = 0; i < dev->faults.depth; i++) {
		ep->op_array[i].ep = ep;
		ep->op_array[i].next = ep->free_ops;
		ep->free_ops = &ep->op_array[i];
	}
	for (i = 0; i < SIM_PACKETS; i++) {
		ep->packets[i].data = ep->bytes + (size_t)i * SIM_PACKET_BYTES;
		ep->packets[i].next = ep->free_packets;
		ep->free_packets = &ep->packets[i];
	}
}

static void ep_delete(struct sim_ep *ep)
{
	if (!ep)
		return;
	free(ep->op_array);
	free(ep->bytes);
	free(ep);
}

static struct sim_ep *ep_new(struct sim_device *dev)
{
	struct sim_ep *ep = calloc(1, sizeof(*ep));

	if (!ep)
		return NULL;
	ep->op_array = calloc(dev->faults.depth, sizeof(*ep->op_array));
	ep->bytes = malloc((size_t)SIM_PACKETS * SIM_PACKET_BYTES);
	if (!ep->op_array || !ep->bytes) {
		ep_delete(ep);
		return NULL;
	}
	ep_init(ep, dev);
	return ep;
}

/* Makes room in the heap for the packets of one more ep. */
static int heap_grow(struct sim_device *dev)
{
	uint32_t size = (dev->neps + 1) * SIM_PACKETS;
	struct sim_packet **heap;

	if (size <= dev->heap_size)
		return 0;
	heap = realloc(dev->heap, size * sizeof(*heap));
	if (!heap)
		return -ENOMEM;
	dev->heap = heap;
	dev->heap_size = size;
	return 0;
}

static int ep_join(struct sim_ep *ep)
{
	struct sim_device *dev = ep->dev;
	int err = heap_grow(dev);

	if (err)
		return err;
	ep->id = handles_add(&dev->eps, ep);
	if (!ep->id)
		return -ENOSPC;
	dev->neps++;
	list_add_tail(&ep->link, &dev->members);
	ep->seed = sim_draw(dev->faults.seed, dev->slot, (uint32_t)dev->ep_serial++);
	return 0;
}

static void ep_leave(struct sim_ep *ep)
{
	if (!ep->id)
		return;
	handles_del(&ep->dev->eps, ep->id);
	ep->id = 0;
}

int sim_ep_open(struct device *d, struct ep **out, void *addr, uint32_t *addr_len)
{
	struct sim_device *dev = to_sim_device(d);
	struct sim_ep *ep = ep_new(dev);
	struct sim_addr a = {.cookie = dev->net->cookie, .place = dev->place};
	int err;

	if (!ep)
		return fail(-ENOMEM, "sim: no memory for an ep");
	sim_lock(dev);
	err = ep_join(ep);
	sim_unlock(dev);
	if (err) {
		ep_delete(ep);
		return fail(err, "sim: no room for one more than %u eps", dev->neps);
	}
	a.id = ep->id;
	memcpy(addr, &a, sizeof(a));
	*addr_len = sizeof(a);
	*out = &ep->ep;
	return 0;
}

/* Frees closed eps that have no packet in flight any more. */
static void left_delete(struct sim_device *dev)
{
	struct sim_ep *ep;

	list_for_each_entry_safe(ep, &dev->left, link) {
		if (sim_op_left(ep))
			continue;
		list_del(&ep->link);
		dev->neps--;
		ep_delete(ep);
	}
}

void sim_ep_free(struct ep *e)
{
	struct sim_ep *ep = to_sim_ep(e);
	struct sim_device *dev = ep->dev;

	assert(ep->state == SIM_EP_NEW || ep->state == SIM_EP_CLOSED);
	sim_lock(dev);
	ep_leave(ep);
	list_del(&ep->link);
	list_add_tail(&ep->link, &dev->left);
	left_delete(dev);
	sim_unlock(dev);
}

void sim_ep_lose_left(struct sim_device *dev)
{
	struct list *pos;

	sim_lock(dev);
	list_for_each(pos, &dev->left)
		sim_op_lose_all(list_entry(pos, struct sim_ep, link));
	left_delete(dev);
	sim_unlock(dev);
}

/* ---- ep: engine thread ---- */

static void ep_change(struct sim_ep *ep, struct list *head)
{
	list_del(&ep->change);
	list_add_tail(&ep->change, head);
	sim_wake(ep->dev);
}

void sim_ep_down(struct sim_ep *ep, int err, int heard)
{
	if (ep->down || ep->state == SIM_EP_NEW)
		return;
	ep->down = err;
	ep->down_heard = heard;
	ep_change(ep, &ep->dev->ends);
}

static int ep_names(const struct sim_ep *ep, const struct sim_ep *peer)
{
	return ep->peer_place == peer->dev->place && ep->peer_id == peer->id;
}

static int is_dead(const struct sim_ep *ep)
{
	return sim_is_dead(ep->dev, sim_now(ep->dev));
}

/* Both eps are up once each has named the other. */
static void ep_connect_both(struct sim_ep *ep, struct sim_ep *peer)
{
	if (is_dead(ep)) {
		sim_ep_down(ep, -ENETDOWN, 0);
	} else if (!peer || peer == ep || is_dead(peer)) {
		sim_ep_down(ep, -EHOSTUNREACH, 0);
	} else if (peer->state == SIM_EP_CONNECTING && !peer->down && ep_names(peer, ep)) {
		peer->state = ep->state = SIM_EP_UP;
		ep_change(ep, &ep->dev->ups);
		ep_change(peer, &peer->dev->ups);
	} else if (peer->state != SIM_EP_NEW) {
		sim_ep_down(ep, -ECONNREFUSED, 0);
	}
}

int sim_ep_connect(struct ep *e, const void *addr, uint32_t len, int active,
		   const struct sockaddr_storage *via)
{
	struct sim_ep *ep = to_sim_ep(e);
	struct urccl_sim *net = ep->dev->net;
	struct sim_ep *peer = NULL;
	struct sim_addr a;

	(void)active;
	(void)via;
	if (len != sizeof(a))
		return -EINVAL;
	memcpy(&a, addr, sizeof(a));
	sim_lock(ep->dev);
	assert(ep->state == SIM_EP_NEW);
	ep->state = SIM_EP_CONNECTING;
	ep->peer_place = a.place;
	ep->peer_id = a.id;
	if (a.cookie == net->cookie)
		peer = sim_find_ep(net, a.place, a.id);
	ep_connect_both(ep, peer);
	sim_unlock(ep->dev);
	return 0;
}

static void forget_messages(struct sim_ep *ep)
{
	struct sim_device *dev = ep->dev;
	uint32_t i;

	for (i = dev->inbox_head; i != dev->inbox_tail; i++)
		if (dev->inbox[i & (SIM_INBOX - 1)].ep == ep)
			dev->inbox[i & (SIM_INBOX - 1)].ep = NULL;
}

void sim_ep_close(struct ep *e)
{
	struct sim_ep *ep = to_sim_ep(e), *peer;
	struct sim_device *dev = ep->dev;
	int in_order;

	sim_lock(dev);
	peer = sim_find_ep(dev->net, ep->peer_place, ep->peer_id);
	if (peer && ep_names(peer, ep))
		sim_ep_down(peer, -ECONNRESET, 1);
	in_order = !ep->down;
	ep->down = -ECANCELED;
	sim_op_end_all(ep, -ECANCELED);
	if (in_order)
		sim_op_lose_all(ep);
	forget_messages(ep);
	ep_leave(ep);
	ep->state = SIM_EP_CLOSING;
	ep_change(ep, &dev->ends);
	sim_unlock(dev);
}

/* ---- memory of peers ---- */

int sim_expose(struct exposure *exposure, void *key, uint32_t key_max)
{
	struct sim_device *dev = to_sim_device(exposure->ep->dev);
	struct sim_key k = {.cookie = dev->net->cookie, .place = dev->place, .len = exposure->len};

	if (key_max < sizeof(k))
		return -ENOSPC;
	sim_lock(dev);
	exposure->id = handles_add(&dev->exposures, exposure);
	sim_unlock(dev);
	if (!exposure->id)
		return -ENOSPC;
	k.exposure = exposure->id;
	memcpy(key, &k, sizeof(k));
	return sizeof(k);
}

int sim_unexpose(struct exposure *exposure)
{
	struct sim_device *dev = to_sim_device(exposure->ep->dev);

	sim_lock(dev);
	sim_settle(dev, exposure);
	handles_del(&dev->exposures, exposure->id);
	sim_unlock(dev);
	return 0;
}

int sim_import(struct ep *e, const void *key, uint32_t key_len, uint64_t len, struct rkey *rkey)
{
	struct sim_ep *ep = to_sim_ep(e);
	struct sim_key k;

	if (key_len != sizeof(k))
		return -EINVAL;
	memcpy(&k, key, sizeof(k));
	if (k.cookie != ep->dev->net->cookie || k.place != ep->peer_place || k.len != len)
		return -EACCES;
	rkey->v[0] = k.exposure;
	rkey->v[1] = 0;
	return 0;
}

void sim_forget(struct ep *ep, struct rkey *rkey)
{
	(void)ep;
	rkey->v[0] = 0;
}
