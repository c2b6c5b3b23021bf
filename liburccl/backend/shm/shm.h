/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The private header of the shm backend: peers of this host, found by trying to connect.
 *
 *   listener	accepts connections for an ep until its peer has come
 *   link	a unix socket per ep: connects to the peer and authenticates it, carries descriptors
 *		and doorbells, and hangs up when the peer dies
 *   process	the peer's pidfd: shows its end even if a forked child holds its sockets open
 *   pages	memory both sides map: byte rings each way, their words, the announcements of sleep
 *   mappings	the peer's memfds as mapped here, so that chunks are plain copies, and its memory
 *		of GPUs, so that they are copies by a GPU
 *
 * A hostile peer may write anything in the pages and on the link at any time: words are checked
 * when they are read, and the stream, which parses the bytes, reads none twice.
 */
#ifndef BACKEND_SHM_H
#define BACKEND_SHM_H

#include <sys/types.h>
#include <sys/un.h>
#include "base/base.h"
#include "memory/memory.h"
#include "backend/backend.h"
#include "backend/stream/stream.h"

#define SHM_VERSION 1u
#define SHM_COOKIE 16u
#define SHM_NAME 32u			/* bytes of a socket's name, with its 0 */
#define SHM_FILES 256u			/* memfds that one ep shows its peer at a time */
#define SHM_COPIES 256u			/* chunks on mapped memory that wait in an ep, each way */
#define SHM_LOOK 64u			/* polls between two looks at the links */
#define SHM_JOBS 256u			/* chunks that GPUs copy at a time */
#define SHM_STATE_GPU 0x41u		/* a chunk that a GPU copies; others are the stream's */
#define SHM_PENDING_MAX 14u		/* unauthenticated connections per ep */

struct shm_dev;
struct shm_ep;
struct shm_record;

/* ---- pages ---- */

enum shm_channel { SHM_QUICK, SHM_BULK, SHM_CHANNELS };

/* Words of one side, which alone writes them, except asleep, which the other may clear. */
struct shm_side {
	struct {
		_Alignas(128) uint32_t head;	/* bytes ever put into its outward ring */
	} out[SHM_CHANNELS];
	struct {
		_Alignas(128) uint32_t tail;	/* bytes ever taken from its inward ring */
	} in[SHM_CHANNELS];
	_Alignas(128) uint32_t asleep;	/* enum shm_asleep: when it needs a doorbell */
	_Alignas(128) uint32_t said;	/* after heads and tails: read by a sleeping side */
};

/* Why an ep wants its doorbell rung. */
enum shm_asleep { SHM_FOR_BYTES = 1 << 0, SHM_FOR_ROOM = 1 << 1 };

/* One end of one byte ring. It only reads the shared words that the other side writes. */
struct shm_ring {
	uint8_t *bytes;
	uint32_t *mine;			/* our word: head of out, tail of in */
	uint32_t *theirs;		/* the peer's word */
	uint32_t mask;
	uint32_t at;			/* bytes put or taken */
	uint32_t published;		/* value of *mine */
	uint32_t seen;			/* last accepted *theirs: within a ring of at */
};

struct shm_pages {
	struct shm_side *side[2];	/* ours, theirs; NULL: not mapped */
	void *map;
	struct shm_ring out[SHM_CHANNELS], in[SHM_CHANNELS];
};

/* The active side makes the pages and returns the sealed memfd, the passive side maps the one it
 * was sent. -EPROTO: not of the agreed shape; or another -errno. */
int shm_pages_make(struct shm_pages *p);
int shm_pages_take(struct shm_pages *p, int fd);
void shm_pages_drop(struct shm_pages *p);

/* Maps all of a memfd that two processes share; children of ours do not get it. */
int shm_map(int fd, uint64_t len, int prot, void **addr);

/* A memfd of exactly len bytes (0: any) that can neither shrink nor grow nor lose these seals. */
int shm_sealed(int fd, uint64_t len, uint64_t *size);

/* Moves bytes on one channel, in or out, at most max (at least STREAM_HELD). Returns how many. A
 * peer that violates the protocol is lost. */
uint32_t shm_ring_in(struct shm_ep *e, enum shm_channel w, uint32_t max);
uint32_t shm_ring_out(struct shm_ep *e, enum shm_channel w, uint32_t max);
/* Wakes the peer if it sleeps and waits for what was published. Once a poll. */
void shm_rings_announce(struct shm_ep *e);
/* 1: bytes can move. */
int shm_rings_busy(const struct shm_ep *e);
/* Asks the peer for a doorbell when bytes can move; 0: they can already. */
int shm_rings_sleep(struct shm_ep *e);
void shm_rings_awake(struct shm_ep *e);

/* ---- mappings ---- */

/* A memfd of ours that the peer was sent, or (dev -1) the handle of a GPU allocation. */
struct shm_file {
	dev_t dev;
	ino_t ino;
	uint64_t serial;		/* 0: free slot */
	uint32_t writable;
	uint32_t users;			/* parts of exposures */
};

/* A memfd of the peer's, mapped here. */
struct shm_mapping {
	uint64_t serial;		/* the peer's number for it; 0: free slot */
	uint8_t *addr;
	uint64_t len;
	uint32_t users;			/* parts of imports */
	uint8_t writable;
	uint8_t gone;			/* no longer shown: unmapped when the last user goes */
	uint8_t of_gpu;			/* memory of a GPU, else a memfd */
	struct gpu_dev *gpu;		/* mapped for this GPU; NULL: for none yet */
	struct gpu_import *import;	/* likewise; the copy thread frees it if gpu is set */
};

/* An extent's registration: it lies in a sealed memfd or in a GPU allocation. */
struct shm_backing {
	dev_t dev;
	ino_t ino;
	struct gpu_share share;		/* how 0: a memfd */
};

/* Location of a part of an exposure. */
struct shm_part {
	uint64_t serial; /* the file's number */
	uint64_t off;	 /* offset in it */
	uint64_t len;
};

#define SHM_PARTS ((KEY_MAX - 40) / sizeof(struct shm_part))

struct shm_key {
	uint8_t grant[STREAM_KEY_BYTES];
	uint32_t rights;
	uint32_t nparts;  /* 0: the ring alone */
	uint64_t gpu;	  /* 1: it has GPU memory, which the ring does not reach */
	uint64_t revokes; /* sent before it was made */
	struct shm_part parts[SHM_PARTS];
};
_Static_assert(sizeof(struct shm_key) <= KEY_MAX, "a key fits");

int shm_reg(struct device *dev, struct extent *extent);
int shm_unreg(struct device *dev, struct extent *extent);
int shm_expose(struct exposure *exposure, void *key, uint32_t key_max);
int shm_unexpose(struct exposure *exposure);
int shm_import(struct ep *ep, const void *key, uint32_t key_len, uint64_t len, struct rkey *rkey);
void shm_forget(struct ep *ep, struct rkey *rkey);
int shm_warm(struct ep *ep, struct rkey *rkey);
int shm_map_remote(struct ep *ep, struct rkey *rkey, struct gpu_mapping *out);
/* 1: kernels here may access imported memory; with `revoked`, only revoked imports count. */
int shm_remotes_mapped(const struct shm_ep *e, int revoked);
/* Drops the mappings of revoked imports; no copy of them may be in progress. */
void shm_remotes_let_go(struct shm_ep *e);

/* Handle the peer's records. 0, or -EPROTO. fd is borrowed. */
int shm_mapping_add(struct shm_ep *e, const struct shm_record *r, int fd);
int shm_mapping_gone(struct shm_ep *e, uint64_t serial);
int shm_mapping_revoke(struct shm_ep *e, const struct shm_record *r);
int shm_mapping_revoked(struct shm_ep *e, uint64_t number);
/* 1: the peer may have our memory mapped: it has neither let go of all nor hung up. */
int shm_files_shown(const struct shm_ep *e);
/* 1: it has hung up, but its GPUs may access such memory until its process has ended. */
int shm_gpu_left(const struct shm_ep *e);
/* Sends REVOKED for all that we have let go of, unless already sent. */
void shm_mapping_report(struct shm_ep *e);
/* Unmaps a piece of an unused mapping: a whole one would hold up the engine. */
void shm_mapping_reap(struct shm_dev *d);
void shm_mappings_drop(struct shm_ep *e);

/* An imported key whose memory is mapped here, with rkey.gpu for a GPU. */
struct shm_remote;
static inline struct shm_remote *shm_remote(const struct rkey *rkey)
{
	return (struct shm_remote *)(uintptr_t)rkey->v[1];
}

/* 0 or -ERANGE. */
int shm_remote_holds(const struct shm_remote *r, const struct chunk *c);
int shm_remote_holds_pieces(const struct shm_remote *r, const struct chunk *c); /* for a bundle */
/* 0, or -EACCES: no right, or revoked. */
int shm_remote_allows(const struct shm_remote *r, const struct chunk *c);
/* The address of a range of one part that the processor may read or write; NULL: there is none. */
uint8_t *shm_remote_host(const struct shm_remote *r, enum chunk_kind kind, uint64_t off,
			 uint32_t len);
/* The local address of an offset of the remote; *run is cut to the end of its part; *gpu: GPU that
 * moves the bytes, or NULL. */
uint64_t shm_remote_at(const struct shm_remote *r, uint64_t off, uint64_t *run,
		       struct gpu_dev **gpu);
/* Copies at most *max bytes of the chunk, and subtracts them from *max. 0: all done; -EINPROGRESS:
 * not yet; -EBADMSG: bad checksum. */
int shm_remote_copy(const struct shm_remote *r, struct chunk *c, uint32_t *max);

/* ---- link ---- */

enum shm_record_type {
	SHM_HELLO = 1,			/* carries the pages' memfd */
	SHM_WELCOME,
	SHM_DOORBELL,			/* bytes or room are there */
	SHM_FILE,			/* carries a memfd */
	SHM_GONE,			/* no exposure uses the file any more */
	SHM_REVOKE,			/* the grant has ended: stop accessing its memory */
	SHM_REVOKED,			/* from the importer: it has let go of this one and all
					 * before it */
	SHM_BYE,			/* the last: its sender no longer accesses shown memory */
	SHM_GPU,			/* like FILE, for a GPU allocation: its handle, with a
					 * descriptor if version is GPU_SHARE_FD */
};

/* The messages of a link. Both ends are on one host, so it is in the host's byte order. */
struct shm_record {
	uint32_t type;			/* enum shm_record_type */
	uint32_t version;		/* HELLO, WELCOME: SHM_VERSION; GPU: enum gpu_share_how */
	uint8_t	 to[SHM_COOKIE], from[SHM_COOKIE];	/* HELLO, WELCOME; GPU: uuid, and
							 * address in the exporter */
	uint64_t serial;		/* FILE, GONE: the file's number; REVOKE, REVOKED: the
					 * revocation's; HELLO, WELCOME: shm_process_started() */
	uint64_t len;			/* FILE, GPU; REVOKE: the grant */
	uint64_t writable;		/* FILE, GPU */
	uint8_t	 handle[64];		/* GPU */
};
_Static_assert(sizeof(struct shm_record) == 128, "one size for all records");

/* Data paths that a side forbids. If both sides together forbid both, none is left. */
enum shm_policy { SHM_NO_MAPPINGS = 1 << 0, SHM_NO_BOUNCE = 1 << 1 };

/* The address of an ep. */
struct shm_addr {
	uint8_t versions[EP_VERSIONS];	/* lowest and highest that it speaks */
	uint8_t in_dir;			/* the name is a file in socket_dir, else abstract */
	uint8_t policy;			/* enum shm_policy */
	uint8_t reserved[4];
	char	name[SHM_NAME];
	uint8_t cookie[SHM_COOKIE];
};

/* A record as it comes in, and the one descriptor it may carry. */
struct shm_inlet {
	struct shm_record rx;
	uint32_t got;			/* bytes of it received */
	int fd;				/* -1: none */
};

/* A connection that has not shown the cookie. */
struct shm_pending {
	int sock;			/* -1: free */
	uint64_t since_ns;
	struct shm_inlet in;
};

/* Epoll data of an ep, in the bits below its page: the link, the listener, a pending connection. */
#define SHM_AT_LINK 0u
#define SHM_AT_LISTENER 1u
#define SHM_AT_PENDING 2u
#define SHM_AT_MASK 15u
_Static_assert(SHM_AT_PENDING + SHM_PENDING_MAX - 1 <= SHM_AT_MASK, "each guest has a number");

/* ---- listener: the calls that fail give -errno ---- */

int shm_listener_dir_fits(const char *dir);		/* for a name behind it */
int shm_listener_open(struct shm_ep *e);		/* fills e->addr and listens there */
void shm_listener_close(struct shm_ep *e);
int shm_listener_addr_check(const void *addr, uint32_t len, struct shm_addr *out);
/* The peer's socket address; -EHOSTUNREACH: in a directory, and we have no socket_dir. */
int shm_listener_sockaddr(const struct shm_dev *d, const struct shm_addr *a,
			  struct sockaddr_un *sun,
		      socklen_t *len);
int shm_listener_await(struct shm_ep *e);		/* passive */
/* Handles events of the listener and pending connections. */
void shm_listener_event(struct shm_ep *e, uint32_t at);
void shm_listener_retry(struct shm_ep *e);		/* its listener was paused */
/* Handles the ep at the next tick: shm_listener_retry(), a dial, or a check whether the peer has
 * let go. */
void shm_wait_tick(struct shm_ep *e);

int shm_link_open(struct shm_ep *e);
/* A pending connection sent HELLO, which is in `in`: if it is the peer's, it becomes the link. 0,
 * or -errno: it is not. */
int shm_link_adopt(struct shm_ep *e, int sock, struct shm_inlet *in);
int shm_link_dial(struct shm_ep *e);			/* active */
void shm_link_close(struct shm_ep *e);			/* BYE may follow: e->bye */
void shm_link_end(struct shm_ep *e);			/* BYE now or never */
/* Reads the rest of a link that was left. 1: BYE is in it. */
int shm_link_left(int sock);
/* 1: a record is complete, 0: not yet, -ECONNRESET: hung up, -EPROTO. */
int shm_record_recv(int sock, struct shm_inlet *in);
int shm_same_user(int sock);
int shm_watch(struct shm_ep *e, int fd, int op, uint32_t at);
void shm_watched_close(struct shm_ep *e, int fd);
/* 1: the other end is authenticated. */
int shm_link_proved(const struct shm_ep *e);
int shm_link_send(struct shm_ep *e, const struct shm_record *r, int fd);
void shm_link_doorbell(struct shm_ep *e);
void shm_link_recv(struct shm_ep *e);
void shm_link_look(struct shm_dev *d);			/* accepts and receives */

/* ---- process ---- */

/* Start time of this process in /proc; 0: unknown. */
uint64_t shm_process_started(void);
/* A pidfd of the process at the other end, which began at `started`; the caller closes it. -errno:
 * a system call is denied, or the process cannot be identified (another PID namespace). */
int shm_process_open(int sock, uint64_t started);

/* ---- memory of GPUs ---- */

/* For reg(), on a helper thread: b->share.how stays 0 if the memory cannot be shared. */
void shm_gpu_reg(const struct extent *x, struct shm_backing *b);
void shm_gpu_unreg(struct shm_backing *b);
int shm_gpu_send(struct shm_ep *e, uint64_t serial, const struct shm_backing *b);
/* Begins to map the peer's handle, if a GPU is open; v stays free if malloc fails. */
void shm_gpu_import(struct shm_ep *e, const struct shm_record *r, int fd, struct shm_mapping *v);
/* 1: we learn when the peer lets go of GPU memory: at its process's end if not before. */
int shm_gpu_may(const struct shm_ep *e);
/* 0, -EINPROGRESS or another -errno. Begins to map it if the first GPU was opened since. */
int shm_gpu_mapped(struct shm_ep *e, struct shm_mapping *v);
void shm_gpu_unmap(struct shm_mapping *v); /* no copy of it may be in progress */
/* Unmaps memory that the peer has revoked. 1: a GPU here, or the driver, still uses it. */
int shm_gpu_holds(struct shm_ep *e);
/* The ep is closed: unmaps all, once no copy is in progress. 1: not done yet. */
int shm_gpu_close(struct shm_ep *e);
int shm_gpu_open(struct shm_dev *d);
/* Posts a chunk on GPU memory. 1: taken; 0: no job is free. */
int shm_gpu_post(struct shm_ep *e, struct chunk *c);
void shm_gpu_look(struct shm_dev *d); /* ends chunks whose copies have ended */
void shm_gpu_cancel(struct shm_ep *e, const struct chunk *c);
void shm_gpu_fail(struct shm_ep *e, int res); /* all of the ep */
/* Ends chunks that lost their right. 1: a copy of one is still issued. */
int shm_gpu_revoke(struct shm_ep *e);

/* ---- device and ep ---- */

struct shm_job;

struct shm_dev {
	struct device dev;		/* fd: an epoll over the links */
	char *socket_dir;		/* NULL: abstract names */
	int timer;			/* ticks while an ep is in waiting */
	uint64_t started;		/* shm_process_started() */
	struct list waiting;		/* eps to handle at the next tick */
	struct list hot;		/* eps whose rings each poll looks at */
	struct list notices;		/* eps with events to report */
	struct list reaping;		/* eps with mappings to unmap */
	uint32_t nhot;
	uint32_t until_look;		/* polls until the next look at links */
	uint32_t beside;		/* rounds left with small pieces of bulk */
	struct handles grants;		/* exposures' grants */
	struct list jobs, jobs_free;	/* chunks that GPUs copy */
	struct shm_job *job_pool;
	uint8_t no_bounce;		/* READs and WRITEs through a ring are refused */
	uint8_t by_owner;		/* neither side maps memory */
	struct stream_cq cq;
	struct stream_gather gather;
};

enum shm_state {
	SHM_NEW,			/* ep_open */
	SHM_CONNECTING,			/* ep_connect: the link is not proved yet */
	SHM_UP,
	SHM_DOWN,
	SHM_CLOSED,			/* ep_close: chunks come out, the peer lets go or times out,
					 * then EVENT_CLOSED */
};

struct shm_queue {
	struct chunk_queue q;
	uint32_t n;
	uint32_t cancelled; /* 1: some have CHUNK_CANCELLED */
};

/* It has its own pages, so that unused tables cost nothing. */
struct shm_ep {
	struct ep ep;
	struct shm_dev *dev;
	struct list hot, notice, reap;	/* dev's lists */
	struct list waiting;		/* likewise */
	uint8_t state;			/* enum shm_state */
	uint8_t active;
	uint8_t refused;		/* times that our HELLO was reset */
	uint8_t events_due;		/* events to tell: 1 << enum event_type */
	uint8_t announced;		/* our asleep word was set and not yet taken back */
	uint8_t doorbell_due;		/* the peer took it, and its doorbell is still to come */
	uint32_t idle;			/* looks at the links since something moved */
	int32_t why;			/* error of EVENT_DOWN */

	int listener, sock;		/* -1: closed */
	int importer;			/* the link to a peer that did not let go; -1: none */
	int bye;			/* the link, if BYE must wait for GPUs here; -1: none. It
					 * may be the importer */
	int process;			/* pidfd of the peer, until it is taken; negative: none */
	struct shm_addr addr, peer;
	struct shm_inlet in;		/* the link's */
	struct shm_pending pending[SHM_PENDING_MAX];

	struct shm_pages pages;
	uint32_t unannounced;		/* enum shm_asleep: published, not announced */
	uint32_t said;			/* value of our word */
	uint8_t blocked[SHM_CHANNELS];	/* the out ring lacks room to send */
	struct shm_queue copies[SHM_CHANNELS];	/* chunks on mapped memory */
	struct stream streams[SHM_CHANNELS];

	uint64_t serial;		/* last file number; begins at random, so that a key means
					 * nothing to any other ep */
	struct shm_file files[SHM_FILES];
	struct shm_mapping mappings[SHM_FILES];
	struct list remotes;		/* imports that use mappings */
	uint32_t njobs;			/* dev's jobs with chunks of the ep */

	uint64_t revokes;		/* revocations sent to the peer, */
	uint64_t revokes_done;		/* and confirmed by it; */
	uint64_t revoked;		/* received from the peer, */
	uint64_t revoked_reported;	/* and confirmed by us */
	uint64_t revoked_unseen;	/* last one that came before its key */
	uint32_t leaving;		/* ticks that a closed ep has waited for the peer, or copies
					 * here; 0: it does not */
	uint8_t hung_up;		/* hung up by the peer: its processors access nothing */
	uint8_t said_bye;		/* nor do its GPUs */
	uint8_t gpu_seen;		/* it sent handles of GPU memory */
	uint8_t has_process;		/* its pidfd was opened */
};

/* Chunks. */
uint32_t shm_post(struct ep *ep, struct chunk **chunks, uint32_t n);
int shm_copy(struct ep *ep, enum chunk_kind kind, const struct rkey *key, uint64_t off, void *local,
	     uint32_t len);
void shm_cancel(struct chunk *c, enum cancel_how how);
void shm_chunk_out(struct shm_dev *d, struct chunk *c, int res); /* with the next events */
void shm_chunks_fail(struct shm_ep *e, int res);
uint32_t shm_poll(struct device *dev, struct event *events, uint32_t n);
int shm_arm(struct device *dev);

/* Changes of the link's state. */
void shm_ep_up(struct shm_ep *e);
void shm_ep_lost(struct shm_ep *e, int why);
/* It waits for its peer in vain. The peer's connection stays for a tick, in which the peer hears
 * why. */
void shm_ep_refuse(struct shm_ep *e, int why);
void shm_ep_idle(struct shm_ep *e);	/* its last copy by a GPU has ended */
void shm_ep_left(struct shm_ep *e);	/* closed, no longer waits for the peer */
void shm_ep_active(struct shm_ep *e);	/* each poll looks at its rings, */
void shm_ep_inactive(struct shm_ep *e);	/* or no longer does */

#endif
