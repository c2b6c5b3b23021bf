/* SPDX-License-Identifier: Apache-2.0 */
/* urccl_info: what this machine, the library and the contexts of other processes are like. */
#ifndef INFO_H
#define INFO_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <liburccl/inspect.h>
#include "segment/segment.h"

#define INFO_WRONG 1 /* exit codes: something is wrong, or not there */
#define INFO_USAGE 2

/* ---- json.c: objects and arrays as they are written, commas put in between ---- */

struct json {
	FILE *to;
	int comma; /* something is before */
};

void json_open(struct json *j, const char *key, char bracket); /* '{' or '['; key NULL: none */
void json_close(struct json *j, char bracket);
void json_text(struct json *j, const char *key, const char *value);
void json_number(struct json *j, const char *key, double value);
void json_whole(struct json *j, const char *key, long long value);

/* ---- show.c: version, devices, plan ---- */

/* plan_only: without devices and settings. */
int show_all(const char *transport, int plan_only, int as_json);

/* ---- doctor.c, checks.c ---- */

enum health { HEALTH_OK, HEALTH_NOTE, HEALTH_WRONG };

/* What one check found. NOTE: less than could be, and nothing that is needed. */
struct finding {
	const struct urccl_params *params; /* what is asked for */
	const char *root;		   /* "", or where a tree like the system's is */
	uint64_t until_ns;		   /* nobody is waited for any longer */
	char path[256];			   /* of path_under() */
	enum health health;
	char state[256];  /* what is there */
	char advice[512]; /* what to do; "": nothing, if all is well */
};

struct check {
	const char *name;
	void (*run)(struct finding *f);
};

extern const struct check checks[];
extern const uint32_t nchecks;

/* Where the system's path is, until the next call. */
const char *path_under(struct finding *f, const char *path);
__attribute__((format(printf, 3, 4))) void finding_set(struct finding *f, enum health health,
						       const char *state, ...);
/* Behind what was advised before. */
__attribute__((format(printf, 2, 3))) void advise(struct finding *f, const char *advice, ...);

/* ---- files.c ---- */

/* The first line of a file, without its end: 0 or -errno. */
int read_line(const char *path, char *to, size_t size);
/* A field of a file of "name: value" lines. */
int read_field(const char *path, const char *name, char *to, size_t size);

/* ---- groups.c: what control groups let this process have; root: "", or where a tree like the
 * system's is. -ENOENT: there is no limit ---- */

/* Of the group that has the least left. */
struct group_limit {
	unsigned long long most, now;
};

/* controller: "memory", in bytes, or "pids", in threads. */
int group_limit(const char *root, const char *controller, struct group_limit *out);

/* The least of any device and any group. */
struct group_rdma {
	unsigned long long handles, objects; /* opened devices; what is made of them; ~0: any */
	char device[64];		     /* to which the newest of them applies */
};

int group_rdma(const char *root, struct group_rdma *out);

int doctor(const char *transport, int as_json);

/* What a context of transport ib pins itself: at each rail, and there for each peer, which may have
 * so many queue pairs there. */
#define IB_PINS_RAIL 4096u
#define IB_PINS_PEER 8192u
#define IB_QPS	     4u

/* checks_gpu.c. Starts CUDA in this process, and looks at one GPU: how many there are. */
int check_gpu(struct finding *f, int gpu);
/* A list, or nothing where there is none. It does not start CUDA. */
void show_gpus(struct json *j);

/* checks_transport.c, checks_limits.c, checks_kernel.c */
void check_loopback(struct finding *f);
void check_uverbs(struct finding *f);
void check_settings(struct finding *f);
void check_open(struct finding *f);
/* Whether contexts meet by this transport, in what is left of the time. */
void check_connects(struct finding *f, const char *transport);
void check_shm(struct finding *f);
void check_tcp(struct finding *f);
void check_memlock(struct finding *f);
void check_nofile(struct finding *f);
void check_group_memory(struct finding *f);
void check_group_threads(struct finding *f);
void check_group_rdma(struct finding *f);
void check_memfd(struct finding *f);
void check_fsize(struct finding *f);
void check_huge(struct finding *f);
void check_io_uring(struct finding *f);
void check_pid_namespace(struct finding *f);
void check_proc(struct finding *f);
void check_seccomp(struct finding *f);

/* ---- find.c: contexts of running processes ---- */

struct context {
	pid_t pid;
	char comm[32];
	char state; /* of the process, as ps has it */
	struct segment_view view;
};

/* Those of process pid, or (0) of all that may be looked at; at most n. How many, or -errno:
 * nothing could be looked at. The caller gives each to context_close(). */
int contexts_find(pid_t pid, struct context *to, uint32_t n);
void context_close(struct context *c);
/* "busy", "asleep", "stopped", "stuck", ... */
const char *context_state(const struct context *c, uint64_t now_ns);

uint64_t now_ns(void);

int dump_process(pid_t pid);

/* ---- probe.c ---- */

struct end {
	struct urccl *ctx;
	struct urccl_ring *ring;
	struct urccl_peer peer;
};

int end_open(struct end *e, const struct urccl_params *p); /* 0 or -errno */
void end_close(struct end *e);				   /* also one that is not open */
/* Connects within ms: 0, or -errno and why. */
int end_dial(struct end *e, const void *to, uint32_t len, uint32_t ms, char *why, uint32_t why_len);
int ends_connect(struct end *a, struct end *b, uint32_t ms, char *why, uint32_t why_len);
/* What the way to an address gives, or (NULL) each transport within this process. */
int probe_run(const char *address, const char *transport, int as_json);

/* ---- top.c ---- */

int top_run(pid_t pid, double seconds, int once, int as_json);

#endif
