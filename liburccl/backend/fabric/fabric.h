/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libfabric: reliable datagram endpoints (FI_EP_RDM) of any provider, loaded by dlopen.
 *
 * A device is one fi_domain and one message endpoint (fabric_device.msg), which carries messages to
 * and from all peers: at most 320 bytes each, copied on both sides. Beside it each ep has a data
 * endpoint of its own (struct fabric_endpoint), which carries READs and WRITEs between the two
 * sides only; or all peers share some (see below). A message thus waits behind no bulk. libfabric
 * cannot cancel an operation, but fi_close() of an endpoint ends all operations on it, so a data
 * endpoint of its own lets each peer's operations end alone:
 *
 * - A provider gives a buffer back by a completion, or by the return of fi_close() unless that is
 *   -FI_EBUSY. CANCEL_NOW of a chunk that the provider has closes the data endpoint. So does any
 *   error of an operation, since its other effects are unknown.
 * - Both sides then open their next data endpoint. Each first closes the old one, then sends name
 *   and number of the new one over the message endpoint (MESSAGE_ENDPOINT). A side that receives a
 *   higher number than its own does the same. A side that has received the peer's name for its own
 *   number knows that the old endpoints are closed on both sides: nothing of them lands any more.
 *   Chunks that were on the old one and were not cancelled are posted again (URCCL_PATH_REPLAYED).
 * - An operation that failed without being refused breaks its data endpoint and is posted again,
 *   FABRIC_TRIES times at most. It is not counted if the peer had left the endpoint for a reason of
 *   its own, such as a cancel. Providers report that with different errors, so the peer says it
 *   with its next data endpoint (NUMBER_LEFT).
 * - EVENT_DOWN comes after the data endpoint is closed here. The peer learns of it by MESSAGE_BYE
 *   over the message endpoint, which no bulk blocks.
 *
 * An endpoint for each peer costs memory and, with providers over sockets, descriptors.
 *
 * NICs (efa, cxi) have few endpoints, and the end of one peer's connection does not end operations
 * to another peer. There all peers share one target, the endpoint that they reach, and one
 * initiator, by which this side reaches them. A spare initiator is open, and all peers know it. A
 * data endpoint of an ep is then only its number, the keys made for it, and the operations posted
 * since. If an operation must end and the provider does not end it, the spare becomes the
 * initiator. The old one is closed when the operations of the other peers on it are back, or after
 * a while; their data endpoints break then too. Keys prove that nothing of an old data endpoint
 * lands: they end with it, on both sides, before the next one is announced. See shared.c.
 *
 * Placement. Every WRITE asks for FI_DELIVERY_COMPLETE: a completed WRITE is placed. Without
 * support for it, a completion is only the acknowledgement. A READ of one word of the peer's device
 * then pushes the acknowledged data into place; the word's address and key are sent with the data
 * endpoint's name. One READ is under way at a time, and serves all WRITEs before it. It also
 * precedes the answer to a revocation.
 *
 * Memory of ours that peers may access is registered in memory regions, which all peers with the
 * same range share: a pin. Engine threads neither make nor close them. With FI_MR_ENDPOINT, and if
 * peers share the target, the regions belong to one export, and the helper thread makes them; see
 * bound.c.
 *
 * Revoking. A provider may still place a write whose header arrived before fi_close() of the region
 * (tcp does). So the owner sends MESSAGE_REVOKE. The importer posts nothing more, waits for its
 * operations, and answers MESSAGE_REVOKED; then the regions are closed. If an importer does not
 * answer within REVOKE_NS, its data endpoint is closed, which ends its operations. That time also
 * runs while the message waits for a slot: an ep has a limited share of those, and a frozen peer
 * frees none. The regions are closed before the next data endpoint is opened, and those of a pin
 * for all peers that share it.
 *
 * Threads. fi_close(), opening and fi_av_insert() may block. The engine hands them to a helper
 * thread of the device, by mailbox, and does not use the object until it is back. If a provider
 * reports an object as busy, the helper closes it again every 2 ms until that succeeds, and answers
 * only then: nothing of it is quiet, or revoked, before. Domains are FI_THREAD_SAFE, or calls take
 * the domain lock. One thread at a time uses a data endpoint and its queue, but the helper may bind
 * regions to it and insert names.
 *
 * A call that does not return delays those that wait for it, but not the end of the context: the
 * helper publishes since when it is in a job (is_stuck), and urccl_close() leaks the context. If
 * the helper returns later, it sees that the device was left, and ends.
 *
 * The files: fabric.c table, poll and sleep; lib.c loading; pick.h from a transport's
 * name to domains; open.c opens a domain, with the provider's quirks (set_quirks);
 * pick.c picks the domains that become rails; named.c requirements of efa and cxi;
 * none.c a build without libfabric's headers; endpoint.c endpoints, and the helper
 * thread; ep.c an ep from address to end; tcp.c a workaround for tcp and net before
 * 1.18; shared.c shared endpoints; msg.c messages; move.c chunks; issue.c operations;
 * memory.c memory regions; av.c the address-vector cache of the message endpoint;
 * pin.c pins; key.c exports and keys; bound.c keys that end with a data endpoint;
 * lock.c the domain lock.
 */
#ifndef BACKEND_FABRIC_H
#define BACKEND_FABRIC_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#undef container_of		/* libfabric defines it too */
#include "backend/backend.h"

#define FABRIC_VERSION	1u	/* version of addresses and messages between eps */
#define FABRIC_VERSION_SHARED 2u /* likewise for eps that share endpoints */
#define FABRIC_API	FI_VERSION(1, 17)
#define FABRIC_NAME	96u	/* bytes of an endpoint's name */
#define FABRIC_RAW	24u	/* bytes of a raw key, at most */
#define FABRIC_NUMBERED (3u * (uint32_t)sizeof(uint64_t)) /* bytes of a part with a numeric key */
#define FABRIC_ADDRESS	(FABRIC_NAME + 2 * sizeof(uint64_t) + FABRIC_RAW)
#define FABRIC_COOKIE	16u
#define FABRIC_CREDITS	64u	/* messages of an ep that its peer has not acknowledged */
#define FABRIC_SLOTS	72u	/* buffers of an ep in each direction: SENDs and control messages */
#define FABRIC_OPS	256u	/* operations of an ep that the provider has */
#define FABRIC_OPS_LEFT 32u	/* reserved there for urgent chunks */
#define FABRIC_QUEUE	1024u	/* chunks of an ep that wait for an operation */
#define FABRIC_WINDOW	(4u << 20) /* bytes of bulk that the provider has at a time */
#define FABRIC_SMALL	1024u	/* chunks up to this size are urgent */
#define FABRIC_RANGES	4u	/* chunks of an operation */
#define FABRIC_GATHER	(64u << 10) /* most bytes of a gathered operation, if bulk */
/* If urgent: FABRIC_RANGES times its first chunk, at least this, at most FABRIC_GATHER. */
#define FABRIC_GATHER_URGENT (FABRIC_RANGES * FABRIC_SMALL)
#define FABRIC_NARROW_WINDOW 128u /* packets in the send window of ofi_rxd (narrow) */
#define FABRIC_NARROW	60u	/* packets of that window for an ep's operations, and as
				 * many for the peer's READs */
#define FABRIC_NARROW_LEFT 12u	/* packets of those reserved for urgent chunks */
#define FABRIC_NARROW_OP (8u << 10) /* bytes of an operation there */
#define FABRIC_PACKET	1408u	/* payload of a udp packet, in bytes */
#define FABRIC_PACKET_RANGE 24u /* bytes more that each chunk after the first costs */
#define FABRIC_TRIES	3u	/* data endpoints that a chunk may break */
#define FABRIC_TABLE	1024u	/* hash buckets of eps by cookie, and of cached names */
#define FABRIC_IDLE	64u	/* unused names that stay in the cache */
#define FABRIC_INITIATORS 3u	/* shared: in use, spare, and one that is being closed */
#define FABRIC_TEXT	200u

#define CONNECT_NS	(10 * NSEC_PER_SEC)	/* until the peer's first message */
#define HELLO_NS	(20 * NSEC_PER_MSEC)	/* interval of first messages */
#define REVOKE_NS	(500 * NSEC_PER_MSEC)
#define AGAIN_NS	(500 * NSEC_PER_MSEC)	/* for a data endpoint after one that failed */
#define AGAIN_MAX_NS	(5 * NSEC_PER_SEC)	/* likewise while both sides are working on it */
#define BYE_NS		(100 * NSEC_PER_MSEC)	/* for our MESSAGE_BYE to leave */
#define RESEND_NS	(100 * NSEC_PER_MSEC)	/* until an unanswered message is sent again;
						 * doubles */
#define RESEND_MAX_NS	(2 * NSEC_PER_SEC)	/* each time, up to this */
#define EXPIRED_NS	(20 * NSEC_PER_MSEC)	/* after an expiry: time until the regions are
						 * closed */
#define DRAIN_NS	(50 * NSEC_PER_MSEC)	/* shared: for operations under way to come back */
#define LEAVE_NS	NSEC_PER_SEC		/* for one job while the context closes */

struct fabric_device;
struct fabric_ep;

/* ---- loading: lib.c ---- */

struct fabric_lib {
	uint32_t version;
	int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
		       const struct fi_info *hints, struct fi_info **info);
	void (*freeinfo)(struct fi_info *info);
	struct fi_info *(*dupinfo)(const struct fi_info *info);
	int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
	const char *(*strerror)(int err);
};

/* Loads libfabric; path NULL: searched as usual by dlopen(). 0, or -errno with fail() text. It
 * stays loaded. */
int fabric_load(struct fabric_lib *lib, const char *path);

/* ---- data endpoints ---- */

struct fabric_part {			/* one piece of a peer's memory */
	uint64_t addr, len, key;
};

/* An endpoint with its queue and its peer. fabric_ep.endpoint_state says which thread may use
 * it. */
struct fabric_endpoint {
	struct fabric_device *d;
	struct fid_ep *ep;		/* NULL: none */
	struct fid_cq *cq;
	struct fid_av *av;
	fi_addr_t peer;
	struct list names;		/* struct fabric_name in av, if several eps share it */
	struct fid_mr *proof;		/* the word that the peer may READ; NULL: not needed */
	struct fabric_part theirs;	/* the peer's proof word, which we READ */
	int has_theirs;
	uint32_t name_len, address_len;
	uint32_t settled;		/* 1: its queue was polled before the close, so that
					 * connections under way could arrive */
	int fd;				/* wait object of the queue, if the device waits */
	uint32_t watched;		/* the device's epoll knows of it */
	uint8_t address[FABRIC_ADDRESS]; /* the name, then the part of proof if there is one */
};

enum endpoint_state {
	ENDPOINT_CLOSED,
	ENDPOINT_WAITS,			/* open; the peer's name for this number is unknown */
	ENDPOINT_READY,			/* open at both ends: operations may be posted */
	ENDPOINT_LEAVES,		/* shared: closes when its operations are back */
	ENDPOINT_JOB,			/* the helper thread has it */
};

/* Jobs for the helper thread. */
enum fabric_job {
	JOB_JOIN,			/* learns the peer's name, first also at the message
					 * endpoint */
	JOB_CLOSE,			/* closes the data endpoint: its operations are quiet
					 * here */
	JOB_OPEN,			/* opens the next one */
	JOB_END,			/* closes it, and all regions that belong to it */
	JOB_KEY,			/* closes the regions of an export, or of its pin */
	JOB_FILL,			/* makes regions of an export on its data endpoint */
	JOB_FORGET,			/* removes a name from the message endpoint */
	JOB_INSERT,			/* adds names: our initiators learn an ep, our target the
					 * peer's */
	JOB_SPARE,			/* opens an initiator */
	JOB_RETIRE,			/* closes one */
	JOB_STOP,
};

/* Opens the endpoint. 0 or -errno with fail() text. */
int fabric_endpoint_open(struct fabric_device *d, struct fabric_endpoint *endpoint, uint32_t queue);
/* Likewise for an ep; the endpoint may be shared. */
int fabric_endpoint_make(struct fabric_device *d, struct fabric_endpoint *endpoint);
/* 0: closed; -FI_EBUSY: not all of it is, and operations may still be under way. Must be called
 * again then. */
int fabric_endpoint_close(struct fabric_endpoint *endpoint);
/* Closes the object. -FI_EBUSY: call again. 0 also after other errors of the provider: never use
 * the object again. */
int fabric_fid_close(struct fid *fid);
/* For threads that hold the domain lock and may wait: tries again for BUSY_MAX_NS. */
int fabric_endpoint_end(struct fabric_device *d, struct fabric_endpoint *endpoint);
int fabric_fid_end(struct fabric_device *d, struct fid *fid);
/* Adds a name to the vector. 0 or -errno. */
int fabric_peer_add(struct fid_av *av, const void *name, fi_addr_t *peer);
/* 1: the name has the provider's format. Some providers crash on another kind. */
int fabric_name_fits(const struct fabric_device *d, const uint8_t *name, uint32_t len);
/* Likewise for the name and proof part of a data endpoint. */
int fabric_address_fits(const struct fabric_device *d, const uint8_t *address, uint32_t len);
/* The reason for a name that does not fit. -EAFNOSUPPORT: an address of the other IP version;
 * -EOPNOTSUPP: an endpoint of this process, with a provider that cannot reach those; -EINVAL:
 * anything else; 0: it fits. */
int fabric_name_error(const struct fabric_device *d, const uint8_t *name, uint32_t len);
/* Forbids efa to use provider shm for peers on the same host. 0, or -errno with fail() text. */
int fabric_shm_forbid(const struct fabric_device *d, struct fid_ep *ep);
/* Before it is enabled. The message endpoint decides whether memory of GPUs is for the device; the
 * others must then do as it did. 0 or -errno. */
int fabric_hmem_open(struct fabric_device *d, const struct fabric_endpoint *endpoint);
int fabric_helper_start(struct fabric_device *d, const struct urccl_params *p);
/* Tells it to close the domain and end. */
void fabric_helper_end(struct fabric_device *d);
/* Waits up to LEAVE_NS after fabric_helper_end() for that. 0, or -EBUSY: it is in a call and still
 * uses the device. */
int fabric_helper_stop(struct fabric_device *d);
/* 1: at least LEAVE_NS have passed since `since`, all spent in one job or with busy objects. Any
 * thread. */
int fabric_helper_is_stuck(struct fabric_device *d, uint64_t since);
/* Runs a job and returns its result. -FI_EBUSY from a job that closes: run it again; 1 from
 * JOB_FILL: likewise, but other jobs may run first, except those that close what it fills. */
int fabric_helper_work(struct fabric_device *d, struct msg *m);

/* ---- address-vector cache of the message endpoint: av.c ---- */

struct fabric_av_entry {
	struct msg job;			/* JOB_FORGET */
	struct list link;		/* in its bucket of fabric_device.av_cache, by name */
	struct list idle;		/* in fabric_device.idle */
	uint32_t uses;			/* number of eps, and of slots being sent */
	uint32_t inserted;		/* written by the helper thread */
	fi_addr_t addr;			/* likewise, until an ep of this name has joined */
	uint8_t name[FABRIC_NAME];
};

void fabric_av_init(struct fabric_device *d);
void fabric_av_free(struct fabric_device *d);		/* after the helper thread has ended */
/* Engine. A new entry uses *spare. */
struct fabric_av_entry *fabric_av_get(struct fabric_device *d, const uint8_t *name,
				       struct fabric_av_entry **spare);
void fabric_av_put(struct fabric_device *d, struct fabric_av_entry *k);
/* Helper thread. */
int fabric_av_insert(struct fabric_device *d, struct fabric_av_entry *k);
void fabric_av_remove(struct fabric_device *d, struct fabric_av_entry *k);

/* ---- endpoints that peers share: shared.c ---- */

/* The name of an endpoint in an address vector. Each ep that uses the name has one of these. A job
 * that has it is the only user. */
struct fabric_name {
	struct list link;		/* in fabric_endpoint.names; empty: in no vector */
	fi_addr_t addr;
	uint8_t name[FABRIC_NAME];
};

enum initiator_state {
	INITIATOR_NONE,
	INITIATOR_OPENS,		/* the helper thread opens it */
	INITIATOR_OPEN,
	INITIATOR_RETIRES,		/* in use until its operations are back; nothing new is
					 * posted */
	INITIATOR_CLOSES,		/* the helper thread closes it */
};

struct fabric_initiator {
	struct msg job;			/* JOB_SPARE, JOB_RETIRE */
	struct fabric_endpoint endpoint;
	uint32_t state;			/* enum initiator_state */
	uint32_t serial;		/* counts the initiators, from 1 */
	uint64_t until_ns;		/* RETIRES: how long other peers' operations are waited
					 * for */
	uint64_t full_ns;		/* clock since when it accepts and completes nothing; 0: it
					 * does */
	uint32_t errors;		/* failed operations in a row */
	uint32_t bad;			/* its queue failed */
};

/* The state of one initiator of ours for one ep. */
struct fabric_acquainted {
	uint32_t inserted;		/* serial of the initiator that has the peer's target in its
					 * vector */
	uint32_t known;			/* serial of the initiator that the peer's target has in its
					 * vector */
	uint32_t out;			/* operations of the ep that it has */
	uint32_t inserting;		/* for JOB_INSERT: its serial, or 0: nothing to add */
	struct fabric_name target;	/* the peer's target, in its vector */
};

/* The ep's state of one initiator of its peer. */
struct fabric_source {
	uint32_t serial;		/* the peer's number for it; 0: none */
	uint32_t taken;			/* serial of the one that our target has in its vector */
	uint8_t name[FABRIC_NAME];
	struct fabric_name known;	/* the entry in our target's vector */
};

/* ---- messages ---- */

enum fabric_message {
	MESSAGE_HELLO = 1,		/* first message, and its answer */
	MESSAGE_DATA,			/* a SEND */
	MESSAGE_ACK,			/* header only */
	MESSAGE_ENDPOINT,		/* struct fabric_control, then name and proof part of the
					 * sender's data endpoint */
	MESSAGE_JOINED,			/* struct fabric_control: number of the receiver's data
					 * endpoint, which ours has joined */
	MESSAGE_ASK,			/* struct fabric_control: id of an export; see bound.c */
	MESSAGE_KEYS,			/* see bound.c */
	MESSAGE_REVOKE,			/* struct fabric_control: id of an export */
	MESSAGE_REVOKED,		/* likewise */
	MESSAGE_BYE,
	MESSAGE_SOURCE,			/* struct fabric_control: serial of an initiator; its
					 * name */
	MESSAGE_SOURCE_KNOWN,		/* struct fabric_control: serial of the receiver's
					 * initiator, which our target knows */
	MESSAGE_LEAVES,			/* struct fabric_control: number of our data endpoint, which
					 * we are closing for our own reason */
};

struct fabric_head {			/* little-endian */
	uint8_t type, checked;		/* enum fabric_message; 1: crc is valid. In an ACK, 1: seq
					 * is a SEND that was given up */
	uint16_t len;			/* bytes after the header */
	uint32_t seq;			/* counts DATA, from 1 */
	uint32_t taken;			/* all DATA up to this seq were received */
	uint32_t crc;
	uint8_t cookie[FABRIC_COOKIE];	/* identifies the receiving ep */
};

struct fabric_control {			/* little-endian */
	uint32_t number;		/* number of a data endpoint, or id of an export */
	uint32_t len;			/* bytes that follow in MESSAGE_ENDPOINT and
					 * MESSAGE_SOURCE */
};

#define FABRIC_BUF (sizeof(struct fabric_head) + MESSAGE_MAX)

/* A buffer of the message endpoint, with libfabric's context. */
struct fabric_slot {
	struct fi_context2 context;	/* first, since completions point to it */
	struct list link;		/* in fabric_device.free_slots, fabric_ep.send_queue or
					 * sent_list */
	struct fabric_ep *ep;		/* NULL: a receive, or of an ep that has ended */
	struct fabric_av_entry *av_entry; /* its destination, while the provider has it */
	void *desc;
	uint32_t receives, len;
	uint8_t buf[FABRIC_BUF];
};

/* Slots are made with an ep and stay: libfabric cannot give a posted receive back early. */
struct fabric_slab {
	struct fabric_slab *next;
	struct fid_mr *mr;
	struct fabric_slot slots[2 * FABRIC_SLOTS];
};

/* ---- chunks ---- */

#define NUMBER_LEFT (1u << 31)		/* bit in the number of a data endpoint: the sender closed
					 * the one before for a reason of its own */
#define NUMBER_MAX (1u << 30)		/* highest number */

/* libfabric's context of a READ or WRITE. */
struct fabric_op {
	struct fi_context2 context;	/* first, since completions point to it */
	struct fabric_op *next;		/* in fabric_ep.free_ops */
	struct chunk *chunk;		/* the first chunk; NULL: unused */
	uint32_t len;
	uint8_t n;			/* number of chunks; `next` leads from one to the next */
	uint8_t bulk;
	uint16_t slot;			/* index in fabric_ep.on of its initiator */
};

/* The content of one operation: a piece of a chunk, or several complete chunks that follow each
 * other in a queue. */
struct fabric_gathered {
	struct chunk *first, *last;
	uint64_t len;
	uint32_t n, bulk;
	uint32_t of_gpu;		/* 1: local memory is of a GPU: FI_INJECT would copy it */
	struct iovec local[FABRIC_RANGES];
	struct fi_rma_iov remote[FABRIC_RANGES];
	void *desc[FABRIC_RANGES];
};

/* Bits of chunk.state. chunk.scratch[0]: bytes posted; [1]: operations that the provider has. */
enum fabric_chunk {
	CHUNK_NOW = 1,			/* CANCEL_NOW was called */
	CHUNK_QUEUED = 2,		/* in urgent or bulk */
	CHUNK_OUT = 4,			/* in fabric_device.out */
	CHUNK_ACKNOWLEDGED = 8,		/* in unproved; scratch[0] counts the writes before it */
	CHUNK_BROKE = 16,		/* its data endpoint broke */
	CHUNK_SUSPECT = 32,		/* quarantined: it may have caused that, so it is posted
					 * alone */
	CHUNK_TRY = 64,			/* unit of a counter in the upper bits: data endpoints that
					 * the chunk broke, plus 1 if an operation with other chunks
					 * was refused */
};

/* ---- eps ---- */

/* Control messages that an ep is to send. */
enum fabric_due {
	DUE_HELLO = 1,
	DUE_ENDPOINT = 2,
	DUE_REVOKED = 4,		/* for keys with `unanswered` or `forgotten` */
	DUE_REVOKE = 8,			/* for exports to be revoked */
	DUE_BYE = 16,
	DUE_JOINED = 32,
	DUE_ANSWER = 64,		/* asks for an answer: is the peer alive */
	DUE_SOURCE = 128,		/* names of initiators that the peer lacks */
	DUE_SOURCE_KNOWN = 256,
	DUE_LEAVES = 512,
};

enum fabric_state { EP_NEW, EP_CONNECTING, EP_UP, EP_DOWN, EP_CLOSING, EP_CLOSED };
enum fabric_news { NEWS_UP = 1, NEWS_DOWN = 2, NEWS_CLOSED = 4 };

struct fabric_ep {
	struct ep ep;
	uint32_t state;			/* enum fabric_state */
	uint32_t news;
	int res;			/* why it is down */
	uint32_t chunks;		/* accepted chunks that have not come out */
	uint64_t deadline_ns;		/* for the connect, for the data endpoint after a failed
					 * one, or for our MESSAGE_BYE */
	uint64_t again_ns;		/* latest deadline for a data endpoint */
	uint64_t hello_ns;		/* when the active side sends its first message again */
	int active;
	uint8_t ours[FABRIC_COOKIE], theirs[FABRIC_COOKIE];
	struct fabric_ep *same;		/* next in its bucket by cookie */
	struct list all;		/* in fabric_device.eps */
	struct list telling;		/* in fabric_device.telling */

	/* data endpoint */
	struct fabric_endpoint endpoint;
	uint32_t endpoint_state;	/* enum endpoint_state; set by the helper thread during
					 * ENDPOINT_JOB */
	uint32_t number;		/* number of our data endpoint, from 1 */
	uint32_t endpoints_closed;	/* how many were closed */
	uint32_t peer_number;		/* number of peer_address */
	uint32_t peer_joined;		/* highest number of ours that the peer has joined */
	uint32_t own;			/* 1: we closed our last data endpoint for a reason of our
					 * own. 0: for a reason of the peer, or (unless endpoints
					 * are shared) after a failure */
	uint32_t peer_left;		/* the peer says the same of its last one */
	uint32_t peer_leaves;		/* number of the data endpoint that MESSAGE_LEAVES
					 * announced */
	uint32_t peer_len, join_len;
	uint8_t peer_address[FABRIC_ADDRESS];
	uint8_t join_address[FABRIC_ADDRESS]; /* for JOB_JOIN */
	struct msg job;			/* the job that the helper thread has */
	uint32_t job_out;
	uint32_t reads;			/* for JOB_CLOSE and JOB_END: a READ is under way */
	uint32_t joined;		/* the message endpoint has the peer's name */
	uint32_t broken;		/* another data endpoint is needed, when the helper thread
					 * is back */
	uint32_t ending;		/* JOB_END is needed or under way */
	uint32_t ended;			/* JOB_END is done */

	/* shared endpoints */
	uint64_t leave_ns;		/* until when its operations are waited for; 0: not
					 * closing */
	uint32_t no_wait;		/* deadline shortened: operations are not waited for */
	struct fabric_acquainted on[FABRIC_INITIATORS]; /* one each; only [0] without shared
							   * endpoints */
	struct fabric_source sources[FABRIC_INITIATORS];
	struct fabric_source *source;	/* for JOB_INSERT; NULL: none */
	uint32_t source_serial;		/* likewise */
	uint8_t source_name[FABRIC_NAME];

	/* messages */
	struct fabric_av_entry *av_entry; /* the peer's entry; NULL: never connected */
	struct fabric_av_entry *spare;	/* memory for that entry */
	struct list send_queue;		/* slots that wait for the provider */
	struct list sent_list;		/* slots that the provider has */
	uint32_t slots;			/* in both: FABRIC_SLOTS at most */
	uint32_t due;			/* enum fabric_due: messages to send */
	uint32_t heard;			/* a message of the peer came */
	uint32_t answered;		/* one came since deadline_ns was extended */
	uint32_t bye_out;		/* the provider has our MESSAGE_BYE */
	uint32_t seq, acked;		/* last DATA sent; last one that the peer received */
	struct chunk *unacked[FABRIC_CREDITS];	/* by seq */
	struct chunk_queue sends;	/* SENDs that wait for credit or a slot */
	uint32_t taken;			/* highest seq up to which all DATA of the peer came */
	uint64_t beyond;		/* bit k: taken + 1 + k came too */
	uint32_t acked_to;		/* the value of `taken` that was sent last */
	uint64_t resend_ns;		/* when unanswered messages are sent again; 0: not set */
	uint64_t resend_in;		/* the interval for that */

	/* chunks */
	struct chunk_queue urgent, bulk;
	struct fabric_endpoint *via;	/* set by each push: the endpoint */
	fi_addr_t to;			/* likewise: the destination */
	uint16_t slot;			/* likewise: the index in `on` */
	uint32_t queued, ops_out;
	uint32_t suspects;		/* quarantined chunks; others wait meanwhile */
	uint32_t faulted;		/* the data endpoint failed, and the faulting chunk is
					 * unknown */
	uint32_t more;			/* FI_MORE was given: another operation must follow */
	uint64_t bulk_out;		/* bytes */
	uint32_t packets_out;		/* packets, for a narrow provider */
	struct chunk_queue unproved;	/* acknowledged WRITEs, not yet placed */
	struct chunk prove;		/* a FLUSH of the backend's own */
	uint32_t proving;		/* that FLUSH is under way */
	uint32_t writes, proved, prove_to; /* acknowledged writes; those placed; value of
					    * `writes` when the last FLUSH began */
	struct fabric_op *free_ops;
	struct list grants, keys;
	struct fabric_grant *leaving;	/* for JOB_CLOSE */
	uint32_t keys_out;		/* JOB_KEYs under way for its exports */
	uint32_t next_id;
	struct fabric_slab *slab;	/* passes to the device at the first connect */
	struct fabric_op ops[FABRIC_OPS];
};

struct fabric_device {
	struct device dev;		/* dev.fd is an epoll */
	struct fabric_lib lib;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	uint64_t mr_mode;
	uint64_t key_mask;
	uint32_t raw;			/* FI_MR_RAW: bytes of a key; otherwise 0 */
	uint32_t shared;		/* all peers share target and initiators */
	uint32_t bound;			/* keys end with a data endpoint: FI_MR_ENDPOINT, or
					 * shared */
	uint32_t acks;			/* a completed WRITE is acknowledged, not placed */
	uint32_t inject;		/* bytes of a WRITE that the provider copies at once, at
					 * most */
	uint32_t narrow;		/* its window of packets must not be filled */
	uint64_t most;			/* bytes of an operation, at most */
	uint32_t ranges;		/* chunks of an operation, at most FABRIC_RANGES */
	uint32_t ops_most;		/* operations of an ep that the provider has, at most
					 * FABRIC_OPS */
	uint32_t has_shm;		/* it may use provider shm unless an endpoint forbids
					 * that */
	uint64_t proof[2];		/* [0]: read by peers; [1]: target of our READs */
	struct fid_mr *proof_mr;	/* region of [1], with FI_MR_LOCAL */
	int unclosed;			/* the provider did not close all of the domain */
	uint32_t cq_size;		/* entries of a queue, at least; 0: as needed */
	uint64_t boot;			/* identifies this machine's clock */
	uint32_t dead_after_ms;
	int waits;			/* queues have wait objects */
	int restless;			/* wait objects are always ready: nobody can sleep on
					 * them */
	int apart;			/* endpoints of one process cannot reach each other */
	int unwatched;			/* some queues could not be watched, since there are too
					 * many */
	int timer;
	struct fabric_endpoint msg;
	struct fabric_endpoint target;	/* shared */
	struct fabric_initiator initiators[FABRIC_INITIATORS];
	struct fabric_initiator *current, *spare, *retiring; /* in initiators[]; NULL: none now;
							      * retiring is in INITIATOR_RETIRES */
	uint32_t serial;		/* serial of the newest initiator */
	uint64_t spare_ns;		/* when to try a spare again; 0: no need */
	uint64_t doubt_ns;		/* until then no initiator is replaced because of errors
					 * alone */
	uint32_t leaving;		/* number of eps with leave_ns */
	struct fabric_ep *table[FABRIC_TABLE];
	struct list av_cache[FABRIC_TABLE];
	struct list idle;		/* unused entries of av_cache, oldest first */
	uint32_t nidle;
	struct list eps;		/* connected eps */
	uint32_t neps, slots;		/* their number; slots made for eps */
	uint64_t msg_ns;		/* until then the message endpoint is not polled */
	uint32_t orphans;		/* slots that the provider has, of eps that ended */
	struct list telling;
	struct list free_slots;		/* for sending */
	struct list given;		/* receives that the engine reads until the next poll */
	struct list unposted;		/* receives that the provider did not accept, or has not got
					 * yet */
	struct list expiring;
	uint64_t expire_ns;		/* no export is due for closing before this; NEVER_NS:
					 * none */
	uint32_t revoking;		/* exports whose importers have time to answer */
	struct fabric_slab *slabs;
	struct chunk_queue out;	/* chunks to return by poll */
	uint64_t now;
	uint32_t stalled;		/* the provider was full, and does not report room */
	struct fabric_tcp *tcp;		/* NULL: endpoints need no preparation before a close */
	int dead;			/* -errno with which the message endpoint, or the target,
					 * failed for good; written by the engine */
	uint32_t armed;

	/* domain lock */
	uint32_t hmem;			/* 1: it reads and writes memory of GPUs itself */
	uint32_t serialized;		/* calls of the domain need the lock */
	uint32_t lock_wanted;		/* set by the holder of lock_queue while it waits for
					 * lock */
	pthread_mutex_t lock, lock_queue;

	/* helper thread */
	pthread_t thread;
	int has_thread;
	struct mailbox to_helper, from_helper;
	struct msg stop;
	uint64_t stop_ns;		/* clock by which it must have stopped; 0: not stopping */
	uint64_t in_job;		/* clock since when it is in a job or has busy objects; 0:
					 * neither */
	uint64_t busy_since;		/* used by the helper thread only; 0: no object is busy */
	uint32_t stopped;		/* futex: 1 when it has stopped */

	/* used by the poll under way */
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

/* 1: it was in q. */
int fabric_queue_remove(struct chunk_queue *q, const struct chunk *c);

/* fabric.c */
void fabric_domain_close(struct fabric_device *d);
uint32_t fabric_poll(struct device *dev, struct event *events, uint32_t n);
int fabric_arm(struct device *dev);
/* Returns the chunk by the next poll. It must be in no queue. */
void fabric_out(struct fabric_ep *e, struct chunk *c, int res, uint32_t flags);
/* Likewise for a chunk that the end of the ep interrupted. */
void fabric_out_failover(struct fabric_ep *e, struct chunk *c, uint32_t flags);
void fabric_report(struct fabric_ep *e, enum fabric_news news);

/* ep.c */
int fabric_ep_open(struct device *dev, struct ep **ep, void *addr, uint32_t *addr_len);
void fabric_ep_free(struct ep *ep);
/* NULL is allowed. */
void fabric_slab_close(struct fabric_device *d, struct fabric_slab *slab);
int fabric_ep_connect(struct ep *ep, const void *addr, uint32_t addr_len, int active,
		      const struct sockaddr_storage *via);
void fabric_ep_close(struct ep *ep);			/* calls no provider */
struct fabric_ep *fabric_ep_find(const struct fabric_device *d, const uint8_t *cookie);
void fabric_ep_up(struct fabric_ep *e);			/* a message of the peer came */
void fabric_ep_down(struct fabric_ep *e, int res);
/* Closes the data endpoint; both sides open the next one. */
void fabric_ep_break(struct fabric_ep *e);
/* Likewise after a failure. If no next one is ready in AGAIN_NS, waits on, AGAIN_MAX_NS at most,
 * while our helper works or the peer answers. Otherwise the ep ends, and its chunks may go by
 * another rail. */
void fabric_ep_fault(struct fabric_ep *e);
/* The peer's data endpoint; len at most FABRIC_ADDRESS. */
void fabric_ep_peer_endpoint(struct fabric_ep *e, uint32_t number, const void *address,
			     uint32_t len);
void fabric_ep_job_done(struct fabric_ep *e);
void fabric_ep_step(struct fabric_ep *e);		/* takes its next step, if one is due */
/* 1: its data endpoint is being closed or opened. */
int fabric_ep_remakes(const struct fabric_ep *e);
void fabric_ep_tick(struct fabric_ep *e);

/* shared.c: used if d->shared. Otherwise there is nothing to open or to wait for, and the
 * state of initiators is not read. */
int fabric_shared_open(struct fabric_device *d);		/* 0, or -errno with fail() text */
int fabric_shared_close(struct fabric_device *d);		/* as fabric_endpoint_end() */
/* The endpoint for READs and WRITEs of the ep. NULL: none now. */
struct fabric_endpoint *fabric_shared_via(const struct fabric_ep *e, fi_addr_t *peer,
					  uint16_t *slot);
/* 1: no operation of the ep is under way. 0: wait, and call again. */
int fabric_shared_left(struct fabric_ep *e);
/* An operation of it will not come back by itself: shortens the deadline. */
void fabric_shared_stop_waiting(struct fabric_ep *e);
/* The current initiator is full: it accepts no operation now. */
void fabric_shared_full(struct fabric_device *d);
/* The current initiator is not full. */
static inline void fabric_shared_takes(struct fabric_device *d)
{
	if (d->shared)
		d->current->full_ns = 0;
}
/* The current initiator refused an operation with this errno. */
void fabric_shared_refused(struct fabric_device *d, int err);
/* An operation of the initiator in this slot failed. */
void fabric_shared_failed(struct fabric_device *d, uint16_t slot);
/* An operation of the initiator in this slot completed. */
static inline void fabric_shared_passed(struct fabric_device *d, uint16_t slot)
{
	d->initiators[slot].errors = 0;
	d->initiators[slot].full_ns = 0;
}
uint32_t fabric_shared_out(const struct fabric_device *d, uint16_t slot); /* number of operations */
void fabric_shared_init(struct fabric_ep *e);
int fabric_shared_must_insert(struct fabric_ep *e);		/* 1: post JOB_INSERT */
void fabric_shared_inserted(struct fabric_ep *e);		/* JOB_INSERT is done */
/* Sends the names of initiators that the peer lacks, and confirms those of the peer, as far as
 * there are slots. */
void fabric_shared_send(struct fabric_ep *e);
/* 1: waits for the peer to confirm a name. */
int fabric_shared_awaits(const struct fabric_ep *e);
int fabric_shared_is_own(const struct fabric_ep *e); /* 1: the reason for closing is this side's */
/* The peer announces an initiator of its own. 0 or -EPROTO. */
int fabric_shared_source_came(struct fabric_ep *e, uint32_t serial, const uint8_t *name,
			      uint32_t len);
/* The peer's target has our initiator of this serial in its vector. 0 or -EPROTO. */
int fabric_shared_knows(struct fabric_ep *e, uint32_t serial);
/* The peer closes the data endpoint of this number. 0 or -EPROTO. */
int fabric_shared_leaves(struct fabric_ep *e, uint32_t number);
void fabric_shared_poll(struct fabric_device *d);
/* 1: poll on a timer, since a deadline of shared endpoints raises no event. */
int fabric_shared_waits(const struct fabric_device *d);
/* 1: one of the queues has an event. */
int fabric_shared_has(struct fabric_device *d,
		      int (*has)(struct fabric_device *d, struct fabric_endpoint *endpoint));
void fabric_shared_job_done(struct fabric_device *d, struct fabric_initiator *i);
/* The helper thread's jobs, and the end of an ep. */
int fabric_shared_spare(struct fabric_device *d, struct fabric_initiator *i);
int fabric_shared_retire(struct fabric_initiator *i);
void fabric_shared_forget(struct fabric_endpoint *endpoint);	/* after its vector was closed */
int fabric_shared_insert(struct fabric_device *d, struct fabric_ep *e);
void fabric_shared_part(struct fabric_device *d, struct fabric_ep *e);

/* tcp.c */
/* Makes d->tcp if it is needed. 0 or -errno. */
int fabric_tcp_open(struct fabric_device *d);
void fabric_tcp_close(struct fabric_device *d);
/* Helper thread, if d->tcp: prepares the data endpoint for its close. */
void fabric_tcp_settle(struct fabric_ep *e);

/* msg.c */
/* 1: sent, or queued; 0: the ep has no free slot. more NULL: only the number is sent. */
int fabric_send(struct fabric_ep *e, enum fabric_message type, uint32_t number, const void *more,
	       uint32_t len);
/* 1: the next poll can send a message. Messages that wait for a slot do not count. */
int fabric_msg_waits(const struct fabric_ep *e);
/* Sends DATA and queued messages as far as the provider accepts them. */
void fabric_msg_push(struct fabric_ep *e);
void fabric_msg_begin(struct fabric_device *d);		/* at the begin of a poll */
int fabric_msg_poll(struct fabric_device *d);		/* 0: nothing came */
/* Makes room for one more ep. */
void fabric_msg_add(struct fabric_device *d, struct fabric_ep *e);
/* Sends messages again whose answer is late. */
void fabric_msg_tick(struct fabric_ep *e);
int fabric_msg_awaits(const struct fabric_ep *e);	/* 1: an answer is expected */
void fabric_msg_end(struct fabric_ep *e);		/* its SENDs come out */
void fabric_msg_leave(struct fabric_ep *e);		/* gives up its slots */
int fabric_msg_cancel(struct fabric_ep *e, struct chunk *c, enum cancel_how how);

/* issue.c */
/* Collects the next piece of the chunk, and complete chunks after it that may go with it. */
void fabric_gather(struct fabric_ep *e, struct chunk *c, uint32_t bulk, struct fabric_gathered *g);
/* Posts it. 0: posted; g holds what was posted, perhaps shrunk to its first piece; -FI_EAGAIN: the
 * provider is full; -errno: it refuses the first piece. */
ssize_t fabric_issue(struct fabric_ep *e, struct fabric_gathered *g, struct fabric_op *op);

/* move.c */
uint32_t fabric_post(struct ep *ep, struct chunk **chunks, uint32_t n);
void fabric_cancel(struct chunk *chunk, enum cancel_how how);
void fabric_move_push(struct fabric_ep *e);
void fabric_move_poll(struct fabric_ep *e);
/* Starts to prove that acknowledged writes are placed; 1: nothing to prove. */
int fabric_move_prove(struct fabric_ep *e);
void fabric_move_proved(struct fabric_ep *e, int res);
/* The chunk is no longer quarantined. */
void fabric_move_clear(struct fabric_ep *e, struct chunk *c);
/* The initiator, or the data endpoint, is closed: its chunks are posted again or come out. */
void fabric_move_reclaim(struct fabric_ep *e, uint16_t slot);
int fabric_move_reads(const struct fabric_ep *e);		/* 1: a READ is under way */
/* No operation of the old data endpoint is left: the next one starts without a fault. */
void fabric_move_begin(struct fabric_ep *e);
/* Takes completions of shared endpoints. -errno: the queue has failed for good. */
int fabric_move_read(struct fabric_device *d, struct fabric_endpoint *endpoint);
/* All waiting chunks of the ep come out, except those that the provider has. */
void fabric_move_end(struct fabric_ep *e);

#endif
