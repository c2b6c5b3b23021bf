/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport: a const table of functions, all required. Each backend file exports that table
 * and nothing else.
 *
 * A device is one thing that moves bytes (a NIC, the sockets of a host, its shared memory), an
 * ep its end of the way to one peer's device. The engine hands chunks to an ep and takes them
 * out of poll; the contract:
 *  - a chunk that post took comes out of poll exactly once; once out, its local memory is left
 *    alone for ever;
 *  - a WRITE that comes out with res 0 and CHUNK_QUIET is placed: whoever is told of it now sees
 *    every byte. Without CHUNK_QUIET it was only acknowledged, and a later FLUSH on the same ep
 *    that succeeds proves it placed;
 *  - a READ that comes out with res 0 has all its bytes in local memory;
 *  - a SEND that comes out with res 0 was taken by the peer's device, whose poll gives it out as
 *    EVENT_MESSAGE, once or more often, in any order (the engine numbers its messages);
 *  - nothing orders chunks among each other;
 *  - nothing a peer sends is trusted: lengths, keys and offsets are checked before use; a peer
 *    that breaks the protocol loses its ep (EVENT_DOWN, -EPROTO; -EILSEQ: a header is not what
 *    its checksum says), nobody else notices.
 *
 * Threads: scan, open, close, ep_open and ep_free run on the control thread, reg, unreg, pin,
 * unpin, ep_prepare and ep_add_qps on any, several at a time; these may block and allocate, and
 * share nothing with a running engine but what each says. All other functions run on the one engine
 * thread that owns the device, never block, never log, and after ep_connect, ep_qps_added and
 * import never allocate. A backend has no globals, calls nothing of the engine, and starts no
 * threads, but where calls of a library may block that the engine cannot do without (fabric.h).
 */
#ifndef BACKEND_H
#define BACKEND_H

#include <sys/socket.h>
#include "base/base.h"
#include "memory/memory.h"

#define EP_ADDR_MAX 256u		/* bytes of an ep's address */
#define EP_VERSIONS 2u			/* the bytes that it begins with: least and greatest version
					 * of the transport's protocol that its ep speaks (sim:
					 * none) */
#define EP_BOND 16u			/* bytes of its bond */
#define KEY_MAX 4096u			/* bytes of an exposure's key */
#define MESSAGE_MAX 320u		/* bytes of a SEND */

struct backend;

enum device_caps {
	CAP_FAILOVER = 1 << 0,		/* chunks that came out since their ep broke have
					 * CHUNK_FAILOVER, and once both ends are closed nothing of
					 * them lands any more: they may go again by another ep */
	CAP_ERROR_KILLS_EP = 1 << 1,	/* an access that the peer refused, and CANCEL_NOW, end the
					 * ep: EVENT_DOWN; without it the ep goes on */
	CAP_ACCESS_OUTLIVES_KEY = 1 << 2, /* an access that began in time may outlast its exposure:
					 * the engine ends it then, by unexpose */
	CAP_PIN = 1 << 3,		/* it has pin and unpin, which take a while */
	CAP_SLOW_REG = 1 << 4,		/* reg and unreg take a while */
	CAP_BY_PAGES = 1 << 5,		/* it knows memory by its pages: these must stay */
	CAP_DMABUF = 1 << 6,		/* its reg and pin take dma-bufs; without it it is never
					 * given an extent that is one */
	CAP_GPU = 1 << 7,		/* its reg takes memory of GPUs, which peers reach as far as
					 * expose and import do not say -EOPNOTSUPP; a chunk whose
					 * key is of a GPU may have GPU_PIECES pieces */
};

/* Embedded at the start of each backend's own device and ep. */
struct device {
	const struct backend *ops;
	uint32_t index;			/* in the context; of extent.mr[] */
	int fd;				/* to sleep on after arm() gave 0; -1: poll it on a timer */
	uint32_t rails;			/* the engine's: eps in use */
	const char *about;		/* whom it reaches and how it moves bytes, in a line */
	uint64_t bytes_per_s;		/* the speed of its port; 0: not known */
	uint32_t caps;			/* enum device_caps */
	struct gpu *gpu;		/* the context's, set after open */
	const uint64_t *iteration;	/* the engine's: counts up; NULL: it has none */
	uint32_t left;			/* 1: the context closed without it, as is_stuck() said so;
					 * who closes it writes, any thread reads it */
};

struct ep {
	struct device *dev;
	void *owner;			/* the engine's */
	uint8_t bonded;			/* likewise: who connects must know bond, a key that both
					 * sides of the peer's own handshake alone have */
	uint8_t bond[EP_BOND];
	uint64_t used;			/* turn at which the peer's last read or write came by it,
					 * where the backend sees these; any thread reads it */
	uint8_t died;			/* the engine's: the process at the other end has ended, and
					 * touches nothing any more */
	uint8_t gpus;			/* the backend's: GPUs of the peer may be at memory of ours,
					 * also when no process has its end open */
	struct sockaddr_storage from;	/* the control thread's, before ep_connect: where it is
					 * to dial from, port 0; AF_UNSPEC: anywhere */
};

struct device_config {
	const struct urccl_params *params;
	uint32_t index;
	uint32_t number;		/* among those of the transport: see scan */
	uint64_t incarnation;		/* of this context, random */
	const struct sockaddr_storage *listen;	/* addresses to listen on (their port is not
						 * used), at most LISTEN_MAX */
	uint32_t nlisten;		/* 0: do not listen */
	struct nic_port *nics;		/* of an RDMA transport: the rails, in the machine's order,
					 * which have what the settings ask for; NULL: it looks
					 * itself */
	uint32_t nnics;
};

enum chunk_kind { CHUNK_READ, CHUNK_WRITE, CHUNK_FLUSH, CHUNK_SEND };

enum chunk_flags {
	CHUNK_QUIET = 1 << 0,		/* out: nothing of it lands at the peer any more, proved
					 * by the peer or the device */
	CHUNK_CANCELLED = 1 << 1,	/* the backend's: cancel was asked */
	CHUNK_BOUNCES = 1 << 2,		/* out, with -EACCES: it would have gone through memory
					 * of the library, which the policy forbids */
	CHUNK_ACKED = 1 << 3,		/* the engine's, of a WRITE: the acknowledgement is
					 * enough, no proof that it is placed is wanted */
	CHUNK_FAILOVER = 1 << 4,	/* out, with an error: its ep broke, and nobody knows
					 * whether it was done; not where somebody does */
	CHUNK_REFUSED = 1 << 5,		/* out, with -EACCES: the peer's device would not have
					 * it, and its ep broke; whether the owner took the memory
					 * back, or is no more itself, the device does not know */
	CHUNK_UNFLUSHED = 1 << 6,	/* out: bytes went to memory of another device, there or
					 * here, which may not have them yet: what proves them
					 * placed does so of the host's memory alone */
	CHUNK_CODED = 1 << 7,		/* out, with an error: scratch[0] is its device_code() */
};

/* What a device calls an error: the status of its completion and the vendor's own code, above an
 * errno that it is told with. 0: it calls it nothing. */
static inline uint64_t device_code(uint16_t status, uint32_t vendor)
{
	return (uint64_t)vendor << 32 | (uint32_t)status << 16;
}

/* A remote's key as import resolved it; what is in it is the backend's affair. */
struct rkey {
	uint64_t v[2];
	uint32_t mapped;		/* 1: the owner is not asked at each access, so that this
					 * library keeps to the advert; 0 before import */
	uint32_t gpu;			/* 1: a GPU of this side moves the bytes: local memory is of
					 * a GPU or pinned; likewise */
	uint32_t relay;			/* the engine's: its memory is relayed, and the device gets
					 * no chunk with this key */
};

struct chunk_piece {
	uint8_t *local;
	uint64_t off;			/* in what the key covers */
	uint64_t len;
};

/* One piece of an entry, or a bundle of pieces. Filled by the engine, which leaves it and what it
 * points to alone until it comes out. */
struct chunk {
	struct chunk *next;		/* for the list of whoever has it */
	struct ep *ep;
	uint8_t kind;			/* enum chunk_kind */
	uint8_t cls;			/* enum urccl_class */
	uint8_t flags;			/* enum chunk_flags */
	uint8_t state;			/* the backend's */
	int32_t res;			/* out: 0 or -errno */
	uint32_t path;			/* out: URCCL_PATH_* bits of this piece, without
					 * transport and rail */
	uint32_t len;			/* bytes; SEND: at most MESSAGE_MAX */
	void *local;			/* their address here */
	const struct memory *memory;	/* the region that holds them; NULL for SEND */
	const struct rkey *key;		/* READ, WRITE, FLUSH: of the remote; FLUSH: or NULL */
	uint64_t off;			/* in what the key covers; FLUSH: 0 */
	uint64_t scratch[2];		/* the backend's; CHUNK_CODED */
	void *op;			/* the engine's */
	uint32_t seg;			/* the engine's */
	uint8_t taken;			/* the engine's: a device has it */
	uint8_t checksum;		/* its bytes' CRC32C is compared where they are placed, or
					 * it comes out with -EBADMSG; with -EOPNOTSUPP if the
					 * peer cannot. SEND: one that differs is not given out */
	uint8_t fence;			/* the engine's: what it waits for to go again */
	uint8_t tries;			/* the engine's: how often it came out undone */
	uint32_t npieces;		/* of a bundle, in memory that the GPU reaches: local and
					 * off are the first one's, len is the sum. 0: no bundle */
	const struct chunk_piece *pieces;
};

/* Memory that a device has ready for peers to touch, and how they may: one for all exposures that
 * give the same by this device. The control thread's; between pin and unpin only mr changes. */
struct pin {
	const struct memory *memory;
	uint64_t off, len;		/* range of the region */
	uint32_t rights;		/* enum urccl_rights */
	void *mr;			/* what the device made of it; the device's */
};

/* What a peer may touch. The engine's; the backend's from expose to unexpose. */
struct exposure {
	struct list link;		/* the engine's */
	struct heap_node expiring;	/* likewise */
	struct list expired;		/* likewise */
	struct ep *ep;
	struct engine_peer *peer;	/* the engine's */
	uint8_t exposed;		/* the engine's: the device has it */
	uint8_t maybe_mapped;		/* likewise: its ep is closed, and the peer has not said
					 * that it let go of the memory */
	struct memory *memory;
	const struct pin *pin;		/* of devices that pin: of the same range and rights */
	uint64_t off, len;		/* range of the region that the peer sees as [0, len) */
	uint32_t rights;		/* enum urccl_rights */
	uint32_t grant;			/* the engine's: what peers' atomics name it by */
	uint32_t copies;		/* likewise: copies of the relay from or to it under way */
	uint32_t id;			/* the backend's */
	uint64_t scratch;		/* the backend's */
	uint64_t expires_ns;		/* its owner's clock after which accesses fail; NEVER_NS:
					 * never. Of devices that pin: the control thread takes
					 * the pin back then */
};

enum event_type {
	EVENT_CHUNK,			/* chunk came out: res and flags are in it */
	EVENT_MESSAGE,			/* data, len: from ep's peer, valid until the next poll
					 * of the device */
	EVENT_UP,			/* ep may post: both ends are there */
	EVENT_DOWN,			/* ep is broken or never came up, res says why, and code
					 * what its device does; its chunks come out, then call
					 * ep_close */
	EVENT_CLOSED,			/* after ep_close: every chunk is out, ep is quiet and
					 * may be freed */
	EVENT_ADD_QPS,			/* call ep_add_qps, then ep_qps_added, when there is time:
					 * until then ep moves what it can as it is. Not again
					 * before ep_qps_added, which comes before ep_free */
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
	CANCEL_ASK,			/* come out as soon as the peer has said that nothing of
					 * it lands any more */
	CANCEL_NOW,			/* come out by the next polls without the peer's word,
					 * local memory quiet all the same */
};

struct backend {
	const char *name;
	uint32_t transport;		/* enum urccl_transport */
	uint32_t chunk_bytes;		/* a good size of a large entry's pieces */
	uint32_t window;		/* bytes of bulk that a rail may have on its way before it
					 * was seen to carry more; 0: several chunks. Few where what
					 * is late to be acknowledged is sent again */
	uint32_t qps;			/* queue pairs of an ep, which max_qps counts */

	/* How many devices open() opens with these settings, index and number aside, by number
	 * from 0 on; 0: none, the reason in fail(). Those that are named and are not there count,
	 * last: open() says of each what is wrong. */
	uint32_t (*scan)(const struct device_config *config);
	/* Control thread. 0 or -errno, the reason in fail(). */
	int (*open)(const struct device_config *config, struct device **dev);
	/* Close follows, and what may take it long begins: that of several devices is waited for
	 * at once. NULL: nothing does. */
	void (*end)(struct device *dev);
	/* 1: its port has no link, so that it leads to nobody. Control thread. NULL: its devices
	 * cannot tell. */
	int (*is_cut)(struct device *dev);
	/* No eps left. 0, or -EBUSY with fail() text: a call of its driver's has not returned, and
	 * all that it may have is left where it is for ever. */
	int (*close)(struct device *dev);
	/* Optional: the simulated clock that the device and its engine go by, or NULL.
	 * *next_ns: when there is something to poll next, as of the last poll. */
	struct clock *(*clock)(struct device *dev, uint64_t *next_ns);
	/* Optional: memory regions that this context has of the *most that the device can have, of
	 * all programs; 0: another limit binds it. Any thread. */
	uint32_t (*mrs)(struct device *dev, uint32_t *most);
	/* Makes memory known to the device: extent->mr[dev->index]. Never called twice for one
	 * extent. */
	int (*reg)(struct device *dev, struct extent *extent);
	/* No pin and no exposure of memory in it is left, no chunk uses it. 0, or -errno: the
	 * device has (some of) it still; it may be called again. */
	int (*unreg)(struct device *dev, struct extent *extent);
	/* Of devices that pin: makes a range ready for peers, ahead of expose and without an ep. 0
	 * or -errno. */
	int (*pin)(struct device *dev, struct pin *pin);
	/* No exposure is of it any more. Once it returned 0 nothing reaches the memory by what
	 * peers were told of it, and an access that was half received lands no more; -errno: as for
	 * unreg. */
	int (*unpin)(struct device *dev, struct pin *pin);
	/* A new ep and its address, which goes to the peer's ep_connect. */
	int (*ep_open)(struct device *dev, struct ep **ep, void *addr, uint32_t *addr_len);
	/* Never connected, or EVENT_CLOSED came; what was imported and not forgotten goes too. */
	void (*ep_free)(struct ep *ep);
	/* After EVENT_UP, once: a pidfd of the peer's process, which the caller closes; negative:
	 * none can be had. NULL: the peer need not be of this host. */
	int (*process)(struct ep *ep);
	/* After EVENT_CLOSED: a descriptor on which epoll tells EPOLLRDHUP once the peer has let go
	 * of all that it has mapped, or no process has its end open any more; the caller closes it.
	 * -1: it has let go, or died. NULL: peers map nothing. */
	int (*importer)(struct ep *ep);
	/* epoll told EPOLLRDHUP of the importer of an ep with gpus. 1: the peer has let go. 0: the
	 * end of its process says so, and nothing else. */
	int (*importer_left)(int importer);
	/* What of ep_connect may block, ahead of it; it may be left out. Any thread, while no other
	 * has the ep. 0 or ep_connect's errors. NULL: nothing of it blocks. */
	int (*ep_prepare)(struct ep *ep, const void *addr, uint32_t addr_len);

	/* What EVENT_ADD_QPS asked for and may block. Any thread, beside all but ep_free. 0, or
	 * -errno with fail() text: ep stays as it is. NULL: nobody asks. */
	int (*ep_add_qps)(struct ep *ep);

	/* Engine thread. */
	/* Starts; EVENT_UP or EVENT_DOWN follows. One side of the two is active: it dials, to
	 * the host of via where the address names none. peer and len are that side's ep_open
	 * address; checked. 0, or -errno: malformed, -EPROTONOSUPPORT: of a version apart. */
	int (*ep_connect)(struct ep *ep, const void *addr, uint32_t addr_len, int active,
			  const struct sockaddr_storage *via);
	/* Starts the end: chunks come out (how CANCEL_NOW), then EVENT_CLOSED. */
	void (*ep_close)(struct ep *ep);

	/* ep_add_qps returned res; after ep_close, too. */
	void (*ep_qps_added)(struct ep *ep, int res);

	/* Lets ep's peer touch the exposure's range; the key goes to the peer's import. Bytes of
	 * key, or -errno. */
	int (*expose)(struct exposure *exposure, void *key, uint32_t key_max);
	/* Later accesses fail with -EACCES, and one that is half received lands no more; of a
	 * device that pins that is so once unpin has returned. 0: done, the exposure is the
	 * engine's again; -EINPROGRESS: a kernel call still has the memory, or the peer has it
	 * mapped and has not said that it let go: poll and call again. After EVENT_CLOSED:
	 * -EINPROGRESS if it may have it mapped even now. */
	int (*unexpose)(struct exposure *exposure);
	/* Resolves a key for chunks on ep. 0, or -errno; -EINPROGRESS: call again. The bytes come
	 * from the peer. */
	int (*import)(struct ep *ep, const void *key, uint32_t key_len, uint64_t len,
		      struct rkey *rkey);
	void (*forget)(struct ep *ep, struct rkey *rkey);	/* no chunk uses it any more */
	/* Optional, of devices with CAP_GPU: the address of the key's memory for kernels of this
	 * side. The owner is not told that a revocation is carried out until out is NULL: it is
	 * not used any more. 0, or -EOPNOTSUPP: not mapped as one piece for a GPU. */
	int (*map)(struct ep *ep, struct rkey *rkey, struct gpu_mapping *out);
	/* Does ahead what a first chunk with the key would have to do on this side, a piece at a
	 * time. 0: that was all; -EINPROGRESS: call again. */
	int (*warm)(struct ep *ep, struct rkey *rkey);

	/* Takes the first chunks of the n, all of ep: returns how many; 0: full, poll first. May
	 * fail them in poll. */
	uint32_t (*post)(struct ep *ep, struct chunk **chunks, uint32_t n);
	/* The chunk was taken and is not out. May be said again, harder. */
	void (*cancel)(struct chunk *chunk, enum cancel_how how);
	/* Sends what was posted, receives, completes: at most n events. 0: nothing to do. */
	uint32_t (*poll)(struct device *dev, struct event *events, uint32_t n);
	/* Announces sleep on dev->fd; 1: there is something to poll, do not sleep. The next poll
	 * takes it back. */
	int (*arm)(struct device *dev);
	/* Optional, for drivers whose calls may never return. Any thread, while the context closes,
	 * which began at that time of the clock. 1: a call that ends or closes something is under
	 * way for a second. */
	int (*is_stuck)(struct device *dev, uint64_t since);
};

static inline uint32_t device_mrs(struct device *dev, uint32_t *most)
{
	*most = 0;
	return dev->ops->mrs ? dev->ops->mrs(dev, most) : 0;
}

/* The ep of this address speaks the version: 0, -EPROTO: malformed, or -EPROTONOSUPPORT. */
static inline int ep_version_check(uint32_t version, const uint8_t *addr, uint32_t len)
{
	if (len < EP_VERSIONS || !addr[0] || addr[0] > addr[1])
		return -EPROTO;
	return addr[0] <= version && version <= addr[1] ? 0 : -EPROTONOSUPPORT;
}

/* Of transports that have one device at most. */
static inline uint32_t scan_one(const struct device_config *config)
{
	(void)config;
	return 1;
}

extern const struct backend backend_sim, backend_shm, backend_tcp, backend_ib;
extern const struct backend backend_fabric, backend_efa, backend_cxi;

#endif
