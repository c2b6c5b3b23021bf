/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated network, private to the files of sim. A network is a table of devices and one lock:
 * a test double may have a lock on its data path, and it makes every access to anybody's memory
 * ordered with every poll. Everything below is read and written under it.
 *
 * A chunk that was posted is an op. It goes out in packets, each a copy of its bytes with a time at
 * which it is there; the posting device's polls carry them, so that what arrives in which order
 * hangs on its own calls and seed alone.
 */
#ifndef SIM_H
#define SIM_H

#include <pthread.h>
#include "backend/backend.h"

#define SIM_DEVICES	 1024u		/* that join a network at a time */
#define SIM_EXPOSURES	 65536u		/* of a device */
#define SIM_EPS		 65536u		/* of a device */
#define SIM_PACKETS	 32u		/* of an ep on their way */
#define SIM_PACKET_BYTES 8192u
#define SIM_INBOX	 256u		/* unpolled messages of a device; a power of two */
/* After which a message that found the inbox full knocks again. */
#define SIM_RETRY_NS (200 * NSEC_PER_USEC)

struct urccl_sim {
	pthread_mutex_t lock;
	/* Of devices that say nothing of their own, by rail. */
	struct sim_faults faults[FAULT_RAILS];
	struct clock clock;		/* of all of them, where it is simulated */
	uint64_t cookie;		/* in addresses and keys: tells networks apart */
	int frozen;
	uint32_t joined;		/* contexts */
	uint64_t places;		/* devices, ever */
	uint32_t pulled;		/* rails, a bit each */
	struct sim_device *devices[SIM_DEVICES];
};

enum sim_stage {
	SIM_THERE,			/* on its way to the peer */
	SIM_PLACING,			/* acknowledged, not yet in memory */
	SIM_AGAIN,			/* a duplicate on its way */
	SIM_BACK,			/* a READ's bytes on their way back */
};

struct sim_packet {
	uint64_t due;			/* at which the stage ends */
	uint64_t serial;		/* orders packets of one due */
	struct sim_op *op;
	struct sim_packet *next;	/* free list */
	uint32_t pos;			/* in the device's heap */
	uint32_t number;		/* of the op's packets */
	uint32_t off, len;		/* in the chunk */
	uint32_t stage;			/* enum sim_stage */
	uint32_t lost;			/* so many times */
	uint32_t sum;			/* CRC32C of the data before it went, if the op has
					 * checksums */
	uint8_t *data;
};

enum sim_fault { SIM_FAULT_NONE, SIM_FAULT_NOTHING, SIM_FAULT_PARTIAL, SIM_FAULT_PLACED };

/* Lives until its chunk is out and its last packet is gone. */
struct sim_op {
	struct list link;		/* ep->ops, in order of posting */
	struct list unsent;		/* ep->unsent while packets are to be sent, else empty */
	struct sim_ep *ep;
	struct sim_op *next;		/* free list */
	struct chunk *chunk;		/* NULL: it is out, or about to be */
	uint64_t seed;			/* of its faults */
	uint64_t off;			/* in the exposure */
	uint32_t len, sent;		/* bytes */
	uint32_t exposure;		/* the peer's */
	uint32_t packets;		/* sent ever */
	uint32_t waiting;		/* packets that the peer has not answered */
	uint32_t inflight;		/* packets that are somewhere */
	int32_t res;
	uint8_t kind;			/* enum chunk_kind */
	uint8_t fault;			/* enum sim_fault */
	uint8_t early;			/* is acknowledged before it is placed */
	uint8_t stopped;		/* cancelled, and waits for its packets */
	uint8_t checksum;		/* as the chunk says */
};

struct sim_message {
	struct sim_ep *ep;		/* that it came to; NULL: closed since */
	uint32_t len;
	uint8_t data[MESSAGE_MAX];
};

enum sim_ep_state {
	SIM_EP_NEW, SIM_EP_CONNECTING, SIM_EP_UP, SIM_EP_DOWN, SIM_EP_CLOSING, SIM_EP_CLOSED
};

struct sim_ep {
	struct ep ep;			/* first */
	struct sim_device *dev;
	struct list link;		/* dev->members */
	struct list change;		/* dev->ups or dev->ends: poll has news of it */
	struct list sending;		/* dev->sending while unsent holds something */
	struct list ops, unsent;
	uint32_t state;			/* enum sim_ep_state */
	uint32_t id;			/* handle in dev->eps; 0: none */
	uint64_t peer_place;
	uint32_t peer_id;
	int32_t down;			/* why it ends */
	int down_heard;			/* by a packet: a frozen network holds it back */
	uint32_t taken;			/* chunks that are not out */
	uint64_t posted;		/* ops ever */
	uint64_t seed;
	struct sim_op *free_ops;
	struct sim_packet *free_packets;
	struct sim_op *op_array;
	uint8_t *bytes;			/* of the packets */
	struct sim_packet packets[SIM_PACKETS];
};

/* The latest window of something that comes again. */
struct fault_windows {
	uint64_t begins, ends, number;
};

struct sim_device {
	struct device device;		/* first; its fd is an epoll of the two below */
	struct urccl_sim *net;
	struct clock *clock;		/* the network's; NULL: the real one */
	uint64_t next_ns;		/* after poll: next_due() */
	struct sim_faults faults;
	struct fault_windows freeze, flap, kill;
	int dead;			/* killed, at the last poll */
	uint64_t restart_at, restarts;	/* the next one, and their number */
	uint64_t line_free;		/* until then its link is busy with what was sent */
	uint32_t slot;			/* in net->devices */
	uint64_t place;			/* the slot, and which of those that had it: what is on
					 * its way to one finds no later one */
	uint32_t number;		/* of its context's */
	int timer_fd, wake_fd;
	int asleep;			/* armed, and nobody has written wake_fd since */
	int woken;			/* wake_fd was written */
	struct handles eps, exposures;
	struct list members;		/* eps that are not freed */
	struct list left;		/* freed ones of which packets are under way */
	struct list ups, ends;		/* eps that came up; that broke or are closing */
	struct list sending;		/* eps */
	struct chunk *done, **done_tail;	/* ready to come out */
	uint64_t serial;		/* of packets */
	uint64_t ep_serial;
	struct sim_packet **heap;	/* by due */
	uint32_t heap_len, heap_size;
	uint32_t neps;
	uint32_t inbox_head, inbox_tail;	/* given out up to head, filled up to tail */
	uint32_t inbox_kept;		/* up to here the last poll's messages are no longer read */
	struct sim_message inbox[SIM_INBOX];
};

static inline struct sim_device *to_sim_device(struct device *dev)
{
	return (struct sim_device *)(void *)dev;
}

static inline struct sim_ep *to_sim_ep(struct ep *ep)
{
	return (struct sim_ep *)(void *)ep;
}

static inline uint64_t sim_now(const struct sim_device *dev)
{
	return clock_now(dev->clock);
}

static inline void sim_lock(struct sim_device *dev)
{
	pthread_mutex_lock(&dev->net->lock);
}

static inline void sim_unlock(struct sim_device *dev)
{
	pthread_mutex_unlock(&dev->net->lock);
}

/* ---- net.c: who is there, and packets under way ---- */

int sim_join(struct urccl_sim *net, struct sim_device *dev);	/* 0 or -errno with fail() text */
void sim_leave(struct sim_device *dev);
/* NULL: no such ep any more. */
struct sim_ep *sim_find_ep(struct urccl_sim *net, uint64_t place, uint32_t id);
void sim_wake(struct sim_device *dev);
/* A number that hangs on seed, what and number alone. */
uint64_t sim_draw(uint64_t seed, uint32_t what, uint32_t number);
uint64_t sim_within(const struct sim_range *range, uint64_t draw);
int sim_happens(uint64_t share, uint64_t draw);
/* The heap of packets: earliest due first. */
void sim_heap_add(struct sim_device *dev, struct sim_packet *p, uint64_t due);
void sim_heap_del(struct sim_device *dev, struct sim_packet *p);

/* ---- window.c: what goes wrong for a while ---- */

void sim_windows_begin(struct sim_device *dev, uint64_t now);
/* When the device goes on; 0: it does not stand still. */
uint64_t sim_frozen_until(struct sim_device *dev, uint64_t now);
/* Its link loses what is sent now. */
int sim_is_cut(struct sim_device *dev, uint64_t now);
/* It forgets its connections where that is due. */
void sim_restart(struct sim_device *dev, uint64_t now);
/* It has no connections, and gets none. */
int sim_is_dead(struct sim_device *dev, uint64_t now);
/* It loses its connections where that begins. */
void sim_kill(struct sim_device *dev, uint64_t now);
void sim_break_all(struct sim_device *dev);
/* When it is to be polled for the two. */
uint64_t sim_window_due(const struct sim_device *dev);
/* How long the device's link takes for len bytes more, from now. */
uint64_t sim_line(struct sim_device *dev, uint64_t len, uint64_t now);

/* ---- check.c: what the network does to bytes, and who notices ---- */

/* The packet goes with its checksum, and draw and number decide whether a bit of it is flipped. */
void sim_check_send(struct sim_packet *p, uint64_t draw);
/* 0, or -EBADMSG: it is not what was sent. */
int sim_check_arrived(const struct sim_packet *p);
/* It has len bytes from now on, less than it had. */
void sim_check_cut(struct sim_packet *p, uint32_t len);

/* ---- ep.c: struct backend's functions ---- */

int sim_ep_open(struct device *d, struct ep **out, void *addr, uint32_t *addr_len);
void sim_ep_free(struct ep *e);
void sim_ep_lose_left(struct sim_device *dev);
int sim_ep_connect(struct ep *e, const void *addr, uint32_t len, int active,
		   const struct sockaddr_storage *via);
void sim_ep_close(struct ep *e);
/* Its own polls make it so. heard: by the word of a peer, which a frozen network holds back. */
void sim_ep_down(struct sim_ep *ep, int err, int heard);
int sim_expose(struct exposure *exposure, void *key, uint32_t key_max);
int sim_unexpose(struct exposure *exposure);
int sim_import(struct ep *e, const void *key, uint32_t key_len, uint64_t len, struct rkey *rkey);
void sim_forget(struct ep *ep, struct rkey *rkey);

/* What is drawn of an op's seed. */
enum sim_drawn {
	DRAW_EARLY = 1,
	DRAW_FAULT,
	DRAW_KIND,
	DRAW_DELAY,
	DRAW_PLACE,
	DRAW_TWICE,
	DRAW_AGAIN,
	DRAW_BACK,
	DRAW_LOST,
	DRAW_LOST_BACK,
	DRAW_PART,
	DRAW_FLIP
};

/* ---- op.c: the life of a chunk ---- */

/* 0: the ep has no op free. */
int sim_op_post(struct sim_ep *ep, struct chunk *chunk);
void sim_op_cancel(struct chunk *chunk, enum cancel_how how);
/* Everything of ep goes: chunks come out with res. Packets of writes that are under way remain,
 * as on a connection that broke; */
void sim_op_end_all(struct sim_ep *ep, int res);
int sim_op_left(const struct sim_ep *ep);	/* so there are some */
void sim_op_lose_all(struct sim_ep *ep);	/* which are gone from the network */
/* Packets of it were answered, or are gone: it may be out. */
void sim_op_check(struct sim_op *op);

/* ---- packet.c: what it goes in ---- */

/* Hands packets to the network, as far as the ep has any. */
void sim_send(struct sim_ep *ep, uint64_t now);
/* Whatever is due arrives. */
void sim_deliver(struct sim_device *dev, uint64_t now);
/* Acknowledged writes into the exposure are placed now. */
void sim_settle(struct sim_device *owner, const struct exposure *exposure);

#endif
