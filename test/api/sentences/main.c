/* SPDX-License-Identifier: Apache-2.0 */
/* Many faults, each with a sentence of its own. They are in a file, a line each:
 *
 *	NAME SENTENCE
 *
 * where {port}, {n} and {us} stand for a number, {handle} and {at} for 0x and a number. With
 * --print the program writes such a file. A line
 *
 *	! NAME SENTENCE
 *
 * is of a fault that is brought about, of which a program hears whom or what it is about, the
 * figure that was seen and what to do; these are marked: <peer or device>, [figure] and ^advice^.
 * There are at least 30. With ? for ! it is the same of an entry that is wrong in itself. */
#include <ctype.h>
#include "../child.h"
#include "sentences.h"

#define MAX 128u

struct pair p;
struct target t;
uint8_t local[8192];
struct urccl_region region;

#define MARKS 3u

static struct line {
	char name[64], text[512];
	char marked[MARKS][512]; /* of a fault: whom, the figure, the advice; or "" */
	int said;
} lines[MAX];
static uint32_t nlines, nfaults, bad;
static int prints;

/* ---- the file ---- */

/* Moves what is marked to its place, and the marks out of the text. */
static void load_marks(struct line *l)
{
	static const char begins[] = "<[^", ends[] = ">]^";
	char *to = l->text, *mark = NULL;
	const char *from, *kind;
	uint32_t k = 0;

	for (from = l->text; *from; from++) {
		kind = mark ? NULL : strchr(begins, *from);
		if (mark && *from == ends[k]) {
			snprintf(l->marked[k], sizeof(l->marked[k]), "%.*s", (int)(to - mark),
				 mark);
			mark = NULL;
		} else if (kind) {
			k = (uint32_t)(kind - begins);
			CHECK(!l->marked[k][0]);
			mark = to;
		} else {
			*to++ = *from;
		}
	}
	*to = 0;
	CHECK(!mark);
}

static void load(const char *path)
{
	FILE *f = fopen(path, "r");
	char line[640], *space, *name;

	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		name = strchr("!?", line[0]) ? line + 2 : line;
		nfaults += line[0] == '!';
		space = strchr(name, ' ');
		CHECK(space && nlines < MAX);
		*space = 0;
		snprintf(lines[nlines].name, sizeof(lines[0].name), "%.63s", name);
		snprintf(lines[nlines].text, sizeof(lines[0].text), "%.511s", space + 1);
		if (name != line)
			load_marks(&lines[nlines]);
		nlines++;
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

void not_said(const char *name)
{
	uint32_t i;

	for (i = 0; i < nlines; i++)
		lines[i].said += !strcmp(lines[i].name, name);
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

/* Without its figures: those alone do not make it another sentence. */
static void words(const char *text, char to[512])
{
	for (text = body(text); *text; text++) {
		if (*text == '{')
			text += strcspn(text, "}");
		else if (!isdigit((unsigned char)*text))
			*to++ = *text;
	}
	*to = 0;
}

static void check_fault(const struct line *l)
{
	static const char *const subjects[] = {"peer 127.0.0.1:{port}", "127.0.0.1:{port}", "tcp"};
	const char *figure = l->marked[1];
	uint32_t i, named = 0;

	for (i = 0; i < 3; i++)
		named |= !strcmp(l->marked[0], subjects[i]);
	if (!named || strstr(figure, "{port}") || !strpbrk(figure, "0123456789{") ||
	    !strchr(l->marked[2], ' '))
		fprintf(stderr, "%s: of \"%s\", saw \"%s\", so \"%s\"\n", l->name, l->marked[0],
			figure, l->marked[2]);
	CHECK(named && !strstr(figure, "{port}") && strpbrk(figure, "0123456789{"));
	CHECK(strchr(l->marked[2], ' '));
}

static void check_file(void)
{
	char one[512], other[512];
	uint32_t i, j;

	for (i = 0; i < nlines; i++) {
		if (!lines[i].said)
			fprintf(stderr, "%s: not said\n", lines[i].name);
		bad += !lines[i].said;
		if (lines[i].marked[0][0] || lines[i].marked[1][0] || lines[i].marked[2][0])
			check_fault(&lines[i]);
		words(lines[i].text, one);
		for (j = 0; j < i; j++) {
			words(lines[j].text, other);
			CHECK(strcmp(one, other));
		}
	}
	CHECK_GE(nfaults, 30);
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

	child_main(argc, argv);
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
	networks();
	target_close(&p, &t);
	pair_close(&p);
	losses();
	if (!prints)
		check_file();
	return bad != 0;
}
