/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP: an ep is one connection for small or urgent chunks and some for bulk, each carrying a stream
 * (stream.h). Connections are dialled to the address and port of the peer's control connection,
 * whose listener gives them to the device. An ep's address is a random cookie, by which the passive
 * side finds the ep of a new connection. Both sides send a hello before the stream begins.
 *
 * The files: tcp.c the table, poll and exposures; ep.c an ep from open to close; socket.c
 * sockets; hello.c dialling, accepting and the handshake; alive.c detection of dead
 * peers; ready.c and uring.c the drivers that move bytes.
 */
#ifndef BACKEND_TCP_H
#define BACKEND_TCP_H

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include "backend/stream/stream.h"

#define TCP_LINKS_MAX	9u		/* per ep: 1 and up to 8 for bulk */
#define TCP_SMALL	1024u		/* chunks up to this size use the urgent link */
#define TCP_STRAYS	256u		/* connections that no ep has claimed yet */
#define TCP_HOT		8u		/* links that are read without epoll */
#define TCP_STAGING	65536u
#define TCP_INTO	16u		/* pieces of one receive */
#define TCP_COOKIE	16u
#define TCP_HELLO	32u
#define TCP_ADDR	26u
#define TCP_TICK_MS	100u		/* period of checks of connect deadlines */

struct tcp_device;
struct tcp_ep;

/* An epoll event points to this: the first member of every object with a descriptor. */
enum tcp_source_kind { TCP_INBOX, TCP_TIMER, TCP_STRAY, TCP_LINK, TCP_RING };
struct tcp_source {
	uint32_t kind;			/* enum tcp_source_kind */
	int fd;				/* -1: none */
	uint32_t events;		/* events registered with epoll */
};

/* An accepted connection whose hello is not complete, or names an ep that is not connecting yet. */
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
	LINK_GREETING,			/* our hello is sent, theirs is expected */
	LINK_READY,			/* hello received, waits for the ep's other links */
	LINK_UP,
	LINK_ENDING,			/* the driver takes its memory back from the kernel */
};

/* A link's operations and memory that the io_uring driver has handed to the kernel. */
struct tcp_async {
	uint32_t sending, receiving;	/* operations in flight: at most one each */
	uint32_t cancelling;		/* bit mask of operations asked to end early */
	uint32_t direct;		/* bytes of iov[] for the payload */
	uint32_t asked;			/* size of the receive, in bytes */
	int broken;			/* why the connection broke; 0: it did not */
	uint32_t draining;		/* polls since then */
	struct msghdr tx, rx;
	struct iovec iov[TCP_INTO + 1];
	uint8_t small[2 * STREAM_HEADER];
};

struct tcp_link {
	struct tcp_source source;
	uint32_t state;			/* enum tcp_link_state */
	uint32_t index;			/* in the ep; 0: for small or urgent chunks */
	uint32_t got;			/* bytes of the peer's hello */
	uint32_t hot_polls;		/* polls for which it stays hot without traffic */
	uint32_t blocked;		/* the socket takes no more */
	uint32_t more;			/* the last receive filled its buffers */
	uint8_t hello[TCP_HELLO];
	struct tcp_ep *ep;
	struct list sending;		/* in device.sending: it may have something to send */
	struct list unacked;		/* in device.unacked: sent bytes may not be acknowledged */
	uint32_t heard;			/* segments received up to the last check */
	uint64_t silent_ns;		/* clock_ns() since when no segment came; 0: not checked */
	uint64_t acked;			/* bytes acknowledged up to the last check */
	uint64_t stuck_ns;		/* clock_ns() since when no ack came in an open window */
	uint64_t looked_ns;		/* clock_ns() of the last check */
	struct tcp_async async;
	struct stream stream;
};

enum tcp_ep_state { EP_NEW, EP_CONNECTING, EP_UP, EP_DOWN, EP_CLOSING, EP_CLOSED };

/* Events for the engine. */
enum tcp_news { NEWS_UP = 1, NEWS_DOWN = 2, NEWS_CLOSED = 4 };

struct tcp_ep {
	struct ep ep;
	uint32_t state;			/* enum tcp_ep_state */
	uint32_t news;			/* enum tcp_news, not yet reported */
	int res;			/* why it is down */
	int active;
	uint32_t nlinks;		/* links in use: the minimum of both sides */
	uint32_t ready;			/* links in LINK_READY or later */
	uint32_t ending;		/* links that have not ended yet */
	uint64_t deadline_ns;		/* connect deadline, clock_ns() */
	uint8_t cookie[TCP_COOKIE];	/* ours: the peer's hello must name it */
	uint8_t peer[TCP_COOKIE];
	struct list waiting;		/* in device.waiting while it connects */
	struct list reporting;		/* in device.reporting while news is not 0 */
	uint32_t nmax;
	struct tcp_link links[];
};

/* The driver that moves bytes once links are up. */
struct tcp_driver {
	int (*open)(struct tcp_device *d);		/* 0 or -errno with fail() text */
	void (*close)(struct tcp_device *d);
	int (*start)(struct tcp_link *l);		/* the link is up: 0 or -errno */
	/* The link ends. 1: the kernel has none of its memory; 0: tcp_link_ended() follows. */
	int (*stop)(struct tcp_link *l);
	void (*ready)(struct tcp_link *l, uint32_t events);	/* epoll reports events */
	void (*work)(struct tcp_device *d);		/* one poll's worth */
	int (*arm)(struct tcp_device *d);		/* as backend.h's */
};

extern const struct tcp_driver tcp_ready, tcp_uring;

struct tcp_device {
	struct device dev;		/* dev.fd: epoll */
	const struct tcp_driver *driver;
	struct tcp_source inbox, timer;	/* inbox: a pipe of descriptors that were accepted */
	int outbox;			/* its other end: the control thread's */
	uint32_t put;			/* connections put into the inbox; the control thread's */
	uint32_t taken;			/* of these, taken out; the engine thread writes */
	uint32_t tick_ms;		/* period of the timer; 0: not armed */
	uint32_t look_ms;		/* period of checks of links with unacknowledged bytes */
	uint32_t full;			/* the inbox is paused: no room */
	uint32_t nbulk;			/* bulk links that an ep asks for */
	uint32_t dead_after_ms;
	struct class_socket classes[CLASSES];
	struct handles grants;
	struct list waiting;		/* tcp_ep.waiting */
	struct list reporting;		/* tcp_ep.reporting */
	struct list sending;		/* tcp_link.sending */
	struct list unacked;		/* tcp_link.unacked */
	struct tcp_link *hot[TCP_HOT];
	uint32_t nhot;
	uint32_t crowded;		/* polls for which epoll is asked each time, as links with
					 * traffic are not hot */
	uint32_t since_epoll;		/* work since the last epoll_wait(), in polls */
	uint32_t urgent;		/* bytes of bulk still to move in small slices */
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

/* 1: a socket error after which a retry may succeed: -EAGAIN, or a lack of memory. */
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
/* The link's hello is complete: the last link brings the ep up. */
void tcp_ep_greeted(struct tcp_link *l);
/* Breaks the ep: EVENT_DOWN with res follows. */
void tcp_ep_down(struct tcp_ep *e, int res);
void tcp_link_ended(struct tcp_link *l);
/* Queues the link in device.sending if it has something to send. */
void tcp_link_sends(struct tcp_link *l);
/* Reports EVENT_UPs; ends: also EVENT_DOWN and EVENT_CLOSED, which must be an ep's last events. */
uint32_t tcp_report(struct tcp_device *d, struct event *events, uint32_t n, int ends);

/* hello.c */
void tcp_source_init(struct tcp_source *s, enum tcp_source_kind kind, int fd);
/* A socket with the settings common to all, or -errno. */
int tcp_socket(int family);
/* Connections that were accepted for the device. */
int tcp_inbox_open(struct tcp_device *d); /* 0 or -errno */
void tcp_inbox_close(struct tcp_device *d);
int tcp_inbox_put(struct device *dev, int fd); /* backend.accept */
int tcp_inbox_take(struct tcp_device *d);	/* -1: none */
void tcp_inbox_pause(struct tcp_device *d);	/* until there is room, or a tick */
void tcp_inbox_resume(struct tcp_device *d);
socklen_t tcp_addr_len(const struct sockaddr_storage *ss);
/* Binds fd to ep.from. 0 or -errno. */
int tcp_bind_from(int fd, const struct sockaddr_storage *from);
/* Registers events of s with epoll. 0 or -errno. */
int tcp_watch(struct tcp_device *d, struct tcp_source *s, uint32_t events);
int tcp_dial(struct tcp_link *l, const struct sockaddr_storage *to);
int tcp_answer(struct tcp_link *l);
/* Takes the connections that came before the ep's tcp_ep_connect(). */
void tcp_claim(struct tcp_ep *e);
void tcp_close_source(struct tcp_device *d, struct tcp_source *s);
/* Handles an event that epoll reported for s. */
void tcp_event(struct tcp_device *d, struct tcp_source *s, uint32_t events);
/* Handles the events that are there now. */
void tcp_ask_epoll(struct tcp_device *d);
/* Ticks at least every ms milliseconds while a deadline or an acknowledgement is pending. */
void tcp_tick(struct tcp_device *d, uint32_t ms);

/* alive.c */
uint32_t tcp_look_ms(uint32_t dead_after_ms);
/* Bytes were sent: watches the link until they are acknowledged. */
void tcp_link_sent(struct tcp_link *l);
/* Called at each tick: ends eps whose peer is silent. */
void tcp_look(struct tcp_device *d);

#endif
