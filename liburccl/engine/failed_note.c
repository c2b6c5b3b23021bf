/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The failed-notification queue: notifications that will not come, while the window has no slot to
 * tell the peer. Tag and reason are kept here, so that the entry ends in time, and a receiver that
 * is slow or frozen still learns of each. All peers share FAILED_NOTES_MAX records. When they are
 * used up, the peer with the most records is given up: its LOST stands for them.
 */
#include "engine/peer.h"

/* Records are numbered from 1. Unused ones are not touched. */
static struct failed_note *record(const struct engine *e, uint32_t number)
{
	return &e->failed_notes.records[number - 1];
}

static uint32_t record_new(struct engine *e)
{
	uint32_t number = e->failed_notes.free;

	if (number) {
		e->failed_notes.free = record(e, number)->next;
		return number;
	}
	return e->failed_notes.used < FAILED_NOTES_MAX ? ++e->failed_notes.used : 0;
}

static void record_free(struct engine *e, uint32_t number)
{
	record(e, number)->next = e->failed_notes.free;
	e->failed_notes.free = number;
}

static uint32_t list_take(struct engine_peer *p)
{
	uint32_t number = p->failed_notes.first;

	if (number) {
		p->failed_notes.first = record(p->engine, number)->next;
		p->failed_notes.n--;
	}
	return number;
}

void failed_notes_drop(struct engine_peer *p)
{
	uint32_t number;

	while ((number = list_take(p)))
		record_free(p->engine, number);
}

static void give_up_fullest(struct engine *e)
{
	struct engine_peer *most = NULL, *p;

	list_for_each_entry(p, &e->peers, link) {
		if (p->failed_notes.n && (!most || p->failed_notes.n > most->failed_notes.n))
			most = p;
	}
	if (!most)
		return;
	most->failed_notes.given_up = 1;
	peer_give_up(e, most, REASON_FAILED_NOTES, most->failed_notes.n);
	failed_notes_drop(most);
}

void failed_note_add(struct engine_peer *p, uint64_t tag, int64_t res)
{
	struct engine *e = p->engine;
	uint32_t number = p->failed_notes.given_up ? 0 : record_new(e);
	struct failed_note *o;

	if (!number && !p->failed_notes.given_up) {
		give_up_fullest(e);
		number = p->failed_notes.given_up ? 0 : record_new(e);
	}
	if (!number)
		return;
	o = record(e, number);
	*o = (struct failed_note){.tag = tag, .res = (int32_t)res};
	if (p->failed_notes.first)
		record(e, p->failed_notes.last)->next = number;
	else
		p->failed_notes.first = number;
	p->failed_notes.last = number;
	p->failed_notes.n++;
}

int failed_note_pop(struct engine_peer *p, struct failed_note *out)
{
	uint32_t number = list_take(p);

	if (!number)
		return 0;
	*out = *record(p->engine, number);
	record_free(p->engine, number);
	return 1;
}
