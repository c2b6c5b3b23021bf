/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks as cases see them. */
#include <stdlib.h>
#include "rig.h"

void piece_fill(struct piece *p, enum chunk_kind kind, struct end *end, const struct area *local,
		uint64_t local_off, const struct grant *g, uint64_t off, uint32_t len)
{
	*p = (struct piece){.taken = 0};
	p->chunk.ep = end->ep;
	p->chunk.kind = (uint8_t)kind;
	p->chunk.op = p;
	p->chunk.key = &g->rkey;
	p->chunk.off = off;
	p->chunk.len = len;
	if (local) {
		p->chunk.local = area_at(local, local_off, len);
		p->chunk.memory = local->memory;
	}
}

void piece_fill_send(struct piece *p, struct end *end, void *data, uint32_t len)
{
	*p = (struct piece){.taken = 0};
	p->chunk.ep = end->ep;
	p->chunk.kind = CHUNK_SEND;
	p->chunk.cls = URCCL_CLASS_CONTROL;
	p->chunk.op = p;
	p->chunk.local = data;
	p->chunk.len = len;
}

int piece_try(struct piece *p)
{
	struct end *end = p->chunk.ep->owner;
	struct chunk *chunk = &p->chunk;

	p->taken = 1;
	p->out = 0;
	p->taken = (int)end->node->dev->ops->post(end->ep, &chunk, 1);
	CHECK(p->taken == 0 || p->taken == 1);
	end->taken += (uint32_t)p->taken;
	return p->taken;
}

/* A helper of the backend's may be with its provider just now, but it waits for no poll of ours. */
void piece_take(struct piece *p)
{
	uint64_t until = clock_ns() + RIG_PATIENCE_NS;

	while (!piece_try(p))
		CHECK(!is_late(until));
}

void piece_post(struct rig *rig, struct piece *p)
{
	WAIT(rig, piece_try(p));
}

void pieces_post(struct rig *rig, struct piece *pieces, uint32_t n)
{
	struct end *end = pieces->chunk.ep->owner;
	struct chunk **chunks = malloc(n * sizeof(struct chunk *));
	uint32_t i, taken, done = 0;

	CHECK(chunks);
	for (i = 0; i < n; i++) {
		chunks[i] = &pieces[i].chunk;
		pieces[i].taken = 1;
	}
	while (done < n) {
		taken = rig->backend->post(end->ep, chunks + done, n - done);
		end->taken += taken;
		done += taken;
		rig_step(rig);
	}
	free(chunks);
}

int32_t piece_run(struct rig *rig, struct piece *p)
{
	piece_post(rig, p);
	WAIT(rig, p->out);
	return p->chunk.res;
}

void piece_flush(struct rig *rig, struct end *end, const struct grant *g)
{
	struct piece p;

	piece_fill(&p, CHUNK_FLUSH, end, NULL, 0, g, 0, 0);
	CHECK_EQ(piece_run(rig, &p), 0);
}

int32_t piece_move(struct rig *rig, enum chunk_kind kind, struct end *end, const struct area *local,
		   uint64_t local_off, const struct grant *g, uint64_t off, uint32_t len)
{
	struct piece p;

	piece_fill(&p, kind, end, local, local_off, g, off, len);
	if (!piece_run(rig, &p) && kind == CHUNK_WRITE && !(p.chunk.flags & CHUNK_QUIET))
		piece_flush(rig, end, g);
	return p.chunk.res;
}
