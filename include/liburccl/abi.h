/* SPDX-License-Identifier: Apache-2.0 */
/* Fixed layouts. Little-endian, 64-bit pointers. Reserved fields are zero; not zero is -EINVAL. */
#ifndef LIBURCCL_ABI_H
#define LIBURCCL_ABI_H

#include <stdint.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#define URCCL_STATIC_ASSERT(x) static_assert(x, #x)
#else
#define URCCL_STATIC_ASSERT(x) _Static_assert(x, #x)
#endif

/* A handle: slot in bits 0 to 19, generation in bits 20 to 29, kind in bits 30 and 31; 0 is "none".
 * A slot whose generation would wrap is retired, so a stale handle never names a new object; the
 * kind keeps one object from being taken for another. A context has at most 1,048,576 peers,
 * regions and remotes each at a time, and 2^30 of each in its life. */
struct urccl_peer   { uint32_t id; };
struct urccl_region { uint32_t id; };
struct urccl_remote { uint32_t id; };	/* implies its peer */

enum urccl_op {				/* values are ABI: never renumbered */
	URCCL_OP_NOP = 0,
	URCCL_OP_READ,
	URCCL_OP_WRITE,
	URCCL_OP_READV,
	URCCL_OP_WRITEV,
	URCCL_OP_READ_PAGED,
	URCCL_OP_WRITE_PAGED,
	URCCL_OP_NOTIFY,
	URCCL_OP_FETCH_ADD,
	URCCL_OP_CMP_SWAP,
	URCCL_OP_CONNECT,
	URCCL_OP_ACCEPT,
	URCCL_OP_WATCH,
	URCCL_OP_WARM,
	URCCL_OP_CLOSE,
	URCCL_OP_REGISTER,
	URCCL_OP_UNREGISTER,
	URCCL_OP_REVOKE,
	URCCL_OP_IMPORT,
	URCCL_OP_CANCEL,
	URCCL_OP_TIMEOUT,
	URCCL_OP_MSG_RING,
	URCCL_OP_LAST,
	URCCL_OP_UNPREPARED = 255	/* set by urccl_get_sqe() */
};

enum urccl_dtype {
	URCCL_DTYPE_BYTES = 0,
	URCCL_DTYPE_BF16,
	URCCL_DTYPE_FP16,
	URCCL_DTYPE_FP32,
	URCCL_DTYPE_FP8_E4M3,
	URCCL_DTYPE_FP8_E5M2,
};

enum urccl_sqe_flags {
	URCCL_SQE_LINK		= 1 << 0, /* the next entry starts when this one has succeeded;
					   * else -ECANCELED */
	URCCL_SQE_DRAIN		= 1 << 1, /* starts when all earlier entries of the ring have
					   * ended */
	URCCL_SQE_FENCE		= 1 << 2, /* starts when all earlier entries of this ring, peer
					   * and group have succeeded (group 0: any group);
					   * else -ECANCELED */
	URCCL_SQE_SKIP_SUCCESS	= 1 << 3, /* no CQE when it succeeds; not if it returns a handle */
	URCCL_SQE_NO_WAKE	= 1 << 4, /* its CQE alone wakes no consumer */
	URCCL_SQE_NOTIFY	= 1 << 5, /* tell the peer, with tag (and ext->note), when the
					   * data is placed */
	URCCL_SQE_CHECKSUM	= 1 << 6, /* CRC32C of data and notification compared where they are
					   * placed; else -EBADMSG */
	URCCL_SQE_ACKED		= 1 << 7, /* the device's acknowledgement is enough; only a
					   * notification tells the peer */
	URCCL_SQE_NO_REPLAY	= 1 << 8, /* never sent again on another path: the peer polls the
					   * memory */
	URCCL_SQE_EXT		= 1 << 9, /* the ring's ext slot of this entry is filled:
					   * urccl_sqe_ext() */
	URCCL_SQE_WATCH		= 1 << 10, /* CONNECT, ACCEPT: the events of the peers that it gives
					    * come to this ring, with the entry's user_data */
	URCCL_SQE_LAP		= 1 << 13, /* in a slot of a device ring alone */
	URCCL_SQE_CLASS_SHIFT	= 14,	  /* bits 14-15: enum urccl_class */
};

enum urccl_class {
	URCCL_CLASS_BULK = 0,
	URCCL_CLASS_LATENCY = 1,
	URCCL_CLASS_CONTROL = 2,
};

#define URCCL_DEADLINE_DEFAULT	0u		/* the context's; ACCEPT, WATCH, TIMEOUT: none */
#define URCCL_NOTE_MAX		256u

struct urccl_sqe {
	uint8_t	 opcode;		/*  0 enum urccl_op */
	uint8_t	 dtype;			/*  1 not 0: may be compressed, as this type */
	uint16_t flags;			/*  2 enum urccl_sqe_flags, class */
	uint32_t deadline_us;		/*  4 from submission to CQE, every wait included */
	uint64_t user_data;		/*  8 */
	union {				/* 16 object of the entry */
		uint32_t remote;	/*    READ WRITE *_PAGED FETCH_ADD CMP_SWAP */
		uint32_t peer;		/*    NOTIFY WATCH WARM CLOSE IMPORT; READV WRITEV: the
					 *    one peer */
		uint32_t ring;		/*    MSG_RING: urccl_ring_id() */
	};
	uint32_t region;		/* 20 local memory; 0: look addr up */
	union {				/* 24 */
		uint64_t addr;		/*    buffer, seg[], paged[], payload, blob, advert[],
					 *    range[] */
		uint64_t operand;	/*    FETCH_ADD: addend; CMP_SWAP: expected; MSG_RING:
					 *    user_data there */
	};
	union {				/* 32 */
		uint64_t len;		/*    bytes, or entries of an array */
		uint64_t swap;		/*    CMP_SWAP: new value */
		uint64_t ns;		/*    TIMEOUT */
		int64_t	 msg_res;	/*    MSG_RING: res there */
		uint64_t key_kind;	/*    CANCEL: enum urccl_cancel_by */
	};
	union {				/* 40 */
		uint64_t off;		/*    offset in remote */
		uint64_t count;		/*    TIMEOUT: or after so many completions */
		uint64_t rights;	/*    REGISTER */
	};
	union {				/* 48 */
		uint64_t tag;		/*    notification's tag */
		uint64_t key;		/*    CANCEL: user_data, handle or group */
		uint64_t timeout_flags;	/*    TIMEOUT: enum urccl_timeout_flags */
	};
	uint32_t group;			/* 56 FENCE waits for its entries */
	uint32_t reserved;		/* 60 */
};

/* REGISTER's off; an advert carries the low byte */
enum urccl_rights {
	URCCL_RIGHT_READ	= 1 << 0,
	URCCL_RIGHT_WRITE	= 1 << 1,
	URCCL_RIGHT_ATOMIC	= 1 << 2,
	URCCL_REG_ATOMIC_NATIVE	= 1 << 8,
	URCCL_REG_PREFAULT	= 1 << 9,
};

struct urccl_range {			/* REGISTER: range k begins at the sum of the lengths
					 * before it: no gaps, no padding */
	uint64_t addr;			/*  0 as entries will name it; with fd and no mapping any
					 *    base the program likes */
	uint64_t len;			/*  8 not 0 */
	uint64_t fd_off;		/* 16 */
	int32_t	 fd;			/* 24 dma-buf or memfd, of which it is a shared view, or
					 *    becomes one; -1: none */
	uint32_t reserved;		/* 28 */
};

enum urccl_transport {
	URCCL_TRANSPORT_NONE = 0,
	URCCL_TRANSPORT_SIM,
	URCCL_TRANSPORT_SHM,
	URCCL_TRANSPORT_TCP,
	URCCL_TRANSPORT_IB,
	URCCL_TRANSPORT_EFA,
	URCCL_TRANSPORT_CXI,
	URCCL_TRANSPORT_FABRIC,
	URCCL_TRANSPORT_IPC,
	URCCL_TRANSPORT_NCCL,
	URCCL_TRANSPORT_TCPX,
};

enum urccl_cancel_by {
	URCCL_CANCEL_BY_USER_DATA,
	URCCL_CANCEL_BY_PEER,
	URCCL_CANCEL_BY_REGION,	/* entries that name it */
	URCCL_CANCEL_BY_REMOTE,
	URCCL_CANCEL_BY_ALL,
	URCCL_CANCEL_BY_GROUP,	/* sqe->group, not 0; any peer */
};

enum urccl_timeout_flags {
	URCCL_TIMEOUT_ETIME_SUCCESS	= 1 << 0, /* -ETIME is a success: LINK goes on behind it,
						   * and with SKIP_SUCCESS it has no CQE */
};

enum urccl_sync {
	URCCL_SYNC_NONE = 0,
	URCCL_SYNC_WORD,		/* u64 in host or device memory: wait >=, signal =; on a
					 * multiple of 8, in registered memory */
	URCCL_SYNC_CUDA_EVENT,		/* wait alone */
	URCCL_SYNC_HIP_EVENT,		/* not carried out yet */
	URCCL_SYNC_DONE,		/* wait alone: the program has synchronised */
};

/* The second half of an entry. Each SQ slot has one beside it in the ring; urccl_sqe_ext(ring, sqe)
 * clears it, sets URCCL_SQE_EXT and returns it, so the program keeps no storage of its own. wait
 * and signal are for reads and writes. */
struct urccl_ext {			/* 64 bytes */
	uint32_t reserved2;		/*  0 */
	uint32_t note_len;		/*  4 at most URCCL_NOTE_MAX */
	uint64_t note;			/*  8 payload of the notification */
	uint8_t	 wait_kind;		/* 16 enum urccl_sync: start when reached */
	uint8_t	 signal_kind;		/* 17 set when placed (and, on READ, visible) */
	uint16_t codec;			/* 18 0: the policy's */
	uint32_t reserved0;		/* 20 */
	uint64_t wait_ptr;		/* 24 word's address, or the event */
	uint64_t wait_value;		/* 32 */
	uint64_t signal_ptr;		/* 40 */
	uint64_t signal_value;		/* 48 */
	uint64_t reserved1;		/* 56 */
};

struct urccl_seg {			/* READV, WRITEV; all of one peer, else -EXDEV */
	uint64_t addr;			/*  0 */
	uint64_t len;			/*  8 */
	uint64_t off;			/* 16 */
	uint32_t region;		/* 24 */
	uint32_t remote;		/* 28 */
};

/* READ_PAGED, WRITE_PAGED: for i0 < dim[0].count, i1 < dim[1].count ...: `block` bytes between
 * local_off + sum(L(k, ik)) in the region and remote_off + sum(R(k, ik)) in the remote, where
 * L(k, i) = (local_index ? local_index[i] : i) * local_stride, R likewise. */
struct urccl_dim {
	uint64_t count;			/*  0 */
	int64_t	 local_stride;		/*  8 bytes */
	int64_t	 remote_stride;		/* 16 */
	uint64_t local_index;		/* 24 const uint32_t *, or 0 */
	uint64_t remote_index;		/* 32 */
};

#define URCCL_DIMS_MAX 4u

struct urccl_paged {
	uint32_t size;			/*  0 sizeof(struct urccl_paged) */
	uint32_t ndims;			/*  4 1 to URCCL_DIMS_MAX; dim[0] is the outermost */
	uint64_t local_off;		/*  8 in sqe->region, which must be given */
	uint64_t remote_off;		/* 16 in sqe->remote */
	uint64_t block;			/* 24 contiguous bytes */
	struct urccl_dim dim[URCCL_DIMS_MAX];	/* 32 */
};

enum urccl_cqe_flags {
	URCCL_CQE_KIND_MASK	= 0x0f,	/* enum urccl_cqe_kind */
	URCCL_CQE_MORE		= 1 << 4, /* not the end of an entry of this ring: an event, or
					   * an outcome whose buffer is not yet quiet */
	URCCL_CQE_REMOTE_QUIET	= 1 << 5, /* nothing of this entry lands at the peer any more:
					   * proved */
	URCCL_CQE_NOT_FLUSHED	= 1 << 6, /* bytes went to memory of a device (NOTE: may have):
					   * a kernel launched now may not see them */
	URCCL_CQE_CHECKED	= 1 << 7, /* checksum compared */
	URCCL_CQE_UNKNOWN	= 1 << 8, /* failed, and may have happened all the same
					   * (notification, atomic) */
};

enum urccl_cqe_kind {
	URCCL_KIND_OP = 0,	/* an entry's own end: path, info = wire / old / handle /
				 * segment+detail */
	URCCL_KIND_PEER,	/* ACCEPT: peer, res = bytes of its hello payload, read with
				 * urccl_cqe_note() */
	URCCL_KIND_NOTE,	/* WATCH: peer, info = tag, res = payload bytes, or -errno: will
				 * not come */
	URCCL_KIND_LOST,	/* WATCH: peer, res = 0 closed in order, or -errno; after its
				 * last NOTE; fail.detail */
	URCCL_KIND_RAIL,	/* WATCH: peer, info = rail, res = 0 up, -errno down */
	URCCL_KIND_MSG,		/* MSG_RING: path = the sender's ring id, info = its tag */
};

struct urccl_fail {			/* res < 0 */
	uint32_t segment;		/* data entry: first one not known to be placed; ~0: none */
	uint32_t detail;		/* record for urccl_explain(); 0: none, or overwritten */
};

struct urccl_cqe {
	uint64_t user_data;		/*  0 */
	int64_t	 res;			/*  8 bytes, or -errno */
	uint32_t flags;			/* 16 enum urccl_cqe_flags */
	union {				/* 20 */
		uint32_t path;		/*    KIND_OP: URCCL_PATH_* */
		uint32_t peer;		/*    events: struct urccl_peer.id */
	};
	union {				/* 24 */
		uint64_t wire;		/*    data moved: bytes on the wire */
		uint64_t old;		/*    FETCH_ADD, CMP_SWAP: the word before */
		uint64_t handle;	/*    CONNECT: peer; REGISTER: region; IMPORT: remote */
		uint64_t tag;		/*    NOTE, MSG */
		struct urccl_fail fail;	/*    res < 0 */
	};
};

enum urccl_path {			/* path bits */
	URCCL_PATH_TRANSPORT	= 0x3f,		/* enum urccl_transport */
	URCCL_PATH_RAILS_SHIFT	= 6,		/* 8 bits: rails used, as RAIL events number
						 * them */
	URCCL_PATH_BOUNCE_LOCAL	= 1 << 14,
	URCCL_PATH_BOUNCE_REMOTE = 1 << 15,
	URCCL_PATH_EMULATED	= 1 << 16,	/* the device lacks it: done by messages and the
						 * peer's CPU */
	URCCL_PATH_COMPRESSED	= 1 << 17,
	URCCL_PATH_REPLAYED	= 1 << 18,	/* a rail or connection failed on the way */
	URCCL_PATH_DEVICE	= 1 << 19,	/* a GPU copied it */
	URCCL_PATH_KERNEL	= 1 << 20,	/* by its multiprocessors */
};

struct urccl_advert {			/* a capability, not a key: has range, owner and
					 * expiry; keys travel on the control connection the first
					 * time it is used and are cached there */
	uint8_t	 version;		/*  0 */
	uint8_t	 rights;		/*  1 read, write, atomic */
	uint16_t kind;			/*  2 host, device; reserved bits 0 */
	uint32_t region;		/*  4 the owner's handle: slot and generation */
	uint64_t incarnation;		/*  8 the owner's, random */
	uint64_t offset;		/* 16 of the range in the region; never an address */
	uint64_t length;		/* 24 */
	uint64_t expires_ms;		/* 32 on the owner's clock since its start; 0: never */
	uint64_t reserved;		/* 40 */
	uint8_t	 token[16];		/* 48 keyed hash of bytes 0..47, half of it under a key of
					 *    the region's own, so that revoke ends all its
					 *    adverts */
};

#define URCCL_AT(s, f, o) URCCL_STATIC_ASSERT(offsetof(struct s, f) == (o))
URCCL_STATIC_ASSERT(sizeof(struct urccl_sqe) == 64);
URCCL_AT(urccl_sqe, dtype, 1);
URCCL_AT(urccl_sqe, flags, 2);
URCCL_AT(urccl_sqe, deadline_us, 4);
URCCL_AT(urccl_sqe, user_data, 8);
URCCL_AT(urccl_sqe, remote, 16);
URCCL_AT(urccl_sqe, region, 20);
URCCL_AT(urccl_sqe, addr, 24);
URCCL_AT(urccl_sqe, len, 32);
URCCL_AT(urccl_sqe, off, 40);
URCCL_AT(urccl_sqe, tag, 48);
URCCL_AT(urccl_sqe, group, 56);
URCCL_STATIC_ASSERT(sizeof(struct urccl_ext) == 64);
URCCL_AT(urccl_ext, note, 8);
URCCL_AT(urccl_ext, wait_ptr, 24);
URCCL_AT(urccl_ext, signal_value, 48);
URCCL_STATIC_ASSERT(sizeof(struct urccl_seg) == 32);
URCCL_STATIC_ASSERT(sizeof(struct urccl_dim) == 40);
URCCL_STATIC_ASSERT(sizeof(struct urccl_paged) == 192);
URCCL_STATIC_ASSERT(sizeof(struct urccl_cqe) == 32);
URCCL_AT(urccl_cqe, res, 8);
URCCL_AT(urccl_cqe, flags, 16);
URCCL_AT(urccl_cqe, path, 20);
URCCL_AT(urccl_cqe, wire, 24);
URCCL_STATIC_ASSERT(sizeof(struct urccl_range) == 32);
URCCL_STATIC_ASSERT(sizeof(struct urccl_advert) == 64);
URCCL_AT(urccl_advert, token, 48);

/* A ring: made by the library, never embedded or copied; the inlines see this head. One producer
 * thread and one consumer thread at a time; every word has one writer, except sq_flags and cq_arm.
 * Every inline first tests flags or a pointer of it: 0 means a forked child or a closed ring;
 * get_sqe and peek then give NULL, submit, wait and arm -EPERM. */
struct urccl_ring {
	uint32_t flags;			/*   0 enum urccl_ring_flags; the page is 0 in a fork()ed
					 *     child (MADV_WIPEONFORK) */
	uint32_t sq_mask;		/*   4 */
	uint32_t cq_mask;		/*   8 */
	uint32_t entries;		/*  12 get_sqe: NULL while sqe_tail - *ended - *skipped
					 *     == entries */
	struct urccl_sqe *sqes;		/*  16 */
	struct urccl_ext *exts;		/*  24 one beside each SQ slot */
	struct urccl_cqe *cqes;		/*  32 next power of two of 2 * entries + event slots */
	const uint8_t *notes;		/*  40 URCCL_NOTE_MAX bytes a CQ slot */
	uint32_t *sq_head;		/*  48 engine */
	uint32_t *sq_tail;		/*  56 producer, seq_cst */
	uint32_t *sq_flags;		/*  64 URCCL_SQ_NEED_WAKEUP: set by the engine, taken by
					 *     the producer with an exchange */
	uint32_t *sq_done;		/*  72 engine, release, before *cq_tail: entries ended,
					 *     with a CQE or without; a sleeper loads *cq_tail
					 *     first */
	uint32_t *sq_wake_at;		/*  80 consumer, before cq_arm: the *sq_done that wakes */
	uint32_t *cq_head;		/*  88 consumer, release */
	uint32_t *cq_tail;		/*  96 engine, seq_cst, once a burst */
	uint32_t *cq_arm;		/* 104 enum urccl_arm_state: set by the consumer, taken
					 *     by the engine with an exchange */
	uint32_t *cq_wake_at;		/* 112 consumer, before cq_arm: the *cq_tail that wakes */
	uint32_t *ended;		/* 120 consumer, release, after *cq_head: CQEs without
					 *     MORE seen */
	uint32_t *skipped;		/* 128 engine, release: entries that ended without a CQE */
	int32_t	 fd;			/* 136 */
	uint32_t id;			/* 140 for MSG_RING */
	uint32_t reserved[12];		/* 144 */
	uint32_t sqe_tail;		/* 192 producer: entries handed out; a line of its own */
	uint32_t reserved1[15];		/* 196 */
};
URCCL_STATIC_ASSERT(sizeof(struct urccl_ring) == 256);
URCCL_AT(urccl_ring, cqes, 32);
URCCL_AT(urccl_ring, skipped, 128);
URCCL_AT(urccl_ring, sqe_tail, 192);

enum urccl_ring_flags {
	URCCL_RING_LIVE		= 1 << 0,
	URCCL_RING_INLINE	= 1 << 1,
};

enum urccl_sq_flags {
	URCCL_SQ_NEED_WAKEUP	= 1 << 0,
};

enum urccl_arm_for {
	URCCL_ARM_FOR_CQE		= 1 << 0,
	URCCL_ARM_FOR_ROOM		= 1 << 1,
};

enum urccl_arm_state {
	URCCL_ARM_NONE		= 0,
	URCCL_ARM_FD		= 1,
	URCCL_ARM_FUTEX		= 2,
};

/* The words of one lane of a device ring. The engine stores failed before ended. */
struct urccl_device_lane {
	uint64_t ended;			/*   0 engine, release: entries that have ended. Entry i
					 *     has, and its slot is free, when this is above i */
	uint64_t failed;		/*   8 engine, release: the entry that failed last,
					 *     (i + 1) << 16 | errno; 0: none */
	uint64_t reserved0[6];		/*  16 */
	uint64_t pushed;		/*  64 producer: entries pushed, for the next producer */
	uint64_t reserved1[7];		/*  72 */
};
URCCL_STATIC_ASSERT(sizeof(struct urccl_device_lane) == 128);
URCCL_AT(urccl_device_lane, pushed, 64);

/*
 * A device ring, as kernels get it by value: urccl_device(7). Entry i of a lane is stored in slot
 * i % entries, once that is free: the 64 bytes of struct urccl_sqe, by four stores of 16 bytes in
 * any order. Each carries the lap in one bit, 1 where i / entries is even:
 *	bytes	 0 to 15: URCCL_SQE_LAP of flags	16 to 31: bit 63 of addr
 *		32 to 47: bit 63 of off			48 to 63: bit 31 of reserved
 * The engine takes the entry when it sees all four.
 */
struct urccl_device_ring {
	struct urccl_sqe *slots;	/*  0 lane by lane, entries + 1 each, of which the last is
					 *    unused; producers write */
	struct urccl_device_lane *words; /* 8 one a lane */
	uint32_t lanes;			/* 16 */
	uint32_t entries;		/* 20 slots of a lane */
	struct urccl_ring *ring;	/* 24 its CQ and fd: for the host alone */
};
URCCL_STATIC_ASSERT(sizeof(struct urccl_device_ring) == 32);
URCCL_AT(urccl_device_ring, lanes, 16);

#define URCCL_DEVICE_LANES_MAX 256u

struct urccl_wait_args {
	uint32_t size;			/* sizeof(struct urccl_wait_args) */
	uint32_t min_n;			/* CQEs to wait for; 0: 1 */
	uint64_t timeout_ns;		/* ~0: for ever */
	uint64_t min_wait_ns;		/* gathers so long before it returns fewer than min_n;
					 * 0: none */
};

#undef URCCL_AT
#undef URCCL_STATIC_ASSERT

#ifdef __cplusplus
}
#endif
#endif
