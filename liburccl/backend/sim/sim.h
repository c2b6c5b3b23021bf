/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated network, private to the files of sim. A network is a table of devices and one lock,
 * which protects everything below. A test double may lock its data path, and the lock orders every
 * access to memory of any peer with every poll.
 *
 * A chunk that was posted is an op. It is sent in packets, each a copy of its bytes with an arrival
 * time; the posting device's polls deliver them, so the order of arrival depends on that device's
 * calls and seed alone.
 */
#ifndef SIM_H
#define SIM_H

#include <pthread.h>
#include "backend/backend.h"

#define SIM_DEVICES	 1024u		/* devices in a network at a time */
#define SIM_EXPOSURES	 65536u		/* per device */
#define SIM_EPS		 65536u		/* per device */
#define SIM_PACKETS	 32u		/* packets in flight per ep */
#define SIM_PACKET_BYTES 8192u
#define SIM_INBOX	 256u		/* unpolled messages per device; a power of two */
/* Delay until a message that found the inbox full is retried. */
#define SIM_RETRY_NS (200 * NSEC_PER_USEC)

struct urccl_sim {
	pthread_mutex_t lock;
	/* Defaults of devices without their own settings, by rail. */
	struct sim_faults faults[FAULT_RAILS];
	struct clock clock;		/* used by all devices, if it is simulated */
	uint64_t cookie;		/* in addresses and keys: tells networks apart */
	int frozen;
	uint32_t joined;		/* contexts */
	uint64_t places;		/* devices that ever joined */
	uint32_t pulled;		/* bit mask of unplugged rails */
	struct sim_device *devices[SIM_DEVICES];
};

enum sim_stage {
	SIM_THERE,			/* in flight to the peer */
	SIM_PLACING,			/* acknowledged, not yet in memory */
	SIM_AGAIN,			/* a duplicate in flight */
	SIM_BACK,			/* a READ's bytes in flight back to the reader */
};

struct sim_packet {
	uint64_t due;			/* time at which the stage ends */
	uint64_t serial;		/* orders packets of one due */
	struct sim_op *op;
	struct sim_packet *next;	/* free list */
	uint32_t pos;			/* in the device's heap */
	uint32_t number;		/* index among the op's packets */
	uint32_t off, len;		/* in the chunk */
	uint32_t stage;			/* enum sim_stage */
	uint32_t lost;			/* times that it was lost */
	uint32_t sum;			/* CRC32C of the data before any bit flip, if the op has
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
	uint64_t seed;			/* decides its faults */
	uint64_t off;			/* in the exposure */
	uint32_t len, sent;		/* bytes */
	uint32_t exposure;		/* the peer's */
	uint32_t packets;		/* sent ever */
	uint32_t waiting;		/* packets that the peer has not answered */
	uint32_t inflight;		/* packets that are not freed */
	int32_t res;
	uint8_t kind;			/* enum chunk_kind */
	uint8_t fault;			/* enum sim_fault */
	uint8_t early;			/* it is acknowledged before it is placed */
	uint8_t stopped;		/* cancelled, and waits for its packets */
	uint8_t checksum;		/* as the chunk says */
};

struct sim_message {
	struct sim_ep *ep;		/* receiver; NULL: closed since */
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
	struct list change;		/* dev->ups or dev->ends: poll has an event of it */
	struct list sending;		/* dev->sending while unsent holds something */
	struct list ops, unsent;
	uint32_t state;			/* enum sim_ep_state */
	uint32_t id;			/* handle in dev->eps; 0: none */
	uint64_t peer_place;
	uint32_t peer_id;
	int32_t down;			/* why it ends */
	int down_heard;			/* the peer caused the end: a frozen network delays it */
	uint32_t taken;			/* chunks that are not out */
	uint64_t posted;		/* ops ever */
	uint64_t seed;
	struct sim_op *free_ops;
	struct sim_packet *free_packets;
	struct sim_op *op_array;
	uint8_t *bytes;			/* data of the packets */
	struct sim_packet packets[SIM_PACKETS];
};

/* The latest window of a recurring fault. */
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
	uint64_t restart_at, restarts;	/* time of the next one; number so far */
	uint64_t line_free;		/* time until which its link sends earlier data */
	uint32_t slot;			/* in net->devices */
	uint64_t place;			/* the slot and a serial number: packets for a closed device
					 * never reach a later one in its slot */
	uint32_t number;		/* index among its context's sim devices */
	int timer_fd, wake_fd;
	int asleep;			/* armed, and wake_fd was not written since */
	int woken;			/* wake_fd was written */
	struct handles eps, exposures;
	struct list members;		/* eps that are not freed */
	struct list left;		/* freed eps with packets in flight */
	struct list ups, ends;		/* eps that came up; that broke or are closing */
	struct list sending;		/* eps */
	struct chunk_queue done;	/* ready to come out */
	uint64_t serial;		/* serial of the next packet */
	uint64_t ep_serial;
	struct sim_packet **heap;	/* by due */
	uint32_t heap_len, heap_size;
	uint32_t neps;
	uint32_t inbox_head, inbox_tail;	/* delivered up to head, filled up to tail */
	uint32_t inbox_kept;		/* entries before this one are no longer read */
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

/* ---- net.c: devices of a network, and packets in flight ---- */

int sim_join(struct urccl_sim *net, struct sim_device *dev);	/* 0 or -errno with fail() text */
void sim_leave(struct sim_device *dev);
/* NULL: the ep is gone. */
struct sim_ep *sim_find_ep(struct urccl_sim *net, uint64_t place, uint32_t id);
void sim_wake(struct sim_device *dev);
/* A number that depends on seed, what and number alone. */
uint64_t sim_draw(uint64_t seed, uint32_t what, uint32_t number);
uint64_t sim_within(const struct sim_range *range, uint64_t draw);
int sim_happens(uint64_t share, uint64_t draw);
/* The heap of packets: earliest due first. */
void sim_heap_add(struct sim_device *dev, struct sim_packet *p, uint64_t due);
void sim_heap_del(struct sim_device *dev, struct sim_packet *p);

/* ---- window.c: faults that last for a while ---- */

void sim_windows_begin(struct sim_device *dev, uint64_t now);
/* Time at which the freeze ends; 0: the device is not frozen. */
uint64_t sim_frozen_until(struct sim_device *dev, uint64_t now);
/* Its link loses packets now. */
int sim_is_cut(struct sim_device *dev, uint64_t now);
/* Breaks its connections if a restart is due. */
void sim_restart(struct sim_device *dev, uint64_t now);
/* It has no connections, and cannot connect. */
int sim_is_dead(struct sim_device *dev, uint64_t now);
/* Breaks its connections when a kill window begins. */
void sim_kill(struct sim_device *dev, uint64_t now);
void sim_break_all(struct sim_device *dev);
/* Time of the next poll for restart and kill. */
uint64_t sim_window_due(const struct sim_device *dev);
/* Time that the device's link needs for len bytes more, from now; ns. */
uint64_t sim_line(struct sim_device *dev, uint64_t len, uint64_t now);

/* ---- check.c: bit flips and checksums ---- */

/* Sums the packet's data; draw and number then decide whether a bit of it is flipped. */
void sim_check_send(struct sim_packet *p, uint64_t draw);
/* 0, or -EBADMSG: its data was changed in flight. */
int sim_check_arrived(const struct sim_packet *p);
/* Shortens it to len bytes. */
void sim_check_cut(struct sim_packet *p, uint32_t len);

/* ---- ep.c: struct backend's functions ---- */

int sim_ep_open(struct device *d, struct ep **out, void *addr, uint32_t *addr_len);
void sim_ep_free(struct ep *e);
void sim_ep_lose_left(struct sim_device *dev);
int sim_ep_connect(struct ep *e, const void *addr, uint32_t len, int active,
		   const struct sockaddr_storage *via);
void sim_ep_close(struct ep *e);
/* Takes effect in its own polls. heard: the peer caused it, so a frozen network delays it. */
void sim_ep_down(struct sim_ep *ep, int err, int heard);
int sim_expose(struct exposure *exposure, void *key, uint32_t key_max);
int sim_unexpose(struct exposure *exposure);
int sim_import(struct ep *e, const void *key, uint32_t key_len, uint64_t len, struct rkey *rkey);
void sim_forget(struct ep *ep, struct rkey *rkey);

/* The uses of an op's seed in sim_draw(). */
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
/* All chunks of ep come out with res. WRITE packets in flight remain, as on a connection that
 * broke. */
void sim_op_end_all(struct sim_ep *ep, int res);
int sim_op_left(const struct sim_ep *ep);	/* 1: packets remain */
void sim_op_lose_all(struct sim_ep *ep);	/* drops them from the network */
/* Packets of it were answered or freed: completes it if that was the last. */
void sim_op_check(struct sim_op *op);

/* ---- packet.c: packets of a chunk ---- */

/* Sends packets while the ep has free ones. */
void sim_send(struct sim_ep *ep, uint64_t now);
/* Delivers the packets that are due. */
void sim_deliver(struct sim_device *dev, uint64_t now);
/* Places the acknowledged WRITEs into the exposure now. */
void sim_settle(struct sim_device *owner, const struct exposure *exposure);

#endif
