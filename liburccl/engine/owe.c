/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The failed-notification queue: notifications that will not come, while the window has no slot to
 * tell the peer. Tag and reason are kept here, so that the entry ends in time, and a receiver that
 * is slow or frozen still learns of each. All peers share OWED_MAX records. When they are used up,
 * the peer with the most records is given up: its LOST stands for them.
 */
#include "engine/private.h"

/* Records are numbered from 1. Unused ones are not touched. */
static struct owed *record(const struct engine *e, uint32_t number)
{
	return &e->owed.records[number - 1];
}

static uint32_t record_new(struct engine *e)
{
	uint32_t number = e->owed.free;

	if (number) {
		e->owed.free = record(e, number)->next;
		return number;
	}
	return e->owed.used < OWED_MAX ? ++e->owed.used : 0;
}

static void record_free(struct engine *e, uint32_t number)
{
	record(e, number)->next = e->owed.free;
	e->owed.free = number;
}

static uint32_t list_take(struct engine_peer *p)
{
	uint32_t number = p->owed.first;

	if (number) {
		p->owed.first = record(p->engine, number)->next;
		p->owed.n--;
	}
	return number;
}

void owed_drop(struct engine_peer *p)
{
	uint32_t number;

	while ((number = list_take(p)))
		record_free(p->engine, number);
}

static void give_most_up(struct engine *e)
{
	struct engine_peer *most = NULL, *p;
	struct list *pos;

	list_for_each(pos, &e->peers) {
		p = list_entry(pos, struct engine_peer, link);
		if (p->owed.n && (!most || p->owed.n > most->owed.n))
			most = p;
	}
	if (!most)
		return;
	most->owed.given_up = 1;
	peer_give_up(e, most, REASON_OWED, most->owed.n);
	owed_drop(most);
}

void owe(struct engine_peer *p, uint64_t tag, int64_t res)
{
	struct engine *e = p->engine;
	uint32_t number = p->owed.given_up ? 0 : record_new(e);
	struct owed *o;

	if (!number && !p->owed.given_up) {
		give_most_up(e);
		number = p->owed.given_up ? 0 : record_new(e);
	}
	if (!number)
		return;
	o = record(e, number);
	*o = (struct owed){.tag = tag, .res = (int32_t)res};
	if (p->owed.first)
		record(e, p->owed.last)->next = number;
	else
		p->owed.first = number;
	p->owed.last = number;
	p->owed.n++;
}

int owed_take(struct engine_peer *p, struct owed *out)
{
	uint32_t number = list_take(p);

	if (!number)
		return 0;
	*out = *record(p->engine, number);
	record_free(p->engine, number);
	return 1;
}
