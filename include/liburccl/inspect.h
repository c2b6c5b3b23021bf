/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls for tools and operators: settings, devices, the route of data, a measurement, a dump.
 * Errors and threads are as in liburccl.h; URCCL_INIT() fills the size of each struct.
 */
#ifndef LIBURCCL_INSPECT_H
#define LIBURCCL_INSPECT_H

#include <liburccl.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct urccl_setting {
	uint32_t size;	     /* sizeof(struct urccl_setting), set by the caller */
	uint32_t is_default; /* 1: value is the default */
	const char *name;    /* "deadline_ms"; this and the next two are static */
	const char *about;   /* one line about it */
	const char *uccl;    /* UCCL's variable of the same meaning, or NULL */
	char variable[40];   /* "URCCL_DEADLINE_MS" */
	char value[256];     /* as urccl_params_set() takes it; "": empty or none */
	char default_value[64];
};

/* Fills *setting, whose size the caller has set, with the i-th setting as p (NULL: the defaults)
 * has it. -ENOENT: there are no more. */
int urccl_settings(const struct urccl_params *p, uint32_t i, struct urccl_setting *setting);

enum urccl_device_state {
	URCCL_DEVICE_OPEN = 1,	  /* in use, in the order of preference */
	URCCL_DEVICE_FAILED,	  /* may be used and did not open */
	URCCL_DEVICE_NOT_ASKED,	  /* the settings do not name its transport */
	URCCL_DEVICE_NOT_CARRIED, /* this version does not have its transport */
};
struct urccl_device {
	uint32_t size;	    /* sizeof(struct urccl_device), set by the caller */
	uint32_t transport; /* enum urccl_transport */
	uint32_t state;	    /* enum urccl_device_state */
	int32_t error;	    /* FAILED: -errno */
	char name[32];
	char reason[256]; /* OPEN: the peers that it reaches, and how; else why it
					 * is not open */
};

/* Fills *device, whose size the caller has set, with the i-th device: devices in use, best first,
 * then the transports that are not. -ENOENT: there are no more. Does not wait. */
int urccl_devices(struct urccl *ctx, uint32_t i, struct urccl_device *device);

/* Writes as text which route data takes to the peer (id 0: to any), and (region id not 0) to and
 * from the region. Returns the text's length, as snprintf does: text that does not fit len bytes is
 * cut off. Does not wait for the network. */
int urccl_plan(struct urccl *ctx, struct urccl_peer peer, struct urccl_region region, char *buf,
	       uint32_t len);

enum urccl_measure_flags {
	URCCL_MEASURE_NO_BURST = 1 << 0, /* round trips alone */
};
struct urccl_measure_args {
	uint32_t size;	    /* sizeof(struct urccl_measure_args) */
	uint32_t flags;	    /* enum urccl_measure_flags */
	uint32_t exchanges; /* round trips, up to 4,096; 0: 32 */
	uint32_t reserved;
	uint64_t bytes;	   /* at most in each burst; 0: 16 MiB */
	uint64_t burst_ns; /* longest time in which a burst posts; 0: 50 ms */
};
struct urccl_measurement {
	uint32_t size;	 /* sizeof(struct urccl_measurement), set by the caller */
	uint32_t path;	 /* URCCL_PATH_* of all entries: transport, rails */
	uint32_t mapped; /* 1: the peer's memory is mapped here, and its CPU has no
					 * part in it */
	uint32_t exchanges;
	uint64_t rtt_min_ns, rtt_median_ns; /* 8-byte write until its CQE */
	uint64_t written, write_ns;	    /* bytes, and the time from the first to the last of
					 * them; 0: no burst */
	uint64_t read, read_ns;
};

/* Measures the path to a connected peer and fills *out, whose size the caller has set: round trips
 * one after the other, then a burst of writes and one of reads, a few entries of 256 KiB at a time.
 * args may be NULL. It uses ordinary memory here, and at the peer shareable memory of the peer's
 * library, so neither program notices more than the traffic. Waits for the peer, at most the
 * context's deadline_ms (-ETIMEDOUT). In an INLINE context this thread drives it, and an INLINE
 * peer must be driven by its program. -ECONNRESET: the peer is lost; -EOPNOTSUPP: its library is
 * too old. */
int urccl_measure(struct urccl *ctx, struct urccl_peer peer, const struct urccl_measure_args *args,
		  struct urccl_measurement *out);

/* Writes the state of engines, rings and peers to fd as text. Never waits for an engine, takes
 * no lock; waits for fd. -EPIPE, -EBADF, -EAGAIN (fd does not block) and the like: fd did not take
 * all of it. Raises no SIGPIPE. */
int urccl_dump(struct urccl *ctx, int fd);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
