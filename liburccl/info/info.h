/* SPDX-License-Identifier: Apache-2.0 */
/* urccl_info: reports on this machine, the library and contexts of running processes. */
#ifndef INFO_H
#define INFO_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <liburccl/inspect.h>
#include "segment/segment.h"

#define INFO_WRONG 1 /* exit codes: something is wrong, or not there */
#define INFO_USAGE 2

/* ---- json.c: writes objects and arrays, with commas between elements ---- */

struct json {
	FILE *to;
	int comma; /* 1: an element is before the next */
};

void json_open(struct json *j, const char *key, char bracket); /* '{' or '['; key NULL: none */
void json_close(struct json *j, char bracket);
void json_text(struct json *j, const char *key, const char *value);
void json_number(struct json *j, const char *key, double value);
void json_whole(struct json *j, const char *key, long long value);

/* ---- show.c: version, devices, plan ---- */

/* plan_only: without devices and settings. */
int show_all(const char *transport, int plan_only, int as_json);

/* ---- doctor.c, checks_*.c ---- */

enum health { HEALTH_OK, HEALTH_NOTE, HEALTH_WRONG };

/* The result of one check. NOTE: something optional is missing. */
struct finding {
	const struct urccl_params *params; /* settings to check */
	const char *root;		   /* prefix of system paths: "", or a test's tree */
	uint64_t until_ns;		   /* now_ns() at which waiting ends */
	char path[256];			   /* result of path_under() */
	enum health health;
	char state[256];  /* the state found */
	char advice[512]; /* advice; "": none, if all is well */
};

struct check {
	const char *name;
	void (*run)(struct finding *f);
};

extern const struct check checks[];
extern const uint32_t nchecks;

/* Puts f->root before a system path. The result is valid until the next call. */
const char *path_under(struct finding *f, const char *path);
__attribute__((format(printf, 3, 4))) void finding_set(struct finding *f, enum health health,
						       const char *state, ...);
/* Appends to the advice. */
__attribute__((format(printf, 2, 3))) void advise(struct finding *f, const char *advice, ...);

/* ---- files.c ---- */

/* Reads the first line of a file without its newline: 0 or -errno. */
int read_line(const char *path, char *to, size_t size);
/* Reads a field of a file of "name: value" lines: 0 or -errno. */
int read_field(const char *path, const char *name, char *to, size_t size);

/* ---- groups.c: limits of this process's control groups; root: as in struct finding. -ENOENT:
 * there is no limit ---- */

/* Limit and usage of the group that has the least left. */
struct group_limit {
	unsigned long long most, now;
};

/* controller: "memory", in bytes, or "pids", in threads. */
int group_limit(const char *root, const char *controller, struct group_limit *out);

/* The lowest limits of all devices and groups. */
struct group_rdma {
	unsigned long long handles, objects; /* opened devices; objects on them; ~0: any */
	char device[64];		     /* a device with one of these limits */
};

int group_rdma(const char *root, struct group_rdma *out);

int doctor(const char *transport, int as_json);

/* Transport ib: bytes that a context pins itself for each rail, and for each peer on a rail; queue
 * pairs of a peer on a rail. */
#define IB_PINS_RAIL 4096u
#define IB_PINS_PEER 8192u
#define IB_QPS	     4u

/* checks_gpu.c. Initialises CUDA in this process and checks one GPU. Returns the number of GPUs. */
int check_gpu(struct finding *f, int gpu);
/* Lists the GPUs without CUDA. */
void show_gpus(struct json *j);

/* checks_transport.c, checks_limits.c, checks_kernel.c */
void check_loopback(struct finding *f);
void check_uverbs(struct finding *f);
void check_settings(struct finding *f);
void check_open(struct finding *f);
/* Connects two contexts by this transport in the time left. */
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
	char state; /* the process's, as in ps(1) */
	struct segment_view view;
};

/* Finds at most n contexts of process pid, or (0) of all processes that can be read. Returns their
 * number, or -errno. The caller gives each to context_close(). */
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
/* Measures the path to an address, or (NULL) each transport within this process. */
int probe_run(const char *address, const char *transport, int as_json);

/* ---- top.c ---- */

int top_run(pid_t pid, double seconds, int once, int as_json);

#endif
