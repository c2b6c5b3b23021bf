/* SPDX-License-Identifier: Apache-2.0 */
/* Start-when and signal-when: words of the program's. An entry does not begin before the one is
 * there, and the other is set when it has succeeded. Nothing rings where a word changes, so those
 * that are awaited are looked at: some each turn, and before a sleep, which is short then, all. */
#include "engine/private.h"

#define WORD_BYTES 8u

static int is_there(const struct sync *s)
{
	return load_acquire(s->wait) >= s->wait_value;
}

/* That the processor may touch memory is looked at where peers are given rights to it; a dma-buf
 * and memory of a GPU are for devices. */
static int is_ours(const struct memory *m, uint64_t at, uint32_t rights)
{
	const struct extent *x = memory_span(m, memory_offset(m, at, WORD_BYTES))->extent;

	return x->rights & rights && !x->is_dmabuf && x->kind != GPU_MEMORY_DEVICE;
}

/* The region that a word lies in; NULL with op_fail() done. */
static struct memory *word_memory(struct op *op, const uint64_t *word, uint32_t rights)
{
	struct memory_map *map = op_engine(op)->map;
	uint64_t at = (uintptr_t)word;
	struct memory *m = map ? memory_map_find(map, at, WORD_BYTES) : NULL;

	if (!m)
		m = cursor_missing(op, 0, at, WORD_BYTES);
	if (!m || is_ours(m, at, rights))
		return m;
	op_fail(op, -EACCES, REASON_WORD_RIGHTS, at, 0, 0);
	return NULL;
}

/* A look for what is not known yet hears news, which may end what the entry waits for, and the
 * entry: so it is kept from beginning meanwhile. */
void sync_enter(struct op *op)
{
	const uint32_t writable = URCCL_RIGHT_WRITE | URCCL_RIGHT_ATOMIC;
	struct sync *s = sync_of(op);

	op->blockers++;
	if (op->bits & OP_AWAITS)
		s->wait_memory = word_memory(op, s->wait, writable | URCCL_RIGHT_READ);
	if (op->bits & OP_SIGNALS && !(op->bits & OP_DECIDED))
		s->signal_memory = word_memory(op, s->signal, writable);
	if (op->bits & OP_DECIDED)
		return;
	if (op->bits & OP_AWAITS && !is_there(s)) {
		rare_add(op_engine(op), &s->link, &op_engine(op)->words);
		return;
	}
	s->wait_memory = NULL;
	op->blockers--;
}

uint32_t sync_look(struct engine *e, uint32_t most)
{
	struct list *pos, *next;
	uint32_t n = 0;

	list_for_each_safe(pos, next, &e->words) {
		struct sync *s = list_entry(pos, struct sync, link);

		if (!most--) { /* the next look begins with it */
			list_del(&e->words);
			list_add_tail(&e->words, pos);
			break;
		}
		if (!is_there(s))
			continue;
		list_del(&s->link);
		s->wait_memory = NULL;
		tell_word(s->op);
		op_unblock(s->op);
		n++;
	}
	return n;
}

void sync_leave(struct op *op)
{
	list_del(&sync_of(op)->link);
}

/* Before the program can see that it ended. */
void sync_signal(const struct op *op)
{
	const struct sync *s = sync_of(op);

	store_release(s->signal, s->signal_value);
}

int sync_in(const struct op *op, const struct memory *m)
{
	const struct sync *s = sync_of(op);

	return op->bits & (OP_AWAITS | OP_SIGNALS) &&
	       (s->wait_memory == m || s->signal_memory == m);
}
