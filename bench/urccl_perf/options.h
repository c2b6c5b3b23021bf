/* SPDX-License-Identifier: Apache-2.0 */
/* What urccl_perf was asked for. */
#ifndef URCCL_PERF_OPTIONS_H
#define URCCL_PERF_OPTIONS_H

#include "../common/common.h"

#include <liburccl.h>

enum perf_role {
	ROLE_NONE = 0,
	ROLE_CLIENT, /* HOST:PORT */
	ROLE_SERVE,  /* --serve */
	ROLE_SELF,   /* --self: a server of our own, forked */
	ROLE_NOP,    /* --nop, --op msg_ring: no peer at all */
};

enum perf_job {
	JOB_LOAD = 0,
	JOB_IDLE,   /* --idle-peers */
	JOB_RANDOM, /* --random */
	JOB_HANDSHAKES,
	JOB_REGISTER, /* --register */
	JOB_PING,     /* --ping-pong */
};

enum perf_wait {
	WAIT_DEFAULT = 0,
	WAIT_SPIN,  /* looks again and again */
	WAIT_EPOLL, /* urccl_arm() and epoll_wait() on the ring's fd */
	WAIT_CALL,  /* urccl_wait() */
};

enum perf_table {
	TABLE_RANDOM = 0, /* blocks in random order on both sides */
	TABLE_RUN,	  /* runs of blocks that are neighbours on both sides */
	TABLE_DENSE,	  /* one after the other */
};

/* Which end a setting is of. */
enum { OURS = 0, SERVERS = 1 };

enum perf_memory {
	MEMORY_DEFAULT = 0, /* --device did not name any */
	MEMORY_HOST,	    /* ordinary, as --pages says, or of urccl_alloc() */
	MEMORY_PINNED,	    /* of the host, made by CUDA for that GPU */
	MEMORY_GPU,
};

struct memory {
	enum perf_memory kind;
	int gpu;
	int alloc; /* MEMORY_HOST: by urccl_alloc() */
	enum bench_pages pages;
};

struct options {
	enum perf_role role;
	enum perf_job job;
	const char *address; /* to dial */
	const char *listen;  /* to be dialled at */
	int json;

	enum urccl_op op;
	uint64_t size;	 /* bytes of an entry; of a block where it is paged */
	uint32_t depth;	 /* entries in flight on each ring */
	uint32_t rings;	 /* of each context, each with a thread of its own */
	uint32_t contexts;
	uint32_t iovs;	 /* segments of a vector */
	uint32_t blocks; /* pages of a paged entry, in each plane */
	uint32_t planes; /* K and V: 2 */
	enum perf_table table;
	uint32_t run; /* TABLE_RUN: blocks of a run */
	uint32_t cls; /* enum urccl_class */
	int bidirectional;
	uint64_t background; /* bytes of the writes beside it; 0: none */
	uint32_t background_depth;

	int is_inline;
	enum perf_wait wait, server_wait;
	const char *transport;
	int alloc, server_alloc; /* memory of urccl_alloc(), at both ends or the server's */
	enum bench_pages pages;
	int cold;
	uint64_t span; /* bytes walked before the same ones come again; 0: hot or cold says */
	int lookup;    /* leave it to the library to find the region */
	const char *cc;
	uint32_t driver; /* enum urccl_tcp_driver */
	uint32_t streams;
	uint32_t spin_us;
	int spin_us_given;
	uint32_t chunk;
	const char
		*device[2]; /* RDMA devices of ours and the server's; NULL: the library chooses */
	struct memory memory[2];

	/* -1: any. Further threads and contexts take the CPUs after it: bench_cpu_after(). */
	int cpu[2];	   /* of our first thread and the server's */
	int engine_cpu[2]; /* of the library's threads of the first context */
	double seconds, warmup;
	uint64_t count; /* entries instead of seconds */
	uint32_t idle_peers;
	uint32_t max_warm; /* of them with a data path at a time; 0: all */
	uint64_t random; /* entries of JOB_RANDOM */
	uint64_t handshakes;
	uint32_t tensors; /* of JOB_REGISTER */
	int check;	  /* compare the bytes afterwards */
	int checksum;
	int acked; /* the device's acknowledgement is enough */
};

extern const char options_help[];

/* Exits after --help, or with a sentence on what it cannot use. */
void options_parse(struct options *o, int argc, char **argv);

/* Bytes that one entry moves. */
uint64_t options_entry_bytes(const struct options *o);

/* 1: one descriptor names many places. */
int options_scattered(const struct options *o);

/* 1: it acts on a word there, and nothing here. */
int options_atomic(const struct options *o);

/* The memory of one end. */
struct memory options_memory(const struct options *o, int which);

const char *options_op_name(enum urccl_op op);
const char *options_wait_name(enum perf_wait wait);

#endif
