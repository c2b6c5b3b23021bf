/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"
#include "common.h"

#include <stdarg.h>
#include <stdio.h>

/*
 * Names, units and settings are our own words and numbers, addresses at most: only quote and
 * backslash matter.
 */
static void print_quoted(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			putchar('\\');
		if ((unsigned char)*s >= 0x20)
			putchar(*s);
	}
	putchar('"');
}

void report_open(struct report *r, const char *program, int json)
{
	r->json = json;
	r->settings = 0;
	r->metrics = 0;
	if (!json)
		return;
	printf("{\"program\": ");
	print_quoted(program);
	printf(", \"settings\": {");
}

void report_setting(struct report *r, const char *name, const char *fmt, ...)
{
	char value[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(value, sizeof(value), fmt, ap);
	va_end(ap);
	if (!r->json) {
		printf("# %s %s\n", name, value);
		return;
	}
	printf("%s", r->settings++ ? ", " : "");
	print_quoted(name);
	printf(": ");
	print_quoted(value);
}

void report_metric(struct report *r, double value, const char *unit, const char *fmt, ...)
{
	char name[128];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	if (!r->json) {
		printf("%s %.6g %s\n", name, value, unit);
		bench_flush();
		return;
	}
	printf("%s\n  {\"name\": ", r->metrics++ ? "," : "}, \"metrics\": [");
	print_quoted(name);
	printf(", \"value\": %.9g, \"unit\": ", value);
	print_quoted(unit);
	printf("}");
}

void report_close(struct report *r)
{
	if (r->json)
		printf("%s]}\n", r->metrics ? "\n" : "}, \"metrics\": [");
	bench_flush();
}
