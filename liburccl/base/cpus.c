/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of CPUs as /sys and taskset(1) write them: "0-3,8". */
#include "base/base.h"

/* Parses the digits at *text and moves *text behind them. Returns 0 or -EINVAL. */
static int number(const char **text, uint32_t *n)
{
	const char *c = *text;

	for (*n = 0; *c >= '0' && *c <= '9'; c++) {
		*n = *n * 10 + (uint32_t)(*c - '0');
		if (*n >= CPUS_MAX)
			return -EINVAL;
	}
	if (c == *text)
		return -EINVAL;
	*text = c;
	return 0;
}

int cpus_parse(const char *text, struct cpus *cpus)
{
	uint32_t from, to;

	memset(cpus, 0, sizeof(*cpus));
	for (;; text++) {
		if (number(&text, &from))
			return -EINVAL;
		to = from;
		if (*text == '-') {
			text++;
			if (number(&text, &to) || to < from)
				return -EINVAL;
		}
		for (; from <= to; from++)
			cpus->bits[from / 64] |= 1ull << from % 64;
		if (!*text)
			return 0;
		if (*text != ',')
			return -EINVAL;
	}
}

uint32_t cpus_count(const struct cpus *cpus)
{
	uint32_t i, n = 0;

	for (i = 0; i < CPUS_MAX / 64; i++)
		n += (uint32_t)__builtin_popcountll(cpus->bits[i]);
	return n;
}

int cpus_missing(const struct cpus *wanted, const struct cpus *there)
{
	uint32_t i;

	for (i = 0; i < CPUS_MAX; i++)
		if (wanted->bits[i / 64] & ~there->bits[i / 64] & 1ull << i % 64)
			return (int)i;
	return -ENOENT;
}
