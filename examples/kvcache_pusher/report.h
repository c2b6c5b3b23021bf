/* SPDX-License-Identifier: Apache-2.0 */
/* What a pusher counts, and how it is shown. */
#ifndef REPORT_H
#define REPORT_H

#include "proto.h"

struct times { /* in ns, one a request that ended well */
	uint64_t *ns;
	uint32_t n;
};

struct tally {
	const struct options *o;
	const struct shape *shape;
	const char *role;
	uint32_t total; /* requests of the trace */
	uint32_t done, wrong, aborted, quiet, failed;
	uint32_t *refused, nrefused; /* lines of requests longer than the pool */
	uint64_t cancelled; /* writes that a CANCEL ended */
	uint64_t blocks_sent, blocks_reused;
	uint64_t bytes; /* of transfers that succeeded */
	struct busy busy;
	struct times exposed, whole;
	uint64_t start, end;	   /* wall clock */
	uint64_t cpu_ns;	   /* of this process, without making page bytes */
	uint64_t drawn;		   /* when the bar was drawn last */
	uint32_t path, transports; /* URCCL_PATH_* bits; 1 << enum urccl_transport */
	struct msg_stats decode;
	struct memory memory[2]; /* prefill's and decode's */
	bool have_stats; /* decode sent them */
	bool verify;	 /* pages are made to be checked, and are */
	bool interrupted;
	int status; /* enum exit_status */
};

int tally_open(struct tally *t, const struct options *o, const struct shape *s, uint32_t total);
void tally_close(struct tally *t);
/* Adds what another context counted, which replayed other requests at the same time. */
void tally_add(struct tally *t, const struct tally *other);
void tally_path(uint32_t *path, uint32_t *transports, uint32_t cqe_path);

/* Draws the bar, if stderr is a terminal that can, at most ten times a second. */
void report_progress(struct tally *t, uint64_t now);
/* The table, or the JSON object, on stdout: 0, or -1, having said why, if it is not all written. */
int report_end(struct tally *t);
/* The same of whatever was printed. */
int report_written(void);

#endif
