/* SPDX-License-Identifier: Apache-2.0 */
/* What was measured, as a table for people and as JSON for programs. */
#ifndef URCCL_PERF_RESULT_H
#define URCCL_PERF_RESULT_H

#include "../common/hist.h"
#include "../common/report.h"
#include "options.h"

struct figures {
	double seconds;
	uint64_t entries, bytes;
	double cpu[2];	     /* seconds: ours, the server's */
	uint32_t depth;	     /* entries in flight, all rings */
	uint64_t back_bytes; /* both ways: what the server moved */
	uint64_t background_bytes;
	double background_seconds;
	uint64_t notes;		 /* the server received */
	uint64_t chunks, merged; /* handed to devices; blocks joined to their neighbour */
	uint32_t path;
	struct hist latency, submit;
	struct hist delivery; /* MSG_RING: submit to its event at the other thread */
};

/* The settings that make two figures comparable. */
void result_open(struct report *r, const struct options *o, uint32_t path);

/* prefix: "" or "idle.": whose figures these are. */
void result_metrics(struct report *r, const struct options *o, const struct figures *f,
		    const char *prefix);

/* The same for people: a heading once, then a line for each. */
void result_heading(const struct options *o, uint32_t path);
void result_line(const struct options *o, const struct figures *f, const char *what);

#endif
