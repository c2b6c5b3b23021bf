/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transport ib: InfiniBand and RoCE by libibverbs, which is loaded when a device is opened.
 *
 * A device is one port. An ep is up to four reliable-connected queue pairs (its ways), so that a
 * few bytes wait behind nothing and answers to READs do not hold up WRITEs; all ways of a device
 * share one completion queue. The first way is small, and all that an idle peer has: messages go by
 * it, and whatever has none of its own yet. What the rules of verbs make of that:
 *
 *  - A way's work requests are executed and completed in order. So only the last of a chain is
 *    signalled, and its completion stands for all before it. With an error it still does: whatever
 *    stands before the request that failed succeeded, whatever stands behind it comes out flushed
 *    (IBV_WC_WR_FLUSH_ERR), signalled or not. Flushed means "this side does nothing more for it",
 *    and neither that it was not done (a WRITE's packets may have been on their way) nor that it
 *    was.
 *  - Memory is the device's until that completion; inline bytes were copied when it was posted, by
 *    this processor: which can do that with memory of the host's and no other. A GPU's may be
 *    registered by its address alone (nvidia_peermem); it is mapped there without any rights.
 *  - An acknowledgement of a WRITE says that the peer's device has its bytes, not that memory has
 *    them. A READ behind it on the same queue pair is executed after it (IBTA vol. 1, 9.5), and
 *    its own request to the memory does not pass the WRITE's (PCI Express base specification,
 *    2.4.1: a read request stays behind posted writes, relaxed-ordered ones too). So one READ of
 *    one byte proves all WRITEs before it: verbs_ring.c. What holds a request up is what goes the
 *    same way: to memory of another device, as a GPU's is, the NIC may still be writing when the
 *    host's memory answers, so that WRITEs there have a READ from there besides.
 *  - Bytes of the program may reach memory in any order (IBV_ACCESS_RELAXED_ORDERING): a posted
 *    write with that attribute may pass others. Nothing here goes by their order among each
 *    other, and what follows them does not pass them, as the attribute counts of what would pass
 *    and not of what would be passed (the same table). The READ that proves is a read request,
 *    which that attribute never lets pass a posted write (P4); a notification goes when what it
 *    follows is proved (P5); a completion, and a message's bytes, are posted writes without it,
 *    as completion queues and our own pages do not have it, so that whoever sees the completion
 *    of a READ sees its bytes, and those of an ended queue pair land no more (P2; ibv_reg_mr(3)
 *    promises the same of all completions). Memory with words of atomics does without: its
 *    owner's processor reads and writes these meanwhile. rdma_relaxed_ordering=no leaves it out
 *    everywhere.
 *  - A queue pair in error stays so. One refused access, or one request taken back, ends all
 *    ways, and with them the ep: EVENT_DOWN. What was under way and is not done comes out with
 *    -ECONNRESET.
 *  - A device does not say that a queue pair which only answers has broken. So each way keeps a
 *    receive posted that nobody ever uses up: it comes back flushed.
 *  - A SEND without a posted receive at the peer stalls its queue pair. So a sender has credits,
 *    one for each receive that the peer has posted for it: verbs_message.c.
 *  - A completion queue that overruns takes all its queue pairs with it. So it has room for every
 *    request that its ways can have posted, and an ep that would pass the device's limit (max_cqe),
 *    or the size of a queue that the device cannot enlarge, is not opened.
 *  - Packets of an earlier connection may come late. So each begins at random sequence numbers.
 *
 * The files: verbs.c the table, the device and its poll; verbs_lib.c the library; verbs_port.c
 * which port, and verbs_gid.c how it is addressed; verbs_memory.c registered memory, exposures,
 * keys; verbs_ep.c an ep from address to end; verbs_qp.c its queue pairs; verbs_grow.c further
 * ones; verbs_ring.c a way's requests and completions; verbs_message.c messages.
 */
#ifndef BACKEND_VERBS_H
#define BACKEND_VERBS_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include "backend/backend.h"
#include "backend/verbs_gid.h"

#define VERBS_VERSION 1u		/* of addresses, keys and messages */
#define VERBS_SGES    2u		/* pieces of local memory of a request */
#define VERBS_CHAIN   64u		/* requests of a doorbell, at most */
#define VERBS_HOLD    4096u		/* bytes of WRITEs that wait for a doorbell, at most, */
#define VERBS_HELD    32u		/* and how many: with more a device of which 128 are asked
					 * for at a time has done what it had before they come */
#define VERBS_SIGNAL  65536u		/* bytes for which a completion costs next to nothing: who
					 * has few large requests is not to wait for the last */
#define VERBS_WCS     32u		/* completions looked at together */
#define VERBS_INLINE  48u		/* bytes that we would like to post inline; a device may
					 * have more for the same room */
#define VERBS_SPARE_INLINE 28u		/* as many as lie where two pieces' addresses would */
#define VERBS_CREDITS 8u		/* messages on their way to a receiver */
#define VERBS_WORDS   4u		/* our own: up to two CREDITs, a BYE, and one to spare */
#define VERBS_SLOTS   (VERBS_CREDITS + VERBS_WORDS)
#define VERBS_HEADER  16u		/* bytes of a message's header */
#define VERBS_SLOT    (VERBS_HEADER + MESSAGE_MAX)
/* Pinned for each ep: as many receives as sends, and a word; and for all of a device. */
#define VERBS_PAGES_LEN (2 * VERBS_SLOTS * VERBS_SLOT + 8)
#define VERBS_FLUSH_LEN 64u
#define VERBS_COOKIE  16u
#define VERBS_ENDS    8u		/* kinds of GIDs that an address names */
/* Slots of a way, powers of two; one more than requests, as some devices round up what is more than
 * such a number less one. The first one's are what an idle peer costs. What the others are for: at
 * 10 us to and fro 127 WRITEs of 4 KiB are 50 GB/s, or 400 Gbit/s. */
#define VERBS_FIRST_DEPTH  32u
#define VERBS_SMALL_DEPTH  128u
#define VERBS_WRITES_DEPTH 128u
#define VERBS_READS_DEPTH  64u
/* Completions that the first way can cause, of its requests and its receives, and all ways. */
#define VERBS_CQES (VERBS_FIRST_DEPTH + VERBS_SLOTS)
#define VERBS_CQES_MOST \
	(VERBS_CQES + VERBS_SMALL_DEPTH + VERBS_WRITES_DEPTH + VERBS_READS_DEPTH + WAYS - 1)
/* A completion's name: a way's handle in the high half; in the low one a request's number, or which
 * receive. */
#define VERBS_IS_RECEIVE (1u << 31)
#define VERBS_NUMBER	 (VERBS_IS_RECEIVE - 1)
/* Beside the rights of a key: it is of memory of a device. */
#define VERBS_KEY_DEVICE 0x80u

/* ---- the library: verbs_lib.c ---- */

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
	/* rdma-core 32 and later; else NULL. */
	ssize_t (*query_gid_table)(struct ibv_context *context, struct ibv_gid_entry *entries,
				   size_t max, uint32_t flags, size_t entry_size);
	/* 34 and later. */
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t length,
					uint64_t iova, int fd, int access);
};

/* so NULL: the system's. 0 or -errno with fail() text. It stays loaded for ever. */
int verbs_lib_open(struct verbs_lib *lib, const char *so);

/* ---- which port: verbs_port.c ---- */

struct verbs_port {
	struct ibv_context *context;
	struct ibv_device_attr attr;
	struct ibv_port_attr port_attr;
	struct gid_port gid_port;
	struct gid_end ends[GID_KINDS];		/* its addresses, best first; control thread */
	uint32_t nends;
	uint16_t pkey_index;
	uint8_t port;
	uint8_t mtu;				/* enum ibv_mtu */
	char name[80];				/* "mlx5_0 port 1" */
	struct sockaddr_storage own[LISTEN_MAX]; /* this host's, of control connections */
	uint32_t nown;
};

/* How many ports the settings let us use, and behind them those that they name and that cannot be
 * opened; 0: none, the reason in fail(). */
uint32_t verbs_ports(const struct verbs_lib *lib, const struct device_config *config);
/* Opens the one of config's number. 0 or -errno with fail() text. */
int verbs_port_open(const struct verbs_lib *lib, const struct device_config *config,
		    struct verbs_port *port);
/* How it is addressed is looked up anew, after it came back. Control thread. 0, or -errno with
 * fail() text: it is as it was. */
int verbs_port_again(const struct verbs_lib *lib, const struct urccl_params *params,
		     struct verbs_port *port);
void verbs_port_close(const struct verbs_lib *lib, struct verbs_port *port);
/* 1: it has no link; 0: it has, or cannot be asked. */
int verbs_port_is_cut(const struct verbs_port *port);
uint64_t verbs_port_speed(const struct verbs_port *port); /* bytes a second; 0: not known */

/* ---- ways ---- */

/* What is small, or of a class that does not wait, goes by the one; large WRITEs, large READs. */
enum verbs_way_id { WAY_FIRST, WAY_SMALL, WAY_WRITES, WAY_READS, WAYS };

enum verbs_slot_kind {
	SLOT_WRITE,			/* comes out when it is proved */
	SLOT_ACKED,			/* a WRITE that comes out when it is acknowledged */
	SLOT_READ,
	SLOT_SEND,
	SLOT_WORD,			/* a message of our own */
	SLOT_PROOF,			/* the READ that proves; chunk: a FLUSH, or NULL */
	SLOT_PUSH,			/* the READ of a device's memory, ahead of that */
};

/* A work request that was posted. */
struct verbs_slot {
	struct chunk *chunk;
	uint8_t kind;			/* enum verbs_slot_kind */
	uint8_t last;			/* of its chunk's; SLOT_WORD: its type */
};

enum verbs_owed { OWES_WAY = 1, OWES_READY = 2 };

/* How far a way but the first is: verbs_grow.c. The engine's, but for made. */
struct verbs_grow {
	uint8_t wanted;			/* something would go by it */
	uint8_t made;			/* its queue pair and slots are; ep_grow's */
	uint8_t told;			/* WAY is said, or owed: ours */
	uint8_t heard;			/* the peer's came: qpn, psn */
	uint8_t met;			/* ours is led to theirs */
	uint8_t ready;			/* READY came: theirs is led to ours */
	uint8_t gave_up;		/* there will be none */
	uint8_t owes;			/* enum verbs_owed */
	uint32_t ours;			/* number of the queue pair */
	uint32_t qpn, psn;		/* theirs */
};

/*
 * Counted by number, which only grows:
 *	tail	oldest request that still has its slot
 *	acked	first that the device has not completed
 *	posted	first that the device was not given
 *	head	next one
 */
struct verbs_way {
	struct ibv_qp *qp;
	struct verbs_ep *ep;
	struct verbs_slot *slots;
	uint32_t depth;			/* slots; the send queue has one place less */
	uint32_t inlined;		/* bytes that go inline */
	uint32_t handle;		/* in device.ways; 0: none */
	uint32_t tail, acked, posted, head;
	uint32_t proved;		/* WRITEs before this number are placed */
	uint32_t plain;			/* requests behind the last signalled one, */
	uint32_t plain_bytes;		/* and theirs */
	uint32_t unproved;		/* requests of WRITEs behind the last SLOT_PROOF */
	uint32_t proving;		/* SLOT_PROOFs under way that no FLUSH asked for */
	uint32_t pushes;		/* 1: a SLOT_PUSH is owed, of these; it has a place */
	uint32_t push_rkey;
	uint64_t push_at;
	uint32_t receives;		/* posted and not back */
	struct chunk *half;		/* taken, and not all of its requests are posted */
	uint32_t half_at;		/* bytes of it that are */
	struct chunk *held, **held_end;	/* taken, and none of theirs is, oldest first */
	uint32_t nheld, held_bytes;
	/* acked when it was last looked at, and since when it is that */
	uint32_t seen;
	uint64_t seen_ns;
	uint64_t code;			/* of the error that broke it: device_code() */
	uint8_t failing;		/* in error */
	uint8_t erred;			/* a completion said so: all behind it have their own */
	struct verbs_grow grow;
};

/* A chain of requests that waits for its doorbell. */
struct verbs_chain {
	uint32_t n;
	struct ibv_send_wr wr[VERBS_CHAIN];
	struct ibv_sge sge[VERBS_CHAIN][VERBS_SGES];
};

/* ---- eps ---- */

/* How queue pairs are led to the peer's. */
struct verbs_route {
	struct gid_route gid;
	uint8_t mtu;			/* enum ibv_mtu */
	uint8_t reads;			/* that the peer takes of a queue pair */
};

enum verbs_ep_state { EP_NEW, EP_MET, EP_CONNECTING, EP_UP, EP_DOWN, EP_CLOSING, EP_CLOSED };
enum verbs_news { NEWS_UP = 1, NEWS_DOWN = 2, NEWS_CLOSED = 4, NEWS_GROW = 8 };

/* A receive's place. */
struct verbs_receive {
	struct list link;		/* device.messages, or given */
	struct verbs_ep *ep;
	uint32_t len;			/* of the message */
};

struct verbs_ep {
	struct ep ep;
	uint32_t state;			/* enum verbs_ep_state */
	uint32_t news;			/* enum verbs_news, not yet told */
	int res;			/* why it is down */
	int active;
	int heard;			/* the peer's HELLO came */
	int spoke;			/* ours was taken by the peer's device */
	int left;			/* the peer said BYE, or we did and it took it */
	uint64_t deadline_ns;		/* of connecting, of the BYE, of the last completions */
	struct list all;		/* in device.eps from ep_connect to EVENT_CLOSED */
	struct list telling;		/* in device.telling while there are news */
	struct list kicked;		/* in device.kicked: may have something to post */
	uint32_t done;			/* chunks of it in device.done */
	struct verbs_way way[WAYS];
	struct verbs_slot slots[VERBS_FIRST_DEPTH]; /* of the first */
	struct verbs_way *growing;	/* ep_grow is asked for it; NULL: for none */
	uint8_t meets;			/* and leads it to the peer's, too */
	/* messages */
	uint8_t *pages;			/* VERBS_SLOTS receives, then as many sends, a word */
	struct ibv_mr *mr;		/* of pages */
	uint64_t word_at;		/* address of that word, where READs that prove go */
	struct verbs_receive receive[VERBS_SLOTS];
	uint32_t place, sending;	/* of sends: the next one's, and how many are in use */
	uint32_t credits;		/* messages that the peer has room for */
	uint32_t owed;			/* receives posted again that it was not told of */
	/* the peer */
	uint32_t flush_rkey;		/* of its byte for READs */
	uint8_t cookie[VERBS_COOKIE], peer[VERBS_COOKIE];
	uint32_t psn[WAYS];		/* at which we begin to send */
	struct verbs_route route;
	struct gid_end ends[VERBS_ENDS]; /* what the peer was told of the port */
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
	void *flush_page;		/* whose first byte peers READ */
	struct ibv_mr *flush_mr;
	struct urccl_params settings;	/* numbers alone: strings are the caller's */
	/* control thread */
	uint32_t port_seen;		/* port_news when the port was looked at */
	/* who makes and ends queue pairs, any thread */
	pthread_mutex_t room;
	uint32_t neps;			/* open */
	uint32_t cqes;			/* that theirs can cause, */
	uint32_t ncqes;			/* and that the completion queue has room for */
	uint32_t fixed;			/* it cannot be enlarged */
	/* engine */
	struct handles ways;		/* of struct verbs_way: what a completion names */
	struct list eps, telling, kicked;
	struct list messages;		/* verbs_receive.link: that wait for poll */
	struct list given;		/* given out by the last poll */
	struct chunk *done;		/* out, oldest first */
	struct chunk **done_end;
	uint64_t next_ns;		/* the nearest deadline of eps; NEVER_NS */
	uint64_t armed_ns;		/* that the timer is set to; NEVER_NS */
	uint64_t watch_ns;		/* when progress is looked at; NEVER_NS: nobody waits */
	uint32_t polls;
	uint32_t slept;			/* armed since the last poll */
	int broken;			/* -errno: the device is no more; others may look */
	uint32_t port_news;		/* the port may be addressed otherwise by now: counted by
					 * the engine's thread */
	int nwc;			/* completions that arm() found: poll takes them first */
	struct ibv_wc wc[VERBS_WCS];
	struct verbs_chain chain[WAYS];
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

/* Pieces of local memory that a request may name. Some say of READs that it is none. */
static inline uint32_t verbs_sges(const struct verbs_device *d, int reads)
{
	int most = reads ? d->port.attr.max_sge_rd : d->port.attr.max_sge;

	if (most < 1)
		return 1;
	return (uint32_t)most < VERBS_SGES ? (uint32_t)most : VERBS_SGES;
}

/* ---- verbs.c ---- */

/* A device that is all zeroes becomes one that has nothing open. */
void verbs_device_init(struct verbs_device *d, const struct device_config *config);
/* The chunk comes out; flags: CHUNK_QUIET, CHUNK_REFUSED. */
void verbs_out(struct verbs_device *d, struct chunk *c, int res, uint32_t flags);
/* There is something to do at that time. */
void verbs_until(struct verbs_device *d, uint64_t ns);

/* ---- memory, exposures, keys: verbs_memory.c ---- */

struct verbs_key {			/* an imported one */
	struct list link;		/* verbs_ep.keys */
	uint64_t len, expires_ns;
	uint32_t rights, n;		/* rights: VERBS_KEY_DEVICE too */
	struct verbs_piece {
		uint64_t start;		/* in what the key covers */
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
void verbs_keys_free(struct verbs_ep *e);	/* all that are left */
int verbs_warm(struct ep *ep, struct rkey *rkey);
/* May the key be used so: 0, -EACCES, -ERANGE. */
int verbs_allowed(const struct verbs_key *k, const struct chunk *c);
/* Memory of the library for its devices; what peers may read begins at address 0 for them. NULL:
 * none, the reason in fail(). */
void *verbs_pages(struct verbs_device *d, size_t len, unsigned int access, struct ibv_mr **mr);
void verbs_pages_free(struct verbs_device *d, void *pages, size_t len, struct ibv_mr *mr);

/* Walks the local bytes of a chunk. */
struct verbs_local {
	const struct memory *memory;
	uint64_t off, addr;
	int unread;			/* the processor cannot read all that was walked, or nobody
					 * can tell */
	int read_only;			/* the device may not write to all of it */
};
void verbs_local_at(struct verbs_local *l, const struct chunk *c, uint32_t at);
/* The next piece of it, at most max bytes. 0: the device does not know it. */
uint32_t verbs_local_next(struct verbs_local *l, uint32_t index, uint32_t max,
			  struct ibv_sge *sge);

/* All local bytes of the chunk are memory that the device may write to. */
int verbs_writable(const struct chunk *c, uint32_t index);

/* ---- a way's requests: verbs_ring.c ---- */

/* backend.h's post, for an ep that is up. */
uint32_t verbs_ring_post(struct verbs_ep *e, struct chunk **chunks, uint32_t n);
/* What lies in the next place for sends goes, of len bytes; c NULL: a word of that type. */
void verbs_ring_send(struct verbs_ep *e, struct chunk *c, uint32_t word, uint32_t len);
/* What was put on the first way goes: before another ep of the device puts something there. */
void verbs_ring_bell(struct verbs_ep *e);
/* Requests that the way takes now. */
uint32_t verbs_ring_room(const struct verbs_way *w);
/* Posts what waits: the rest of a chunk, READs that prove, credits; rings the doorbells. */
void verbs_ring_kick(struct verbs_ep *e);
/* The device completed request number with status, and all before it. */
void verbs_ring_done(struct verbs_way *w, uint32_t number, enum ibv_wc_status status);
/* Whatever is left comes out: the device has nothing of it any more. */
void verbs_ring_drain(struct verbs_way *w);
int verbs_ring_is_drained(const struct verbs_way *w);
/* 1: nothing of the chunk was posted yet, and it comes out. */
int verbs_ring_unhold(struct chunk *c);

/* ---- messages: verbs_message.c ---- */

/* Posts the receives of a way. 0 or -errno. */
int verbs_message_start(struct verbs_way *w);
/* 1: it was put in a chain; 0: there is no room. */
int verbs_message_send(struct verbs_ep *e, struct chunk *c);
void verbs_message_hello(struct verbs_ep *e);
void verbs_message_bye(struct verbs_ep *e);
/* Credits that are owed. */
void verbs_message_kick(struct verbs_ep *e);
/* A word of that type was taken by the peer's device. */
void verbs_message_gone(struct verbs_ep *e, uint32_t type);
/* Receive number i of the first way came with bytes. 0 or -errno: the ep ends. */
int verbs_message_came(struct verbs_ep *e, uint32_t i, uint32_t bytes);
/* At the start of a poll: receives of the last one are posted again. */
void verbs_message_recycle(struct verbs_device *d);

/* ---- queue pairs: verbs_qp.c ---- */

/* In state INIT. 0 or -errno with fail() text. */
int verbs_qp_make(struct verbs_ep *e, struct verbs_way *w);
/* In state RTS, led to that one of the peer's, which begins to send at psn. 0 or -errno. */
int verbs_qp_meet(struct verbs_way *w, uint32_t qpn, uint32_t psn);
void verbs_qp_destroy(struct verbs_way *w);
uint32_t verbs_addr_write(const struct verbs_ep *e, void *addr);
/* backend.h's: in state RTS. */
int verbs_ep_meet(struct ep *ep, const void *addr, uint32_t addr_len);

/* ---- further ways: verbs_grow.c ---- */

/* There is use for the way. */
void verbs_grow(struct verbs_way *w);
int verbs_ep_grow(struct ep *ep);
void verbs_ep_grown(struct ep *ep, int res);
/* What was not told yet is no longer wanted. */
void verbs_grow_off(struct verbs_ep *e);
void verbs_grow_free(struct verbs_ep *e);
/* What WAY says: bytes. */
uint32_t verbs_grow_say(const struct verbs_way *w, uint8_t *data);
/* Such words came. 0 or -errno: the ep ends. */
int verbs_grow_way(struct verbs_ep *e, const uint8_t *data, uint32_t len);
int verbs_grow_ready(struct verbs_ep *e, const uint8_t *data, uint32_t len);

/* Both ends have it. */
static inline int verbs_way_is_there(const struct verbs_way *w)
{
	return w->grow.met && w->grow.ready;
}

/* Completions that it can cause. */
static inline uint32_t verbs_way_cqes(const struct verbs_way *w)
{
	return w->depth + 1;
}

/* ---- verbs_ep.c ---- */

int verbs_ep_open(struct device *dev, struct ep **ep, void *addr, uint32_t *addr_len);
void verbs_ep_free(struct ep *ep);
int verbs_ep_connect(struct ep *ep, const void *addr, uint32_t addr_len, int active,
		     const struct sockaddr_storage *via);
void verbs_ep_close(struct ep *ep);
/* Room for so many completions of an ep's, which go with verbs_room_free(); w: of a further way,
 * NULL: of its first. 0 or -errno with fail() text. */
int verbs_room(struct verbs_device *d, const struct verbs_way *w, uint32_t cqes);
void verbs_room_free(struct verbs_device *d, uint32_t cqes);
/* What its queue pair causes is looked at, and received, from now on. 0 or -errno. */
int verbs_way_start(struct verbs_way *w);
void verbs_ep_tell(struct verbs_ep *e, enum verbs_news news);
void verbs_ep_up(struct verbs_ep *e);
/* The ep is broken: its ways go into error. */
void verbs_ep_down(struct verbs_ep *e, int res);
/* Nothing is under way any more: it may have ended. */
void verbs_ep_settle(struct verbs_ep *e);
/* Something was posted: whoever makes no progress for dead_after_ms from now on is down. */
void verbs_ep_watch(struct verbs_device *d);
/* Deadlines. */
void verbs_ep_tick(struct verbs_device *d, uint64_t now);
void verbs_ep_kick(struct verbs_ep *e);	/* before the poll ends */
/* Gives news: UPs, or (ends) what comes after all else of an ep. */
uint32_t verbs_tell(struct verbs_device *d, struct event *events, uint32_t n, int ends);

#endif
