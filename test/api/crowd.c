/* SPDX-License-Identifier: Apache-2.0 */
#include "crowd.h"

void crowd_open(struct crowd *c, int argc, char **argv, uint32_t n, uint32_t slots)
{
	uint32_t i;

	pair_options(&c->p, argc, argv);
	c->p.faults = c->faults;
	c->p.params.max_inflight_ops = c->most;
	pair_sim(&c->p);
	c->n = n;
	c->sides = calloc(n, sizeof(*c->sides));
	c->handles = calloc(n, sizeof(*c->handles));
	CHECK(c->sides && c->handles);
	c->p.ring_params.entries = 1024;
	c->p.ring_params.event_slots = slots;
	side_open(&c->p, &c->p.b);
	side_accept(&c->p.b, 1);
	c->p.params.flags |= URCCL_OPEN_INLINE;
	for (i = 0; i < n; i++) {
		side_open(&c->p, &c->sides[i]);
		side_connect(&c->sides[i], &c->p.b);
		c->handles[i] = c->p.b.peer.id;
	}
	side_watch(&c->p.b, (struct urccl_peer){0}, 2);
}

void crowd_close(struct crowd *c)
{
	uint32_t i;

	for (i = 0; i < c->n; i++)
		side_close(&c->sides[i]);
	side_close(&c->p.b);
	if (c->p.sim)
		CHECK_EQ(urccl_sim_close(c->p.sim), 0);
	free(c->sides);
	free(c->handles);
}

void crowd_turn(struct crowd *c)
{
	uint32_t i;

	side_turn(&c->p.b);
	for (i = 0; i < c->n; i++)
		side_turn(&c->sides[i]);
}

uint32_t crowd_find(const struct crowd *c, uint32_t handle)
{
	uint32_t i;

	for (i = 0; i < c->n && c->handles[i] != handle;)
		i++;
	CHECK(i < c->n);
	return i;
}
