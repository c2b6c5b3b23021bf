/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shm backend's own header: same host, found by trying.
 *
 *   listener	where an ep listens until its peer has come, and who knocks there
 *   link	a unix socket an ep: finds the peer, proves that it is the one, carries descriptors
 *		and doorbells, and hangs up when the peer dies
 *   process	the peer's, by a pidfd: it has ended although a forked child holds its sockets open
 *   pages	memory both sides map: byte rings each way, their words, the announcements of sleep
 *   mappings	the peer's memfds as mapped here, so that chunks are plain copies, and its memory
 *		of GPUs, so that they are copies by a GPU
 *
 * Everything in the pages and on the link may be written by a hostile peer at any time: words are
 * checked when they are taken over, bytes are parsed by the stream, which looks at none twice.
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
#define SHM_NAME 32u			/* of a rendezvous socket, with its 0 */
#define SHM_FILES 256u			/* memfds that one ep shows its peer at a time */
#define SHM_COPIES 256u			/* chunks on mapped memory that wait in an ep, each way */
#define SHM_LOOK 64u			/* polls between two looks at the links */
#define SHM_JOBS 256u			/* chunks that GPUs copy at a time */
#define SHM_STATE_GPU 0x41u		/* of a chunk that a GPU copies; others are the stream's */
#define SHM_PENDING_MAX 14u		/* of an ep: connected, not yet known to be the peer */

struct shm_dev;
struct shm_ep;
struct shm_record;

/* ---- pages ---- */

enum shm_channel { SHM_QUICK, SHM_BULK, SHM_CHANNELS };

/* What one side tells the other; it alone writes it, but for asleep, which the other may take. */
struct shm_side {
	struct {
		_Alignas(128) uint32_t head;	/* bytes ever put into its outward ring */
	} out[SHM_CHANNELS];
	struct {
		_Alignas(128) uint32_t tail;	/* bytes ever taken from its inward ring */
	} in[SHM_CHANNELS];
	_Alignas(128) uint32_t asleep;	/* enum shm_asleep: what a doorbell is wanted for */
	_Alignas(128) uint32_t said;	/* after heads and tails: read by who falls asleep */
};

/* Why an ep wants its doorbell rung. */
enum shm_asleep { SHM_FOR_BYTES = 1 << 0, SHM_FOR_ROOM = 1 << 1 };

/* One end of one byte ring. The shared words are only read where the other side writes them. */
struct shm_ring {
	uint8_t *bytes;
	uint32_t *mine;			/* our word: head where we write, tail where we read */
	uint32_t *theirs;		/* the other one */
	uint32_t mask;
	uint32_t at;			/* how far we are */
	uint32_t published;		/* what *mine says */
	uint32_t seen;			/* *theirs as last taken over: a ring from at at most */
};

struct shm_pages {
	struct shm_side *side[2];	/* ours, theirs; NULL: not mapped */
	void *map;
	struct shm_ring out[SHM_CHANNELS], in[SHM_CHANNELS];
};

/* active makes them and returns the sealed memfd, passive maps the one it was sent. -errno: what
 * failed, -EPROTO: not of the agreed shape. */
int shm_pages_make(struct shm_pages *p);
int shm_pages_take(struct shm_pages *p, int fd);
void shm_pages_drop(struct shm_pages *p);

/* mmap() of all of a memfd that two processes share, which no child of ours is to have, too. */
int shm_map(int fd, uint64_t len, int prot, void **addr);

/* A memfd of exactly len bytes (0: any) that can neither shrink nor grow nor lose these seals. */
int shm_sealed(int fd, uint64_t len, uint64_t *size);

/* Lets bytes flow on one way, in or out, at most max (at least STREAM_HELD). How many did. A peer
 * that breaks the rules is lost. */
uint32_t shm_ring_in(struct shm_ep *e, enum shm_channel w, uint32_t max);
uint32_t shm_ring_out(struct shm_ep *e, enum shm_channel w, uint32_t max);
/* Wakes the peer if it sleeps and waits for what was published. Once a poll. */
void shm_rings_announce(struct shm_ep *e);
/* Something can flow. */
int shm_rings_busy(const struct shm_ep *e);
/* Has the peer ring when something can flow; 0: something can already. */
int shm_rings_sleep(struct shm_ep *e);
void shm_rings_awake(struct shm_ep *e);

/* ---- mappings ---- */

/* A memfd of ours that the peer was sent, or (dev -1) the handle of an allocation of a GPU. */
struct shm_file {
	dev_t dev;
	ino_t ino;
	uint64_t serial;		/* 0: free slot */
	uint32_t writable;
	uint32_t users;			/* parts of exposures */
};

/* A memfd of the peer's, mapped here. */
struct shm_mapping {
	uint64_t serial;		/* the peer's name of it; 0: free slot */
	uint8_t *addr;
	uint64_t len;
	uint32_t users;			/* parts of imports */
	uint8_t writable;
	uint8_t gone;			/* not shown any more: unmapped when the last user goes */
	uint8_t of_gpu;			/* memory of a GPU, else a memfd */
	struct gpu_dev *gpu;		/* it is mapped for this one; NULL: for none yet */
	struct gpu_import *import;	/* likewise; the copy thread frees it where gpu is set */
};

/* What reg() made of an extent that lies in a sealed memfd, or in an allocation of a GPU. */
struct shm_backing {
	dev_t dev;
	ino_t ino;
	struct gpu_share share;		/* how 0: a memfd */
};

/* Where a part of an exposure lies. */
struct shm_part {
	uint64_t serial; /* of the file */
	uint64_t off;	 /* in it */
	uint64_t len;
};

#define SHM_PARTS ((KEY_MAX - 40) / sizeof(struct shm_part))

struct shm_key {
	uint8_t grant[STREAM_KEY_BYTES];
	uint32_t rights;
	uint32_t nparts;  /* 0: the ring alone */
	uint64_t gpu;	  /* 1: memory of a GPU is in it, which the ring does not reach */
	uint64_t revokes; /* that were told before it was made */
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
/* 1: kernels of this side may be at memory that was imported; with `revoked`, at what has ended. */
int shm_remotes_mapped(const struct shm_ep *e, int revoked);
/* Imports that have ended use their mappings no more; no copy of them is under way. */
void shm_remotes_let_go(struct shm_ep *e);

/* Records of the peer. 0, or -EPROTO. fd is borrowed. */
int shm_mapping_add(struct shm_ep *e, const struct shm_record *r, int fd);
int shm_mapping_gone(struct shm_ep *e, uint64_t serial);
int shm_mapping_revoke(struct shm_ep *e, const struct shm_record *r);
int shm_mapping_revoked(struct shm_ep *e, uint64_t number);
/* 1: the peer may have memory mapped that it was shown: it has not said that it let go, nor hung
 * up. */
int shm_files_shown(const struct shm_ep *e);
/* 1: it has hung up, and its GPUs may be at such memory until its process has ended. */
int shm_gpu_left(const struct shm_ep *e);
/* Says how far we have let go, if the peer does not know. */
void shm_mapping_report(struct shm_ep *e);
/* Unmaps a piece of what nobody uses any more: a large piece would hold up the engine. */
void shm_mapping_reap(struct shm_dev *d);
void shm_mappings_drop(struct shm_ep *e);

/* What import() made of a key whose memory is mapped here, with rkey.gpu also of a GPU. */
struct shm_remote;
static inline struct shm_remote *shm_remote(const struct rkey *rkey)
{
	return (struct shm_remote *)(uintptr_t)rkey->v[1];
}

/* 0 or -ERANGE. */
int shm_remote_holds(const struct shm_remote *r, const struct chunk *c);
int shm_remote_holds_pieces(const struct shm_remote *r, const struct chunk *c); /* of a bundle */
/* 0, or -EACCES: it does not allow it, or not any more. */
int shm_remote_allows(const struct shm_remote *r, const struct chunk *c);
/* The address here of an offset of the remote; *run: bytes from there on, cut to those of one part;
 * *gpu: moves them. */
uint64_t shm_remote_at(const struct shm_remote *r, uint64_t off, uint64_t *run,
		       struct gpu_dev **gpu);
/* Copies the next *max bytes of the chunk, and takes them off *max. 0: the last; -EINPROGRESS: not;
 * -EBADMSG: its checksum. */
int shm_remote_copy(const struct shm_remote *r, struct chunk *c, uint32_t *max);

/* ---- link ---- */

enum shm_record_type {
	SHM_HELLO = 1,			/* the pages are with it */
	SHM_WELCOME,
	SHM_DOORBELL,			/* something can flow, or room is there */
	SHM_FILE,			/* a memfd is with it */
	SHM_GONE,			/* no exposure uses the file any more */
	SHM_REVOKE,			/* the grant has ended: touch what it mapped no more */
	SHM_REVOKED,			/* said by the importer: it has let go of it, and of all
					 * before it */
	SHM_BYE,			/* the last: nothing that was shown is touched any more */
	SHM_GPU,			/* as FILE: the handle of an allocation of a GPU, with a
					 * descriptor where version is GPU_SHARE_FD */
};

/* All that goes over a link. Both ends are on one host, so it is in the host's byte order. */
struct shm_record {
	uint32_t type;			/* enum shm_record_type */
	uint32_t version;		/* HELLO, WELCOME: SHM_VERSION; GPU: enum gpu_share_how */
	uint8_t	 to[SHM_COOKIE], from[SHM_COOKIE];	/* HELLO, WELCOME; GPU: uuid, and
							 * address in the exporter */
	uint64_t serial;		/* FILE, GONE: of the file; REVOKE, REVOKED: of the
					 * revocation; HELLO, WELCOME: shm_process_started() */
	uint64_t len;			/* FILE, GPU; REVOKE: the grant */
	uint64_t writable;		/* FILE, GPU */
	uint8_t	 handle[64];		/* GPU */
};
_Static_assert(sizeof(struct shm_record) == 128, "one size for all records");

/* What a side forbids. Both of them, at one end or at either, leave nothing to move bytes by. */
enum shm_policy { SHM_NO_MAPPINGS = 1 << 0, SHM_NO_BOUNCE = 1 << 1 };

/* The address of an ep. */
struct shm_addr {
	uint8_t versions[EP_VERSIONS];	/* the least and the greatest that it speaks */
	uint8_t in_dir;			/* the name is a file in socket_dir, else abstract */
	uint8_t policy;			/* enum shm_policy */
	uint8_t reserved[4];
	char	name[SHM_NAME];
	uint8_t cookie[SHM_COOKIE];
};

/* A record as it comes in, and the one descriptor it may carry. */
struct shm_inlet {
	struct shm_record rx;
	uint32_t got;			/* bytes of it that are there */
	int fd;				/* -1: none */
};

/* Somebody who connected and has not shown the cookie. */
struct shm_pending {
	int sock;			/* -1: nobody */
	uint64_t since_ns;
	struct shm_inlet in;
};

/* What epoll is given of an ep, in the bits below its page: the link, the listener, a pending
 * connection. */
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
/* Of the peer's socket; -EHOSTUNREACH: it is in a directory that we do not have. */
int shm_listener_sockaddr(const struct shm_dev *d, const struct shm_addr *a,
			  struct sockaddr_un *sun,
		      socklen_t *len);
int shm_listener_await(struct shm_ep *e);		/* passive */
/* Epoll's word on listener and pending connections. */
void shm_listener_event(struct shm_ep *e, uint32_t at);
void shm_listener_retry(struct shm_ep *e);		/* its listener was paused */
/* Looks after the ep again in a while: shm_listener_retry(), a dial, or whether the peer has let
 * go. */
void shm_wait_tick(struct shm_ep *e);

int shm_link_open(struct shm_ep *e);
/* A pending connection said HELLO, which is in in: it is the link from now on if that is the
 * peer's. 0, or -errno: it is not. */
int shm_link_adopt(struct shm_ep *e, int sock, struct shm_inlet *in);
int shm_link_dial(struct shm_ep *e);			/* active */
void shm_link_close(struct shm_ep *e);			/* BYE may be said later: e->bye */
void shm_link_end(struct shm_ep *e);			/* or never */
/* The last of a link that was left. 1: BYE is in it. */
int shm_link_left(int sock);
/* 1: a record is whole, 0: not yet, -ECONNRESET: hung up, -EPROTO. */
int shm_record_recv(int sock, struct shm_inlet *in);
int shm_same_user(int sock);
int shm_watch(struct shm_ep *e, int fd, int op, uint32_t at);
void shm_watched_close(struct shm_ep *e, int fd);
/* The other end is the peer for certain. */
int shm_link_proved(const struct shm_ep *e);
int shm_link_send(struct shm_ep *e, const struct shm_record *r, int fd);
void shm_link_doorbell(struct shm_ep *e);
void shm_link_recv(struct shm_ep *e);
void shm_link_look(struct shm_dev *d);			/* accepts and receives */

/* ---- process ---- */

/* When this process began, as /proc counts it; 0: not known. */
uint64_t shm_process_started(void);
/* A pidfd of the process at the other end, which says that it began then; the caller closes it.
 * -errno: a system call is denied, or it cannot be told from others, as one of another PID
 * namespace. */
int shm_process_open(int sock, uint64_t started);

/* ---- memory of GPUs ---- */

/* For reg(), on a helper thread: b->share.how stays 0 where the memory cannot be shared. */
void shm_gpu_reg(const struct extent *x, struct shm_backing *b);
void shm_gpu_unreg(struct shm_backing *b);
int shm_gpu_send(struct shm_ep *e, uint64_t serial, const struct shm_backing *b);
/* Begins to map what the peer sent, if a GPU is open; v stays free without memory. */
void shm_gpu_import(struct shm_ep *e, const struct shm_record *r, int fd, struct shm_mapping *v);
/* 1: what is exposed to the peer is known to be let go of, at its process's end if not before. */
int shm_gpu_may(const struct shm_ep *e);
/* 0, -EINPROGRESS, or why it is not. Begins to map it where the first GPU was opened since. */
int shm_gpu_mapped(struct shm_ep *e, struct shm_mapping *v);
void shm_gpu_unmap(struct shm_mapping *v); /* nothing of it is under way */
/* Unmaps what the peer has taken back. 1: a GPU here, or the driver, is not done with it. */
int shm_gpu_holds(struct shm_ep *e);
/* The ep is closed: unmaps all, once no copy is under way. 1: that is not done. */
int shm_gpu_close(struct shm_ep *e);
int shm_gpu_open(struct shm_dev *d);
/* A chunk on memory of a GPU. 1: taken; 0: too many are. */
int shm_gpu_post(struct shm_ep *e, struct chunk *c);
void shm_gpu_look(struct shm_dev *d); /* chunks whose copies have ended come out */
void shm_gpu_cancel(struct shm_ep *e, const struct chunk *c);
void shm_gpu_fail(struct shm_ep *e, int res); /* all of the ep */
/* Ends those that are not allowed any more. 1: a copy of one is issued. */
int shm_gpu_revoke(struct shm_ep *e);

/* ---- device and ep ---- */

struct shm_job;

struct shm_dev {
	struct device dev;		/* fd: an epoll over the links */
	char *socket_dir;		/* NULL: abstract names */
	int timer;			/* ticks while an ep is in waiting */
	uint64_t started;		/* shm_process_started() */
	struct list waiting;		/* eps for which the next tick does something */
	struct list hot;		/* eps whose rings each poll looks at */
	struct list notices;		/* eps that owe an event */
	struct list reaping;		/* eps with mappings to unmap */
	uint32_t nhot;
	uint32_t until_look;		/* polls */
	uint32_t beside;		/* rounds that bulk goes in small pieces */
	struct handles grants;		/* of exposures */
	struct list jobs, jobs_free;	/* chunks that GPUs copy */
	struct shm_job *job_pool;
	uint8_t no_bounce;		/* what would go through a ring is refused */
	uint8_t by_owner;		/* nothing is mapped, here or there */
	struct stream_cq cq;
	struct stream_gather gather;
};

enum shm_state {
	SHM_NEW,			/* ep_open */
	SHM_CONNECTING,			/* ep_connect: the link is not proved yet */
	SHM_UP,
	SHM_DOWN,
	SHM_CLOSED,			/* ep_close: chunks come out, the peer lets go or is given
					 * up, then CLOSED is told */
};

struct shm_queue {
	struct chunk *head, **end;
	uint32_t n;
	uint32_t cancelled; /* 1: of some of them it was asked */
};

/* Pages of its own, so that tables without use cost nothing. */
struct shm_ep {
	struct ep ep;
	struct shm_dev *dev;
	struct list hot, notice, reap;	/* dev's lists */
	struct list waiting;		/* likewise */
	uint8_t state;			/* enum shm_state */
	uint8_t active;
	uint8_t refused;		/* times that the listener was shut behind our hello */
	uint8_t events_due;		/* events to tell: 1 << enum event_type */
	uint8_t announced;		/* our asleep word was set and not yet taken back */
	uint8_t doorbell_due;		/* the peer took it, and its doorbell was not seen yet */
	uint32_t idle;			/* looks at the links since something moved */
	int32_t why;			/* of DOWN */

	int listener, sock;		/* -1: closed */
	int importer;			/* the link to a peer that did not let go; -1: none */
	int bye;			/* the link, where GPUs here are not done and BYE is to
					 * follow; -1: none. It may be the importer */
	int process;			/* pidfd of the peer, until it is taken; negative: none */
	struct shm_addr addr, peer;
	struct shm_inlet in;		/* of the link */
	struct shm_pending pending[SHM_PENDING_MAX];

	struct shm_pages pages;
	uint32_t unannounced;		/* enum shm_asleep: published and not told */
	uint32_t said;			/* what our word says */
	uint8_t blocked[SHM_CHANNELS];	/* out ring has no room for what is to be sent */
	struct shm_queue copies[SHM_CHANNELS];	/* chunks on mapped memory */
	struct stream streams[SHM_CHANNELS];

	uint64_t serial;		/* of files, given out last; begins at random, so that a
					 * key means nothing to any other ep */
	struct shm_file files[SHM_FILES];
	struct shm_mapping mappings[SHM_FILES];
	struct list remotes;		/* imports that use mappings */
	uint32_t njobs;			/* of dev's: with chunks of the ep */

	uint64_t revokes;		/* revocations that we told the peer of, */
	uint64_t revokes_done;		/* and those that it has let go of; */
	uint64_t revoked;		/* those that the peer told us of, */
	uint64_t revoked_reported;	/* and those that it knows we let go of */
	uint64_t revoked_unseen;	/* the last that came before the key it ends */
	uint32_t leaving;		/* ticks that a closed ep has waited for the peer, or copies
					 * here; 0: it does not */
	uint8_t hung_up;		/* by the peer: its processors touch nothing any more */
	uint8_t said_bye;		/* nor do its GPUs */
	uint8_t gpu_seen;		/* it sent handles of memory of GPUs */
	uint8_t has_process;		/* a pidfd of it was had */
};

/* Chunks. */
uint32_t shm_post(struct ep *ep, struct chunk **chunks, uint32_t n);
void shm_cancel(struct chunk *c, enum cancel_how how);
void shm_chunk_out(struct shm_dev *d, struct chunk *c, int res); /* with the next events */
void shm_chunks_fail(struct shm_ep *e, int res);
uint32_t shm_poll(struct device *dev, struct event *events, uint32_t n);
int shm_arm(struct device *dev);

/* The link's news. */
void shm_ep_up(struct shm_ep *e);
void shm_ep_lost(struct shm_ep *e, int why);
void shm_ep_idle(struct shm_ep *e);	/* its last copy by a GPU has ended */
void shm_ep_left(struct shm_ep *e);	/* closed, and it waits for the peer no longer */
void shm_ep_active(struct shm_ep *e);	/* its rings are worth a look at each poll, */
void shm_ep_inactive(struct shm_ep *e);	/* or are not */

#endif
