/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of a safetensors file: 8 bytes of length, then JSON, for each tensor
 *	"name": {"dtype": "BF16", "shape": [...], "data_offsets": [begin, end]}
 * whose offsets count from its end. Only what a tensor needs is read: a key that is not known is
 * skipped with its value.
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "zip.h"

struct text {
	const char *at, *end;
};

static const char *const names[] = {"bytes", "bf16", "fp16", "fp32", "e4m3", "e5m2"};
static const char *const tensor_names[] = {"", "BF16", "F16", "F32", "F8_E4M3", "F8_E5M2"};
#define DTYPES 6

int dtype_of(const char *name)
{
	int i;

	for (i = 0; i < DTYPES; i++)
		if (!strcmp(name, names[i]))
			return i;
	return -1;
}

const char *dtype_name(int dtype)
{
	return names[dtype];
}

uint32_t dtype_bytes(int dtype)
{
	static const uint32_t bytes[] = {1, 2, 2, 4, 1, 1};

	return bytes[dtype];
}

static int tensor_dtype(const char *name)
{
	int i;

	for (i = 1; i < DTYPES; i++)
		if (!strcmp(name, tensor_names[i]))
			return i;
	return URCCL_DTYPE_BYTES;
}

/* Takes c after white space; 0: something else is there. */
static int take(struct text *t, char c)
{
	while (t->at < t->end && strchr(" \t\r\n", *t->at))
		t->at++;
	if (t->at == t->end || *t->at != c)
		return 0;
	t->at++;
	return 1;
}

/* A string, cut to the buffer; escapes stay as they are. */
static int take_string(struct text *t, char *buf, size_t len)
{
	size_t n = 0;

	if (!take(t, '"'))
		return 0;
	for (; t->at < t->end && *t->at != '"'; t->at++) {
		if (n + 1 < len)
			buf[n++] = *t->at;
		if (*t->at == '\\' && t->at + 1 < t->end)
			t->at++;
	}
	buf[n] = 0;
	return take(t, '"');
}

static int take_number(struct text *t, uint64_t *value)
{
	const char *begin;

	take(t, ' ');
	begin = t->at;
	for (*value = 0; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++) {
		if (*value > (UINT64_MAX - 9) / 10)
			return 0;
		*value = *value * 10 + (uint64_t)(*t->at - '0');
	}
	return t->at > begin;
}

/* A value of any kind, to the comma or bracket behind it. */
static int skip_value(struct text *t)
{
	char ignored[2];
	int depth = 0;

	while (t->at < t->end) {
		if (*t->at == '"') {
			if (!take_string(t, ignored, sizeof(ignored)))
				return 0;
			continue;
		}
		if (!depth && strchr(",}]", *t->at))
			return 1;
		depth += *t->at == '{' || *t->at == '[';
		depth -= *t->at == '}' || *t->at == ']';
		t->at++;
	}
	return 0;
}

/* "{...}" of one tensor; len stays 0 where it has no offsets. */
static int take_tensor(struct text *t, struct part *p)
{
	char key[16], type[16] = "";
	uint64_t end;

	if (!take(t, '{'))
		return 0;
	while (!take(t, '}')) {
		if (!take_string(t, key, sizeof(key)) || !take(t, ':'))
			return 0;
		if (!strcmp(key, "dtype")) {
			if (!take_string(t, type, sizeof(type)))
				return 0;
		} else if (!strcmp(key, "data_offsets")) {
			if (!take(t, '[') || !take_number(t, &p->at) || !take(t, ',') ||
			    !take_number(t, &end) || !take(t, ']') || end < p->at)
				return 0;
			p->len = end - p->at;
		} else if (!skip_value(t)) {
			return 0;
		}
		take(t, ',');
	}
	p->dtype = tensor_dtype(type);
	return 1;
}

static int by_place(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

/* All tensors with bytes inside the file, in order. -EINVAL: the header is not as it must be. */
static int take_tensors(struct text *t, uint64_t data, uint64_t len, struct part **parts)
{
	struct part *more, p;
	int n = 0;

	if (!take(t, '{'))
		return -EINVAL;
	while (!take(t, '}')) {
		memset(&p, 0, sizeof(p));
		if (!take_string(t, p.name, sizeof(p.name)) || !take(t, ':') || !take_tensor(t, &p))
			return -EINVAL;
		take(t, ',');
		if (p.at > len - data || p.len > len - data - p.at)
			return -EINVAL;
		p.at += data;
		if (!p.len)
			continue;
		more = realloc(*parts, (size_t)(2 * n + 4) * sizeof(p));
		if (!more)
			return -ENOMEM;
		*parts = more;
		more[n++] = p;
	}
	if (n)
		qsort(*parts, (size_t)n, sizeof(p), by_place);
	return n;
}

/* The tensors, with parts of bytes before, between and behind them. There is room for 2 n + 2. */
static int fill_gaps(struct part *parts, int n, uint64_t len)
{
	struct part *from = parts + n + 1, *to = parts, gap = {.dtype = URCCL_DTYPE_BYTES};
	int i;

	memmove(from, parts, (size_t)n * sizeof(*parts));
	for (i = 0; i < n; i++, from++) {
		if (from->at < gap.at)
			return 0;
		snprintf(gap.name, sizeof(gap.name), i ? "(between)" : "(header)");
		gap.len = from->at - gap.at;
		if (gap.len)
			*to++ = gap;
		gap.at = from->at + from->len;
		*to++ = *from;
	}
	snprintf(gap.name, sizeof(gap.name), "(end)");
	gap.len = len - gap.at;
	if (gap.len)
		*to++ = gap;
	return (int)(to - parts);
}

int safetensors_parts(const uint8_t *file, uint64_t len, struct part **parts)
{
	uint64_t header;
	struct text t;
	int n;

	*parts = NULL;
	if (len < 8)
		return 0;
	memcpy(&header, file, 8);
	header = le64toh(header);
	if (header > len - 8 || header < 2 || file[8] != '{')
		return 0;
	t = (struct text){(const char *)file + 8, (const char *)file + 8 + header};
	n = take_tensors(&t, 8 + header, len, parts);
	if (n > 0)
		n = fill_gaps(*parts, n, len);
	if (n <= 0) {
		free(*parts);
		*parts = NULL;
	}
	return n == -EINVAL ? 0 : n;
}
