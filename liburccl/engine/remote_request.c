/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes atomics of peers on memory of ours, by instructions of the CPU. They are therefore
 * atomic with each other, for any peers and transports, and with atomics of the program. A request
 * is not trusted: its export is looked up in the engine's own table, and defines who may access
 * which bytes how.
 */
#include "engine/peer.h"

#define WORD sizeof(uint64_t)

static int32_t carry_out(const struct engine *e, const struct engine_peer *p,
			 const struct atomic_request *m, uint64_t *old)
{
	const struct exposure *x = exposure_find(e, p, m->grant, URCCL_RIGHT_ATOMIC);
	uint64_t *word, run, expected = m->operand;

	if (!x)
		return -EACCES;
	if (x->len < WORD || m->off > x->len - WORD)
		return -ERANGE;
	word = memory_at(x->memory, x->off + m->off, &run);
	if ((uintptr_t)word % WORD || run < WORD)
		return -EINVAL;
	if (m->kind == ATOMIC_ADD) {
		*old = __atomic_fetch_add(word, m->operand, __ATOMIC_SEQ_CST);
		return 0;
	}
	__atomic_compare_exchange_n(word, &expected, m->swap, 0, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
	*old = expected;
	return 0;
}

static void record_send(struct engine_peer *p, struct atomic_record *r)
{
	struct atomic_answer *room = atomic_room(p, MESSAGE_ANSWER);

	if (room)
		*room = r->answer;
	p->atomics->records_due += (uint32_t)!room - r->due;
	r->due = !room;
}

/* A peer that is suspended here may not be suspended on its own side yet. */
static int serves(const struct engine_peer *p)
{
	return p->state == PEER_UP || (p->state == PEER_SUSPENDED && p->nup);
}

void remote_request(struct engine *e, struct engine_peer *p, const struct atomic_request *m)
{
	struct atomic_record *r = &p->atomics->records[m->seq % ATOMIC_WINDOW];
	int32_t ahead = (int32_t)(m->seq - r->answer.seq);

	/* A correct peer sends no request before it has keys, and gets keys only after it is up
	 * here. */
	if (!serves(p) || (r->used && ahead < 0))
		return;
	store_relaxed(&p->heard, e->iterations);
	if (!r->used || ahead) {
		r->used = 1;
		r->answer = (struct atomic_answer){.seq = m->seq, .res = -ECANCELED};
		if (m->kind != ATOMIC_DROP)
			r->answer.res = carry_out(e, p, m, &r->answer.old);
	}
	record_send(p, r);
}

void remote_request_requeue(struct engine_peer *p, const struct atomic_answer *m)
{
	struct atomic_record *r = &p->atomics->records[m->seq % ATOMIC_WINDOW];

	if (!r->used || r->answer.seq != m->seq)
		return;
	p->atomics->records_due += 1u - r->due;
	r->due = 1;
}

void remote_requests_requeue(struct engine_peer *p)
{
	struct atomics *a = p->atomics;
	uint32_t i;

	for (i = 0; i < ATOMIC_WINDOW; i++) {
		a->records_due += (uint32_t)a->records[i].used - a->records[i].due;
		a->records[i].due = a->records[i].used;
	}
}

void remote_request_due(struct engine_peer *p)
{
	struct atomics *a = p->atomics;
	uint32_t i;

	for (i = 0; i < ATOMIC_WINDOW && a->records_due; i++)
		if (a->records[i].due)
			record_send(p, &a->records[i]);
}
