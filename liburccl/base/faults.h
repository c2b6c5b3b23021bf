/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong in a simulated network, as urccl_sim(7) writes it. Included by base.h. */
#ifndef FAULTS_H
#define FAULTS_H

#define SHARE_ALL    1000000u /* 100 %: shares are in parts of it */
#define FAULT_NS_MAX (3600 * NSEC_PER_SEC)
#define FAULT_RAILS  8u /* of a network */

struct sim_range {
	uint64_t min, max; /* ns */
};

/* Something that lasts and comes again. */
struct sim_spell {
	struct sim_range lasts;
	struct sim_range every; /* between two; max 0: never */
};

struct sim_faults {
	uint64_t seed;
	struct sim_range delay;	  /* of each packet's way */
	uint64_t bytes_per_s;	  /* 0: as fast as memory */
	uint64_t resend_ns;	  /* after which a lost packet goes again; doubled each time */
	uint64_t retries;	  /* before the rail counts as down */
	uint64_t pin_ns;	  /* of real time: to register memory, and to expose it */
	uint64_t depth;		  /* chunks that a queue takes */
	uint64_t is_simulated;	  /* the clock */
	uint64_t rails;		  /* devices of a context */
	uint64_t drop, duplicate; /* shares of packets */
	uint64_t early;		  /* share of writes acknowledged before they are placed */
	uint64_t flip;		  /* share of packets with data that one bit is flipped in */
	uint64_t error, partial;  /* shares of chunks that fail: placed or not; placed in part */
	struct sim_spell freeze;  /* the device stands still */
	struct sim_spell flap;	  /* its link loses everything */
	struct sim_spell kill;	  /* it has no connections, and gets none */
	struct sim_range restart; /* between two times that it forgets its connections; max 0 */
};

/* Nothing goes wrong. */
void faults_init(struct sim_faults *f);
/* "delay=1us..20us,drop@1=0.1%": what it names of all rails, and then of this one, is replaced in
 * *f, the rest stands. 0, or -EINVAL with fail() text that names what does not parse; *f is then as
 * it was. */
int faults_parse(const char *text, uint32_t rail, struct sim_faults *f);

#endif
