/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transport ib: InfiniBand and RoCE by libibverbs, which is loaded when a device is opened.
 *
 * A device is one port. An ep is up to four reliable-connected queue pairs (struct verbs_qp):
 * small requests wait behind no large ones, and answers to READs do not delay WRITEs. All queue
 * pairs of a device share one completion queue. The first queue pair is small, and an idle peer has
 * only that. It carries messages, and all requests whose own queue pair does not exist yet. The
 * rules of verbs, and their consequences:
 *
 * - Requests of a queue pair are executed and completed in order. So only the last request of a
 *   chain is signalled, and its completion covers all before it. So does a completion with an
 *   error: requests before the failed one succeeded, requests after it come out flushed
 *   (IBV_WC_WR_FLUSH_ERR), signalled or not. Flushed means that this side does nothing more for the
 *   request. It may have been done or not: packets of a WRITE may have been under way.
 * - The device uses the memory until that completion. Inline bytes are copied when they are posted.
 *   The CPU copies them, which it can do with host memory only: GPU memory may be registered by its
 *   address (nvidia_peermem), and is mapped there without rights.
 * - An acknowledgement of a WRITE means that the peer's device has the bytes, not that memory has
 *   them. A later READ on the same queue pair is executed after it (IBTA vol. 1, 9.5), and its read
 *   request to memory does not pass the WRITE's (PCI Express base specification, 2.4.1: a read
 *   request stays behind posted writes, relaxed-ordered ones too). So one READ of one byte proves
 *   all WRITEs before it: ring.c. That order holds along one path. The NIC may still be
 *   writing to memory of another device, such as a GPU, when host memory answers, so WRITEs there
 *   have a READ from that memory too.
 * - The program's bytes may reach memory in any order (IBV_ACCESS_RELAXED_ORDERING): a posted write
 *   with that attribute may pass others. The order of the bytes among each other does not matter
 *   here. Later accesses do not pass them, since the attribute permits its own write to pass
 *   others, and not others to pass it (the same table). The READ that proves is a read request,
 *   which that attribute never lets pass a posted write (P4). A notification leaves after the proof
 *   of the writes before it (P5). Completions and bytes of messages are posted writes without the
 *   attribute, as completion queues and our own pages do not have it. So a thread that sees the
 *   completion of a READ sees its bytes, and no bytes of an ended queue pair land (P2;
 *   ibv_reg_mr(3) promises the same for all completions). Memory with words of atomics does not use
 *   it, since its owner's CPU accesses the words meanwhile. rdma_relaxed_ordering=no disables it.
 * - A queue pair stays in error. One refused access, or one request taken back, ends all queue
 *   pairs of the ep, and the ep: EVENT_DOWN. Requests that were not done come out with -ECONNRESET.
 * - A device does not report that a queue pair which only answers is broken. So each one has a
 *   receive posted that no SEND uses: it comes back flushed.
 * - A SEND without a posted receive at the peer stalls its queue pair. So a sender has credits, one
 *   for each receive that the peer has posted for it: message.c.
 * - A completion queue that overruns breaks all its queue pairs. So it has room for all requests
 *   that its queue pairs can have posted. An ep that would exceed the device's limit (max_cqe), or
 *   the size of a queue that cannot be enlarged, is not opened.
 * - Packets of an earlier connection may arrive late. So each starts at random sequence numbers.
 *
 * The files: verbs.c the table, the device and its poll; lib.c the library; port.c the
 * choice of a port, and gid.c its addresses; memory.c memory registration, exports,
 * keys; ep.c an ep from address to end; qp.c its queue pairs; grow.c further
 * ones; ring.c requests and completions of a queue pair; message.c messages.
 */
#ifndef BACKEND_VERBS_H
#define BACKEND_VERBS_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include "backend/backend.h"
#include "backend/verbs/gid.h"

#define VERBS_VERSION 1u		/* version of addresses, keys and messages */
#define VERBS_SGES    2u		/* scatter/gather entries of a request */
#define VERBS_CHAIN   64u		/* requests per doorbell, at most */
#define VERBS_HOLD    4096u		/* bytes of WRITEs that wait for a doorbell, at most, */
#define VERBS_HELD    32u		/* and their number: with more, a device that is given 128
					 * at a time runs out of work before they are posted */
#define VERBS_SIGNAL  65536u		/* bytes after which a request is signalled: with few large
					 * requests, the first must not wait for the last */
#define VERBS_WCS     32u		/* completions per poll of the queue */
#define VERBS_INLINE  48u		/* inline bytes to request; a device may give more in the
					 * same space */
#define VERBS_SPARE_INLINE 28u		/* inline bytes that fit in the space of two scatter/gather
					 * entries */
#define VERBS_CREDITS 8u		/* messages under way to a receiver */
#define VERBS_WORDS   4u		/* control messages: up to two CREDITs, a BYE, and a
					 * spare */
#define VERBS_SLOTS   (VERBS_CREDITS + VERBS_WORDS)
#define VERBS_HEADER  16u		/* bytes of a message's header */
#define VERBS_SLOT    (VERBS_HEADER + MESSAGE_MAX)
/* Bytes pinned for each ep: receives, as many sends, and a word; and bytes for a device. */
#define VERBS_PAGES_LEN (2 * VERBS_SLOTS * VERBS_SLOT + 8)
#define VERBS_FLUSH_LEN 64u
#define VERBS_COOKIE  16u
#define VERBS_ENDS    8u		/* kinds of GIDs in an address */
/* Slots of a queue pair, powers of two. There is one more than requests, since some devices round
 * up larger numbers. The first queue pair is the cost of an idle peer. The others allow, at a round
 * trip of 10 us, 127 WRITEs of 4 KiB: 50 GB/s, or 400 Gbit/s. */
#define VERBS_FIRST_DEPTH  32u
#define VERBS_SMALL_DEPTH  128u
#define VERBS_WRITES_DEPTH 128u
#define VERBS_READS_DEPTH  64u
/* Completions that the first queue pair can cause, with its receives; and all of an ep. */
#define VERBS_CQES (VERBS_FIRST_DEPTH + VERBS_SLOTS)
#define VERBS_CQES_MOST \
	(VERBS_CQES + VERBS_SMALL_DEPTH + VERBS_WRITES_DEPTH + VERBS_READS_DEPTH + QPS - 1)
/* wr_id: the handle of the queue pair in the upper half; in the lower one the number of a request,
 * or the index of a receive. */
#define VERBS_IS_RECEIVE (1u << 31)
#define VERBS_NUMBER	 (VERBS_IS_RECEIVE - 1)
/* A bit beside the rights of a key: the memory belongs to a device. */
#define VERBS_KEY_DEVICE 0x80u

/* ---- the library: lib.c ---- */

#define VERBS_FUNCTIONS(X)                                                                         \
	X(struct ibv_device **, get_device_list, (int *n))                                         \
	X(void, free_device_list, (struct ibv_device **list))                                      \
	X(const char *, get_device_name, (struct ibv_device *device))                              \
	X(struct ibv_context *, open_device, (struct ibv_device *device))                          \
	X(int, close_device, (struct ibv_context *context))                                        \
	X(int, query_device, (struct ibv_context *context, struct ibv_device_attr *attr))          \
	X(int, query_pkey, (struct ibv_context *context, uint8_t port, int index, __be16 *pkey))   \
	X(struct ibv_pd *, alloc_pd, (struct ibv_context *context))                                \
	X(int, dealloc_pd, (struct ibv_pd *pd))                                                    \
	X(struct ibv_mr *, reg_mr_iova2, (struct ibv_pd *pd, void *addr, size_t length,            \
					  uint64_t iova, unsigned int access))                     \
	X(int, dereg_mr, (struct ibv_mr *mr))                                                      \
	X(struct ibv_comp_channel *, create_comp_channel, (struct ibv_context *context))           \
	X(int, destroy_comp_channel, (struct ibv_comp_channel *channel))                           \
	X(struct ibv_cq *, create_cq, (struct ibv_context *context, int cqe, void *owner,          \
				       struct ibv_comp_channel *channel, int vector))              \
	X(int, resize_cq, (struct ibv_cq *cq, int cqe))                                            \
	X(int, destroy_cq, (struct ibv_cq *cq))                                                    \
	X(int, get_cq_event, (struct ibv_comp_channel *channel, struct ibv_cq **cq, void **owner)) \
	X(void, ack_cq_events, (struct ibv_cq *cq, unsigned int n))                                \
	X(int, get_async_event, (struct ibv_context *context, struct ibv_async_event *event))      \
	X(void, ack_async_event, (struct ibv_async_event *event))                                  \
	X(struct ibv_qp *, create_qp, (struct ibv_pd *pd, struct ibv_qp_init_attr *attr))          \
	X(int, modify_qp, (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask))                 \
	X(int, destroy_qp, (struct ibv_qp *qp))

struct verbs_lib {
#define X(type, name, args) type(*name) args;
	VERBS_FUNCTIONS(X)
#undef X
	/* rdma-core 32 and later, otherwise NULL. */
	ssize_t (*query_gid_table)(struct ibv_context *context, struct ibv_gid_entry *entries,
				   size_t max, uint32_t flags, size_t entry_size);
	/* rdma-core 34 and later, otherwise NULL. */
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t length,
					uint64_t iova, int fd, int access);
};

/* so NULL: the system's library. 0 or -errno with fail() text. It stays loaded. */
int verbs_lib_open(struct verbs_lib *lib, const char *so);

/* ---- the port: port.c ---- */

struct verbs_port {
	struct ibv_context *context;
	struct ibv_device_attr attr;
	struct ibv_port_attr port_attr;
	struct gid_port gid_port;
	struct gid_end ends[GID_KINDS];		/* its addresses, best first; used by the control
						 * thread */
	uint32_t nends;
	uint16_t pkey_index;
	uint8_t port;
	uint8_t mtu;				/* enum ibv_mtu */
	char name[80];				/* "mlx5_0 port 1" */
	struct sockaddr_storage own[LISTEN_MAX]; /* this host's addresses of control connections */
	uint32_t nown;
};

/* The number of ports that the settings allow, followed by named ones that cannot be opened; 0:
 * none, with fail() text. */
uint32_t verbs_ports(const struct verbs_lib *lib, const struct device_config *config);
/* Opens the port of the config's number. 0 or -errno with fail() text. */
int verbs_port_open(const struct verbs_lib *lib, const struct device_config *config,
		    struct verbs_port *port);
/* Reads the addresses of the port again, after its link came back. Control thread. 0, or -errno
 * with fail() text and no change. */
int verbs_port_again(const struct verbs_lib *lib, const struct urccl_params *params,
		     struct verbs_port *port);
void verbs_port_close(const struct verbs_lib *lib, struct verbs_port *port);
/* 1: it has no link; 0: it has one, or cannot be queried. */
int verbs_port_is_cut(const struct verbs_port *port);
uint64_t verbs_port_speed(const struct verbs_port *port); /* bytes per second; 0: unknown */

/* ---- queue pairs ---- */

/* QP_SMALL carries small requests and those of urgent classes; the next two, large WRITEs and
 * large READs. */
enum verbs_qp_id { QP_FIRST, QP_SMALL, QP_WRITES, QP_READS, QPS };

enum verbs_slot_kind {
	SLOT_WRITE,			/* comes out when it is proved to be placed */
	SLOT_ACKED,			/* a WRITE that comes out when it is acknowledged */
	SLOT_READ,
	SLOT_SEND,
	SLOT_WORD,			/* a control message */
	SLOT_PROOF,			/* a READ that proves; chunk: a FLUSH, or NULL */
	SLOT_PUSH,			/* a READ from device memory, before the proof */
};

/* A work request that was posted. */
struct verbs_slot {
	struct chunk *chunk;
	uint8_t kind;			/* enum verbs_slot_kind */
	uint8_t last;			/* last request of its chunk; SLOT_WORD: its message type */
};

enum verbs_due { DUE_QP = 1, DUE_READY = 2 };

/* The set-up of a queue pair other than the first: grow.c. All members but `made` belong to
 * the engine. */
struct verbs_grow {
	uint8_t wanted;			/* there are requests for it */
	uint8_t made;			/* queue pair and slots exist; set by ep_add_qps */
	uint8_t announced;		/* our QP was sent, or is queued */
	uint8_t heard;			/* the peer's QP came: qpn, psn */
	uint8_t connected;		/* ours is connected to theirs */
	uint8_t ready;			/* READY came: theirs is connected to ours */
	uint8_t gave_up;		/* it will never exist */
	uint8_t due;			/* enum verbs_due: messages to send */
	uint32_t ours;			/* number of our queue pair */
	uint32_t qpn, psn;		/* number and sequence number of the peer's queue pair */
};

/*
 * A queue pair. Requests are counted by numbers that only grow:
 *   tail     oldest request that still has its slot
 *   acked    first request that the device has not completed
 *   posted   first request that the device was not given
 *   head     next request
 */
struct verbs_qp {
	struct ibv_qp *qp;
	struct verbs_ep *ep;
	struct verbs_slot *slots;
	uint32_t depth;			/* slots; the send queue has one entry less */
	uint32_t inlined;		/* bytes that can be posted inline */
	uint32_t handle;		/* in device.ways; 0: none */
	uint32_t tail, acked, posted, head;
	uint32_t proved;		/* WRITEs before this number are proved to be placed */
	uint32_t plain;			/* requests since the last signalled one, */
	uint32_t plain_bytes;		/* and their bytes */
	uint32_t unproved;		/* requests of WRITEs since the last SLOT_PROOF */
	uint32_t proving;		/* SLOT_PROOFs under way that no FLUSH requested */
	uint32_t pushes;		/* 1: a SLOT_PUSH is due at push_at with push_rkey; a slot
					 * is reserved for it */
	uint32_t push_rkey;
	uint64_t push_at;
	uint32_t receives;		/* posted, and not completed */
	struct chunk *half;		/* a chunk whose requests are not all posted */
	uint32_t half_at;		/* its bytes that are posted */
	struct chunk_queue held;	/* chunks accepted without a posted request, oldest first */
	uint32_t nheld, held_bytes;
	/* `acked` at the last check, and since when it has that value */
	uint32_t seen;
	uint64_t seen_ns;
	uint64_t code;			/* the error that broke it: device_code() */
	uint8_t failing;		/* in the error state */
	uint8_t erred;			/* a completion had an error: all later requests have one of
					 * their own */
	struct verbs_grow grow;
};

/* Requests that wait for a doorbell. */
struct verbs_chain {
	uint32_t n;
	struct ibv_send_wr wr[VERBS_CHAIN];
	struct ibv_sge sge[VERBS_CHAIN][VERBS_SGES];
};

/* ---- eps ---- */

/* The route from our queue pairs to the peer's. */
struct verbs_route {
	struct gid_route gid;
	uint8_t mtu;			/* enum ibv_mtu */
	uint8_t reads;			/* READs that the peer accepts per queue pair */
};

enum verbs_ep_state { EP_NEW, EP_PREPARED, EP_CONNECTING, EP_UP, EP_DOWN, EP_CLOSING, EP_CLOSED };
enum verbs_news { NEWS_UP = 1, NEWS_DOWN = 2, NEWS_CLOSED = 4, NEWS_GROW = 8 };

/* The place of a receive. */
struct verbs_receive {
	struct list link;		/* in device.messages, or given */
	struct verbs_ep *ep;
	uint32_t len;			/* bytes of the message */
};

struct verbs_ep {
	struct ep ep;
	uint32_t state;			/* enum verbs_ep_state */
	uint32_t news;			/* enum verbs_news, not yet reported */
	int res;			/* why it is down */
	int active;
	int heard;			/* the peer's HELLO came */
	int spoke;			/* the peer's device received our HELLO */
	int left;			/* the peer sent BYE, or its device received ours */
	uint64_t deadline_ns;		/* for the connect, the BYE, or the last completions */
	struct list all;		/* in device.eps from ep_connect to EVENT_CLOSED */
	struct list reporting;		/* in device.telling while there is news */
	struct list kicked;		/* in device.kicked: it may have requests to post */
	uint32_t done;			/* its chunks in device.done */
	struct verbs_qp qps[QPS];
	struct verbs_slot slots[VERBS_FIRST_DEPTH]; /* slots of the first queue pair */
	struct verbs_qp *growing;	/* ep_add_qps works on it; NULL: on none */
	uint8_t connects;		/* ep_add_qps also connects it to the peer's */
	/* messages */
	uint8_t *pages;			/* VERBS_SLOTS receives, as many sends, a word */
	struct ibv_mr *mr;		/* registration of pages */
	uint64_t word_at;		/* address of that word, the target of READs that prove */
	struct verbs_receive receive[VERBS_SLOTS];
	uint32_t place, sending;	/* index of the next send's place; number of places in
					 * use */
	uint32_t credits;		/* messages that the peer has posted receives for */
	uint32_t credits_due;		/* receives posted again of which the peer has no credit
					 * yet */
	/* the peer */
	uint32_t flush_rkey;		/* rkey of the byte that READs prove with */
	uint8_t cookie[VERBS_COOKIE], peer[VERBS_COOKIE];
	uint32_t psn[QPS];		/* our initial sequence numbers */
	struct verbs_route route;
	struct gid_end ends[VERBS_ENDS]; /* the addresses of our port that the peer got */
	uint8_t nends, mtu;
	uint16_t pkey_index;
	struct list keys;
};

struct verbs_device {
	struct device dev;		/* dev.fd: epoll */
	struct verbs_lib lib;
	struct verbs_port port;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	int timer_fd;
	void *flush_page;		/* peers READ its first byte */
	struct ibv_mr *flush_mr;
	uint32_t mrs;			/* memory regions; any thread */
	struct urccl_params settings;	/* numbers only: strings belong to the caller */
	/* control thread */
	uint32_t port_seen;		/* port_news when the port was last read */
	/* threads that make or end queue pairs */
	pthread_mutex_t room;
	uint32_t neps;			/* number of open eps */
	uint32_t cqes;			/* completions that these can cause, */
	uint32_t ncqes;			/* and the size of the completion queue */
	uint32_t fixed;			/* the queue cannot be enlarged */
	/* engine */
	struct handles qps;		/* struct verbs_qp by the handle in wr_id */
	struct list eps, reporting, kicked;
	struct list messages;		/* verbs_receive.link: to be returned by poll */
	struct list given;		/* returned by the last poll */
	struct chunk_queue done;	/* results, oldest first */
	uint64_t next_ns;		/* earliest deadline of eps; NEVER_NS */
	uint64_t armed_ns;		/* current setting of the timer; NEVER_NS */
	uint64_t watch_ns;		/* time of the next progress check; NEVER_NS: no requests */
	uint32_t polls;
	uint32_t slept;			/* armed since the last poll */
	int broken;			/* -errno: the device has failed; other threads may read
					 * it */
	uint32_t port_news;		/* counts changes of the port's addresses; written by the
					 * engine's thread */
	int nwc;			/* completions that arm() found: poll handles them first */
	struct ibv_wc wc[VERBS_WCS];
	struct verbs_chain chain[QPS];
	char about[256];
};

static inline struct verbs_device *verbs_device(struct device *dev)
{
	return container_of(dev, struct verbs_device, dev);
}

static inline struct verbs_ep *verbs_ep(struct ep *ep)
{
	return container_of(ep, struct verbs_ep, ep);
}

static inline struct verbs_device *verbs_ep_device(const struct verbs_ep *e)
{
	return verbs_device(e->ep.dev);
}

/* Scatter/gather entries that a request may have. Some devices report 0 for READs. */
static inline uint32_t verbs_sges(const struct verbs_device *d, int reads)
{
	int most = reads ? d->port.attr.max_sge_rd : d->port.attr.max_sge;

	if (most < 1)
		return 1;
	return (uint32_t)most < VERBS_SGES ? (uint32_t)most : VERBS_SGES;
}

/* ---- verbs.c ---- */

/* Initialises a device that is all zeroes, with nothing open. */
void verbs_device_init(struct verbs_device *d, const struct device_config *config);
/* Returns the chunk by poll; flags: CHUNK_QUIET, CHUNK_REFUSED. */
void verbs_out(struct verbs_device *d, struct chunk *c, int res, uint32_t flags);
/* Sets the timer to this time, if that is earlier. */
void verbs_until(struct verbs_device *d, uint64_t ns);

/* ---- memory, exports, keys: memory.c ---- */

struct verbs_key {			/* an imported key */
	struct list link;		/* in verbs_ep.keys */
	uint64_t len, expires_ns;
	uint32_t rights, n;		/* rights: VERBS_KEY_DEVICE too */
	struct verbs_piece {
		uint64_t start;		/* offset in the range of the key */
		uint32_t rkey, iova;
	} piece[];
};

int verbs_reg(struct device *dev, struct extent *extent);
int verbs_unreg(struct device *dev, struct extent *extent);
int verbs_pin(struct device *dev, struct pin *pin);
int verbs_unpin(struct device *dev, struct pin *pin);
int verbs_expose(struct exposure *exposure, void *key, uint32_t key_max);
int verbs_unexpose(struct exposure *exposure);
int verbs_import(struct ep *ep, const void *key, uint32_t key_len, uint64_t len,
		 struct rkey *rkey);
void verbs_forget(struct ep *ep, struct rkey *rkey);
void verbs_keys_free(struct verbs_ep *e);	/* frees all that are left */
/* 0: the key allows this READ or WRITE; -EACCES, -ERANGE: it does not. */
int verbs_allowed(const struct verbs_key *k, const struct chunk *c);
/* Memory of the library, registered with a device. For peers it begins at address 0. NULL: none,
 * with fail() text. */
void *verbs_pages(struct verbs_device *d, size_t len, unsigned int access, struct ibv_mr **mr);
void verbs_pages_free(struct verbs_device *d, void *pages, size_t len, struct ibv_mr *mr);

/* Walks over the local bytes of a chunk. */
struct verbs_local {
	const struct memory *memory;
	uint64_t off, addr;
	int unread;			/* the CPU cannot read all of the walked bytes, or that is
					 * unknown */
	int read_only;			/* the device may not write to all of them */
};
void verbs_local_at(struct verbs_local *l, const struct chunk *c, uint32_t at);
/* The next piece, at most max bytes. 0: the device does not know the memory. */
uint32_t verbs_local_next(struct verbs_local *l, uint32_t index, uint32_t max,
			  struct ibv_sge *sge);

/* 1: the device may write to all local bytes of the chunk. */
int verbs_writable(const struct chunk *c, uint32_t index);

/* ---- requests of a queue pair: ring.c ---- */

/* The backend's post, for an ep that is up. */
uint32_t verbs_ring_post(struct verbs_ep *e, struct chunk **chunks, uint32_t n);
/* Queues a SEND of len bytes from the next place; c NULL: a control message of type `word`. */
void verbs_ring_send(struct verbs_ep *e, struct chunk *c, uint32_t word, uint32_t len);
/* Posts what was queued on the first queue pair. Must be called before another ep of the device
 * queues a request there. */
void verbs_ring_doorbell(struct verbs_ep *e);
/* Requests that the queue pair accepts now. */
uint32_t verbs_ring_room(const struct verbs_qp *w);
/* Posts waiting work: the rest of a chunk, READs that prove, credits; rings the doorbells. */
void verbs_ring_kick(struct verbs_ep *e);
/* The device completed this request with status, and all before it. */
void verbs_ring_done(struct verbs_qp *w, uint32_t number, enum ibv_wc_status status);
/* Returns all chunks that are left: the device no longer has any of them. */
void verbs_ring_drain(struct verbs_qp *w);
int verbs_ring_is_drained(const struct verbs_qp *w);
/* 1: nothing of the chunk was posted, and it comes out. */
int verbs_ring_unhold(struct chunk *c);

/* ---- messages: message.c ---- */

/* Posts the receives of a queue pair. 0 or -errno. */
int verbs_message_start(struct verbs_qp *w);
/* 1: queued; 0: there is no room. */
int verbs_message_send(struct verbs_ep *e, struct chunk *c);
void verbs_message_hello(struct verbs_ep *e);
void verbs_message_bye(struct verbs_ep *e);
/* Sends credits that are due. */
void verbs_message_kick(struct verbs_ep *e);
/* The peer's device received a control message of this type. */
void verbs_message_gone(struct verbs_ep *e, uint32_t type);
/* Receive i of the first queue pair completed with this many bytes. 0, or -errno: the ep ends. */
int verbs_message_came(struct verbs_ep *e, uint32_t i, uint32_t bytes);
/* At the begin of a poll: posts the receives of the last poll again. */
void verbs_message_recycle(struct verbs_device *d);

/* ---- queue pairs: qp.c ---- */

/* Makes a queue pair in state INIT. 0 or -errno with fail() text. */
int verbs_qp_make(struct verbs_ep *e, struct verbs_qp *w);
/* Brings it to state RTS, connected to the peer's with this number and initial sequence number. 0
 * or -errno. */
int verbs_qp_connect(struct verbs_qp *w, uint32_t qpn, uint32_t psn);
void verbs_qp_destroy(struct verbs_qp *w);
uint32_t verbs_addr_write(const struct verbs_ep *e, void *addr);
/* The backend's function: brings the first queue pair to state RTS. */
int verbs_ep_prepare(struct ep *ep, const void *addr, uint32_t addr_len);

/* ---- further queue pairs: grow.c ---- */

/* There are requests for it: starts its set-up. */
void verbs_grow(struct verbs_qp *w);
int verbs_ep_add_qps(struct ep *ep);
void verbs_ep_qps_added(struct ep *ep, int res);
/* Withdraws a request for ep_add_qps that was not reported yet. */
void verbs_grow_off(struct verbs_ep *e);
void verbs_grow_free(struct verbs_ep *e);
/* Writes the body of QP. Returns its bytes. */
uint32_t verbs_grow_say(const struct verbs_qp *w, uint8_t *data);
/* QP or READY came. 0, or -errno: the ep ends. */
int verbs_grow_qp(struct verbs_ep *e, const uint8_t *data, uint32_t len);
int verbs_grow_ready(struct verbs_ep *e, const uint8_t *data, uint32_t len);

/* 1: both ends may use it. */
static inline int verbs_qp_is_ready(const struct verbs_qp *w)
{
	return w->grow.connected && w->grow.ready;
}

/* Completions that it can cause. */
static inline uint32_t verbs_qp_cqes(const struct verbs_qp *w)
{
	return w->depth + 1;
}

/* ---- ep.c ---- */

int verbs_ep_open(struct device *dev, struct ep **ep, void *addr, uint32_t *addr_len);
void verbs_ep_free(struct ep *ep);
int verbs_ep_connect(struct ep *ep, const void *addr, uint32_t addr_len, int active,
		     const struct sockaddr_storage *via);
void verbs_ep_close(struct ep *ep);
/* Reserves completions for an ep, until verbs_room_free(); w: for a further queue pair, NULL: for
 * the first. 0 or -errno with fail() text. */
int verbs_room(struct verbs_device *d, const struct verbs_qp *w, uint32_t cqes);
void verbs_room_free(struct verbs_device *d, uint32_t cqes);
/* Makes its completions known, and posts its receives. 0 or -errno. */
int verbs_qp_start(struct verbs_qp *w);
void verbs_ep_report(struct verbs_ep *e, enum verbs_news news);
void verbs_ep_up(struct verbs_ep *e);
/* The ep is broken: its queue pairs go to the error state. */
void verbs_ep_down(struct verbs_ep *e, int res);
/* Ends the ep if none of its requests is under way. */
void verbs_ep_settle(struct verbs_ep *e);
/* A request was posted: an ep without progress for dead_after_ms from now on is down. */
void verbs_ep_watch(struct verbs_device *d);
/* Handles deadlines. */
void verbs_ep_tick(struct verbs_device *d, uint64_t now);
void verbs_ep_kick(struct verbs_ep *e);	/* handled before the poll ends */
/* Returns news as events: EVENT_UP and EVENT_ADD_QPS, or (ends) also those that follow all chunks
 * of the ep. */
uint32_t verbs_report(struct verbs_device *d, struct event *events, uint32_t n, int ends);

#endif
