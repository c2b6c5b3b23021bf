/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP: an ep is one connection for what is small or urgent and some for bulk, each carrying a
 * stream (stream.h). A device listens at an address of its own; an ep's address is its port and a
 * random cookie, by which the waiting side knows whose connection has come. Both sides greet with a
 * hello before the stream begins.
 *
 * The files: tcp.c the table, poll and exposures; ep.c an ep from address to end; socket.c
 * sockets and listening; hello.c dialling, accepting and greeting; alive.c whether the
 * other end lives; ready.c and uring.c the drivers that move bytes.
 */
#ifndef BACKEND_TCP_H
#define BACKEND_TCP_H

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include "backend/stream/stream.h"

#define TCP_LINKS_MAX	9u		/* of an ep: 1 and up to 8 for bulk */
#define TCP_SMALL	1024u		/* chunks up to this go with what is urgent */
#define TCP_STRAYS	256u		/* connections that nobody has claimed yet */
#define TCP_HOT		8u		/* links that are asked without asking epoll */
#define TCP_STAGING	65536u
#define TCP_INTO	16u		/* pieces of one receive */
#define TCP_COOKIE	16u
#define TCP_HELLO	32u
#define TCP_ADDR	26u
#define TCP_TICK_MS	100u		/* how often deadlines of connecting are looked at */

struct tcp_device;
struct tcp_ep;

/* What an epoll event points to: first member of whatever has a descriptor. */
enum tcp_source_kind { TCP_LISTENER, TCP_TIMER, TCP_STRAY, TCP_LINK, TCP_RING };
struct tcp_source {
	uint32_t kind;			/* enum tcp_source_kind */
	int fd;				/* -1: none */
	uint32_t events;		/* what epoll was told */
};

/* An accepted connection whose hello is not complete, or names an ep that is not there yet. */
struct tcp_stray {
	struct tcp_source source;
	uint32_t used;
	uint32_t got;
	uint64_t since_ns;		/* clock_ns() at which it was accepted */
	uint8_t hello[TCP_HELLO];
};

enum tcp_link_state {
	LINK_IDLE,			/* no connection */
	LINK_DIALLING,			/* connect() is under way */
	LINK_GREETING,			/* our hello is sent, theirs is to come */
	LINK_READY,			/* greeted, waits for the ep's others */
	LINK_UP,
	LINK_ENDING,			/* the driver takes its memory back from the kernel */
};

/* What the kernel has of a link while the io_uring driver waits for it. */
struct tcp_async {
	uint32_t sending, receiving;	/* operations under way: at most one each */
	uint32_t cancelling;		/* of them, that are asked to end early */
	uint32_t direct;		/* bytes of iov[] that are payload's */
	uint32_t asked;			/* bytes of the receive */
	int broken;			/* why the connection is no more */
	uint32_t draining;		/* polls since then */
	struct msghdr tx, rx;
	struct iovec iov[TCP_INTO + 1];
	uint8_t small[2 * STREAM_HEADER];
};

struct tcp_link {
	struct tcp_source source;
	uint32_t state;			/* enum tcp_link_state */
	uint32_t index;			/* in the ep: 0 for what is small or urgent */
	uint32_t got;			/* bytes of the peer's hello */
	uint32_t hot_polls;		/* polls for which it stays hot without traffic */
	uint32_t blocked;		/* the socket takes no more */
	uint32_t more;			/* the last receive filled all it was given */
	uint8_t hello[TCP_HELLO];
	struct tcp_ep *ep;
	struct list sending;		/* in device.sending: it may have something to send */
	struct list unacked;		/* in device.owed: what it sent may not be acknowledged */
	uint32_t heard;			/* segments that had come at the last look */
	uint64_t silent_ns;		/* clock_ns() since when none has; 0: there was no look */
	uint64_t acked;			/* bytes that had been acknowledged at the last look */
	uint64_t stuck_ns;		/* clock_ns() since when no more are, though they may go */
	uint64_t looked_ns;		/* clock_ns() of the last look */
	struct tcp_async async;
	struct stream stream;
};

enum tcp_ep_state { EP_NEW, EP_CONNECTING, EP_UP, EP_DOWN, EP_CLOSING, EP_CLOSED };

/* News for the engine. */
enum tcp_news { NEWS_UP = 1, NEWS_DOWN = 2, NEWS_CLOSED = 4 };

struct tcp_ep {
	struct ep ep;
	uint32_t state;			/* enum tcp_ep_state */
	uint32_t news;			/* enum tcp_news, not yet told */
	int res;			/* why it is down */
	int active;
	uint32_t nlinks;		/* in use: the smaller of what both sides want */
	uint32_t ready;			/* of them */
	uint32_t ending;		/* of them */
	uint64_t deadline_ns;		/* of connecting */
	uint8_t cookie[TCP_COOKIE];	/* ours: what the peer's hello names */
	uint8_t peer[TCP_COOKIE];
	struct list waiting;		/* in device.waiting while it connects */
	struct list reporting;		/* in device.telling while there are news */
	uint32_t nmax;
	struct tcp_link links[];
};

/* How bytes move once links are up. The rest is common. */
struct tcp_driver {
	int (*open)(struct tcp_device *d);		/* 0 or -errno with fail() text */
	void (*close)(struct tcp_device *d);
	int (*start)(struct tcp_link *l);		/* it is up: 0 or -errno */
	/* It ends. 1: the kernel has none of its memory; 0: tcp_link_ended() follows. */
	int (*stop)(struct tcp_link *l);
	void (*ready)(struct tcp_link *l, uint32_t events);	/* epoll says so */
	void (*work)(struct tcp_device *d);		/* one poll's worth */
	int (*arm)(struct tcp_device *d);		/* as backend.h's */
};

extern const struct tcp_driver tcp_ready, tcp_uring;

struct tcp_device {
	struct device dev;		/* dev.fd: epoll */
	const struct tcp_driver *driver;
	struct tcp_source listeners[LISTEN_MAX], timer;
	uint32_t nlisteners;
	uint32_t tick_ms;		/* what the timer is armed with; 0: nothing */
	uint32_t look_ms;		/* how often links that are owed something are looked at */
	uint32_t full;			/* listeners are paused: no room, or no descriptors */
	uint32_t nbulk;			/* bulk links an ep of ours wants */
	uint32_t dead_after_ms;
	uint16_t port;			/* host order; 0: does not listen */
	struct class_socket classes[CLASSES];
	struct handles grants;
	struct list waiting;		/* tcp_ep.waiting */
	struct list reporting;		/* tcp_ep.telling */
	struct list sending;		/* tcp_link.sending */
	struct list unacked;		/* tcp_link.owed */
	struct tcp_link *hot[TCP_HOT];
	uint32_t nhot;
	uint32_t since_epoll;		/* work since epoll was asked, in polls */
	uint32_t urgent;		/* bytes of bulk that still go in small slices */
	uint32_t slept;			/* armed since the last poll */
	uint32_t spun;			/* polls since the device was armed last */
	uint32_t nstrays;
	struct tcp_ring *ring;		/* the io_uring driver's */
	int is_inline;			/* one thread of the program drives it */
	struct tcp_stray strays[TCP_STRAYS];
	struct stream_cq cq;
	struct stream_gather gather;
	uint8_t staging[TCP_STAGING];
};

static inline struct tcp_device *tcp_device(struct device *dev)
{
	return container_of(dev, struct tcp_device, dev);
}

static inline struct tcp_ep *tcp_ep(struct ep *ep)
{
	return container_of(ep, struct tcp_ep, ep);
}

static inline struct tcp_device *tcp_ep_device(const struct tcp_ep *e)
{
	return tcp_device(e->ep.dev);
}

/* What a socket says where the next try may do: -EAGAIN, or a machine that is short of memory. */
static inline int tcp_passes(int res)
{
	return res == -EAGAIN || res == -EINTR || res == -ENOBUFS || res == -ENOMEM;
}

/* ep.c */
int tcp_ep_open(struct device *dev, struct ep **ep, void *addr, uint32_t *addr_len);
void tcp_ep_free(struct ep *ep);
int tcp_ep_connect(struct ep *ep, const void *addr, uint32_t addr_len, int active,
		   const struct sockaddr_storage *via);
void tcp_ep_close(struct ep *ep);
/* A link is greeted: the last one brings the ep up. */
void tcp_ep_greeted(struct tcp_link *l);
/* The ep is broken. */
void tcp_ep_down(struct tcp_ep *e, int res);
void tcp_link_ended(struct tcp_link *l);
/* It may have something to send. */
void tcp_link_sends(struct tcp_link *l);
/* Gives news: UPs, or (ends) what comes after all else of an ep. */
uint32_t tcp_report(struct tcp_device *d, struct event *events, uint32_t n, int ends);

/* hello.c */
void tcp_source_init(struct tcp_source *s, enum tcp_source_kind kind, int fd);
/* A socket with the settings of all, or -errno. */
int tcp_socket(int family);
/* n addresses, at one port. */
int tcp_listen(struct tcp_device *d, const struct sockaddr_storage *at, uint32_t n);
void tcp_unlisten(struct tcp_device *d);
void tcp_pause_listeners(struct tcp_device *d);	/* until there is room, or a tick */
void tcp_resume_listeners(struct tcp_device *d);
socklen_t tcp_addr_len(const struct sockaddr_storage *ss);
/* As ep.from says. 0 or -errno. */
int tcp_bind_from(int fd, const struct sockaddr_storage *from);
/* What epoll is to tell of it. 0 or -errno. */
int tcp_watch(struct tcp_device *d, struct tcp_source *s, uint32_t events);
int tcp_dial(struct tcp_link *l, const struct sockaddr_storage *to);
int tcp_answer(struct tcp_link *l);
/* Takes the connections that came before the ep knew its peer. */
void tcp_claim(struct tcp_ep *e);
void tcp_close_source(struct tcp_device *d, struct tcp_source *s);
/* epoll's word on anything but a link that is up. */
void tcp_event(struct tcp_device *d, struct tcp_source *s, uint32_t events);
/* Ticks at least so often, while somebody waits for a deadline or an acknowledgement. */
void tcp_tick(struct tcp_device *d, uint32_t ms);

/* alive.c */
uint32_t tcp_look_ms(uint32_t dead_after_ms);
/* Bytes went out, which are to be acknowledged. */
void tcp_link_sent(struct tcp_link *l);
/* A tick: ends eps whose other end is silent. */
void tcp_look(struct tcp_device *d);

#endif
