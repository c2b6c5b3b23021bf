/* SPDX-License-Identifier: Apache-2.0 */
/* Many faults, each with a sentence of its own that names whom or what it is about, the figure that
 * was seen, and what to do. The sentences are in a file, a line each:
 *
 *	NAME SENTENCE
 *
 * where {port}, {pid}, {n} and {us} stand for a number, {handle} and {at} for 0x and a number, and
 * {limit} for what is this machine's. With --print the program writes such a file. */
#include <ctype.h>
#include "sentences.h"

#define MAX 128u

struct pair p;
struct target t;
uint8_t local[8192];
struct urccl_region region;

static struct line {
	char name[64], text[512];
	int said;
} lines[MAX];
static uint32_t nlines, bad;
static int prints;

/* ---- the file ---- */

static void load(const char *path)
{
	FILE *f = fopen(path, "r");
	char line[640], *space;

	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		space = strchr(line, ' ');
		CHECK(space && nlines < MAX);
		*space = 0;
		snprintf(lines[nlines].name, sizeof(lines[0].name), "%.63s", line);
		snprintf(lines[nlines++].text, sizeof(lines[0].text), "%.511s", space + 1);
	}
	fclose(f);
}

/* The end of what the placeholder stands for, or NULL. */
static const char *stands_for(const char *name, size_t len, const char *s)
{
	static const char *const hex[] = {"handle", "at"};
	int is_hex = 0;
	uint32_t i;

	for (i = 0; i < 2; i++)
		is_hex |= strlen(hex[i]) == len && !strncmp(hex[i], name, len);
	if (is_hex) {
		if (strncmp(s, "0x", 2) || !isxdigit((unsigned char)s[2]))
			return NULL;
		for (s += 2; isxdigit((unsigned char)*s);)
			s++;
		return s;
	}
	if (!isdigit((unsigned char)*s))
		return NULL;
	while (isdigit((unsigned char)*s))
		s++;
	return s;
}

static int matches(const char *model, const char *s)
{
	for (; *model; model++) {
		size_t len = strcspn(model, "}");

		if (*model != '{') {
			if (*model != *s++)
				return 0;
			continue;
		}
		s = stands_for(model + 1, len - 1, s);
		if (!s)
			return 0;
		model += len;
	}
	return !*s;
}

void said(const char *name, const char *sentence)
{
	uint32_t i = 0;

	if (prints) {
		printf("%s %s\n", name, sentence);
		return;
	}
	while (i < nlines && strcmp(lines[i].name, name))
		i++;
	if (i < nlines && !lines[i].said++ && matches(lines[i].text, sentence))
		return;
	fprintf(stderr, "%s: said\n  \"%s\"\nexpected\n  \"%s\"\n", name, sentence,
		i < nlines ? lines[i].text : "nothing");
	bad++;
}

void said_call(const char *name, int64_t res, int64_t expected)
{
	if (res != expected)
		fprintf(stderr, "%s: %s\n", name, urccl_errmsg());
	CHECK_EQ(res, expected);
	said(name, urccl_errmsg());
}

void said_entry(const char *name, struct side *s, const struct urccl_cqe *cqe, int64_t expected)
{
	char why[512];

	CHECK_GE(urccl_explain(s->ctx, cqe, why, sizeof(why)), 1);
	if (cqe->res != expected)
		fprintf(stderr, "%s: %lld: %s\n", name, (long long)cqe->res, why);
	CHECK_EQ(cqe->res, expected);
	said(name, why);
}

/* ---- all ---- */

/* What an entry's sentence says after who and with whom. */
static const char *body(const char *text)
{
	const char *colon = strstr(text, ": ");

	return colon ? colon + 2 : text;
}

static void check_file(void)
{
	uint32_t i, j;

	for (i = 0; i < nlines; i++) {
		if (!lines[i].said)
			fprintf(stderr, "%s: not said\n", lines[i].name);
		bad += !lines[i].said;
		for (j = 0; j < i; j++)
			CHECK(strcmp(body(lines[i].text), body(lines[j].text)));
	}
	CHECK_GE(nlines, 30);
}

/* The oldest of more failures than are kept. */
static void too_old(void)
{
	struct urccl_cqe first, cqe;
	struct urccl_sqe *sqe;
	uint32_t i;

	for (i = 0; i <= 1024; i++) {
		sqe = side_sqe(&p.a);
		urccl_prep_write(sqe, t.remote, local, 1, t.len);
		cqe = pair_run(&p, &p.a, sqe);
		CHECK_EQ(cqe.res, -ERANGE);
		if (!i)
			first = cqe;
	}
	said_entry("record_overwritten", &p.a, &first, -ERANGE);
}

int main(int argc, char **argv)
{
	char *none[] = {argv[0], NULL};

	CHECK(argc == 2);
	prints = !strcmp(argv[1], "--print");
	if (!prints)
		load(argv[1]);
	pair_options(&p, 1, none);
	p.params.max_segs = p.params.max_blocks = 1000;
	pair_open(&p);
	target_open(&p, &t, 4096, 0);
	region = side_register(&p.a, local, sizeof(local), 0);
	entries();
	too_old();
	calls();
	meetings();
	target_close(&p, &t);
	pair_close(&p);
	losses();
	if (!prints)
		check_file();
	return bad != 0;
}
