/* SPDX-License-Identifier: Apache-2.0 */
/* Values of settings: in the struct, and as text. */
#include <stdio.h>

#include "setting.h"

#define POSSIBLE_MAX 200u

static uint32_t classes_of(const struct setting *row)
{
	return row->kind == SET_CLASSES ? CLASSES : 1;
}

void setting_variable(const struct setting *row, char name[VARIABLE_MAX])
{
	char *c;

	snprintf(name, VARIABLE_MAX, "URCCL_%s", row->name);
	for (c = name; *c; c++)
		*c = ascii_upper(*c);
}

/* ---- in the struct ---- */

int64_t setting_get(const struct setting *row, const struct urccl_params *p, uint32_t cls)
{
	uint32_t unused = (uint32_t)(64 - 8 * row->width);
	uint64_t v = 0;

	memcpy(&v, (const char *)p + row->at + cls * row->width, row->width);
	if (row->is_signed) /* little-endian: the sign is moved to where int64_t has it */
		return (int64_t)(v << unused) >> unused;
	return (int64_t)v;
}

void setting_put(const struct setting *row, struct urccl_params *p, uint32_t cls, int64_t value)
{
	memcpy((char *)p + row->at + cls * row->width, &value, row->width);
}

const char *setting_string(const struct setting *row, const struct urccl_params *p)
{
	const char *s;

	memcpy(&s, (const char *)p + row->at, sizeof(s));
	return s;
}

void setting_put_string(const struct setting *row, struct urccl_params *p, const char *s)
{
	memcpy((char *)p + row->at, &s, sizeof(s));
}

void settings_defaults(struct urccl_params *p)
{
	uint32_t i, cls;

	memset(p, 0, sizeof(*p));
	p->size = sizeof(*p);
	for (i = 0; i < settings_count; i++) {
		const struct setting *row = &settings_table[i];

		for (cls = 0; row->kind != SET_TEXT && cls < classes_of(row); cls++)
			setting_put(row, p, cls, row->normal);
	}
}

void setting_fill(const struct setting *row, struct urccl_params *p)
{
	if (row->kind != SET_TEXT && row->least > 0 && !setting_get(row, p, 0))
		setting_put(row, p, 0, row->normal);
}

int setting_is_default(const struct setting *row, const struct urccl_params *p)
{
	uint32_t cls;

	if (row->kind == SET_TEXT)
		return !setting_string(row, p);
	for (cls = 0; cls < classes_of(row); cls++)
		if (setting_get(row, p, cls) != row->normal)
			return 0;
	return 1;
}

int settings_ask_for(const struct urccl_params *p, uint32_t transport)
{
	uint32_t i;

	for (i = 0; i < settings_count; i++)
		if (settings_table[i].asks_for == transport &&
		    !setting_is_default(&settings_table[i], p))
			return 1;
	return 0;
}

/* ---- what is possible ---- */

static const char *word_of(const struct word *words, int64_t value)
{
	for (; words && words->name; words++)
		if (words->value == value)
			return words->name;
	return NULL;
}

static const struct word *word_find(const struct word *words, const char *text, size_t len)
{
	for (; words && words->name; words++)
		if (strlen(words->name) == len && ascii_same(words->name, text, len))
			return words;
	return NULL;
}

/* "none, split, encode, off" or "from 0 to 15, or auto" */
static const char *possible(const struct setting *row, const struct word *words, int any,
			    char buf[POSSIBLE_MAX])
{
	const char *sep = any ? ", or " : "";
	int at = 0;

	if (any && row->step)
		at = snprintf(buf, POSSIBLE_MAX, "multiples of %lld ", (long long)row->step);
	if (any)
		at += snprintf(buf + at, POSSIBLE_MAX - (size_t)at, "from %lld to %lld",
			       (long long)(row->least == URCCL_AUTO ? 0 : row->least),
			       (long long)row->most);
	for (; words && words->name && at < (int)POSSIBLE_MAX; words++) {
		at += snprintf(buf + at, POSSIBLE_MAX - (size_t)at, "%s%s", sep, words->name);
		sep = ", ";
	}
	return buf;
}

static int value_fits(const struct setting *row, int64_t value)
{
	if (value < row->least || value > row->most)
		return 0;
	return !row->step || value % row->step == 0;
}

/* Puts the setting's name and value before the text of its check. */
static int check_string(const struct setting *row, const char *s)
{
	char why[256];
	int err = s ? row->check(s) : 0;

	if (!err)
		return 0;
	snprintf(why, sizeof(why), "%s", urccl_errmsg());
	return fail(err, "%s \"%.100s\": %s", row->name, s, why);
}

int setting_check(const struct setting *row, const struct urccl_params *p)
{
	char buf[POSSIBLE_MAX];
	uint32_t cls;

	if (row->kind == SET_TEXT)
		return check_string(row, setting_string(row, p));
	for (cls = 0; cls < classes_of(row); cls++) {
		int64_t value = setting_get(row, p, cls);

		if (!value_fits(row, value))
			return fail(-EINVAL, "%s is %lld: %s is possible", row->name,
				    (long long)value, possible(row, NULL, 1, buf));
	}
	return 0;
}

/* ---- from text ---- */

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

/* Shifts for k, m and g. */
static int unit_of(char c)
{
	switch (c | 0x20) {
	case 'k':
		return 10;
	case 'm':
		return 20;
	case 'g':
		return 30;
	default:
		return -1;
	}
}

/* Decimal or 0x hexadecimal, and (has_unit) k, m or g: 0 or -EINVAL. */
static int number_parse(const char *s, size_t len, int has_unit, int64_t *out)
{
	int minus = len > 1 && *s == '-', base = 10, shift = 0, digit;
	size_t i = (size_t)minus;
	uint64_t v = 0;

	if (len > i + 2 && s[i] == '0' && (s[i + 1] | 0x20) == 'x') {
		base = 16;
		i += 2;
	}
	if (has_unit && len > i + 1 && unit_of(s[len - 1]) > 0)
		shift = unit_of(s[--len]);
	if (i == len)
		return -EINVAL;
	for (; i < len; i++) {
		digit = digit_of(s[i]);
		if (digit >= base || v > (INT64_MAX - (uint64_t)digit) / (uint64_t)base)
			return -EINVAL;
		v = v * (uint64_t)base + (uint64_t)digit;
	}
	if (v > (uint64_t)INT64_MAX >> shift)
		return -EINVAL;
	*out = minus ? -(int64_t)(v << shift) : (int64_t)(v << shift);
	return 0;
}

static int value_parse(const struct setting *row, const char *text, size_t len, int is_uccl,
		       int64_t *value)
{
	const struct word *words = is_uccl && row->uccl_words ? row->uccl_words : row->words, *w;
	int any = row->kind != SET_CHOICE && words != row->uccl_words;
	char buf[POSSIBLE_MAX];

	w = word_find(words, text, len);
	if (w) {
		*value = w->value;
		return 0;
	}
	if ((words && !any) || number_parse(text, len, row->kind == SET_BYTES, value) ||
	    !value_fits(row, *value))
		return fail(-EINVAL, "\"%.*s\" is not possible for %s: %s",
			    len > 100 ? 100 : (int)len, text, row->name,
			    possible(row, words, any || !words, buf));
	return 0;
}

static int classes_parse(const struct setting *row, const char *text, int is_uccl,
			 struct urccl_params *p)
{
	struct class_words w;
	int64_t value[CLASSES];
	uint32_t i;
	int err;

	if (classes_split(text, &w))
		return fail(-EINVAL,
			    "\"%.100s\" is not possible for %s: a value is wanted, or one "
			    "for some classes, such as \"bulk:1,latency:2,control:3\"",
			    text, row->name);
	for (i = 0; i < CLASSES; i++) {
		value[i] = row->normal;
		err = w.at[i] ? value_parse(row, w.at[i], w.len[i], is_uccl, &value[i]) : 0;
		if (err)
			return err;
	}
	for (i = 0; i < CLASSES; i++)
		setting_put(row, p, i, value[i]);
	return 0;
}

int setting_parse(const struct setting *row, const char *text, int is_uccl, struct urccl_params *p)
{
	int64_t value;
	int err;

	if (row->kind == SET_TEXT) {
		err = check_string(row, text);
		if (!err)
			setting_put_string(row, p, text);
		return err;
	}
	if (row->kind == SET_CLASSES)
		return classes_parse(row, text, is_uccl, p);
	err = value_parse(row, text, strlen(text), is_uccl, &value);
	if (!err)
		setting_put(row, p, 0, value);
	return err;
}

/* ---- to text ---- */

static int value_text(const struct setting *row, int64_t value, char *buf, size_t len)
{
	const char *word = word_of(row->words, value);

	if (word)
		return snprintf(buf, len, "%s", word);
	return snprintf(buf, len, "%lld", (long long)value);
}

static int same_in_all(const struct setting *row, const struct urccl_params *p)
{
	uint32_t cls;

	for (cls = 1; cls < classes_of(row); cls++)
		if (setting_get(row, p, cls) != setting_get(row, p, 0))
			return 0;
	return 1;
}

void setting_text(const struct setting *row, const struct urccl_params *p, char *buf, size_t len)
{
	uint32_t cls;
	size_t at = 0;

	if (row->kind == SET_TEXT) {
		const char *s = setting_string(row, p);

		if (!s)
			s = row->by_ifname && p->socket_ifname ? row->by_ifname : row->otherwise;
		snprintf(buf, len, "%s", s ? s : "");
		return;
	}
	if (same_in_all(row, p)) {
		value_text(row, setting_get(row, p, 0), buf, len);
		return;
	}
	for (cls = 0; cls < CLASSES && at < len; cls++) {
		at += (size_t)snprintf(buf + at, len - at, "%s%s:", cls ? "," : "",
				       class_name(cls));
		if (at < len)
			at += (size_t)value_text(row, setting_get(row, p, cls), buf + at, len - at);
	}
}
