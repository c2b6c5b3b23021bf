/* SPDX-License-Identifier: Apache-2.0 */
#include "info.h"

static void string(FILE *to, const char *s)
{
	fputc('"', to);
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\')
			fprintf(to, "\\%c", c);
		else if (c < ' ' || c > '~')
			fprintf(to, "\\u%04x", c);
		else
			fputc(c, to);
	}
	fputc('"', to);
}

static void json_begin(struct json *j, const char *key)
{
	if (j->comma)
		fputs(", ", j->to);
	j->comma = 1;
	if (key) {
		string(j->to, key);
		fputs(": ", j->to);
	}
}

void json_open(struct json *j, const char *key, char bracket)
{
	json_begin(j, key);
	fputc(bracket, j->to);
	j->comma = 0;
}

void json_close(struct json *j, char bracket)
{
	fputc(bracket, j->to);
	j->comma = 1;
}

void json_text(struct json *j, const char *key, const char *value)
{
	json_begin(j, key);
	string(j->to, value);
}

void json_number(struct json *j, const char *key, double value)
{
	json_begin(j, key);
	fprintf(j->to, "%.6g", value);
}

void json_whole(struct json *j, const char *key, long long value)
{
	json_begin(j, key);
	fprintf(j->to, "%lld", value);
}
