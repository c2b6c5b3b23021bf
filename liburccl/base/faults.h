/* SPDX-License-Identifier: Apache-2.0 */
/* The faults of a simulated network, as urccl_sim(7) describes them. Included by base.h. */
#ifndef FAULTS_H
#define FAULTS_H

/* 100 %: a share counts millionths. */
#define SHARE_ALL    1000000u
#define FAULT_NS_MAX (3600 * NSEC_PER_SEC)
#define FAULT_RAILS  8u /* The most rails of a network. */

struct sim_range {
	uint64_t min, max; /* In nanoseconds. */
};

/* A fault that lasts for a while and comes again. */
struct fault_window {
	struct sim_range lasts;
	/* Time between two of them. max 0: it never comes. */
	struct sim_range every;
};

struct sim_faults {
	uint64_t seed;
	/* Time that each packet takes. */
	struct sim_range delay;
	/* 0: as fast as memory. */
	uint64_t bytes_per_s;
	/* Time until a lost packet is sent again. Each further try doubles it. */
	uint64_t resend_ns;
	/* Tries before the rail counts as down. */
	uint64_t retries;
	/* Real time that registering memory takes, and that exporting it takes. */
	uint64_t pin_ns;
	/* Chunks that a queue holds. */
	uint64_t depth;
	/* The clock is a simulated one. */
	uint64_t is_simulated;
	/* The devices of a context. */
	uint64_t rails;
	/* Shares of packets that are lost, and that arrive twice. */
	uint64_t drop, duplicate;
	/* Share of writes that are acknowledged before they are placed. */
	uint64_t early;
	/* Share of packets with data in which one bit is flipped. */
	uint64_t flip;
	/* Shares of chunks that fail: placed wholly or not at all; placed in part. */
	uint64_t error, partial;
	struct fault_window freeze; /* The device does nothing. */
	struct fault_window flap;   /* The link loses all packets. */
	/* The device has no connections and gets none. */
	struct fault_window kill;
	/* Time between two restarts, at which the device forgets its connections. max 0: never. */
	struct sim_range restart;
};

/* Sets *f to a network without faults. */
void faults_init(struct sim_faults *f);
/* Parses "delay=1us..20us,drop@1=0.1%". First the values for all rails replace those in *f, then
 * the values for this rail; other fields stay. Returns 0, or -EINVAL with fail() text that names
 * the word that does not parse; *f is then unchanged. */
int faults_parse(const char *text, uint32_t rail, struct sim_faults *f);

#endif
