/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated network: its devices, the random draws of its faults, and packets in flight ordered
 * by arrival time. */
#include <stdlib.h>
#include "backend/sim/sim.h"

/* ---- dice ---- */

/* The output function of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
 * generators", 2014). */
static uint64_t splitmix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

uint64_t sim_draw(uint64_t seed, uint32_t what, uint32_t number)
{
	uint64_t step = 1 + (((uint64_t)what << 32) | number);

	return splitmix(seed + step * 0x9e3779b97f4a7c15ull);
}

uint64_t sim_within(const struct sim_range *range, uint64_t draw)
{
	return range->min + draw % (range->max - range->min + 1);
}

int sim_happens(uint64_t share, uint64_t draw)
{
	return draw % SHARE_ALL < share;
}

/* ---- packets under way ---- */

static int earlier(const struct sim_packet *a, const struct sim_packet *b)
{
	return a->due != b->due ? a->due < b->due : a->serial < b->serial;
}

static void heap_set(struct sim_device *dev, uint32_t pos, struct sim_packet *p)
{
	dev->heap[pos] = p;
	p->pos = pos;
}

static void heap_up(struct sim_device *dev, uint32_t pos, struct sim_packet *p)
{
	while (pos && earlier(p, dev->heap[(pos - 1) / 2])) {
		heap_set(dev, pos, dev->heap[(pos - 1) / 2]);
		pos = (pos - 1) / 2;
	}
	heap_set(dev, pos, p);
}

static void heap_down(struct sim_device *dev, uint32_t pos, struct sim_packet *p)
{
	uint32_t child;

	while ((child = 2 * pos + 1) < dev->heap_len) {
		if (child + 1 < dev->heap_len && earlier(dev->heap[child + 1], dev->heap[child]))
			child++;
		if (!earlier(dev->heap[child], p))
			break;
		heap_set(dev, pos, dev->heap[child]);
		pos = child;
	}
	heap_set(dev, pos, p);
}

void sim_heap_add(struct sim_device *dev, struct sim_packet *p, uint64_t due)
{
	assert(dev->heap_len < dev->heap_size);
	p->due = due;
	p->serial = dev->serial++;
	heap_up(dev, dev->heap_len++, p);
}

void sim_heap_del(struct sim_device *dev, struct sim_packet *p)
{
	struct sim_packet *last = dev->heap[--dev->heap_len];
	uint32_t pos = p->pos;

	assert(pos <= dev->heap_len);
	if (last == p)
		return;
	if (pos && earlier(last, dev->heap[(pos - 1) / 2]))
		heap_up(dev, pos, last);
	else
		heap_down(dev, pos, last);
}

/* ---- devices ---- */

int sim_join(struct urccl_sim *net, struct sim_device *dev)
{
	uint32_t slot;

	pthread_mutex_lock(&net->lock);
	for (slot = 0; slot < SIM_DEVICES && net->devices[slot]; slot++)
		;
	if (slot < SIM_DEVICES) {
		dev->net = net;
		dev->slot = slot;
		dev->place = net->places++ * SIM_DEVICES + slot;
		net->devices[slot] = dev;
		net->joined += !dev->number;
	}
	pthread_mutex_unlock(&net->lock);
	if (slot == SIM_DEVICES)
		return fail(-ENOSPC, "sim: %u rails have joined the network, which is its limit",
			    SIM_DEVICES);
	return 0;
}

void sim_leave(struct sim_device *dev)
{
	struct urccl_sim *net = dev->net;

	pthread_mutex_lock(&net->lock);
	net->devices[dev->slot] = NULL;
	net->joined -= !dev->number;
	pthread_mutex_unlock(&net->lock);
}

struct sim_ep *sim_find_ep(struct urccl_sim *net, uint64_t place, uint32_t id)
{
	const struct sim_device *dev = net->devices[place % SIM_DEVICES];

	return dev && dev->place == place ? handles_get(&dev->eps, id) : NULL;
}

/* The lock orders this with the other device's arm, so asleep needs no memory order. */
void sim_wake(struct sim_device *dev)
{
	if (dev->clock)
		clock_busy(dev->clock);
	if (!dev->asleep)
		return;
	dev->asleep = 0;
	dev->woken = 1;
	wake_write(dev->wake_fd);
}

/* ---- public ---- */

/* The default: faults that a correct program does not notice. */
#define HARMLESS "delay=1us..20us,early=50%,duplicate=12.5%"

static int faults_all(struct urccl_sim *net, const char *text)
{
	uint32_t i;
	int err = 0;

	for (i = 0; i < FAULT_RAILS && !err; i++) {
		faults_init(&net->faults[i]);
		err = faults_parse(text, i, &net->faults[i]);
	}
	return err;
}

int urccl_sim_open(const char *faults, struct urccl_sim **sim)
{
	struct urccl_sim *net;
	int err;

	if (!sim)
		return fail(-EINVAL, "sim: nowhere to put the network");
	net = calloc(1, sizeof(*net));
	if (!net)
		return fail(-ENOMEM, "sim: no memory for a network");
	err = faults_all(net, faults ? faults : HARMLESS);
	if (err)
		goto free_net;
	err = random_bytes(&net->cookie, sizeof(net->cookie));
	if (err) {
		fail(err, "sim: no random bytes");
		goto free_net;
	}
	pthread_mutex_init(&net->lock, NULL); /* cannot fail on Linux */
	clock_init(&net->clock);
	*sim = net;
	return 0;
free_net:
	free(net);
	return err;
}

int urccl_sim_close(struct urccl_sim *sim)
{
	uint32_t joined;

	if (!sim)
		return 0;
	pthread_mutex_lock(&sim->lock);
	joined = sim->joined;
	pthread_mutex_unlock(&sim->lock);
	if (joined)
		return fail(-EBUSY, "sim: %u contexts use the network", joined);
	clock_fini(&sim->clock);
	pthread_mutex_destroy(&sim->lock);
	free(sim);
	return 0;
}

void urccl_sim_pull(struct urccl_sim *sim, unsigned int rail, int on)
{
	uint32_t i;

	if (!sim || rail >= FAULT_RAILS)
		return;
	pthread_mutex_lock(&sim->lock);
	sim->pulled = on ? sim->pulled | 1u << rail : sim->pulled & ~(1u << rail);
	for (i = 0; i < SIM_DEVICES && on; i++)
		if (sim->devices[i] && sim->devices[i]->number == rail)
			sim_break_all(sim->devices[i]);
	pthread_mutex_unlock(&sim->lock);
}

void urccl_sim_freeze(struct urccl_sim *sim, int on)
{
	uint32_t i;

	if (!sim)
		return;
	pthread_mutex_lock(&sim->lock);
	sim->frozen = !!on;
	for (i = 0; i < SIM_DEVICES; i++)
		if (sim->devices[i])
			sim_wake(sim->devices[i]);
	pthread_mutex_unlock(&sim->lock);
}
