/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of a device that last for a while, and the speed of its link. Its seed and the time at
 * which it was opened decide when faults begin. */
#include "backend/sim/sim.h"

#define WINDOWS_BEHIND 4096u /* the most that are stepped through after a long pause */

enum draw {
	DRAW_FREEZE = 0x5eed0000,
	DRAW_FLAP = 0x5eed0002,
	DRAW_RESTART = 0x5eed0004,
	DRAW_KILL = 0x5eed0006
};

static uint64_t device_draw(const struct sim_device *dev, uint32_t what, uint64_t number)
{
	return sim_draw(dev->faults.seed ^ dev->slot, what, (uint32_t)number);
}

static int in_window(const struct sim_device *dev, struct fault_windows *s,
		     const struct fault_window *how, uint32_t what, uint64_t now)
{
	uint64_t most = WINDOWS_BEHIND * (how->every.max + how->lasts.max);

	if (!how->every.max)
		return 0;
	if (now > s->ends && now - s->ends > most)
		s->ends = now - most;
	while (now >= s->ends) {
		s->begins = s->ends + sim_within(&how->every, device_draw(dev, what, s->number));
		s->ends = s->begins +
			  sim_within(&how->lasts, device_draw(dev, what + 1, s->number++));
	}
	return now >= s->begins;
}

uint64_t sim_frozen_until(struct sim_device *dev, uint64_t now)
{
	if (!in_window(dev, &dev->freeze, &dev->faults.freeze, DRAW_FREEZE, now))
		return 0;
	return dev->freeze.ends;
}

int sim_is_cut(struct sim_device *dev, uint64_t now)
{
	return in_window(dev, &dev->flap, &dev->faults.flap, DRAW_FLAP, now);
}

static void next_restart(struct sim_device *dev, uint64_t now)
{
	const struct sim_range *every = &dev->faults.restart;

	dev->restart_at = NEVER_NS;
	if (every->max)
		dev->restart_at =
			now + sim_within(every, device_draw(dev, DRAW_RESTART, dev->restarts++));
}

void sim_windows_begin(struct sim_device *dev, uint64_t now)
{
	dev->freeze.ends = dev->flap.ends = dev->kill.ends = now;
	next_restart(dev, now);
}

/* Both ends get EVENT_DOWN. */
void sim_break_all(struct sim_device *dev)
{
	struct sim_ep *ep, *peer;

	list_for_each_entry(ep, &dev->members, link) {
		if (ep->state != SIM_EP_UP && ep->state != SIM_EP_CONNECTING)
			continue;
		peer = sim_find_ep(dev->net, ep->peer_place, ep->peer_id);
		if (peer)
			sim_ep_down(peer, -ECONNRESET, 1);
		sim_ep_down(ep, -ECONNRESET, 0);
	}
}

void sim_restart(struct sim_device *dev, uint64_t now)
{
	if (now < dev->restart_at)
		return;
	next_restart(dev, now);
	sim_break_all(dev);
}

int sim_is_dead(struct sim_device *dev, uint64_t now)
{
	if (dev->net->pulled >> dev->number & 1)
		return 1;
	return in_window(dev, &dev->kill, &dev->faults.kill, DRAW_KILL, now);
}

void sim_kill(struct sim_device *dev, uint64_t now)
{
	int was = dev->dead;

	dev->dead = sim_is_dead(dev, now);
	if (dev->dead && !was)
		sim_break_all(dev);
}

uint64_t sim_window_due(const struct sim_device *dev)
{
	uint64_t kill = dev->dead ? dev->kill.ends : dev->kill.begins;

	if (!dev->faults.kill.every.max || dev->restart_at < kill)
		return dev->restart_at;
	return kill;
}

uint64_t sim_line(struct sim_device *dev, uint64_t len, uint64_t now)
{
	uint64_t from = dev->line_free > now ? dev->line_free : now;

	if (!dev->faults.bytes_per_s)
		return 0;
	/* A packet is small: no product passes 64 bits. */
	dev->line_free = from + len * NSEC_PER_SEC / dev->faults.bytes_per_s;
	return dev->line_free - now;
}
