/* SPDX-License-Identifier: Apache-2.0 */
/* The words of urccl_perf's command line. */
#ifndef URCCL_PERF_WORDS_H
#define URCCL_PERF_WORDS_H

#include <getopt.h>

struct word {
	const char *name; /* NULL: behind the last one */
	int value;
};

extern const struct word word_ops[], word_classes[], word_waits[], word_tables[], word_drivers[],
	word_pages[];
extern const struct option long_options[];

enum {
	OPT_SERVE = 256,
	OPT_SELF,
	OPT_NOP,
	OPT_LISTEN,
	OPT_OP,
	OPT_SIZE,
	OPT_DEPTH,
	OPT_THREADS,
	OPT_CONTEXTS,
	OPT_IOVS,
	OPT_BLOCKS,
	OPT_PLANES,
	OPT_TABLE,
	OPT_RUN,
	OPT_CLASS,
	OPT_BIDIRECTIONAL,
	OPT_BACKGROUND,
	OPT_BACKGROUND_DEPTH,
	OPT_CHECK,
	OPT_CHECKSUM,
	OPT_ACKED,
	OPT_PING_PONG,
	OPT_DURATION,
	OPT_WARMUP,
	OPT_COUNT,
	OPT_HANDSHAKES,
	OPT_IDLE_PEERS,
	OPT_MAX_WARM,
	OPT_RANDOM,
	OPT_REGISTER,
	OPT_INLINE,
	OPT_WAIT,
	OPT_SERVER_WAIT,
	OPT_TRANSPORT,
	OPT_ALLOC,
	OPT_HEAP,
	OPT_SERVER_ALLOC,
	OPT_PAGES,
	OPT_HOT,
	OPT_COLD,
	OPT_SPAN,
	OPT_LOOKUP,
	OPT_CC,
	OPT_DRIVER,
	OPT_STREAMS,
	OPT_CHUNK,
	OPT_DEVICE,
	OPT_SERVER_DEVICE,
	OPT_SPIN_US,
	OPT_CPU,
	OPT_SERVER_CPU,
	OPT_ENGINE_CPU,
	OPT_SERVER_ENGINE_CPU,
	OPT_JSON,
	OPT_HELP,
};

const char *option_name(int opt);
/* Exits with a sentence where it is none of them. */
int word_value(int opt, const struct word *words, const char *arg);
const char *word_name(const struct word *words, int value);

#endif
