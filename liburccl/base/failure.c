/* SPDX-License-Identifier: Apache-2.0 */
/* Records of failures. The engine writes them; any thread may read them at any time. */
#include "base/base.h"

/* A reader may copy a record while the engine overwrites it. So both copy whole words, written with
 * release and read with acquire: a reader that sees a word of the newer record then also sees that
 * the id has changed. */
typedef uint64_t __attribute__((may_alias)) record_word;

#define RECORD_WORDS (sizeof(struct failure) / sizeof(record_word))
_Static_assert(sizeof(struct failure) == 64, "a record is eight words");
_Static_assert(offsetof(struct failure, id) == 0, "the id is the first word");

uint32_t failures_add(struct failures *f, const struct failure *what)
{
	const record_word *from = (const record_word *)what;
	record_word *to;
	uint32_t detail = f->last + 1;
	size_t i;

	/* 0 means "no detail". */
	if (!detail)
		detail = 1;
	f->last = detail;
	to = (record_word *)&f->ring[detail % FAILURES];
	store_relaxed(to, 0);
	for (i = 1; i < RECORD_WORDS; i++)
		store_release(to + i, from[i]);
	store_release(to, (uint64_t)detail);
	return detail;
}

int failures_get(const struct failures *f, uint32_t detail, struct failure *out)
{
	const record_word *from = (const record_word *)&f->ring[detail % FAILURES];
	record_word *to = (record_word *)out;
	size_t i;

	if (!detail || load_acquire(from) != detail)
		return -ENOENT;
	to[0] = detail;
	for (i = 1; i < RECORD_WORDS; i++)
		to[i] = load_acquire(from + i);
	return load_relaxed(from) == detail ? 0 : -ENOENT;
}
