/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a measuring program prints: lines "name value unit", or with --json one object
 * {"program": ..., "settings": {...}, "metrics": [{"name", "value", "unit"}]}.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

struct report {
	int json;
	int settings, metrics; /* written so far */
};

void report_open(struct report *r, const char *program, int json);

/* Settings come first; without --json they are "# name value" lines. */
void report_setting(struct report *r, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The name may be made of parts: report_metric(r, value, "GB/s", "tcp.%s.bandwidth", mode). */
void report_metric(struct report *r, double value, const char *unit, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Exits where it cannot be written, as report_metric() does. */
void report_close(struct report *r);

#endif
