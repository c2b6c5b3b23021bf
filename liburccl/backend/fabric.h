/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libfabric: reliable datagram endpoints (FI_EP_RDM) of whatever provider, dlopened.
 *
 * A device is one fi_domain and one endpoint of it, talk, that carries messages to and from all
 * peers: 320 bytes at most, copied on both sides. An ep has an endpoint of its own beside it, the
 * way, that carries READs and WRITEs between the two and nothing else, or all peers share some (see
 * below). So a message waits behind no bulk, and what libfabric can only end by fi_close() of a
 * whole endpoint ends for one peer:
 *
 *  - a provider gives a buffer back by a completion or by the return of fi_close(), if that is
 *    not -FI_EBUSY. CANCEL_NOW of a chunk that the provider has closes the way; so does any error
 *    of an operation, as nobody says what else it left behind;
 *  - then both sides open their next way. Each closes its old one first and tells the other the
 *    new one's name and number over talk (MESSAGE_WAY); a side that hears of a higher number than
 *    its own follows. Who has heard the peer's word for the number that it has itself knows that
 *    the old ways are closed at both ends: nothing of them lands any more, here or there. Chunks
 *    that were on the old way and nobody cancelled then go again (URCCL_PATH_REPLAYED);
 *  - an operation that fails, and was not refused, breaks its way and goes again, by three ways at
 *    most. It is not to blame if the peer had left the way by itself, as when it cancels: each
 *    provider has another word for what comes of that, so the peer says it with its next way
 *    (WAY_OWN);
 *  - EVENT_DOWN comes after the way is closed here, and the peer that we leave hears so by
 *    MESSAGE_BYE over talk, which no bulk blocks.
 *
 * One endpoint for each peer costs its memory and, with providers on sockets, its descriptors.
 *
 * NICs (efa, cxi) have few, and what they do for one peer does not end with another one's
 * connection: there all peers share one endpoint that theirs reach, the target, and one by which
 * ours reach them, the initiator, beside which a spare is open that all peers know. A way is then
 * but the number, the keys that were made for it, and what was posted since. When something has to
 * end that the provider does not end by itself, the spare is the initiator from then on, and the
 * old one is closed when the other peers' operations on it have come back, or after a while, and
 * then their ways break too. That nothing of an old way lands is by its keys: they end with it, at
 * both ends, before the next one is told of. See fabric_shared.c.
 *
 * Placement. Every WRITE asks for FI_DELIVERY_COMPLETE: what comes out is placed. Where a provider
 * does not know it, a completion is but the acknowledgement, and a READ of a word of the peer's
 * device, which goes with the name of its way, pushes there what was acknowledged before: one at a
 * time, for all of those, and before we say that we let go of a region.
 *
 * What peers may touch are regions that all who were given the same range share: a pin, which no
 * engine's thread makes or closes. Of FI_MR_ENDPOINT, and where peers share the target, they are an
 * exposure's own, which the helper makes, see fabric_bound.c.
 *
 * Revoking. A provider may go on placing a write whose header it took before fi_close() of the
 * region (tcp does). So the owner tells the importer (MESSAGE_REVOKE), who posts no more, waits
 * for what is out and answers (MESSAGE_REVOKED); the key is taken away then. An importer that
 * does not answer within REVOKE_NS loses its way, which ends whatever was on it. That time
 * runs too while the word waits for a slot: an ep has its share of those and no more, as a peer
 * that is frozen gives none back. The keys go before the next way is opened, those of a pin for all
 * who have it.
 *
 * Threads. fi_close(), opening and fi_av_insert() may block: the engine hands them to a helper
 * thread of the device, by mailbox, and leaves alone what it handed over until it is back. What a
 * provider says is busy the helper closes again, every other millisecond for as long as it takes,
 * and has not answered until then: nothing of it is quiet, or revoked. All
 * objects are of FI_THREAD_SAFE domains, or they take turns; a way and its queue are only ever used
 * by one thread at a time, but that the helper binds regions to it and inserts names.
 *
 * A call that does not return holds up whoever waits for it, but not the end of the context: the
 * helper says since when it is in a job (is_stuck), and urccl_close() leaves the context to it. A
 * helper that comes back after all finds that the device was left, and ends.
 *
 * The files: fabric.c the table, poll and sleep; fabric_lib.c loading; fabric_pick.h from a
 * transport's name to domains; fabric_way.c endpoints, and the helper; fabric_ep.c an ep from
 * address to end; fabric_shared.c what peers share; fabric_talk.c messages; fabric_move.c chunks;
 * fabric_issue.c operations; fabric_memory.c regions; fabric_known.c whom talk knows; fabric_pin.c
 * pins; fabric_key.c exposures and keys; fabric_bound.c those whose keys end with a way;
 * fabric_turn.c the turns.
 */
#ifndef BACKEND_FABRIC_H
#define BACKEND_FABRIC_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#undef container_of		/* theirs is base.h's too */
#include "backend/backend.h"

#define FABRIC_VERSION	1u	/* of what eps say to each other */
#define FABRIC_VERSION_SHARED 2u /* and those that share endpoints */
#define FABRIC_API	FI_VERSION(1, 17)
#define FABRIC_NAME	96u	/* bytes of an endpoint's name */
#define FABRIC_RAW	24u	/* bytes of a key that is no number */
#define FABRIC_NUMBERED (3u * (uint32_t)sizeof(uint64_t)) /* of a part whose key is one */
#define FABRIC_WORD	(FABRIC_NAME + 2 * sizeof(uint64_t) + FABRIC_RAW)
#define FABRIC_COOKIE	16u
#define FABRIC_CREDITS	64u	/* messages of an ep that its peer has not taken */
#define FABRIC_SLOTS	72u	/* buffers of an ep each way: the backend speaks too */
#define FABRIC_OPS	256u	/* operations of an ep that the provider has */
#define FABRIC_OPS_LEFT 32u	/* of them, those that bulk leaves to what is urgent */
#define FABRIC_QUEUE	1024u	/* chunks of an ep that wait for those */
#define FABRIC_WINDOW	(4u << 20) /* bytes of bulk that the provider has at a time */
#define FABRIC_SMALL	1024u	/* chunks up to this go with what is urgent */
#define FABRIC_RANGES	4u	/* chunks of an operation */
#define FABRIC_GATHER	(64u << 10) /* bytes of one that has several; where it is urgent, */
#define FABRIC_GATHER_URGENT (FABRIC_RANGES * FABRIC_SMALL) /* or as many times the first's */
#define FABRIC_NARROW_WINDOW 128u /* packets of a narrow provider's window */
#define FABRIC_NARROW	60u	/* of them, those of an ep's operations; its peer's READs as many */
#define FABRIC_NARROW_LEFT 12u	/* of them, those that bulk leaves */
#define FABRIC_NARROW_OP (8u << 10) /* bytes of an operation there */
#define FABRIC_PACKET	1408u	/* and of a packet of udp's, if the operation has more; of the */
#define FABRIC_PACKET_RANGE 24u /* first so many fewer for each chunk behind the first */
#define FABRIC_TRIES	3u	/* ways that a chunk may break */
#define FABRIC_TABLE	1024u	/* lists of eps by cookie, and of known names */
#define FABRIC_IDLE	64u	/* names that stay known when nobody needs them */
#define FABRIC_INITIATORS 3u	/* shared: in use, the spare, and one that is about to go */
#define FABRIC_TEXT	200u

#define CONNECT_NS	(10 * NSEC_PER_SEC)	/* for the peer's first word */
#define HELLO_NS	(20 * NSEC_PER_MSEC)	/* between first words */
#define REVOKE_NS	(500 * NSEC_PER_MSEC)
#define AGAIN_NS	(500 * NSEC_PER_MSEC)	/* for a way in place of one that failed */
#define AGAIN_MAX_NS	(5 * NSEC_PER_SEC)	/* for it, while both sides are at work on it */
#define BYE_NS		(100 * NSEC_PER_MSEC)	/* for our last word to leave */
#define RESEND_NS	(100 * NSEC_PER_MSEC)	/* for a word on what was said; twice as long */
#define RESEND_MAX_NS	(2 * NSEC_PER_SEC)	/* each time that it is said again, at most that */
#define EXPIRED_NS	(20 * NSEC_PER_MSEC)	/* after which the keys go */
#define DRAIN_NS	(50 * NSEC_PER_MSEC)	/* shared: for what is under way to come back */
#define LEAVE_NS	NSEC_PER_SEC		/* for one job, where the context closes */

struct fabric_device;
struct fabric_ep;

/* ---- loading: fabric_lib.c ---- */

struct fabric_lib {
	uint32_t version;
	int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
		       const struct fi_info *hints, struct fi_info **info);
	void (*freeinfo)(struct fi_info *info);
	struct fi_info *(*dupinfo)(const struct fi_info *info);
	int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
	const char *(*strerror)(int err);
};

/* path NULL: by the system's own rules. 0, or -errno with fail() text. It stays loaded. */
int fabric_load(struct fabric_lib *lib, const char *path);

/* ---- ways ---- */

struct fabric_part {			/* of a peer's memory */
	uint64_t addr, len, key;
};

/* An endpoint with its queue and its peer. Whose thread may touch it says fabric_ep.way_state. */
struct fabric_way {
	struct fabric_device *d;
	struct fid_ep *ep;		/* NULL: none */
	struct fid_cq *cq;
	struct fid_av *av;
	fi_addr_t peer;
	struct list names;		/* of av, where several eps have one: struct fabric_name */
	struct fid_mr *proof;		/* the word that the peer may READ; NULL: it need not */
	struct fabric_part theirs;	/* its word */
	int has_theirs;
	uint32_t name_len, word_len;
	uint32_t settled;		/* its end has begun: who was to connect has */
	int fd;				/* of the queue, if the device waits */
	uint32_t watched;		/* the device's epoll knows of it */
	uint8_t word[FABRIC_WORD];	/* the name, and the part of proof if there is one */
};

enum way_state {
	WAY_CLOSED,
	WAY_WAITS,			/* open; the peer's name of this number is not known */
	WAY_READY,			/* both ends are open: chunks may go */
	WAY_LEAVES,			/* shared: it breaks when what is under way is back */
	WAY_JOB,			/* the helper has it */
};

/* What the helper is asked for. */
enum fabric_job {
	JOB_JOIN,			/* the way, and at first talk, learn the peer's name */
	JOB_CLOSE,			/* the way is closed: what was on it is quiet here */
	JOB_OPEN,			/* another is opened */
	JOB_END,			/* the way is closed, and every key that is of it */
	JOB_KEY,			/* an exposure's keys are taken away, or its pin's */
	JOB_FILL,			/* an exposure's regions on its way are made */
	JOB_FORGET,			/* talk knows a name no more */
	JOB_MEET,			/* an ep and initiators, ours and its peer's, learn names */
	JOB_SPARE,			/* an initiator is opened */
	JOB_RETIRE,			/* and closed */
	JOB_STOP,
};

/* 0 or -errno with fail() text. */
int fabric_way_open(struct fabric_device *d, struct fabric_way *way, uint32_t queue);
/* An ep's. Likewise. */
int fabric_way_make(struct fabric_device *d, struct fabric_way *way);
/* 0: it is closed; -FI_EBUSY: not all of it, and what was on it may still be under way. Then it is
 * to be said again. */
int fabric_way_close(struct fabric_way *way);
/* Likewise. With any other error a provider has given up the object, and must not see it again. */
int fabric_fid_close(struct fid *fid);
/* The same for the control thread, in its turn: these wait, and give it up after a while. */
int fabric_way_end(struct fabric_device *d, struct fabric_way *way);
int fabric_fid_end(struct fabric_device *d, struct fid *fid);
/* 0 or -errno. */
int fabric_peer_add(struct fid_av *av, const void *name, fi_addr_t *peer);
/* A name from outside that a provider may be shown: some are upset by one of another kind. */
int fabric_name_fits(const struct fabric_device *d, const uint8_t *name, uint32_t len);
/* Likewise a way's word. */
int fabric_word_fits(const struct fabric_device *d, const uint8_t *word, uint32_t len);
/* -EAFNOSUPPORT: it is an internet address of the other kind; -EOPNOTSUPP: an endpoint of this
 * process, where that must not be; -EINVAL: anything else. */
int fabric_name_error(const struct fabric_device *d, const uint8_t *name, uint32_t len);
/* efa goes by provider shm to peers of its own host unless told not to. 0, or -errno with fail()
 * text. */
int fabric_shm_forbid(const struct fabric_device *d, struct fid_ep *ep);
int fabric_helper_start(struct fabric_device *d, const struct urccl_params *p);
/* It is to close the domain and end, from now on. */
void fabric_helper_end(struct fabric_device *d);
/* It has, a second after it was to. 0, or -EBUSY: it has not come back, and has the device. */
int fabric_helper_stop(struct fabric_device *d);
/* 1: since that time of the clock it is in a job, or has some that are busy, for too long. Any
 * thread. */
int fabric_helper_is_stuck(struct fabric_device *d, uint64_t since);
/* A job: its result. Of one that closes -FI_EBUSY: it is to be done again; of JOB_FILL 1: likewise,
 * and others may be done first, but none that closes what it fills. */
int fabric_helper_work(struct fabric_device *d, struct msg *m);

/* ---- whom talk knows: fabric_known.c ---- */

struct fabric_known {
	struct msg job;			/* JOB_FORGET */
	struct list link;		/* in its list of fabric_device.known, by name */
	struct list idle;		/* fabric_device.idle */
	uint32_t uses;			/* eps, and slots that talk has */
	uint32_t inserted;		/* the helper's */
	fi_addr_t addr;			/* likewise until an ep of the name has joined */
	uint8_t name[FABRIC_NAME];
};

void fabric_known_init(struct fabric_device *d);
void fabric_known_free(struct fabric_device *d);	/* there is no helper any more */
/* The engine's. One that is new takes the spare. */
struct fabric_known *fabric_known_take(struct fabric_device *d, const uint8_t *name,
				       struct fabric_known **spare);
void fabric_known_put(struct fabric_device *d, struct fabric_known *k);
/* The helper's. */
int fabric_known_insert(struct fabric_device *d, struct fabric_known *k);
void fabric_known_remove(struct fabric_device *d, struct fabric_known *k);

/* ---- what peers share: fabric_shared.c ---- */

/* A name that a vector knows for an ep, or several, each of which has one of these. The helper's
 * while a job has it. */
struct fabric_name {
	struct list link;		/* fabric_way.names; alone: no vector has it */
	fi_addr_t addr;
	uint8_t name[FABRIC_NAME];
};

enum initiator_state {
	INITIATOR_NONE,
	INITIATOR_OPENS,		/* the helper has it */
	INITIATOR_OPEN,
	INITIATOR_RETIRES,		/* nothing is posted to it any more */
	INITIATOR_CLOSES,		/* the helper has it */
};

struct fabric_initiator {
	struct msg job;			/* JOB_SPARE, JOB_RETIRE */
	struct fabric_way way;
	uint32_t state;			/* enum initiator_state */
	uint32_t serial;		/* how many were before, from 1 */
	uint64_t until_ns;		/* RETIRES: for others' operations to come back */
	uint64_t full_ns;		/* since when it takes nothing and gives nothing; 0 */
	uint32_t errors;		/* one after the other */
	uint32_t bad;			/* nothing more comes of it */
};

/* Of an ep: what one of our initiators and its peer know of each other. */
struct fabric_acquaintance {
	uint32_t met;			/* serial of the initiator that knows the peer's target */
	uint32_t known;			/* of that whose name the peer has taken */
	uint32_t out;			/* operations that it has of the ep */
	uint32_t meets;			/* JOB_MEET's: serial, or 0: there is nothing to learn */
	struct fabric_name target;	/* the peer's, in its vector */
};

/* Of an ep: an initiator of its peer's, which our target is to know. */
struct fabric_source {
	uint32_t serial;		/* the peer's count; 0: none */
	uint32_t taken;			/* of that whose name it has */
	uint8_t name[FABRIC_NAME];
	struct fabric_name known;	/* by it */
};

/* ---- messages ---- */

enum fabric_message {
	MESSAGE_HELLO = 1,		/* the first word, and the answer to it */
	MESSAGE_DATA,			/* a SEND */
	MESSAGE_ACK,			/* nothing but its header */
	MESSAGE_WAY,			/* struct fabric_word, word: of the sender's way */
	MESSAGE_JOINED,			/* struct fabric_word: our way knows yours of this number */
	MESSAGE_ASK,			/* struct fabric_word: id of an exposure; more in */
	MESSAGE_KEYS,			/* fabric_bound.c */
	MESSAGE_REVOKE,			/* struct fabric_word: id of an exposure */
	MESSAGE_REVOKED,		/* likewise */
	MESSAGE_BYE,
	MESSAGE_SOURCE,			/* struct fabric_word: serial of an initiator, its name */
	MESSAGE_SOURCE_KNOWN,		/* likewise, of the receiver's: we know it */
	MESSAGE_LEAVES,			/* likewise, of our way: we make another, not as you do */
};

struct fabric_head {			/* little-endian */
	uint8_t type, checked;		/* enum fabric_message; 1: crc is there, and of an ACK
					 * seq: of a SEND that was given up */
	uint16_t len;			/* bytes that follow */
	uint32_t seq;			/* of DATA, from 1 */
	uint32_t taken;			/* greatest seq up to which all were taken here */
	uint32_t crc;
	uint8_t cookie[FABRIC_COOKIE];	/* the receiver's ep */
};

struct fabric_word {			/* little-endian */
	uint32_t number;		/* of a way, or id of an exposure */
	uint32_t len;			/* bytes of a way's word that follow */
};

#define FABRIC_BUF (sizeof(struct fabric_head) + MESSAGE_MAX)

/* A buffer of talk and what libfabric keeps about it. */
struct fabric_slot {
	struct fi_context2 context;	/* first: completions name it */
	struct list link;		/* fabric_device.free_slots, fabric_ep.saying or .said */
	struct fabric_ep *ep;		/* NULL: a receive, or of an ep that has ended */
	struct fabric_known *known;	/* whom it is for, while talk has it */
	void *desc;
	uint32_t receives, len;
	uint8_t buf[FABRIC_BUF];
};

/* Slots are made with an ep and stay: libfabric has no way to give one back early. */
struct fabric_slab {
	struct fabric_slab *next;
	struct fid_mr *mr;
	struct fabric_slot slots[2 * FABRIC_SLOTS];
};

/* ---- chunks ---- */

#define WAY_OWN (1u << 31)		/* in a way's number: the one before was left by the sender
					 * by itself */
#define WAY_MAX (1u << 30)		/* greatest number */

/* What libfabric keeps about a READ or WRITE. */
struct fabric_op {
	struct fi_context2 context;	/* first */
	struct fabric_op *next;		/* free ones */
	struct chunk *chunk;		/* the first; NULL: free */
	uint32_t len;
	uint8_t n;			/* chunks; of several next leads from one on */
	uint8_t bulk;
	uint16_t slot;			/* fabric_ep.on: which initiator has it */
};

/* What one is to move: a piece of a chunk, or several chunks that are one after the other in their
 * queue, whole. */
struct fabric_gathered {
	struct chunk *first, *last;
	uint64_t len;
	uint32_t n, bulk;
	struct iovec local[FABRIC_RANGES];
	struct fi_rma_iov remote[FABRIC_RANGES];
	void *desc[FABRIC_RANGES];
};

/* Bits of chunk.state. chunk.scratch[0]: bytes that the provider was given, [1]: operations of it
 * that the provider has. */
enum fabric_chunk {
	CHUNK_NOW = 1,			/* CANCEL_NOW */
	CHUNK_QUEUED = 2,		/* in urgent or bulk */
	CHUNK_OUT = 4,			/* waits to be given out */
	CHUNK_ACKNOWLEDGED = 8,		/* in unproved, scratch[0] the writes until then */
	CHUNK_BROKE = 16,		/* a way broke under it */
	CHUNK_SUSPECT = 32,		/* and nobody knows whether by it: it goes alone */
	CHUNK_TRY = 64,			/* from here on: the ways that it broke, or one beside it
					 * in its operation; and 1 if one beside it was refused */
};

struct fabric_queue {
	struct chunk *head, **tail;
};

/* ---- eps ---- */

/* What an ep has to say beside its SENDs. */
enum fabric_want {
	WANT_HELLO = 1,
	WANT_WAY = 2,
	WANT_REVOKED = 4,		/* for keys that are unanswered, or forgotten */
	WANT_REVOKE = 8,		/* for grants that are to be taken back */
	WANT_BYE = 16,
	WANT_JOINED = 32,
	WANT_ANSWER = 64,		/* a sign of life */
	WANT_SOURCE = 128,		/* initiators that the peer does not know */
	WANT_SOURCE_KNOWN = 256,
	WANT_LEAVES = 512,
};

enum fabric_state { EP_NEW, EP_CONNECTING, EP_UP, EP_DOWN, EP_CLOSING, EP_CLOSED };
enum fabric_news { NEWS_UP = 1, NEWS_DOWN = 2, NEWS_CLOSED = 4 };

struct fabric_ep {
	struct ep ep;
	uint32_t state;			/* enum fabric_state */
	uint32_t news;
	int res;			/* why it is down */
	uint32_t chunks;		/* taken and not given out */
	uint64_t deadline_ns;		/* of connecting, of a way in place of one that failed, or
					 * of our last word */
	uint64_t again_ns;		/* likewise of a way: beyond which it is not put off */
	uint64_t hello_ns;		/* when the active side says its first word again */
	int active;
	uint8_t ours[FABRIC_COOKIE], theirs[FABRIC_COOKIE];
	struct fabric_ep *same;		/* next in its list by cookie */
	struct list all;		/* fabric_device.eps */
	struct list telling;		/* fabric_device.telling */

	/* the way */
	struct fabric_way way;
	uint32_t way_state;		/* enum way_state; the helper's while WAY_JOB */
	uint32_t number;		/* of our way, from 1 */
	uint32_t ways_closed;		/* that were */
	uint32_t peer_number;		/* of the word below */
	uint32_t peer_joined;		/* the peer's way of this number knows ours */
	uint32_t own;			/* our way before broke here, and not as the peer's had, nor
					 * (but where endpoints are shared) as something failed */
	uint32_t peer_left;		/* likewise the peer's, it says */
	uint32_t peer_leaves;		/* which of our ways' peers goes so, it said before */
	uint32_t peer_len, join_len;
	uint8_t peer_word[FABRIC_WORD];
	uint8_t join_word[FABRIC_WORD];	/* JOB_JOIN's */
	struct msg job;			/* to the helper and back */
	uint32_t job_out;
	uint32_t reads;			/* of JOB_CLOSE and JOB_END: a READ of the way is out */
	uint32_t joined;		/* talk knows the peer, from then on */
	uint32_t broken;		/* another way is wanted, once the helper is back */
	uint32_t ending;		/* JOB_END is wanted, or out */
	uint32_t ended;			/* it is back */

	/* shared */
	uint64_t leave_ns;		/* WAY_LEAVES, or it ends: until when that waits; 0: not */
	uint32_t hurried;		/* what is under way is not to be waited for */
	struct fabric_acquaintance on[FABRIC_INITIATORS]; /* [0] alone where nothing is shared */
	struct fabric_source sources[FABRIC_INITIATORS];
	struct fabric_source *source;	/* JOB_MEET's; NULL: none */
	uint32_t source_serial;		/* likewise */
	uint8_t source_name[FABRIC_NAME];

	/* talk */
	struct fabric_known *known;	/* the peer's; NULL: it was not connected */
	struct fabric_known *spare;	/* for that */
	struct list saying;		/* slots that talk has not taken */
	struct list said;		/* and those that it has */
	uint32_t slots;			/* in the two: FABRIC_SLOTS at most */
	uint32_t wants;			/* enum fabric_want: to be said */
	uint32_t heard;			/* of the peer */
	uint32_t answered;		/* it was heard since deadline_ns was put off */
	uint32_t bye_out;		/* talk has our last word */
	uint32_t seq, acked;		/* of DATA: sent last, taken by the peer */
	struct chunk *unacked[FABRIC_CREDITS];	/* by seq */
	struct fabric_queue sends;	/* that wait for credit, or a slot */
	uint32_t taken;			/* of the peer's, up to which all are */
	uint64_t beyond;		/* bit k: taken + 1 + k is too */
	uint32_t told;			/* of it, to the peer */
	uint64_t resend_ns;		/* when what is not answered is said again; 0: not set */
	uint64_t resend_in;		/* how long that is waited for */

	/* chunks */
	struct fabric_queue urgent, bulk;
	struct fabric_way *via;		/* of the push under way: by what it goes, */
	fi_addr_t to;			/* to whom, */
	uint16_t slot;			/* and which of on counts it */
	uint32_t queued, ops_out;
	uint32_t suspects;		/* chunks with CHUNK_SUSPECT: no others go meanwhile */
	uint32_t faulted;		/* the way broke by itself, nobody knows by which chunk */
	uint32_t more;			/* the provider was promised another operation at once */
	uint64_t bulk_out;		/* bytes */
	uint32_t packets_out;		/* where the provider is narrow */
	struct fabric_queue unproved;	/* WRITEs that are acknowledged */
	struct chunk prove;		/* a FLUSH of our own */
	uint32_t proving;		/* it is under way */
	uint32_t writes, proved, prove_to; /* acknowledged; of them, placed, or to be by prove */
	struct fabric_op *free_ops;
	struct list grants, keys;
	struct fabric_grant *leaving;	/* JOB_CLOSE's */
	uint32_t keys_out;		/* JOB_KEYs of its grants */
	uint32_t next_id;
	struct fabric_slab *slab;	/* goes to the device with the first connect */
	struct fabric_op ops[FABRIC_OPS];
};

struct fabric_device {
	struct device dev;		/* dev.fd: epoll */
	struct fabric_lib lib;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	uint64_t mr_mode;
	uint64_t key_mask;
	uint32_t raw;			/* FI_MR_RAW: bytes of a key; else 0 */
	uint32_t shared;		/* target and initiators are all peers' */
	uint32_t bound;			/* keys end with a way: FI_MR_ENDPOINT, or shared */
	uint32_t acks;			/* a WRITE that comes out is acknowledged, not placed */
	uint32_t inject;		/* bytes of a WRITE that it copies at once, at most */
	uint32_t narrow;		/* its window of packets is not to be filled */
	uint64_t most;			/* bytes of an operation */
	uint32_t ranges;		/* chunks of one; FABRIC_RANGES or fewer */
	uint32_t ops_most;		/* of an ep that the provider has; FABRIC_OPS or fewer */
	uint32_t has_shm;		/* it may go by provider shm, unless endpoints forbid it */
	uint64_t proof[2];		/* what peers READ, and where our READs of theirs land */
	struct fid_mr *proof_mr;	/* of the latter, with FI_MR_LOCAL */
	int unclosed;			/* the provider would not close all of the domain */
	uint32_t cq_size;		/* at least; 0: what is needed */
	uint64_t boot;			/* names the clock of this machine */
	uint32_t dead_after_ms;
	int waits;			/* queues have something to sleep on */
	int restless;			/* those that it says so of never let anybody sleep */
	int apart;			/* endpoints of one process are not to meet each other */
	int unwatched;			/* but not all of them, they are so many */
	int timer;
	struct fabric_way talk;
	struct fabric_way target;	/* shared */
	struct fabric_initiator initiators[FABRIC_INITIATORS];
	struct fabric_initiator *current, *spare, *retiring; /* of them; NULL: there is none now;
					 * retiring: INITIATOR_RETIRES */
	uint32_t serial;		/* of the one that was opened last */
	uint64_t spare_ns;		/* when a spare is tried again; 0: it need not be */
	uint64_t doubt_ns;		/* before which no initiator goes for errors alone */
	uint32_t leaving;		/* eps with leave_ns */
	struct fabric_ep *table[FABRIC_TABLE];
	struct list known[FABRIC_TABLE];
	struct list idle;		/* of known: those that nobody needs, the oldest first */
	uint32_t nidle;
	struct list eps;		/* connected */
	uint32_t neps, slots;		/* of them; slots made for eps */
	uint64_t talk_ns;		/* before which its queue is not looked at */
	uint32_t orphans;		/* slots that talk has, of eps that ended */
	struct list telling;
	struct list free_slots;		/* to send with */
	struct list given;		/* receives: the engine reads them until the next poll */
	struct list unposted;		/* receives that talk did not take, or is to be given */
	struct list expiring;
	uint64_t expire_ns;		/* when the next of them goes, or before; NEVER_NS */
	uint32_t revoking;		/* grants whose importers have a time to answer in */
	struct fabric_slab *slabs;
	struct fabric_queue out;	/* chunks to give out */
	uint64_t now;
	uint32_t stalled;		/* a provider was full, and wakes nobody when it is not */
	struct fabric_tcp *tcp;		/* NULL: endpoints are closed as they are */
	int dead;			/* the engine's: -errno with which talk, or the target,
					 * failed for good */
	uint32_t armed;

	/* turns */
	uint32_t turns;			/* one call of the domain at a time */
	uint32_t turn_wanted;		/* who has turn_queue writes: it waits for its own */
	pthread_mutex_t turn, turn_queue;

	/* the helper */
	pthread_t thread;
	int has_thread;
	struct mailbox to_helper, from_helper;
	struct msg stop;
	uint64_t stop_ns;		/* clock when it is to have stopped; 0: it need not */
	uint64_t in_job;		/* clock since when it is in one, or has some that are busy;
					 * 0: neither */
	uint64_t busy_since;		/* the helper's: 0: none is */
	uint32_t stopped;		/* futex: 1 */

	/* of the poll under way */
	struct event *events;
	uint32_t nevents, max;

	uint32_t round;
	char about[FABRIC_TEXT];
};

static inline struct fabric_device *fabric_device(struct device *dev)
{
	return container_of(dev, struct fabric_device, dev);
}

static inline struct fabric_ep *fabric_ep(struct ep *ep)
{
	return container_of(ep, struct fabric_ep, ep);
}

static inline struct fabric_device *fabric_ep_device(const struct fabric_ep *e)
{
	return fabric_device(e->ep.dev);
}

static inline int fabric_moves(const struct chunk *c)
{
	return c->kind == CHUNK_READ || c->kind == CHUNK_WRITE;
}

static inline uint8_t fabric_version(const struct fabric_device *d)
{
	return d->shared ? FABRIC_VERSION_SHARED : FABRIC_VERSION;
}

static inline void fabric_queue_init(struct fabric_queue *q)
{
	q->head = NULL;
	q->tail = &q->head;
}

static inline void fabric_queue_add(struct fabric_queue *q, struct chunk *c)
{
	c->next = NULL;
	*q->tail = c;
	q->tail = &c->next;
}

static inline struct chunk *fabric_queue_pop(struct fabric_queue *q)
{
	struct chunk *c = q->head;

	q->head = c->next;
	if (!q->head)
		q->tail = &q->head;
	return c;
}

/* 1: it was in q. */
int fabric_queue_remove(struct fabric_queue *q, const struct chunk *c);

/* fabric.c */
void fabric_domain_close(struct fabric_device *d);
uint32_t fabric_poll(struct device *dev, struct event *events, uint32_t n);
int fabric_arm(struct device *dev);
/* The chunk comes out; it is in no queue. */
void fabric_out(struct fabric_ep *e, struct chunk *c, int res, uint32_t flags);
/* One that the end of the ep left undone. */
void fabric_undone(struct fabric_ep *e, struct chunk *c, uint32_t flags);
void fabric_tell(struct fabric_ep *e, enum fabric_news news);

/* fabric_ep.c */
int fabric_ep_open(struct device *dev, struct ep **ep, void *addr, uint32_t *addr_len);
void fabric_ep_free(struct ep *ep);
void fabric_slab_close(struct fabric_device *d, struct fabric_slab *slab);	/* may be NULL */
int fabric_ep_connect(struct ep *ep, const void *addr, uint32_t addr_len, int active,
		      const struct sockaddr_storage *via);
void fabric_ep_close(struct ep *ep);			/* calls no provider */
struct fabric_ep *fabric_ep_find(const struct fabric_device *d, const uint8_t *cookie);
void fabric_ep_up(struct fabric_ep *e);			/* the peer was heard */
void fabric_ep_down(struct fabric_ep *e, int res);
void fabric_ep_break(struct fabric_ep *e);		/* the way: both sides get another */
/* The same of one that failed by itself. Where there is no other in time, and the peer is not heard
 * or keeps us waiting, that is the end of the ep: what it was to carry may go by another. */
void fabric_ep_fault(struct fabric_ep *e);
/* The peer's word on its way; FABRIC_WORD bytes or fewer. */
void fabric_ep_follow(struct fabric_ep *e, uint32_t number, const void *word, uint32_t len);
void fabric_ep_job_done(struct fabric_ep *e);
void fabric_ep_step(struct fabric_ep *e);		/* what it needs next, if it needs it */
/* 1: its way is being closed or made. */
int fabric_ep_remakes(const struct fabric_ep *e);
void fabric_ep_tick(struct fabric_ep *e);

/* fabric_shared.c: where d->shared. Where not, there is nothing to open, to wait for or to be via,
 * and what is said of an initiator is not looked at. */
int fabric_shared_open(struct fabric_device *d);		/* 0, or -errno with fail() text */
int fabric_shared_close(struct fabric_device *d);		/* as fabric_way_end() */
/* By what READs and WRITEs of the ep go. NULL: by nothing now. */
struct fabric_way *fabric_shared_via(const struct fabric_ep *e, fi_addr_t *peer, uint16_t *slot);
/* 1: nothing of the ep is under way; 0: it is waited for, and this is asked again. */
int fabric_shared_left(struct fabric_ep *e);
/* Something of it will not come back by itself. */
void fabric_shared_hurry(struct fabric_ep *e);
/* What an initiator does: takes no more; takes something; refuses it, by this errno; fails it; did
 * it. */
void fabric_shared_full(struct fabric_device *d);
static inline void fabric_shared_takes(struct fabric_device *d)
{
	if (d->shared)
		d->current->full_ns = 0;
}
void fabric_shared_refused(struct fabric_device *d, int err);
void fabric_shared_failed(struct fabric_device *d, uint16_t slot);
static inline void fabric_shared_passed(struct fabric_device *d, uint16_t slot)
{
	d->initiators[slot].errors = 0;
	d->initiators[slot].full_ns = 0;
}
uint32_t fabric_shared_out(const struct fabric_device *d, uint16_t slot); /* operations */
void fabric_shared_init(struct fabric_ep *e);
int fabric_shared_meets(struct fabric_ep *e);			/* 1: JOB_MEET is to be posted */
void fabric_shared_met(struct fabric_ep *e);			/* it is back */
/* Initiators' names, and those of the peer's that our target has, as far as there are slots. */
void fabric_shared_say(struct fabric_ep *e);
int fabric_shared_awaits(const struct fabric_ep *e);		/* the peer's word on a name */
int fabric_shared_is_own(const struct fabric_ep *e); /* 1: the way breaks here, not as the peer's */
/* The peer's initiator, that it knows ours, and that it leaves a way. 0 or -EPROTO. */
int fabric_shared_hear(struct fabric_ep *e, uint32_t serial, const uint8_t *name, uint32_t len);
int fabric_shared_knows(struct fabric_ep *e, uint32_t serial);
int fabric_shared_leaves(struct fabric_ep *e, uint32_t number);
void fabric_shared_poll(struct fabric_device *d);
int fabric_shared_waits(const struct fabric_device *d);		/* for a time that nobody tells */
/* 1: one of the queues has something. */
int fabric_shared_has(struct fabric_device *d,
		      int (*has)(struct fabric_device *d, struct fabric_way *way));
void fabric_shared_job_done(struct fabric_device *d, struct fabric_initiator *i);
/* The helper's jobs, and that of an ep that ends. */
int fabric_shared_spare(struct fabric_device *d, struct fabric_initiator *i);
int fabric_shared_retire(struct fabric_initiator *i);
void fabric_shared_forget(struct fabric_way *way);		/* its vector is closed */
int fabric_shared_meet(struct fabric_device *d, struct fabric_ep *e);
void fabric_shared_part(struct fabric_device *d, struct fabric_ep *e);

/* fabric_tcp.c */
int fabric_tcp_open(struct fabric_device *d);		/* d->tcp, if that is needed. 0 or -errno */
void fabric_tcp_close(struct fabric_device *d);
/* Where there is d->tcp. The helper's, for a way that is about to be closed. */
void fabric_tcp_settle(struct fabric_ep *e);

/* fabric_talk.c */
/* 1: said, or about to be; 0: the ep has no slot free. more NULL: nothing behind the number. */
int fabric_say(struct fabric_ep *e, enum fabric_message type, uint32_t number, const void *more,
	       uint32_t len);
/* 1: the next poll has something to say and can. What has no slot waits for one to come back. */
int fabric_talk_waits(const struct fabric_ep *e);
/* DATA and what else waits goes to talk, as far as it takes it. */
void fabric_talk_push(struct fabric_ep *e);
void fabric_talk_begin(struct fabric_device *d);	/* of a poll */
int fabric_talk_poll(struct fabric_device *d);		/* 0: nothing came */
void fabric_talk_add(struct fabric_device *d, struct fabric_ep *e);	/* room for another ep */
/* Says again what the peer's answer is late for. */
void fabric_talk_tick(struct fabric_ep *e);
int fabric_talk_awaits(const struct fabric_ep *e);	/* an answer */
void fabric_talk_end(struct fabric_ep *e);		/* its SENDs come out */
void fabric_talk_leave(struct fabric_ep *e);		/* its slots are nobody's */
int fabric_talk_cancel(struct fabric_ep *e, struct chunk *c, enum cancel_how how);

/* fabric_issue.c */
/* The next piece of the chunk, which has one left, and what may go with it. */
void fabric_gather(struct fabric_ep *e, struct chunk *c, uint32_t bulk, struct fabric_gathered *g);
/* 0: it goes, or the first of it does, and that is g then; -FI_EAGAIN: the provider is full;
 * -errno: it refuses the first. */
ssize_t fabric_issue(struct fabric_ep *e, struct fabric_gathered *g, struct fabric_op *op);

/* fabric_move.c */
uint32_t fabric_post(struct ep *ep, struct chunk **chunks, uint32_t n);
void fabric_cancel(struct chunk *chunk, enum cancel_how how);
void fabric_move_push(struct fabric_ep *e);
void fabric_move_poll(struct fabric_ep *e);
/* Begins to prove that what was acknowledged is placed; 1: there is nothing to prove. */
int fabric_move_prove(struct fabric_ep *e);
void fabric_move_proved(struct fabric_ep *e, int res);
/* The chunk is not, or no more, one of those that may have broken a way. */
void fabric_move_clear(struct fabric_ep *e, struct chunk *c);
/* What that initiator, or the way, had is closed: it goes again, or comes out. */
void fabric_move_reclaim(struct fabric_ep *e, uint16_t slot);
int fabric_move_reads(const struct fabric_ep *e);		/* 1: a READ is out */
/* Nothing of the way is left: the next one has no blame. */
void fabric_move_begin(struct fabric_ep *e);
/* Takes completions of what peers share; -errno: it will give no more. */
int fabric_move_read(struct fabric_device *d, struct fabric_way *way);
/* Everything of the ep that waits comes out. */
void fabric_move_end(struct fabric_ep *e);
/* And what the provider has, which keeps it. */

#endif
