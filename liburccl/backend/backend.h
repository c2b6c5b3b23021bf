/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport is a const table of functions, required unless marked as optional or NULL. Each
 * backend exports its table and nothing else.
 *
 * A device moves bytes (a NIC, the sockets of a host, its shared memory); an ep is this side's
 * endpoint for one device of a peer. The engine hands chunks to an ep and takes them out of poll.
 * The contract:
 *  - a chunk that post took comes out of poll exactly once; after that the device never touches
 *    its local memory again;
 *  - a WRITE that comes out with res 0 and CHUNK_QUIET is placed: anybody who learns of it now sees
 *    every byte. Without CHUNK_QUIET it was only acknowledged, and a later FLUSH on the same ep
 *    that succeeds proves it placed;
 *  - a READ that comes out with res 0 has all its bytes in local memory;
 *  - a SEND that comes out with res 0 was taken by the peer's device, whose poll returns it as
 *    EVENT_MESSAGE, once or more often, in any order (the engine numbers its messages);
 *  - chunks are not ordered among each other;
 *  - nothing a peer sends is trusted: lengths, keys and offsets are checked before use; a peer
 *    that breaks the protocol loses its ep (EVENT_DOWN, -EPROTO; -EILSEQ: a header does not match
 *    its checksum), no other peer is affected.
 *
 * Threads: scan, open, close, ep_open and ep_free run on the control thread, reg, unreg, pin,
 * unpin, ep_prepare and ep_add_qps on any, several at a time; these may block and allocate, and
 * share with a running engine only the state that each names. All other functions run on the one
 * engine thread that owns the device, never block, never log, and after ep_connect, ep_qps_added
 * and import never allocate. A backend has no globals, calls no engine function, and starts no
 * threads, except for library calls that may block and that the engine cannot avoid (fabric.h).
 */
#ifndef BACKEND_H
#define BACKEND_H

#include <sys/socket.h>
#include "base/base.h"
#include "memory/memory.h"

/* A control connection begins with this, at each side. Data connections come to the same port: a
 * listener without a free descriptor answers them with this too, and with REFUSE behind it. The
 * errno of that is a little-endian u16, so many bytes behind the begin. */
#define CONTROL_MAGIC "\x8eurccl\r\n"
#define CONTROL_ERRNO 40u
#define EP_ADDR_MAX 256u		/* bytes of an ep's address */
#define EP_VERSIONS 2u			/* its first bytes: least and greatest version of the
					 * transport's protocol that the ep supports (sim: none) */
#define EP_BOND 16u			/* bytes of its bond */
#define KEY_MAX 4096u			/* bytes of an exposure's key */
#define MESSAGE_MAX 320u		/* bytes of a SEND */

struct backend;

enum device_caps {
	CAP_FAILOVER = 1 << 0,		/* a chunk that comes out after its ep broke has
					 * CHUNK_FAILOVER; once both ends are closed nothing of it
					 * lands any more: another ep may retry it */
	CAP_ERROR_KILLS_EP = 1 << 1,	/* an access that the peer refused, and CANCEL_NOW, end the
					 * ep: EVENT_DOWN; without it the ep goes on */
	CAP_ACCESS_OUTLIVES_KEY = 1 << 2, /* an access that began in time may outlast its exposure:
					 * the engine ends it then, by unexpose */
	CAP_PIN = 1 << 3,		/* it has pin and unpin, which take a while */
	CAP_SLOW_REG = 1 << 4,		/* reg and unreg take a while */
	CAP_BY_PAGES = 1 << 5,		/* it uses memory by its physical pages: these must stay */
	CAP_DMABUF = 1 << 6,		/* its reg and pin take dma-bufs; other devices never get an
					 * extent that is one */
	CAP_GPU = 1 << 7,		/* its reg takes memory of GPUs; peers reach it unless
					 * expose or import returns -EOPNOTSUPP; a chunk whose key
					 * is of a GPU may have GPU_PIECES pieces */
	CAP_GPU_DIRECT = 1 << 8,	/* its reg may take memory of GPUs, as the device itself
					 * reads and writes it. Where it fails, the engine stages
					 * and relays those bytes */
};

/* Embedded at the start of each backend's own device and ep. */
struct device {
	const struct backend *ops;
	uint32_t index;			/* index in the context, and in extent.mr[] */
	int fd;				/* to sleep on after arm() gave 0; -1: poll it on a timer */
	uint32_t rails;			/* the engine's: eps in use */
	const char *about;		/* the peers it reaches and how it moves bytes, one line */
	uint64_t bytes_per_s;		/* the speed of its port; 0: not known */
	uint32_t caps;			/* enum device_caps */
	struct gpu *gpu;		/* the context's, set after open */
	const uint64_t *iteration;	/* the engine's iteration counter; NULL: none */
	uint32_t served;		/* the backend sets it to 1 when poll moves bytes of a peer
					 * or takes a completion that makes no event; the engine
					 * clears it, and does not sleep soon after */
	uint32_t left;			/* 1: the context closed without it, as is_stuck() said so;
					 * the closing thread writes, any thread reads it */
};

struct ep {
	struct device *dev;
	void *owner;			/* the engine's */
	uint8_t bonded;			/* likewise: a connecting peer must know bond, a key that
					 * only the two sides of the peer's own handshake have */
	uint8_t bond[EP_BOND];
	uint64_t used;			/* engine iteration of the peer's last read or write by it,
					 * if the backend sees these; any thread reads it */
	uint8_t died;			/* the engine's: the process at the other end has ended and
					 * accesses nothing any more */
	uint8_t gpus;			/* the backend's: GPUs of the peer may access our memory,
					 * even if no process has its end open */
	struct sockaddr_storage from;	/* the control thread's, before ep_connect: local address to
					 * dial from, port 0; AF_UNSPEC: any */
};

struct device_config {
	const struct urccl_params *params;
	uint32_t index;
	uint32_t number;		/* among the transport's devices: see scan */
	uint64_t incarnation;		/* random, one per context */
	const struct sockaddr_storage *listen;	/* addresses that the context listens on (their
						 * port is not used), at most LISTEN_MAX */
	uint32_t nlisten;		/* 0: it does not listen, and accept is not called */
	struct nic_port *nics;		/* RDMA transports: the ports that satisfy the settings, in
					 * the machine's order; NULL: the transport looks itself */
	uint32_t nnics;
};

enum chunk_kind { CHUNK_READ, CHUNK_WRITE, CHUNK_FLUSH, CHUNK_SEND };

enum chunk_flags {
	CHUNK_QUIET = 1 << 0,		/* out: nothing of it lands at the peer any more, proved
					 * by the peer or the device */
	CHUNK_CANCELLED = 1 << 1,	/* the backend's: cancel was asked */
	CHUNK_BOUNCES = 1 << 2,		/* out, with -EACCES: it needs a bounce buffer of the
					 * library, which the policy forbids */
	CHUNK_ACKED = 1 << 3,		/* the engine's, of a WRITE: the acknowledgement is
					 * enough, no proof that it is placed is wanted */
	CHUNK_FAILOVER = 1 << 4,	/* out, with an error: its ep broke, and it is unknown
					 * whether it was done */
	CHUNK_REFUSED = 1 << 5,		/* out, with -EACCES: the peer's device refused it, and its
					 * ep broke; the device cannot tell a revoked exposure from
					 * an owner that ended */
	CHUNK_UNFLUSHED = 1 << 6,	/* out: bytes went to memory of another device, local or
					 * remote, which may not have them yet: the proof of
					 * placement covers host memory only */
	CHUNK_CODED = 1 << 7,		/* out, with an error: scratch[0] is its device_code() */
};

/* A device's own code of an error: completion status and vendor code, in the bits above the errno.
 * 0: the device gave none. */
static inline uint64_t device_code(uint16_t status, uint32_t vendor)
{
	return (uint64_t)vendor << 32 | (uint32_t)status << 16;
}

/* A remote's key as import resolved it. Only the backend interprets v. */
struct rkey {
	uint64_t v[2];
	uint32_t mapped;		/* 1: the owner is not asked at each access, so this library
					 * enforces the advert; 0 before import */
	uint32_t gpu;			/* 1: a GPU of this side moves the bytes: local memory is of
					 * a GPU or pinned; 0 before import */
	uint32_t relay;			/* the engine's: its memory is relayed, and the device gets
					 * no chunk with this key */
	uint32_t run;			/* the engine's: slots of the relay, whose messages are
					 * sent beside chunks with this key */
};

struct chunk_piece {
	uint8_t *local;
	uint64_t off;			/* in what the key covers */
	uint64_t len;
};

/* One piece of an entry, or a bundle of pieces. The engine fills it, and changes neither it nor
 * memory that it points to until it comes out. */
struct chunk {
	struct chunk *next;		/* for the list of its current holder */
	struct ep *ep;
	uint8_t kind;			/* enum chunk_kind */
	uint8_t cls;			/* enum urccl_class */
	uint8_t flags;			/* enum chunk_flags */
	uint8_t state;			/* the backend's */
	int32_t res;			/* out: 0 or -errno */
	uint32_t path;			/* out: URCCL_PATH_* bits of this piece, without
					 * transport and rail */
	uint32_t len;			/* bytes; SEND: at most MESSAGE_MAX */
	void *local;			/* their local address */
	const struct memory *memory;	/* the region that holds them; NULL for SEND */
	const struct rkey *key;		/* READ, WRITE, FLUSH: the remote's; FLUSH: may be NULL */
	uint64_t off;			/* in what the key covers; FLUSH: 0 */
	uint64_t scratch[2];		/* the backend's; CHUNK_CODED */
	void *op;			/* the engine's */
	uint32_t seg;			/* the engine's */
	uint8_t taken;			/* the engine's: a device has it */
	uint8_t checksum;		/* its bytes' CRC32C is compared where they are placed, or
					 * it comes out with -EBADMSG; with -EOPNOTSUPP if the peer
					 * cannot. SEND: one that differs is not delivered */
	uint8_t fence;			/* the engine's: bit of the rail that must be fenced before
					 * a retry */
	uint8_t tries;			/* the engine's: how often it came out undone */
	uint32_t npieces;		/* pieces of a bundle in GPU-accessible memory: local and
					 * off are the first one's, len is the sum. 0: none */
	const struct chunk_piece *pieces;
};

/* A queue of chunks, linked by chunk.next; a chunk is in one queue at a time. */
struct chunk_queue {
	struct chunk *head, **tail;	/* tail: the last `next`, or head */
};

static inline void chunk_queue_init(struct chunk_queue *q)
{
	q->head = NULL;
	q->tail = &q->head;
}

static inline void chunk_queue_add(struct chunk_queue *q, struct chunk *c)
{
	c->next = NULL;
	*q->tail = c;
	q->tail = &c->next;
}

static inline void chunk_queue_add_first(struct chunk_queue *q, struct chunk *c)
{
	c->next = q->head;
	if (!q->head)
		q->tail = &c->next;
	q->head = c;
}

/* Removes *at, which is q->head or the `next` of a chunk of the queue. */
static inline void chunk_queue_del(struct chunk_queue *q, struct chunk **at)
{
	*at = (*at)->next;
	if (!*at)
		q->tail = at;
}

/* Removes the first one; the queue has one. */
static inline struct chunk *chunk_queue_pop(struct chunk_queue *q)
{
	struct chunk *c = q->head;

	chunk_queue_del(q, &q->head);
	return c;
}

/* Removes all of them, and returns the first one. */
static inline struct chunk *chunk_queue_take(struct chunk_queue *q)
{
	struct chunk *all = q->head;

	chunk_queue_init(q);
	return all;
}

/* Memory that a device has made ready for peers, and their rights: one for all exposures of the
 * same range and rights by this device. The control thread's; between pin and unpin only mr
 * changes. */
struct pin {
	const struct memory *memory;
	uint64_t off, len;		/* range of the region */
	uint32_t rights;		/* enum urccl_rights */
	void *mr;			/* the device's handle for it; the device's */
};

/* Memory that a peer may access. The engine's; the backend's from expose to unexpose. */
struct exposure {
	struct list link;		/* the engine's */
	struct heap_node expiring;	/* likewise */
	struct list expired;		/* likewise */
	struct ep *ep;
	struct engine_peer *peer;	/* the engine's */
	uint8_t exposed;		/* the engine's: the device has it */
	uint8_t maybe_mapped;		/* likewise: its ep is closed, and the peer has not
					 * confirmed that it unmapped the memory */
	struct memory *memory;
	const struct pin *pin;		/* devices that pin: the pin of the same range and rights */
	uint64_t off, len;		/* range of the region that the peer sees as [0, len) */
	uint32_t rights;		/* enum urccl_rights */
	uint32_t grant;			/* the engine's: its id in peers' atomics */
	uint32_t copies;		/* likewise: copies of the relay from or to it in flight */
	uint32_t id;			/* the backend's */
	uint64_t scratch;		/* the backend's */
	uint64_t expires_ns;		/* accesses fail after this time of the owner's clock;
					 * NEVER_NS: never. Devices that pin: the control thread
					 * unpins then */
};

enum event_type {
	EVENT_CHUNK,			/* chunk came out: res and flags are in it */
	EVENT_MESSAGE,			/* data, len: from ep's peer, valid until the next poll
					 * of the device */
	EVENT_UP,			/* ep may post: both ends are there */
	EVENT_DOWN,			/* ep is broken or never came up; res: why; code: its
					 * device_code(); its chunks come out, then call ep_close */
	EVENT_CLOSED,			/* after ep_close: every chunk is out, ep is quiet and
					 * may be freed */
	EVENT_ADD_QPS,			/* call ep_add_qps, then ep_qps_added, when there is time:
					 * until then ep works with the queue pairs it has. Not
					 * again before ep_qps_added, which comes before ep_free */
};

struct event {
	uint32_t type;
	int32_t res;
	union {
		struct chunk *chunk;
		struct ep *ep;
	};
	union {
		const void *data;
		uint64_t code;
	};
	uint32_t len;
};

enum cancel_how {
	CANCEL_ASK,			/* come out as soon as the peer has confirmed that nothing
					 * of it lands any more */
	CANCEL_NOW,			/* come out by the next polls without the peer's
					 * confirmation; local memory is quiet all the same */
};

struct backend {
	const char *name;
	uint32_t transport;		/* enum urccl_transport */
	uint32_t chunk_bytes;		/* recommended size of a large entry's pieces */
	uint32_t window;		/* bytes of bulk that a rail may have in flight before it
					 * was seen to carry more; 0: several chunks. Small if the
					 * transport retransmits chunks whose ack is late */
	uint32_t qps;			/* queue pairs of an ep, which max_qps counts */

	/* How many devices open() opens with these settings, whatever index and number; numbers
	 * start at 0. 0: none, the reason in fail(). Devices that are named but missing count,
	 * last: open() reports the error of each. */
	uint32_t (*scan)(const struct device_config *config);
	/* Control thread. 0 or -errno, the reason in fail(). */
	int (*open)(const struct device_config *config, struct device **dev);
	/* Close follows. Starts its slow steps, so that those of several devices run in parallel.
	 * NULL: close has none. */
	void (*end)(struct device *dev);
	/* 1: its port has no link, so it reaches no peer. Control thread. NULL: its devices cannot
	 * tell. */
	int (*is_cut)(struct device *dev);
	/* No eps are left. 0, or -EBUSY with fail() text: a driver call has not returned, and
	 * memory that it may use is never freed. */
	int (*close)(struct device *dev);
	/* Optional: the simulated clock of the device and its engine, or NULL. *next_ns: the next
	 * time at which poll has work, as of the last poll. */
	struct clock *(*clock)(struct device *dev, uint64_t *next_ns);
	/* Optional: memory regions of this context; *most: the device's limit for all programs; 0:
	 * another limit applies. Any thread. */
	uint32_t (*mrs)(struct device *dev, uint32_t *most);
	/* Registers memory with the device: extent->mr[dev->index]. Never called twice for one
	 * extent. */
	int (*reg)(struct device *dev, struct extent *extent);
	/* No pin and no exposure of memory in it is left, no chunk uses it. 0, or -errno: the
	 * device still has (some of) it; it may be called again. */
	int (*unreg)(struct device *dev, struct extent *extent);
	/* Devices that pin: makes a range ready for peers, before expose and without an ep. 0 or
	 * -errno. */
	int (*pin)(struct device *dev, struct pin *pin);
	/* No exposure uses it any more. Once it returned 0 no key that peers hold reaches the
	 * memory, and an access that was half received lands no more; -errno: as for unreg. */
	int (*unpin)(struct device *dev, struct pin *pin);
	/* Creates an ep and its address, which goes to the peer's ep_connect. */
	int (*ep_open)(struct device *dev, struct ep **ep, void *addr, uint32_t *addr_len);
	/* Never connected, or EVENT_CLOSED came; also forgets the keys that are still imported. */
	void (*ep_free)(struct ep *ep);
	/* After EVENT_UP, once: a pidfd of the peer's process, which the caller closes; negative:
	 * none can be had. NULL: the peer need not be of this host. */
	int (*process)(struct ep *ep);
	/* After EVENT_CLOSED: a descriptor on which epoll reports EPOLLRDHUP once the peer has
	 * unmapped everything, or no process has its end open any more; the caller closes it. -1:
	 * it has unmapped everything, or died. NULL: peers map nothing. */
	int (*importer)(struct ep *ep);
	/* epoll reported EPOLLRDHUP for the importer of an ep with gpus. 1: the peer has unmapped
	 * everything. 0: only the end of its process proves that. */
	int (*importer_left)(int importer);
	/* Does the blocking part of ep_connect, before it; the call is optional. Any thread, while
	 * no other has the ep. 0 or ep_connect's errors. NULL: ep_connect never blocks. */
	int (*ep_prepare)(struct ep *ep, const void *addr, uint32_t addr_len);

	/* Does the blocking work that EVENT_ADD_QPS asked for. Any thread, in parallel with all but
	 * ep_free. 0, or -errno with fail() text: ep stays as it is. NULL: no ep asks. */
	int (*ep_add_qps)(struct ep *ep);

	/* Engine thread. */
	/* Starts to connect; EVENT_UP or EVENT_DOWN follows. One side of the two is active: it
	 * dials, to the host and port of via if addr names none. addr is the peer's ep_open
	 * address; it is checked. 0, or -errno: malformed, -EPROTONOSUPPORT: no common version. */
	int (*ep_connect)(struct ep *ep, const void *addr, uint32_t addr_len, int active,
			  const struct sockaddr_storage *via);
	/* Starts the end: chunks come out as by CANCEL_NOW, then EVENT_CLOSED. */
	void (*ep_close)(struct ep *ep);

	/* ep_add_qps returned res. Also called after ep_close. */
	void (*ep_qps_added)(struct ep *ep, int res);

	/* Lets ep's peer access the exposure's range; the key goes to the peer's import. Bytes of
	 * key, or -errno. */
	int (*expose)(struct exposure *exposure, void *key, uint32_t key_max);
	/* Later accesses fail with -EACCES, and one that is half received lands no more; a device
	 * that pins guarantees this once unpin has returned. 0: done, the exposure is the engine's
	 * again; -EINPROGRESS: a kernel call still uses the memory, or the peer has not confirmed
	 * that it unmapped it: poll and call again. After EVENT_CLOSED: -EINPROGRESS if the peer
	 * may still have it mapped. */
	int (*unexpose)(struct exposure *exposure);
	/* Resolves a key for chunks on ep. 0, or -errno; -EINPROGRESS: call again. The bytes come
	 * from the peer. */
	int (*import)(struct ep *ep, const void *key, uint32_t key_len, uint64_t len,
		      struct rkey *rkey);
	void (*forget)(struct ep *ep, struct rkey *rkey);	/* no chunk uses it any more */
	/* Optional, for devices with CAP_GPU: the address of the key's memory for kernels of this
	 * side. out NULL: the address is not used any more; until then the owner is not told that a
	 * revocation is done. 0, or -EOPNOTSUPP: not mapped as one piece for a GPU. */
	int (*map)(struct ep *ep, struct rkey *rkey, struct gpu_mapping *out);
	/* Optional. Does in advance the work of a first chunk with the key on this side, a piece at
	 * a time. 0: done; -EINPROGRESS: call again. */
	int (*warm)(struct ep *ep, struct rkey *rkey);

	/* Takes the first chunks of the n, all of ep: returns how many; 0: full, poll first. May
	 * fail them in poll. */
	uint32_t (*post)(struct ep *ep, struct chunk **chunks, uint32_t n);
	/* Optional. Moves len bytes (some KiB) at once between local memory of the host and a
	 * remote whose key is mapped and not of a GPU, as a READ or WRITE that comes out with res
	 * 0, CHUNK_QUIET and no path. 0: nothing was moved, post a chunk: one that was posted
	 * comes first, or the chunk would fail. */
	int (*copy)(struct ep *ep, enum chunk_kind kind, const struct rkey *key, uint64_t off,
		    void *local, uint32_t len);
	/* The chunk was taken and is not out. May be called again with CANCEL_NOW after
	 * CANCEL_ASK. */
	void (*cancel)(struct chunk *chunk, enum cancel_how how);
	/* Sends what was posted, receives, completes: at most n events. 0: nothing to do. */
	uint32_t (*poll)(struct device *dev, struct event *events, uint32_t n);
	/* Announces sleep on dev->fd; 1: there is something to poll, do not sleep. The next poll
	 * cancels it. */
	int (*arm)(struct device *dev);
	/* Optional, for drivers whose calls may never return. Any thread, while the context closes;
	 * since: when that began. 1: a call that ends or closes something has been blocked for a
	 * second. */
	int (*is_stuck)(struct device *dev, uint64_t since);
	/* Optional: takes over a connection that was accepted where the context listens and that
	 * begins with greeting, of which nothing was read. 1: it is the device's, which closes it
	 * if no ep waits for it; 0: no room, call again. Control thread. */
	int (*accept)(struct device *dev, int fd);
	uint8_t greeting[4];
};

/* 1: peers reach all of m by the device; 0: some of it by our engine alone. */
static inline int device_reaches(const struct device *dev, const struct memory *m)
{
	return dev->caps & CAP_GPU || !(m->staged >> dev->index & 1);
}

static inline uint32_t device_mrs(struct device *dev, uint32_t *most)
{
	*most = 0;
	return dev->ops->mrs ? dev->ops->mrs(dev, most) : 0;
}

/* 0: the ep of this address supports the version; -EPROTO: malformed; -EPROTONOSUPPORT. */
static inline int ep_version_check(uint32_t version, const uint8_t *addr, uint32_t len)
{
	if (len < EP_VERSIONS || !addr[0] || addr[0] > addr[1])
		return -EPROTO;
	return addr[0] <= version && version <= addr[1] ? 0 : -EPROTONOSUPPORT;
}

/* For transports that have at most one device. */
static inline uint32_t scan_one(const struct device_config *config)
{
	(void)config;
	return 1;
}

extern const struct backend backend_sim, backend_shm, backend_tcp, backend_ib;
extern const struct backend backend_fabric, backend_efa, backend_cxi;

#endif
