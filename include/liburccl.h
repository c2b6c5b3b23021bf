/* SPDX-License-Identifier: Apache-2.0 */
/*
 * liburccl: io_uring for other machines' memory.
 *
 * A program fills entries (SQEs) of a ring, submits them, and takes completions (CQEs) off it;
 * the ring's file descriptor joins epoll, poll and io_uring loops. liburccl(7) has the picture,
 * abi.h the fixed layouts.
 *
 * Errors are negative errno values everywhere; a failed call also leaves a sentence for
 * urccl_errmsg(), a failed entry one for urccl_explain(). A failed call leaves its outputs
 * unchanged. Every call of a context may give -EINVAL (the context or the pointer for the
 * answer is NULL), -EPERM (in a forked child: open a context there) and -ENOMEM; -ESTALE is a
 * handle whose object has ended or never was. Inlines check no pointer: the ring, and the entry
 * for a urccl_prep_*(), must not be NULL, and no ring or context closed already.
 *
 * Threads: a ring has one producer thread (get_sqe, prep, submit) and one consumer thread (wait,
 * peek, arm, seen) at a time; they may be two. A context's calls may come from any thread. The
 * exception is a context opened with URCCL_OPEN_INLINE: one ring, one thread, and that thread's
 * calls drive the devices; calls that need the engine (ring_open, register, unregister, revoke,
 * import, forget, probe) give -EBUSY from another.
 *
 * Memory that a call is given is the program's again when it returns; memory that an entry points
 * to is the library's until its CQE without MORE.
 */
#ifndef LIBURCCL_H
#define LIBURCCL_H

#include <errno.h>
#include <liburccl/abi.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

#define URCCL_VERSION_MAJOR 0
#define URCCL_VERSION_MINOR 1
#define URCCL_VERSION_PATCH 0

#ifndef URCCL_INLINE
#define URCCL_INLINE static inline
#endif

/* With URCCL_CHECK defined before it is included, this header detects two producers, CQEs that are
 * seen twice, and entries that are prepared and never submitted. Each is logged once per ring, on
 * the thread that does it. A thread must then submit the entries that it took before another takes
 * or submits. */
#ifdef URCCL_CHECK
#define URCCL_CHECKS 1
#else
#define URCCL_CHECKS 0
#endif

/* A struct whose first member is its size, all else zero:
 *	struct urccl_stats stats = URCCL_INIT(urccl_stats); */
#ifdef __cplusplus
#define URCCL_INIT(type)                  \
	[] {                              \
		struct type it = {};      \
		it.size = sizeof(it);     \
		return it;                \
	}()
#else
#define URCCL_INIT(type)                    \
	{                                   \
		.size = sizeof(struct type) \
	}
#endif

/* A struct urccl_range of ordinary memory: without a file descriptor. */
#ifdef __cplusplus
#define URCCL_RANGE(address, length)                                                          \
	(urccl_range{(uint64_t)(uintptr_t)(address), static_cast<uint64_t>(length), 0, -1, 0})
#else
#define URCCL_RANGE(address, length)                                                          \
	((struct urccl_range){                                                                \
		.addr = (uint64_t)(uintptr_t)(address), .len = (length), .fd = -1})
#endif

struct urccl;		/* a context: devices, threads, listener, regions, peers */
struct urccl_sim;	/* a simulated network inside this process: urccl_sim_open() */

enum urccl_open_flags {
	URCCL_OPEN_INLINE = 1 << 0,	/* no progress thread: the ring's own calls drive the
					 * devices */
};

enum urccl_allow {			/* a policy for a feature that is not always wanted */
	URCCL_ALLOW_DEFAULT = 0, URCCL_ALLOW_NO, URCCL_ALLOW_YES,
};

enum urccl_tcp_driver {
	URCCL_TCP_AUTO = 0,		/* readiness */
	URCCL_TCP_READINESS,		/* non-blocking sockets and epoll */
	URCCL_TCP_IO_URING,		/* opening fails if io_uring is denied */
};

enum urccl_log_level {			/* each includes the levels before it */
	URCCL_LOG_DEFAULT = 0,		/* warn */
	URCCL_LOG_NONE, URCCL_LOG_ERROR, URCCL_LOG_WARN, URCCL_LOG_INFO, URCCL_LOG_DEBUG,
};

enum urccl_enforce {			/* the side that keeps a peer to an advert's rights, range
					 * and expiry */
	URCCL_ENFORCE_ANY = 0,		/* mapped memory: the importer's library and, for the right
					 * to write, the descriptor that it was given */
	URCCL_ENFORCE_OWNER,		/* the owner of the memory alone: nothing is mapped */
};

enum urccl_resident {			/* memory whose pages may be slow to have */
	URCCL_RESIDENT_TRUSTED = 0,	/* may be registered */
	URCCL_RESIDENT_CHECK,		/* REGISTER refuses ranges of files, but for those in
					 * memory, and of userfaultfd(2) */
};

enum urccl_device_order {		/* for entries on local memory of a GPU */
	URCCL_DEVICE_ORDER_DEFAULT = 0,	/* trusted */
	URCCL_DEVICE_ORDER_EXPLICIT,	/* each must say when that is ready: urccl_sqe_set_wait(),
					 * _set_wait_event() or _set_ready(). Else -EINVAL */
	URCCL_DEVICE_ORDER_TRUSTED,	/* an entry that does not say begins at once */
};

enum urccl_cxi_threading {		/* fi_domain(3) */
	URCCL_CXI_THREADING_AUTO = 0, URCCL_CXI_THREADING_SAFE, URCCL_CXI_THREADING_UNSPEC,
	URCCL_CXI_THREADING_FID, URCCL_CXI_THREADING_DOMAIN, URCCL_CXI_THREADING_COMPLETION,
	URCCL_CXI_THREADING_ENDPOINT,
};

/* The library's choice, for a setting in which 0 has a meaning. */
#define URCCL_AUTO (-1)

/*
 * Settings of a context. urccl_params_init() fills in the defaults. A struct of an older header is
 * shorter and gets the defaults of the rest; members of a longer one that this library does not
 * know must be zero (else -E2BIG). A number with an invalid 0 gets its default. Strings and buffers
 * are copied. urccl_params_from_env(3) lists the values of each setting and its environment
 * variable.
 */
struct urccl_params {
	uint32_t size;			/* set by urccl_params_init() */
	uint32_t flags;			/* enum urccl_open_flags */

	/* Connections. */
	const char *transport;		/* "shm,tcp": transports that may be used, best first;
					 * "shm?" is left out where it does not open, and a peer
					 * that "shm!" reaches is reached by no other. NULL:
					 * "shm?,tcp?" */
	const char *listen;		/* "10.0.0.1:7777,[::1]:7777": up to 16 addresses, one
					 * port (0: any); NULL: loopback, or the addresses of
					 * socket_ifname, any port; "": do not listen */
	const char *socket_ifname;	/* interfaces to listen on and to dial from: "eth,ib"
					 * (names that begin so), "=eth0" (just that), "^docker"
					 * (all but those); NULL: any */
	const void *hello;		/* sent to a dialler if the ACCEPT has no hello */
	const void *secret;		/* shared by all that may connect: each side proves that
					 * it has it. urccl_open() makes a key of it */
	const char *secret_file;	/* a file with the secret that others cannot read; the end
					 * of its last line is left out. NULL: none */
	uint32_t hello_len;		/* at most URCCL_NOTE_MAX */
	uint32_t secret_len;		/* 16 to 1,024; 0: none */

	/* Times. */
	uint32_t deadline_ms;		/* for an entry that sets none (30 s) */
	uint32_t dead_after_ms;		/* a peer that is awaited and silent for so long is lost
					 * (10 s) */
	uint32_t idle_after_ms;		/* a peer unused for so long gives up its data path until
					 * the next entry; 0: never */
	uint32_t spin_us;		/* time that an idle progress thread, and urccl_wait(),
					 * spin before they sleep (20); ~0: no limit */

	/* Limits. */
	uint32_t max_peers;		/* connected at a time (4,096) */
	uint32_t max_warm;		/* peers with a data path at a time: beyond it the ones
					 * idle for longest give theirs up; 0: no limit */
	uint32_t max_segs;		/* segments of a READV or WRITEV (2^20) */
	uint32_t max_blocks;		/* blocks of a paged entry (2^32 - 2) */
	uint32_t max_inflight_ops;	/* chunks that devices hold at a time, of all peers, 1 to
					 * 4,096 (4,096); entries beyond wait */
	uint32_t chunk_bytes;		/* largest piece of an entry that a device gets at a
					 * time; 0: the transport's */
	uint32_t event_slots;		/* for a ring that sets none, 1 to 32,768 (256) */

	/* Policy. */
	uint8_t	 enforce;		/* enum urccl_enforce */
	uint8_t	 bounce;		/* enum urccl_allow: data may be copied through memory of
					 * the library (yes) */

	/* Log and threads. */
	uint8_t	 log_level;		/* enum urccl_log_level */
	int8_t	 progress_nice;		/* nice(2) of progress threads, -20 to 19; 0: that of the
					 * thread that opens */
	int8_t	 control_nice;		/* for the control thread and all threads it starts */
	uint8_t	 resident;		/* enum urccl_resident, a policy */
	uint8_t	 reserved0[6];
	/* Receives events as lines without their end; level: enum urccl_log_level. Called by the
	 * control thread, urccl_open() and urccl_close(), with URCCL_CHECK by any thread that uses
	 * a ring, never by a progress thread. Must not call the library. NULL: silence. */
	void (*log)(void *arg, int level, const char *text);
	void *log_arg;
	const char *thread_name;	/* prefix of the threads' names, up to 7 bytes; NULL:
					 * "urccl" */
	const char *progress_cpus;	/* CPUs of progress threads, "0-3,8"; NULL: as the
					 * thread that opens */
	const char *control_cpus;	/* CPUs of the control thread, the resolver threads and
					 * libfabric's thread. Short-lived threads that prefault
					 * memory or wait for a device are not bound */

	/* The machine. */
	const char *gpu;		/* "0000:1b:00.0", or the rank among the GPUs of this
					 * process by PCI address: ib, efa and cxi use the NICs
					 * near it; NULL: near the CPUs of the thread that opens */
	const char *topology;		/* a file that describes the machine, or "hwloc", instead
					 * of /sys: urccl_info(1); NULL: /sys */

	/* tcp. Arrays are indexed by enum urccl_class. */
	const char *tcp_congestion;	/* TCP_CONGESTION, "cubic" or
					 * "bulk:bbr,latency:cubic"; NULL: the system's */
	int16_t	 tcp_tclass[3];		/* IP_TOS and IPV6_TCLASS: DSCP * 4, up to 252; 0: the
					 * system's */
	int16_t	 tcp_priority[3];	/* SO_PRIORITY, 0 to 15; 0: the system's */
	uint32_t tcp_streams;		/* bulk streams per peer, 1 to 8 (1) */
	uint8_t	 tcp_driver;		/* enum urccl_tcp_driver */
	uint8_t	 reserved1[7];

	/* shm. */
	const char *socket_dir;		/* directory of its rendezvous sockets; NULL: abstract
					 * names */

	/* ib, and of these the NICs, classes and libraries of efa and fabric. */
	const char *rdma_dev;		/* NICs to use, "mlx5_0,mlx5_1:2"; NULL: NICs near gpu */
	const char *ibv_so;		/* libibverbs to load */
	uint32_t rdma_relaxed_ordering;	/* enum urccl_allow: devices may write to memory in any
					 * order, but for regions with ATOMIC (yes) */
	uint32_t rdma_max_rd_atomic;	/* READs and atomics that a queue pair has out (16) */
	uint32_t rdma_max_dest_rd_atomic; /* and accepts (16) */
	uint32_t max_qps;		/* queue pairs at a time: beyond it peers give up their
					 * data path as beyond max_warm, and one peer has those
					 * that it needs; 0: no limit */
	int32_t	 rdma_gid_index;	/* URCCL_AUTO: RoCE v2 over IPv4, where there is one */
	int32_t	 rdma_retry_count;	/* 0 to 7; URCCL_AUTO: 6 */
	int16_t	 rdma_sl[3];		/* service level, 0 to 15; URCCL_AUTO: 3 on RoCE, 8 on
					 * EFA, else 0 */
	int16_t	 rdma_tc[3];		/* traffic class, 0 to 255; URCCL_AUTO: 104 on RoCE, else
					 * 0 */
	uint16_t rdma_pkey;		/* P_Key; 0: the first of the port's table */
	uint8_t	 rdma_port;		/* 0: all that are active */
	uint8_t	 rdma_ack_timeout;	/* 4.096 us * 2^n, n from 1 to 31 (14) */

	/* cxi, and the libfabric of efa and fabric too. */
	const char *libfabric_so;	/* libfabric to load */
	const char *cxi_domain;		/* NULL: by cxi_device_index */
	uint32_t cxi_tx_queue_size, cxi_rx_queue_size;	/* (4,096) */
	uint32_t cxi_cq_size;		/* (8,192) */
	int32_t	 cxi_device_index;	/* URCCL_AUTO: by the GPU, or the first */
	uint8_t	 cxi_threading;		/* enum urccl_cxi_threading */
	uint8_t	 reserved2[7];

	/* sim. */
	struct urccl_sim *sim_network;	/* the network to join; must outlive the context */
	const char *sim;		/* faults of this context's device, "drop=0.1%,
					 * freeze=5ms/1s": they go before those of
					 * urccl_sim_open(); urccl_sim(7). NULL: none of its own */

	/* Memory of GPUs. */
	const char *cuda_so;		/* the CUDA driver, used if the program has loaded it;
					 * NULL: libcuda.so.1 */
	uint64_t staging_bytes;		/* pinned memory for bytes that no device moves between
					 * GPU and peer by itself: a multiple of 2 MiB, 8 MiB to
					 * 1 TiB (64 MiB) */
	int32_t	 gpu_sms;		/* multiprocessors for copies, up to 1,024; 0: copy engines
					 * alone; URCCL_AUTO: 8 */
	uint8_t	 device_order;		/* enum urccl_device_order */
	uint8_t	 reserved3[3];
};

/* A number that is 0 is the default. */
struct urccl_ring_params {
	uint32_t size;			/* sizeof(struct urccl_ring_params) */
	uint32_t entries;		/* power of two, 2 to 32,768: unfinished or unseen at a
					 * time (256) */
	uint32_t event_slots;		/* 1 to 32,768: PEER, NOTE, RAIL, LOST and MSG events
					 * unseen at a time (256) */
	uint32_t reserved;
};

/* A number that is 0 is the default. */
struct urccl_device_ring_params {
	uint32_t size;			/* sizeof(struct urccl_device_ring_params) */
	uint32_t lanes;			/* 1 to 256: producers, as a lane has one (1) */
	uint32_t entries;		/* power of two, 2 to 32,768: slots of each lane. Up to
					 * 32,768 / lanes of them are under way (256) */
	uint32_t device;		/* 1 + the number of the GPU whose kernels push; 0: only
					 * threads of this process do */
};

struct urccl_peer_info {
	uint32_t size;			/* sizeof(struct urccl_peer_info), set by the caller */
	uint32_t transport;		/* enum urccl_transport in use */
	uint64_t incarnation;		/* the peer context's, random */
	uint32_t state;			/* enum urccl_peer_state */
	uint32_t hello_len;
	uint8_t	 hello[256];		/* the peer's hello payload */
	char	 address[64];		/* control connection: "10.0.0.2:7777" */
	uint32_t warm;			/* 1: it has its data path; 0: not up, or let go for
					 * max_warm, max_qps or idle_after_ms: the next entry
					 * brings it back */
	uint32_t reserved;
};
enum urccl_peer_state { URCCL_PEER_CONNECTING = 1, URCCL_PEER_UP, URCCL_PEER_LOST };

struct urccl_region_info {
	uint32_t size;			/* sizeof(struct urccl_region_info), set by the caller */
	uint32_t nranges;
	uint64_t len;			/* bytes of its offset space */
	uint32_t rights;		/* enum urccl_rights */
	uint32_t mappable;		/* 1: peers on this host write into it without our CPU
					 * (urccl_alloc memory, sealed memfds) */
	uint32_t extents;		/* pieces of memory that devices know it by: ranges that
					 * touch are one */
	uint32_t shared;		/* extents inside one of an earlier region, which cost
					 * nothing */
	uint32_t device;		/* 1 + the number of the GPU that has its first range; 0:
					 * memory of the host */
	uint32_t staged;		/* bit per enum urccl_transport: entries on it go through
					 * pinned memory of the library there */
};

enum urccl_enforced {			/* side enforcing an advert's rights, range and expiry */
	URCCL_ENFORCED_UNKNOWN = 0,	/* no entry used the remote since its peer became warm */
	URCCL_ENFORCED_BY_OWNER,	/* the owner's side, at each access */
	URCCL_ENFORCED_BY_IMPORTER,	/* this library: the memory is mapped here, at least in
					 * part */
};

struct urccl_remote_info {
	uint32_t size;			/* sizeof(struct urccl_remote_info), set by the caller */
	uint32_t nadverts;
	uint64_t len;			/* bytes of its offset space */
	struct urccl_peer peer;
	uint32_t rights;		/* that all of its adverts give */
	uint32_t enforced;		/* enum urccl_enforced */
	uint32_t reserved;
};

struct urccl_stats {			/* since open; each word is read by itself, without a
					 * lock */
	uint32_t size;			/* sizeof(struct urccl_stats), set by the caller */
	uint32_t reserved;
	uint64_t submitted, completed, failed, cancelled, timed_out;	/* entries */
	uint64_t bytes_read;		/* by entries of ours that succeeded */
	uint64_t bytes_written;
	uint64_t chunks, merged;	/* handed to devices; blocks or segments joined to their
					 * neighbour */
	uint64_t notes_sent, notes_received;
	uint64_t turns, sleeps, wakes;	/* progress thread: loops, sleeps, programs it woke */
	uint64_t slow_turns;		/* loops of over 50 ms, which delay all peers: memory was
					 * not resident, or no CPU free */
};

/* ---- Contexts (any thread) ------------------------------------------------------------------- */

/* For the inline below only: fills size bytes of *p. */
void __urccl_params_init(struct urccl_params *p, uint32_t size);

/* Fills *p with the defaults. */
URCCL_INLINE void urccl_params_init(struct urccl_params *p)
{
	__urccl_params_init(p, sizeof(*p));
}

/* Sets in *p what environment variables give: URCCL_ and the member's name in capitals, or, where
 * that is not set, UCCL's variable of the same meaning; urccl_params_from_env(3) lists them.
 * Strings are the environment's: they stand until it is changed, and urccl_open() copies them.
 * -EINVAL: a variable that does not parse, an obsolete one, or an unknown URCCL_*; *p is then
 * unchanged. With URCCL_LOG_LEVEL, p->log if NULL becomes one that prints to standard error. */
int urccl_params_from_env(struct urccl_params *p);

/* Sets one setting by its name in lower case without URCCL_, "deadline_ms", to a value as its
 * variable takes it. A string is not copied: it must live until urccl_open() returns. -ENOENT: no
 * such setting; the sentence has the nearest name. -EINVAL: the value; the sentence says which are
 * possible. *p is then unchanged. */
int urccl_params_set(struct urccl_params *p, const char *name, const char *value);

/* Opens the devices, the listener and the threads; p may be NULL. Does not wait for the network.
 * The context is the program's to close. A transport that p names, or that a setting of its own
 * asks for (tcp_congestion, tcp_driver, socket_dir), must open. Default transports that this
 * machine lacks are left out, and urccl_dump() says why. -EINVAL: a setting; -EADDRINUSE,
 * -EADDRNOTAVAIL: listen; -EOPNOTSUPP: a transport or setting of a later version. */
int urccl_open(const struct urccl_params *p, struct urccl **ctx);

/* Ends everything: rings still open are closed, entries end with -ESHUTDOWN, peers are told. Within
 * 2 s. Must not run during another call on the same context. NULL is fine. */
void urccl_close(struct urccl *ctx);

/* p may be NULL. The ring's memory is the library's; urccl_ring_close() or urccl_close() frees it.
 * A context has up to 256 rings (-EMFILE), an INLINE one has one (-EBUSY). Does not wait for the
 * network. */
int urccl_ring_open(struct urccl *ctx, const struct urccl_ring_params *p, struct urccl_ring **ring);

/* Cancels what is unfinished, waits until the buffers are quiet, frees the ring: within 2 s, unless
 * a driver is pinning memory for a REGISTER. No call on it during or after this one. NULL is
 * fine. */
void urccl_ring_close(struct urccl_ring *ring);

/*
 * Makes a ring whose entries kernels push, by liburccl/device.cuh and *ring, which they get by
 * value; p may be NULL. Its memory is the library's. ring->ring has a CQE for each entry that
 * failed, as long as there is room, with the lane in the high half of user_data and the low half of
 * its index in the low one; urccl_submit() on it is -EPERM. It is one of the 256 rings (-EMFILE).
 * -EINVAL: sizes, or the context is INLINE. -ENODEV: there is no such GPU, or the program has not
 * begun to use it. -EIO: CUDA cannot pin the memory. Does not wait for the network.
 */
int urccl_device_ring_open(struct urccl *ctx, const struct urccl_device_ring_params *p,
			   struct urccl_device_ring *ring);

/* On: the progress thread does not sleep, and takes an entry at once. Off, the initial state: it
 * polls every 50 us for a second after the last entry, then every millisecond. Any thread. -EPERM:
 * in a forked child. */
int urccl_device_ring_busy(const struct urccl_device_ring *ring, int on);

/* As urccl_ring_close(), which frees ring->ring. Kernels that push must have ended before. */
void urccl_device_ring_close(const struct urccl_device_ring *ring);

/*
 * Makes n ranges one region: one offset space, range k beginning at the sum of the lengths
 * before it. The memory stays the program's and must stay mapped until urccl_unregister().
 * rights (enum urccl_rights) is the most an advert of it may give. With URCCL_REG_PREFAULT every
 * page is present when the call returns, which takes time if there are many. Does not wait for the
 * network. Ranges that touch, and those inside a region that gives no less, cost the devices
 * nothing more. A range inside memory of urccl_alloc() is mapped by peers of this host.
 * -EFAULT: not all of it is mapped. -EACCES: it is mapped without the write (read) access that
 * rights need. It must stay mapped with that access while it is registered: the library may copy
 * bytes unchecked, and the program would get SIGSEGV. A range with a descriptor is a view of a
 * memfd of the program's, which peers of this host map if its size is sealed; if nothing is mapped
 * at its address, the library maps it. The descriptor may then be closed. -ERANGE, -EINVAL: it is
 * too short, or not what is mapped there.
 */
int urccl_register(struct urccl *ctx, const struct urccl_range *ranges, uint32_t n, uint32_t rights,
		   struct urccl_region *region);

/* Takes the region back: waits until no entry of ours and no transfer of a peer touches it, at most
 * 2 s (-ETIMEDOUT: still registered; call again). Peers' accesses under way fail with -EACCES,
 * later ones with -ESTALE. A peer that has memory of urccl_alloc() mapped is asked to let go of it.
 * While one does not (it is frozen, or INLINE and not driven, or was lost meanwhile), the result is
 * -ETIMEDOUT, and that peer may still read and write the memory until its process ends. */
int urccl_unregister(struct urccl *ctx, struct urccl_region region);

/* Ends every advert of the region, which stays registered and may be advertised anew: importers are
 * told first and fail their entries with -EACCES, then the keys are removed. Waits until no
 * transfer of a peer touches the region, at most 2 s (-ETIMEDOUT: a peer has the memory mapped and
 * has not let go, as for urccl_unregister(); the adverts are void all the same, call again to wait
 * on). */
int urccl_revoke(struct urccl *ctx, struct urccl_region region);

/* len bytes of page-aligned, zeroed memory that peers of this host can map: a sealed memfd, so
 * neither /dev/shm nor mlock. Its pages are present when the call returns, which takes time if
 * there are many. Not yet registered; the context's until urccl_free() or urccl_close(). The pages
 * stay allocated as long as a peer has them mapped, also after that. -EFBIG: len is above
 * RLIMIT_FSIZE. */
int urccl_alloc(struct urccl *ctx, uint64_t len, void **addr);

/* addr is what urccl_alloc() gave; -EBUSY while a region holds part of it. */
int urccl_free(struct urccl *ctx, void *addr);

/* Fills *advert, 64 bytes to send to peers that may use [off, off + len) of the region with these
 * rights, at most the region's (-EACCES; -ERANGE); ttl_ms 0: for as long as the region lives. Does
 * not wait. */
int urccl_advertise(struct urccl *ctx, struct urccl_region region, uint64_t off, uint64_t len,
		    uint32_t rights, uint64_t ttl_ms, struct urccl_advert *advert);

/* Makes n adverts of one connected peer one remote: one offset space in their order. Does not wait:
 * the peer checks them at first use. -ESTALE: an advert of another incarnation of the peer.
 * -EPROTONOSUPPORT: an unknown version. -EINVAL: malformed. -E2BIG: above 65,536. */
int urccl_import(struct urccl *ctx, struct urccl_peer peer, const struct urccl_advert *adverts,
		 uint32_t n, struct urccl_remote *remote);

/* Ends the remote; entries on it that are unfinished end with -ECANCELED. */
int urccl_unimport(struct urccl *ctx, struct urccl_remote remote);

/* A blob that says how to dial this context, for CONNECT. Returns its length in bytes, at most
 * URCCL_METADATA_MAX; -ENOSPC if it is above len, -EOPNOTSUPP if the context does not listen,
 * -E2BIG if it listens on all of more than 16 addresses. Does not wait. */
int urccl_metadata(struct urccl *ctx, void *buf, uint32_t len);
#define URCCL_METADATA_MAX 512u

/* Writes the i-th address that this context listens on, with its port, as text: "10.0.0.1:7777".
 * Returns the text's length, as snprintf does: text that does not fit len bytes is cut off.
 * -ENOENT: there are no more. -EOPNOTSUPP: the context does not listen. Does not wait. */
int urccl_listening(struct urccl *ctx, uint32_t i, char *buf, uint32_t len);

/* Fill *info, whose size the caller has set. None waits for the network. */
int urccl_get_peer_info(struct urccl *ctx, struct urccl_peer peer, struct urccl_peer_info *info);
int urccl_get_region_info(struct urccl *ctx, struct urccl_region region,
		      struct urccl_region_info *info);
int urccl_get_remote_info(struct urccl *ctx, struct urccl_remote remote,
		      struct urccl_remote_info *info);

/* The address at which kernels of this process reach the remote, which is memory of one allocation
 * of a GPU of this host, imported by one advert: for as long as it is mapped, also when its peer is
 * lost. CUDA maps it to read and to write, so the advert must give both rights (else -EACCES); its
 * range is the program's to keep to. Until it is unmapped, a revocation has no effect and the
 * owner's urccl_unregister() waits (-ETIMEDOUT). End all kernels that use it, then unmap it, before
 * urccl_unimport() and urccl_close(). -EAGAIN: there is no key yet: WARM the peer before.
 * -EOPNOTSUPP: it cannot be mapped. -EALREADY: it is. */
int urccl_remote_map(struct urccl *ctx, struct urccl_remote remote, uint64_t *addr);
int urccl_remote_unmap(struct urccl *ctx, struct urccl_remote remote);

/* Fills *stats, whose size the caller has set. Never waits, takes no lock: works while an engine is
 * stuck. */
int urccl_get_stats(struct urccl *ctx, struct urccl_stats *stats);

/* A sentence on why the entry or event (LOST, NOTE) of *cqe failed, from the context's last 1,024
 * error records. Returns its length (without the 0), as snprintf does: text that does not fit len
 * bytes is cut off. Any thread, also when an engine is stuck. */
int urccl_explain(struct urccl *ctx, const struct urccl_cqe *cqe, char *buf, uint32_t len);

/* A sentence on this thread's last failed call; "" if none failed. The library's: it stands until
 * the thread's next failed call. */
const char *urccl_errmsg(void);

/* "0.1.0", of the library that runs */
const char *urccl_version(void);

/* ---- The simulated network (transport sim) --------------------------------------------------- */

/* A network inside this process; contexts join it by urccl_params.sim_network. faults, as in
 * urccl_sim(7), apply to contexts that join: "seed=7,delay=2us..50us,drop=0.1%"; "": none; NULL:
 * some of each harmless fault. The same seed gives the same faults in the same order of calls.
 * -EINVAL: an unknown word. Any thread. */
int urccl_sim_open(const char *faults, struct urccl_sim **sim);

/* -EBUSY while a context uses it. NULL is fine. */
int urccl_sim_close(struct urccl_sim *sim);

/* Stops all packets (on), as if peers hang, or lets them pass again (off). Any thread. */
void urccl_sim_freeze(struct urccl_sim *sim, int on);

/* Unplugs rail 0 to 7 of every context (on), which breaks its connections, or plugs it in again
 * (off). Any thread. */
void urccl_sim_pull(struct urccl_sim *sim, unsigned int rail, int on);

/* ---- Rings: out of line ---------------------------------------------------------------------- */

/*
 * Waits until args->min_n CQEs are there; after args->min_wait_ns one is enough. Returns their
 * number, and the first in *cqe (cqe may be NULL). args NULL: one CQE, without a timeout.
 * -ETIME: the timeout passed first; *cqe is the first CQE, or NULL if there is none. -EINTR: a
 * signal. -EINVAL: min_n is above the size of the CQ. -E2BIG: args of a newer header, with a member
 * set that this library does not know. -EPERM: the ring of this process's parent. A CQE stays the
 * library's until it is taken. Consumer.
 */
int urccl_wait(struct urccl_ring *ring, struct urccl_cqe **cqe, const struct urccl_wait_args *args);

/* Waits until n entries have room (0: one), for at most timeout_ns (~0: without a limit). Returns
 * the number that have. An unfinished entry has none; one that ended counts, and urccl_get_sqe()
 * gives it out once its CQE is taken. -ETIME, -EINTR, -EPERM. -EINVAL: n is above the ring's
 * entries. For a thread that is both producer and consumer. */
int urccl_wait_room(struct urccl_ring *ring, uint32_t n, uint64_t timeout_ns);

/*
 * Asks for one wake-up of the ring's fd: for a CQE, for n entries of room, or for either (enum
 * urccl_arm_for). 0: armed, nothing there, sleep. 1: it is there, not armed. -EINVAL, -EPERM. Does
 * not wait. Consumer. The loop around it:
 *	for (;;) { do reap(); while (urccl_arm(ring, URCCL_ARM_FOR_CQE, 0)); epoll_wait(...); }
 */
int urccl_arm(struct urccl_ring *ring, uint32_t what, uint32_t n);

/* Submits, then waits for n CQEs, for ever. Returns how many entries were submitted; if none were
 * and urccl_wait() failed, its error. */
int urccl_submit_and_wait(struct urccl_ring *ring, uint32_t n);

/* For the inlines below only: wake the progress thread; drive an INLINE context; with URCCL_CHECK
 * check the program's next step, on n CQEs. */
enum __urccl_doing { __URCCL_TAKES, __URCCL_SUBMITS, __URCCL_SEES };
void __urccl_ring_wake(struct urccl_ring *ring);
void __urccl_ring_drive(struct urccl_ring *ring);
void __urccl_ring_check(struct urccl_ring *ring, enum __urccl_doing what, uint32_t n);

/* ---- Rings: inline --------------------------------------------------------------------------- */

/* Readable when the armed condition holds; in an INLINE context also when the ring must be driven.
 * The library's: do not read or close it. */
URCCL_INLINE int urccl_ring_fd(const struct urccl_ring *ring)
{
	return ring->flags ? ring->fd : -EPERM;
}

URCCL_INLINE uint32_t urccl_ring_id(const struct urccl_ring *ring)
{
	return ring->id;
}

/* Entries that can be taken. Producer. */
URCCL_INLINE uint32_t urccl_sq_space_left(const struct urccl_ring *ring)
{
	const uint32_t *ended = ring->ended;
	uint32_t gone;

	if (!ended) /* dead */
		return 0;
	gone = __atomic_load_n(ended, __ATOMIC_ACQUIRE);
	gone += __atomic_load_n(ring->skipped, __ATOMIC_ACQUIRE);
	return ring->entries - (ring->sqe_tail - gone);
}

/* The next entry, to be filled by one urccl_prep_*(), or NULL: the ring is full (or dead). An entry
 * submitted unprepared fails with -EINVAL. Producer. */
URCCL_INLINE struct urccl_sqe *urccl_get_sqe(struct urccl_ring *ring)
{
	struct urccl_sqe *sqe;
	uint32_t tail;

	if (!urccl_sq_space_left(ring))
		return NULL;
	if (URCCL_CHECKS)
		__urccl_ring_check(ring, __URCCL_TAKES, 0);
	tail = ring->sqe_tail;
	sqe = &ring->sqes[tail & ring->sq_mask];
	__atomic_store_n(&ring->sqe_tail, tail + 1, __ATOMIC_RELAXED); /* dumps look at it */
	sqe->opcode = URCCL_OP_UNPREPARED; /* or it would repeat what the slot held before */
	return sqe;
}

/* Hands the prepared entries over. Returns how many, or -EPERM on a dead ring. Producer. */
URCCL_INLINE int urccl_submit(struct urccl_ring *ring)
{
	uint32_t *sq_tail = ring->sq_tail, tail, n;

	if (!sq_tail) /* dead */
		return -EPERM;
	if (URCCL_CHECKS)
		__urccl_ring_check(ring, __URCCL_SUBMITS, 0);
	tail = ring->sqe_tail;
	n = tail - __atomic_load_n(sq_tail, __ATOMIC_RELAXED);
	__atomic_store_n(sq_tail, tail, __ATOMIC_SEQ_CST);
	if (ring->flags & URCCL_RING_INLINE)
		__urccl_ring_drive(ring);
	else if (__atomic_load_n(ring->sq_flags, __ATOMIC_SEQ_CST))
		__urccl_ring_wake(ring);
	return (int)n;
}

/* CQEs there now. Consumer. */
URCCL_INLINE uint32_t urccl_cq_ready(const struct urccl_ring *ring)
{
	if (!ring->flags)
		return 0;
	return __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE) -
	       __atomic_load_n(ring->cq_head, __ATOMIC_RELAXED);
}

/* The first CQE, not yet taken, or NULL. An INLINE context is driven if there is none. Consumer. */
URCCL_INLINE struct urccl_cqe *urccl_peek_cqe(struct urccl_ring *ring)
{
	uint32_t *cq_head = ring->cq_head, head;

	if (!cq_head) /* dead */
		return NULL;
	head = __atomic_load_n(cq_head, __ATOMIC_RELAXED);
	if (head == __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE)) {
		if (!(ring->flags & URCCL_RING_INLINE)) {
			/* Its cache line comes together with the tail's. */
			__builtin_prefetch(&ring->cqes[head & ring->cq_mask]);
			return NULL;
		}
		__urccl_ring_drive(ring);
		if (head == __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE))
			return NULL;
	}
	return &ring->cqes[head & ring->cq_mask];
}

/* Up to n CQEs, not yet taken, in order. Returns how many. Consumer. */
URCCL_INLINE uint32_t urccl_peek_batch_cqe(struct urccl_ring *ring, struct urccl_cqe **cqes,
					   uint32_t n)
{
	uint32_t head, ready, i;

	if (!urccl_peek_cqe(ring))
		return 0;
	head = __atomic_load_n(ring->cq_head, __ATOMIC_RELAXED);
	ready = urccl_cq_ready(ring);
	for (i = 0; i < n && i < ready; i++)
		cqes[i] = &ring->cqes[(head + i) & ring->cq_mask];
	return i;
}

URCCL_INLINE void urccl_cq_advance(struct urccl_ring *ring, uint32_t n)
{
	uint32_t *cq_head = ring->cq_head, *all_ended = ring->ended;
	uint32_t head, tail, ended;

	if (!cq_head) /* dead */
		return;
	if (URCCL_CHECKS)
		__urccl_ring_check(ring, __URCCL_SEES, n);
	head = __atomic_load_n(cq_head, __ATOMIC_RELAXED);
	ended = __atomic_load_n(all_ended, __ATOMIC_RELAXED);
	tail = __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE);
	for (; n && head != tail; n--)
		ended += 1 - ring->cqes[head++ & ring->cq_mask].flags / URCCL_CQE_MORE % 2;
	/* In this order: a producer that sees the room must find the slots given back. */
	__atomic_store_n(cq_head, head, __ATOMIC_RELEASE);
	__atomic_store_n(all_ended, ended, __ATOMIC_RELEASE);
}

/* Takes the first CQE, which cqe is. Consumer. */
URCCL_INLINE void urccl_cqe_seen(struct urccl_ring *ring, const struct urccl_cqe *cqe)
{
	if (URCCL_CHECKS && cqe && cqe != urccl_peek_cqe(ring))
		__urccl_ring_check(ring, __URCCL_SEES, ~0u);
	else if (cqe)
		urccl_cq_advance(ring, 1);
}

/* The payload of a NOTE or PEER event (cqe->res bytes), valid until its CQE is taken. Consumer. */
URCCL_INLINE const void *urccl_cqe_note(const struct urccl_ring *ring, const struct urccl_cqe *cqe)
{
	return ring->notes + (uint64_t)(cqe - ring->cqes) * URCCL_NOTE_MAX;
}

URCCL_INLINE uint32_t urccl_cqe_kind(const struct urccl_cqe *cqe)
{
	return cqe->flags & URCCL_CQE_KIND_MASK;
}

/* The peer of a CONNECT that succeeded, or of a PEER, NOTE, RAIL or LOST event. */
URCCL_INLINE struct urccl_peer urccl_cqe_peer(const struct urccl_cqe *cqe)
{
	struct urccl_peer peer = {urccl_cqe_kind(cqe) == URCCL_KIND_OP ? (uint32_t)cqe->handle
								      : cqe->peer};

	return peer;
}

/* The region of a REGISTER that succeeded. */
URCCL_INLINE struct urccl_region urccl_cqe_region(const struct urccl_cqe *cqe)
{
	struct urccl_region region = {(uint32_t)cqe->handle};

	return region;
}

/* The remote of an IMPORT that succeeded. */
URCCL_INLINE struct urccl_remote urccl_cqe_remote(const struct urccl_cqe *cqe)
{
	struct urccl_remote remote = {(uint32_t)cqe->handle};

	return remote;
}

/* For urccl_for_each_cqe() only: sets *head to the first CQE's index, returns the index behind the
 * last. */
URCCL_INLINE uint32_t __urccl_cq_walk(const struct urccl_ring *ring, uint32_t *head)
{
	*head = 0;
	if (!ring->flags)
		return 0;
	*head = __atomic_load_n(ring->cq_head, __ATOMIC_RELAXED);
	return __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE);
}

/* for (each CQE that is there as the loop begins); take them afterwards with urccl_cq_advance().
 * head is a uint32_t. */
#define urccl_for_each_cqe(ring, head, cqe)                                                        \
	__urccl_for_each_cqe(ring, head, cqe, __LINE__)
#define __urccl_for_each_cqe(ring, head, cqe, line) __urccl_walk_cq(ring, head, cqe, line)
/* A child that the loop's body forks finds flags 0. */
#define __urccl_walk_cq(ring, head, cqe, line)                                                     \
	for (uint32_t __urccl_end##line = __urccl_cq_walk((ring), &(head));                        \
	     (head) != __urccl_end##line && (ring)->flags &&                                       \
	     ((cqe) = &(ring)->cqes[(head) & (ring)->cq_mask], 1);                                 \
	     (head)++)

/* Waits for one CQE, at most ns nanoseconds (~0: without a limit). 0, or -ETIME, -EINTR, -EPERM
 * with *cqe NULL. Consumer. */
URCCL_INLINE int urccl_wait_cqe_timeout(struct urccl_ring *ring, struct urccl_cqe **cqe,
					uint64_t ns)
{
	struct urccl_wait_args args = {sizeof(args), 1, ns, 0};
	int n;

	*cqe = urccl_peek_cqe(ring);
	if (*cqe)
		return 0;
	n = urccl_wait(ring, cqe, &args);
	return n < 0 ? n : 0;
}

/* The same, without a limit. */
URCCL_INLINE int urccl_wait_cqe(struct urccl_ring *ring, struct urccl_cqe **cqe)
{
	return urccl_wait_cqe_timeout(ring, cqe, ~0ull);
}

/* ---- Entries: each fills the 64 bytes, nothing more ------------------------------------------ */

URCCL_INLINE void __urccl_prep(struct urccl_sqe *sqe, uint8_t opcode, uint32_t object,
			       uint64_t addr, uint64_t len, uint64_t off)
{
	sqe->opcode = opcode;
	sqe->dtype = 0;
	sqe->flags = 0;
	sqe->deadline_us = URCCL_DEADLINE_DEFAULT;
	sqe->user_data = 0;
	sqe->remote = object;
	sqe->region = 0;
	sqe->addr = addr;
	sqe->len = len;
	sqe->off = off;
	sqe->tag = 0;
	sqe->group = 0;
	sqe->reserved = 0;
}

URCCL_INLINE void urccl_prep_nop(struct urccl_sqe *sqe)
{
	__urccl_prep(sqe, URCCL_OP_NOP, 0, 0, 0, 0);
}

/* len bytes at off of the remote into buf */
URCCL_INLINE void urccl_prep_read(struct urccl_sqe *sqe, struct urccl_remote remote, void *buf,
				  uint64_t len, uint64_t off)
{
	__urccl_prep(sqe, URCCL_OP_READ, remote.id, (uint64_t)(uintptr_t)buf, len, off);
}

/* len bytes of buf to off of the remote */
URCCL_INLINE void urccl_prep_write(struct urccl_sqe *sqe, struct urccl_remote remote,
				   const void *buf, uint64_t len, uint64_t off)
{
	__urccl_prep(sqe, URCCL_OP_WRITE, remote.id, (uint64_t)(uintptr_t)buf, len, off);
}

/* Segments of one peer; segs is the library's until the CQE. */
URCCL_INLINE void urccl_prep_readv(struct urccl_sqe *sqe, struct urccl_peer peer,
				   const struct urccl_seg *segs, uint32_t n)
{
	__urccl_prep(sqe, URCCL_OP_READV, peer.id, (uint64_t)(uintptr_t)segs, n, 0);
}

URCCL_INLINE void urccl_prep_writev(struct urccl_sqe *sqe, struct urccl_peer peer,
				    const struct urccl_seg *segs, uint32_t n)
{
	__urccl_prep(sqe, URCCL_OP_WRITEV, peer.id, (uint64_t)(uintptr_t)segs, n, 0);
}

/* n descriptors between one region and one remote; they and their index tables are the library's
 * until the CQE. */
URCCL_INLINE void urccl_prep_read_paged(struct urccl_sqe *sqe, struct urccl_remote remote,
					struct urccl_region region,
					const struct urccl_paged *paged, uint32_t n)
{
	__urccl_prep(sqe, URCCL_OP_READ_PAGED, remote.id, (uint64_t)(uintptr_t)paged, n, 0);
	sqe->region = region.id;
}

URCCL_INLINE void urccl_prep_write_paged(struct urccl_sqe *sqe, struct urccl_remote remote,
					 struct urccl_region region,
					 const struct urccl_paged *paged, uint32_t n)
{
	__urccl_prep(sqe, URCCL_OP_WRITE_PAGED, remote.id, (uint64_t)(uintptr_t)paged, n, 0);
	sqe->region = region.id;
}

/* A NOTE event at the peer: tag and up to URCCL_NOTE_MAX bytes, the library's until the CQE. */
URCCL_INLINE void urccl_prep_notify(struct urccl_sqe *sqe, struct urccl_peer peer, uint64_t tag,
				    const void *payload, uint32_t len)
{
	__urccl_prep(sqe, URCCL_OP_NOTIFY, peer.id, (uint64_t)(uintptr_t)payload, len, 0);
	sqe->tag = tag;
}

/* Adds to the u64 at off of the remote, whose advert gives URCCL_RIGHT_ATOMIC, and which lies on a
 * multiple of 8 in the peer's memory; the CQE's old is the word before, res 8. The peer's engine
 * does it: atomic with all other atomics on the word, the peer program's own included. */
URCCL_INLINE void urccl_prep_fetch_add(struct urccl_sqe *sqe, struct urccl_remote remote,
				       uint64_t off, uint64_t addend)
{
	__urccl_prep(sqe, URCCL_OP_FETCH_ADD, remote.id, addend, 0, off);
}

/* The same, but stores desired if the word equals expected: if old does, it was stored. */
URCCL_INLINE void urccl_prep_cmp_swap(struct urccl_sqe *sqe, struct urccl_remote remote,
				      uint64_t off, uint64_t expected, uint64_t desired)
{
	__urccl_prep(sqe, URCCL_OP_CMP_SWAP, remote.id, expected, desired, off);
}

/* to: a metadata blob or "host:port" text of len bytes, the library's until the CQE, whose
 * handle is the peer. With URCCL_SQE_WATCH its events come to this ring. */
URCCL_INLINE void urccl_prep_connect(struct urccl_sqe *sqe, const void *to, uint32_t len)
{
	__urccl_prep(sqe, URCCL_OP_CONNECT, 0, (uint64_t)(uintptr_t)to, len, 0);
}

/* A PEER event for each context that dials us, until cancelled; with URCCL_SQE_WATCH each is
 * watched too. -EOPNOTSUPP: we do not listen. */
URCCL_INLINE void urccl_prep_accept(struct urccl_sqe *sqe)
{
	__urccl_prep(sqe, URCCL_OP_ACCEPT, 0, 0, 0, 0);
}

/* The NOTE, RAIL and, last, LOST events of the peer (id 0: every peer) come to this ring. A peer of
 * another host that is named here is asked after dead_after_ms of silence, also while idle. */
URCCL_INLINE void urccl_prep_watch(struct urccl_sqe *sqe, struct urccl_peer peer)
{
	__urccl_prep(sqe, URCCL_OP_WATCH, peer.id, 0, 0, 0);
}

/* Drops one reference to the peer; the last one ends the connection. */
URCCL_INLINE void urccl_prep_close(struct urccl_sqe *sqe, struct urccl_peer peer)
{
	__urccl_prep(sqe, URCCL_OP_CLOSE, peer.id, 0, 0, 0);
}

/* As urccl_register(): the CQE's handle is the region, the program's to unregister. n ranges, the
 * library's until the CQE. */
URCCL_INLINE void urccl_prep_register(struct urccl_sqe *sqe, const struct urccl_range *ranges,
				      uint32_t n, uint32_t rights)
{
	__urccl_prep(sqe, URCCL_OP_REGISTER, 0, (uint64_t)(uintptr_t)ranges, n, rights);
}

/* As urccl_unregister(), waiting as long as the entry's deadline. */
URCCL_INLINE void urccl_prep_unregister(struct urccl_sqe *sqe, struct urccl_region region)
{
	__urccl_prep(sqe, URCCL_OP_UNREGISTER, 0, 0, 0, 0);
	sqe->region = region.id;
}

/* As urccl_revoke(), waiting as long as the entry's deadline. */
URCCL_INLINE void urccl_prep_revoke(struct urccl_sqe *sqe, struct urccl_region region)
{
	__urccl_prep(sqe, URCCL_OP_REVOKE, 0, 0, 0, 0);
	sqe->region = region.id;
}

/* As urccl_import(): the CQE's handle is the remote, the program's to forget. n adverts, the
 * library's until the CQE. */
URCCL_INLINE void urccl_prep_import(struct urccl_sqe *sqe, struct urccl_peer peer,
				    const struct urccl_advert *adverts, uint32_t n)
{
	__urccl_prep(sqe, URCCL_OP_IMPORT, peer.id, (uint64_t)(uintptr_t)adverts, n, 0);
}

/* Ends when first entries to the peer need not wait any more: it is connected, the keys of the
 * remotes imported so far are here, their mappings are made and populated. */
URCCL_INLINE void urccl_prep_warm(struct urccl_sqe *sqe, struct urccl_peer peer)
{
	__urccl_prep(sqe, URCCL_OP_WARM, peer.id, 0, 0, 0);
}

/* Ends this ring's entries that match: by user_data, a handle's id or a group (enum
 * urccl_cancel_by; BY_ALL: key 0). */
URCCL_INLINE void urccl_prep_cancel(struct urccl_sqe *sqe, enum urccl_cancel_by by, uint64_t key)
{
	__urccl_prep(sqe, URCCL_OP_CANCEL, 0, 0, (uint64_t)by, 0);
	sqe->tag = key;
}

/* Ends with -ETIME after ns, or with 0 after count further completions of this ring (count 0: by
 * time alone). flags: enum urccl_timeout_flags; without them -ETIME breaks a chain of LINK. */
URCCL_INLINE void urccl_prep_timeout(struct urccl_sqe *sqe, uint64_t ns, uint64_t count,
				     uint64_t flags)
{
	__urccl_prep(sqe, URCCL_OP_TIMEOUT, 0, 0, ns, count);
	sqe->timeout_flags = flags;
}

/* A MSG event with this user_data, res and tag on a ring of the same context, by its
 * urccl_ring_id(); it waits, under the entry's deadline, while the ring's event slots are used up.
 * -ESTALE: that ring is closed. */
URCCL_INLINE void urccl_prep_msg_ring(struct urccl_sqe *sqe, uint32_t ring_id, uint64_t user_data,
				      int64_t res, uint64_t tag)
{
	__urccl_prep(sqe, URCCL_OP_MSG_RING, ring_id, user_data, (uint64_t)res, 0);
	sqe->tag = tag;
}

URCCL_INLINE void urccl_sqe_set_data64(struct urccl_sqe *sqe, uint64_t data)
{
	sqe->user_data = data;
}

URCCL_INLINE void urccl_sqe_set_data(struct urccl_sqe *sqe, void *data)
{
	sqe->user_data = (uint64_t)(uintptr_t)data;
}

URCCL_INLINE void *urccl_cqe_get_data(const struct urccl_cqe *cqe)
{
	return (void *)(uintptr_t)cqe->user_data;
}

/* Adds flags (enum urccl_sqe_flags). */
URCCL_INLINE void urccl_sqe_add_flags(struct urccl_sqe *sqe, uint32_t flags)
{
	sqe->flags |= (uint16_t)flags;
}

URCCL_INLINE void urccl_sqe_set_class(struct urccl_sqe *sqe, enum urccl_class cls)
{
	sqe->flags = (uint16_t)((sqe->flags & 0x3fff) | ((uint32_t)cls << URCCL_SQE_CLASS_SHIFT));
}

/* Microseconds until the CQE, every wait included; 0: the context's default. */
URCCL_INLINE void urccl_sqe_set_deadline_us(struct urccl_sqe *sqe, uint32_t us)
{
	sqe->deadline_us = us;
}

URCCL_INLINE void urccl_sqe_set_region(struct urccl_sqe *sqe, struct urccl_region region)
{
	sqe->region = region.id;
}

URCCL_INLINE void urccl_sqe_set_group(struct urccl_sqe *sqe, uint32_t group)
{
	sqe->group = group;
}

/* The second half of the entry, cleared when it is first asked for after urccl_prep_*(). */
URCCL_INLINE struct urccl_ext *urccl_sqe_ext(struct urccl_ring *ring, struct urccl_sqe *sqe)
{
	struct urccl_ext *ext = &ring->exts[sqe - ring->sqes];
	struct urccl_ext zero = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};

	if (!(sqe->flags & URCCL_SQE_EXT))
		*ext = zero;
	sqe->flags |= URCCL_SQE_EXT;
	return ext;
}

URCCL_INLINE void __urccl_set_payload(struct urccl_ring *ring, struct urccl_sqe *sqe,
				      const void *payload, uint32_t len)
{
	struct urccl_ext *ext = urccl_sqe_ext(ring, sqe);

	ext->note = (uint64_t)(uintptr_t)payload;
	ext->note_len = len;
}

/* The peer gets a NOTE event with this tag when the entry's data is placed. payload: at most
 * URCCL_NOTE_MAX bytes, the library's until the CQE; NULL and 0: none. */
URCCL_INLINE void urccl_sqe_set_notify(struct urccl_ring *ring, struct urccl_sqe *sqe, uint64_t tag,
				       const void *payload, uint32_t len)
{
	sqe->flags |= URCCL_SQE_NOTIFY;
	sqe->tag = tag;
	if (len)
		__urccl_set_payload(ring, sqe, payload, len);
}

/* The hello of a CONNECT comes with the peer's PEER event. The hello of an ACCEPT replaces
 * params.hello: diallers find it in urccl_get_peer_info() when their CONNECT ends. At most
 * URCCL_NOTE_MAX bytes, the library's until the CQE without MORE. */
URCCL_INLINE void urccl_sqe_set_hello(struct urccl_ring *ring, struct urccl_sqe *sqe,
				      const void *hello, uint32_t len)
{
	__urccl_set_payload(ring, sqe, hello, len);
}

/* For reads and writes: the entry starts when *word >= value. Store to it with release or stronger:
 * the entry then sees earlier stores. A store wakes nobody: the library polls, about every 50 us
 * while it sleeps. word lies in memory registered with some right, of the host or of a GPU, and is
 * the library's to read until the CQE. */
URCCL_INLINE void urccl_sqe_set_wait(struct urccl_ring *ring, struct urccl_sqe *sqe,
				     const uint64_t *word, uint64_t value)
{
	struct urccl_ext *ext = urccl_sqe_ext(ring, sqe);

	ext->wait_kind = URCCL_SYNC_WORD;
	ext->wait_ptr = (uint64_t)(uintptr_t)word;
	ext->wait_value = value;
}

/* For reads and writes: the entry starts when the work now recorded in the CUevent (cudaEvent_t) is
 * done, or at once if there is none. The library polls it like a word. The event is the library's
 * until the CQE. Needs a region of GPU or pinned memory in the context. */
URCCL_INLINE void urccl_sqe_set_wait_event(struct urccl_ring *ring, struct urccl_sqe *sqe,
					   void *event)
{
	struct urccl_ext *ext = urccl_sqe_ext(ring, sqe);

	ext->wait_kind = URCCL_SYNC_CUDA_EVENT;
	ext->wait_ptr = (uint64_t)(uintptr_t)event;
	ext->wait_value = 0;
}

/* The program has synchronised: memory of a GPU is ready for the entry. For reads and writes, with
 * device_order=explicit. */
URCCL_INLINE void urccl_sqe_set_ready(struct urccl_ring *ring, struct urccl_sqe *sqe)
{
	struct urccl_ext *ext = urccl_sqe_ext(ring, sqe);

	ext->wait_kind = URCCL_SYNC_DONE;
	ext->wait_ptr = ext->wait_value = 0;
}

/* For reads and writes: stores value to *word, with release, before the CQE of an entry that
 * succeeded. It means the same as the CQE. A failed entry leaves it unchanged, except a word of a
 * GPU if its store has not ended by the deadline (URCCL_CQE_MORE). word lies in memory registered
 * with URCCL_RIGHT_WRITE, of the host or of a GPU, and is the library's until the CQE. */
URCCL_INLINE void urccl_sqe_set_signal(struct urccl_ring *ring, struct urccl_sqe *sqe,
				       uint64_t *word, uint64_t value)
{
	struct urccl_ext *ext = urccl_sqe_ext(ring, sqe);

	ext->signal_kind = URCCL_SYNC_WORD;
	ext->signal_ptr = (uint64_t)(uintptr_t)word;
	ext->signal_value = value;
}

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
