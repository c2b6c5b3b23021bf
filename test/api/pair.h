/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the interface stand on: two contexts of this process, `a` that dialled and
 * `b` that accepted, connected over the transport that the command line names:
 *
 *	test [--transport=sim|shm|tcp] [--driver=readiness|io_uring] [--inline] [--spins]
 *		[--seed=N]
 *	     [--secret=TEXT] [--sim=FAULTS] [--shared]
 *	     [--rdma=DEVICES OF a;OF b] [--pull=COMMAND] [--far=TRANSPORT OF b]
 *
 * --shared: b's memory is of urccl_alloc(), in tests of much that can be done with either kind.
 *
 * Both ends are driven by the test's one thread (INLINE) or drive themselves; a test that waits
 * does it by pair_wait() and friends, which turn both and end the test when nothing comes for long.
 */
#ifndef API_PAIR_H
#define API_PAIR_H

#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <liburccl/inspect.h>
#include "test.h"
#include "waited.h"

#ifdef __SANITIZE_THREAD__
#define PAIR_SLOW    1 /* gigabytes take minutes */
#define PAIR_LATE_NS 200000000000ull
#else
#define PAIR_SLOW    0
#define PAIR_LATE_NS 20000000000ull /* no test waits so long for anything */
#endif

struct side {
	struct urccl *ctx;
	struct urccl_ring *ring;
	struct urccl_peer peer; /* the other one, as this side calls it */
	struct urccl_ring *settler; /* settle.c's */
	struct side *settler_next;
	uint32_t rails_down; /* of the peer, as RAIL events told: a bit each */
	uint32_t rails_told; /* RAIL events that were taken */
};

struct pair {
	struct side a, b;
	struct urccl_sim *sim;
	struct urccl_params
		params; /* what both were opened with: may be changed before pair_open() */
	struct urccl_ring_params ring_params;
	uint32_t transport; /* enum urccl_transport asked for */
	char name[16]; /* of it, without what it is to carry out */
	uint64_t seed;
	int shared;	    /* for target_open() */
	const char *faults; /* of transport sim, but for the seed; NULL: some that do no harm */
	const char *rdma[2]; /* of transport ib: rdma_dev of all but b, and of b */
	const char *far;     /* transport of b, by another domain; NULL: the same */
	const char *pull; /* but of transport sim: COMMAND RAIL down|up */
	pid_t pulling; /* it, under way */
	int argc;      /* pair_options()'s */
	char **argv;
};

/* Handles of their kinds that name nothing. */
#define NO_PEER	  (1u << 30 | 0x12345)
#define NO_REGION (2u << 30 | 0x12345)
#define NO_REMOTE (3u << 30 | 0x12345)

/* A buffer of b that a may touch. */
struct target {
	uint8_t *bytes; /* b's */
	uint64_t len;
	struct urccl_region region; /* b's */
	struct urccl_advert advert;
	struct urccl_remote remote; /* a's */
};

/* Reads the command line into p->params, without opening anything but for a moment: where the
 * driver of tcp that it names is denied, the test is skipped (77). */
void pair_options(struct pair *p, int argc, char **argv);
/* That of these params. */
void pair_try_driver(const struct urccl_params *params);
/* Opens both, connects them, and watches on both rings. Ends the test where that fails; skips it
 * (77) where this machine cannot have the transport. */
void pair_open(struct pair *p);
/* The same with b INLINE: it does nothing but when a wait of the pair turns it. */
void pair_open_idle(struct pair *p);
/* Makes the network of transport sim, for a test that opens a side by itself first, with params
 * of its own. */
void pair_sim(struct pair *p);
void pair_close(struct pair *p);
/* All of the above with defaults. */
void pair_begin(struct pair *p, int argc, char **argv);
void pair_begin_idle(struct pair *p, int argc, char **argv);

/* One more context like those of the pair, with a ring, not connected. */
void side_open(const struct pair *p, struct side *s);
void side_close(struct side *s);
/* a's handle of to, which must have an ACCEPT; the PEER event at to is taken and its handle put
 * into to->peer. */
void side_connect(struct side *from, struct side *to);

/* 1: the peer, as this side calls it, which must be up, has its data path. */
int side_is_warm(const struct side *s, struct urccl_peer peer);

/* Lets an INLINE context work; nothing for others. */
void side_turn(struct side *s);
struct urccl_stats side_stats(const struct side *s);
/* Submits WARM for the other one, with this timeout (0: the default). */
void side_warm(struct side *s, uint32_t us, uint64_t user_data);

/* For ThreadSanitizer: what every open side did up to now is before what the caller does next, and
 * what the caller did before what they do. */
void settle(void);
void settle_begin(struct side *s);
void settle_end(struct side *s); /* also for tests that count entries */

/* Takes the next CQE of s into *cqe, with its note into note (URCCL_NOTE_MAX bytes) if not NULL,
 * turning `other` (may be NULL) meanwhile. Ends the test when none comes. */
void side_take(struct side *s, struct side *other, struct urccl_cqe *cqe, void *note);
/* The same, up to ns: 1 or 0. */
int side_take_within(struct side *s, struct side *other, uint64_t ns, struct urccl_cqe *cqe,
		     void *note);
/* Waits until RAIL events told s that these rails of its peer are down, a bit each, and no
 * others. */
void side_rails(struct side *s, struct side *other, uint32_t down);
/* Both. */
void pair_rails(struct pair *p, uint32_t down);
/* Pulls the rail of this number (on), at both ends, soon: what is under way goes on meanwhile; or
 * puts it back. Skips the test where no command can. */
void pair_pull(struct pair *p, uint32_t rail, int on);
/* Takes CQEs until the terminal one of user_data, which it returns; others must not come. */
struct urccl_cqe pair_end(struct pair *p, struct side *s, uint64_t user_data);
/* 1: over libfabric, by whichever of its names. */
int pair_is_fabric(const struct pair *p);
/* 1: the peer's device carries READs and WRITEs out, without its process. */
int pair_is_nic(const struct pair *p);
/* 1: over libfabric, an entry's outcome that comes before its end: a buffer is given back when an
 * endpoint was closed. */
int pair_is_outcome(const struct pair *p, const struct urccl_cqe *cqe);

/* An entry of a side; never NULL. */
struct urccl_sqe *side_sqe(struct side *s);
/* Submits and takes its end. */
struct urccl_cqe pair_run(struct pair *p, struct side *s, struct urccl_sqe *sqe);

/* len bytes at b, of urccl_alloc() where shared, imported at a. */
void target_open(struct pair *p, struct target *t, uint64_t len, int shared);
void target_close(struct pair *p, struct target *t);
/* Registers memory of a side. */
struct urccl_region side_register(struct side *s, void *addr, uint64_t len, uint32_t rights);

/* Bytes that tell where they belong: of a place, in a version. */
void pattern_fill(void *buf, uint64_t len, uint64_t place, uint64_t version);
int pattern_holds(const void *buf, uint64_t len, uint64_t place, uint64_t version);

/* Ends the test unless the sentence is there and names `part`. */
void check_sentence(struct side *s, const struct urccl_cqe *cqe, const char *part);

uint64_t now_ns(void);

#endif
