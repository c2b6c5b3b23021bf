/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces in the format of the Mooncake release: one JSON object a line with timestamp (ms),
 * input_length and output_length (tokens) and hash_ids, one for every 512 tokens of the prompt;
 * equal ids are the same KV block.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <json-c/json.h>
#include "pusher.h"

uint32_t block_pages(uint32_t tokens, uint32_t block_tokens, uint32_t page, uint32_t i)
{
	uint32_t left = tokens - i * block_tokens;

	return ((left < block_tokens ? left : block_tokens) + page - 1) / page;
}

/* Blocks are whole pages, so only the last page of all may be part empty. */
uint32_t tokens_pages(uint32_t tokens, uint32_t page)
{
	return (tokens + page - 1) / page;
}

struct builder { /* of a trace */
	struct trace *t;
	const struct options *o;
	const char *name;
	uint32_t line;
	double first; /* timestamp of the first request */
	size_t nhashes, room_hashes;
	uint32_t room;
};

/* Room for one more request and more of its hashes. */
static int builder_grow(struct builder *b, size_t hashes, struct problem *p)
{
	if (b->t->n == b->room) {
		uint32_t room = b->room ? 2 * b->room : 1024;
		struct request *r = realloc(b->t->requests, room * sizeof(*r));

		if (!r)
			return problem(p, "%s: no memory for %u requests", b->name, room);
		b->t->requests = r;
		b->room = room;
	}
	if (b->nhashes + hashes > b->room_hashes) {
		size_t room = 2 * (b->nhashes + hashes) + 4096;
		uint64_t *h = realloc(b->t->hashes, room * sizeof(*h));

		if (!h)
			return problem(p, "%s: no memory for %zu hash ids", b->name, room);
		b->t->hashes = h;
		b->room_hashes = room;
	}
	return 0;
}

/* A member that is a number from min to max. */
static int get_number(const struct builder *b, struct json_object *line, const char *name,
		      double min, double max, double *out, struct problem *p)
{
	struct json_object *v;

	if (!json_object_object_get_ex(line, name, &v))
		return problem(p, "%s:%u: no \"%s\"", b->name, b->line, name);
	if (!json_object_is_type(v, json_type_int) && !json_object_is_type(v, json_type_double))
		return problem(p, "%s:%u: \"%s\" is not a number", b->name, b->line, name);
	*out = json_object_get_double(v);
	if (!(*out >= min && *out <= max))
		return problem(p, "%s:%u: \"%s\" is %s, not between %.0f and %.0f", b->name,
			       b->line, name, json_object_get_string(v), min, max);
	return 0;
}

/* json-c makes of a number that is above 64 bits the highest of them: that one is as bad. */
static int get_hash(struct json_object *id, uint64_t *out)
{
	if (!json_object_is_type(id, json_type_int) || json_object_get_int64(id) < 0)
		return -1;
	*out = json_object_get_uint64(id);
	return *out == UINT64_MAX ? -1 : 0;
}

static int get_hashes(struct builder *b, struct json_object *line, uint32_t want, struct problem *p)
{
	struct json_object *ids;
	size_t i, n;

	if (!json_object_object_get_ex(line, "hash_ids", &ids) ||
	    !json_object_is_type(ids, json_type_array))
		return problem(p, "%s:%u: no list \"hash_ids\"", b->name, b->line);
	n = json_object_array_length(ids);
	if (n != want)
		return problem(p,
			       "%s:%u: %zu hash_ids, but input_length makes %u blocks of %u tokens",
			       b->name, b->line, n, want, BLOCK_TOKENS);
	if (builder_grow(b, n, p))
		return -1;
	for (i = 0; i < n; i++) {
		struct json_object *id = json_object_array_get_idx(ids, i);

		if (get_hash(id, &b->t->hashes[b->nhashes + i]))
			return problem(
				p, "%s:%u: hash_ids[%zu] is not a whole number from 0 to 2^64 - 2",
				b->name, b->line, i);
	}
	return 0;
}

/* All blocks but the last are whole; --scale makes each stand for fewer (or more) tokens. */
static uint32_t scaled_tokens(const struct builder *b, uint32_t tokens, uint32_t nblocks)
{
	uint32_t last = tokens - (nblocks - 1) * BLOCK_TOKENS;
	uint32_t scaled = (uint32_t)ceil((double)last * b->t->block_tokens / BLOCK_TOKENS);

	return (nblocks - 1) * b->t->block_tokens + (scaled ? scaled : 1);
}

static int add_request(struct builder *b, struct json_object *line, struct problem *p)
{
	double timestamp, tokens, output;
	struct request *r;
	uint32_t nblocks;

	if (!json_object_is_type(line, json_type_object))
		return problem(p, "%s:%u: not a JSON object", b->name, b->line);
	if (get_number(b, line, "timestamp", 0, 1e12, &timestamp, p) ||
	    get_number(b, line, "input_length", 1, TOKENS_MAX, &tokens, p) ||
	    get_number(b, line, "output_length", 0, TOKENS_MAX, &output, p))
		return -1;
	nblocks = ((uint32_t)tokens + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
	if (get_hashes(b, line, nblocks, p))
		return -1;
	if ((uint64_t)nblocks * b->t->block_tokens > TOKENS_MAX)
		return problem(p, "%s:%u: --scale makes it longer than %u tokens", b->name, b->line,
			       TOKENS_MAX);
	if (!b->t->n)
		b->first = timestamp;
	r = &b->t->requests[b->t->n++];
	r->line = b->line;
	r->tokens = scaled_tokens(b, (uint32_t)tokens, nblocks);
	r->nblocks = nblocks;
	r->due_ns = timestamp > b->first ? (uint64_t)((timestamp - b->first) * 1e6) : 0;
	b->nhashes += nblocks;
	return 0;
}

static int add_line(struct builder *b, const char *text, size_t len, struct problem *p)
{
	struct json_tokener *tok;
	struct json_object *line;
	enum json_tokener_error error;
	const char *nul = memchr(text, 0, len);
	size_t end;
	int res;

	b->line++;
	if (nul)
		return problem(p, "%s:%u: not JSON: byte %zu of the line is NUL", b->name, b->line,
			       (size_t)(nul - text) + 1);
	while (len && strchr(" \t\r\n", text[len - 1]))
		len--;
	if (!len)
		return 0;
	tok = json_tokener_new();
	if (!tok)
		return problem(p, "%s:%u: no memory", b->name, b->line);
	json_tokener_set_flags(tok, JSON_TOKENER_STRICT);
	line = json_tokener_parse_ex(tok, text, (int)len);
	error = json_tokener_get_error(tok);
	end = json_tokener_get_parse_end(tok);
	json_tokener_free(tok);
	if (!line || end != len)
		res = problem(p, "%s:%u: not JSON: %s", b->name, b->line,
			      error == json_tokener_continue ? "it ends too early"
							     : json_tokener_error_desc(error));
	else
		res = add_request(b, line, p);
	json_object_put(line);
	return res;
}

static int add_lines(struct builder *b, FILE *f, struct problem *p)
{
	char *text = NULL;
	size_t room = 0;
	ssize_t len;
	int res = 0;

	while (!res && b->t->n < b->o->requests && (len = getline(&text, &room, f)) >= 0)
		res = add_line(b, text, (size_t)len, p);
	if (!res && ferror(f))
		res = problem(p, "%s: %s", b->name, strerror(errno));
	free(text);
	return res;
}

static FILE *trace_open(const struct options *o, struct problem *p)
{
	FILE *f = o->trace ? fopen(o->trace, "re")
			   : fmemopen((void *)(uintptr_t)builtin_trace,
				      (size_t)(builtin_trace_end - builtin_trace), "r");

	if (!f)
		problem(p, "%s: %s", o->trace ? o->trace : "the built-in trace", strerror(errno));
	return f;
}

/* The hashes have moved while they grew. */
static void set_hashes(struct trace *t)
{
	const uint64_t *at = t->hashes;
	uint32_t i;

	for (i = 0; i < t->n; i++) {
		t->requests[i].hash = at;
		at += t->requests[i].nblocks;
	}
}

int trace_load(const struct options *o, struct trace *t, struct problem *p)
{
	struct builder b = {.t = t, .o = o, .name = o->trace ? o->trace : "the built-in trace"};
	uint32_t pages = (uint32_t)(BLOCK_TOKENS * o->scale / o->page + 0.5);
	FILE *f;
	int res;

	memset(t, 0, sizeof(*t));
	t->block_tokens = (pages ? pages : 1) * o->page;
	f = trace_open(o, p);
	if (!f)
		return -1;
	res = add_lines(&b, f, p);
	fclose(f);
	if (!res && !t->n)
		res = problem(p, "%s: no requests in it", b.name);
	if (res) {
		trace_free(t);
		return res;
	}
	set_hashes(t);
	return 0;
}

void trace_free(struct trace *t)
{
	free(t->requests);
	free(t->hashes);
	memset(t, 0, sizeof(*t));
}
