/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the RDMA devices and ports of this host that the setting rdma_dev means. */
#include <stdlib.h>

#include "base/base.h"

#define BLANK " \t"

struct nic_word {
	const char *name;
	size_t len;
	uint32_t port; /* 0: any */
};

/* Returns the text behind a leading "^", if there is one. */
static const char *sign_of(const char *rules)
{
	rules += strspn(rules, BLANK);
	return rules + (*rules == '^');
}

static int is_exact(const char *rules)
{
	return *sign_of(rules) == '=';
}

/* Returns the text behind a leading "^" and "=". */
static const char *words_of(const char *rules)
{
	return sign_of(rules) + is_exact(rules);
}

static int is_not(const char *rules)
{
	return rules[strspn(rules, BLANK)] == '^';
}

/* Parses ":1" with nothing behind it. Returns 0 or -EINVAL. */
static int port_of(const char *text, size_t len, uint32_t *port)
{
	size_t i;

	*port = 0;
	for (i = 1; i < len && ascii_digit(text[i]) && *port < NIC_PORT_MAX; i++)
		*port = *port * 10 + (uint32_t)(text[i] - '0');
	return i == len && *port && *port <= NIC_PORT_MAX ? 0 : -EINVAL;
}

/* Parses the word at *text and moves *text to the next word (NULL: there is none). Returns 0 or
 * -EINVAL. */
static int word_at(const char **text, struct nic_word *w)
{
	const char *begin = *text + strspn(*text, BLANK), *end = begin + strcspn(begin, ",");
	const char *colon = memchr(begin, ':', (size_t)(end - begin));

	*text = *end ? end + 1 : NULL;
	while (end > begin && strchr(BLANK, end[-1]))
		end--;
	*w = (struct nic_word){begin, (size_t)((colon ? colon : end) - begin), 0};
	if (!w->len || w->len > NIC_NAME_MAX || strcspn(begin, BLANK "/^=") < w->len)
		return -EINVAL;
	return colon ? port_of(colon, (size_t)(end - colon), &w->port) : 0;
}

int nic_rules_check(const char *rules)
{
	struct nic_word w;
	int err = 0;

	for (rules = words_of(rules); rules && !err;)
		err = word_at(&rules, &w);
	return err;
}

static int is_name(const struct nic_word *w, const char *name)
{
	return strlen(name) == w->len && !memcmp(w->name, name, w->len);
}

static int is_any_name(const struct nic_word *w, const char *const *names, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (is_name(w, names[i]))
			return 1;
	return 0;
}

static int is_number(const struct nic_word *w)
{
	size_t at;

	for (at = 0; at < w->len; at++)
		if (!ascii_digit(w->name[at]))
			return 0;
	return 1;
}

/* A number is a place in the list unless a device has that number as its name. */
static int is_index(const struct nic_word *w, uint32_t i)
{
	return is_number(w) && strtoul(w->name, NULL, 10) == i;
}

static int means(const struct nic_word *w, int exact, const char *const *names, uint32_t n,
		 uint32_t i)
{
	if (is_any_name(w, names, n))
		return is_name(w, names[i]);
	if (exact)
		return 0;
	return is_index(w, i) || !strncmp(w->name, names[i], w->len);
}

int nic_matches(const char *rules, const char *const *names, uint32_t n, uint32_t i, uint32_t port)
{
	int others = is_not(rules), exact = is_exact(rules), hit = 0;
	const char *at = words_of(rules);
	struct nic_word w;

	while (at && !hit && !word_at(&at, &w))
		hit = means(&w, exact, names, n, i) && (!w.port || w.port == port);
	return hit != others;
}

int nic_missing(const char *rules, const char *const *names, uint32_t n, uint32_t k, char *word,
		size_t size)
{
	const char *at = words_of(rules);
	struct nic_word w;
	uint32_t i;

	if (is_not(rules))
		return 0;
	while (at && !word_at(&at, &w)) {
		for (i = 0; i < n && !means(&w, is_exact(rules), names, n, i); i++)
			;
		if (i < n || k--)
			continue;
		if (size > w.len) {
			memcpy(word, w.name, w.len);
			word[w.len] = 0;
		}
		return 1;
	}
	return 0;
}

int nic_named(const char *rules, const char *const *names, uint32_t n, uint32_t i)
{
	const char *at = words_of(rules);
	struct nic_word w;

	while (at && !is_not(rules) && !word_at(&at, &w)) {
		if (is_name(&w, names[i]))
			return 1;
		if (!is_exact(rules) && !is_any_name(&w, names, n) && is_index(&w, i))
			return 1;
	}
	return 0;
}

int nic_places(const char *rules)
{
	const char *at = rules ? words_of(rules) : NULL;
	struct nic_word w;

	while (at && !is_exact(rules) && !word_at(&at, &w))
		if (is_number(&w))
			return 1;
	return 0;
}

int nic_names(const char *rules)
{
	return rules && !is_not(rules);
}
