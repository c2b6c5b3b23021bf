/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the control thread share. All of it belongs to that thread, which never blocks:
 * sockets are non-blocking, commands to the engine come back by mailbox, names are resolved on a
 * thread of their own.
 *
 * A peer's life: HELLO and HELLO_ACK make a peer on either side (STAGE_RAILS); the dialler tries
 * its rails, PATH tells which came up (STAGE_COMMITTED); the acceptor's program takes it, READY
 * (STAGE_UP); lost or closed (STAGE_DOWN) it is taken down in the order of peer_step(). While it is
 * up its data path may go and come back: enum heat.
 */
#ifndef CONTROL_PRIVATE_H
#define CONTROL_PRIVATE_H

#include <pthread.h>
#include <sys/socket.h>
#include "control/auth.h"
#include "control/control.h"
#include "control/wire.h"

#define HELLO_NS	(5 * NSEC_PER_SEC)     /* for a guest's HELLO; for its answer */
#define PATH_NS		(30 * NSEC_PER_SEC)    /* for PATH after HELLO_ACK */
#define TRY_NS		(900 * NSEC_PER_MSEC)  /* for a rail to come up, if there are others */
#define RAIL_TRY_NS	(700 * NSEC_PER_MSEC)  /* likewise, if the peer has some: doubles up to */
#define RAIL_TRY_MAX	(5 * NSEC_PER_SEC)
#define RAIL_REST_NS	(10 * NSEC_PER_MSEC)   /* before one is tried again: doubles up to, */
#define RAIL_REST_MAX	(30 * NSEC_PER_SEC)
#define RAIL_REST_ONLY	(500 * NSEC_PER_MSEC)  /* and where the peer has no other up to */
#define RAIL_PORT_NS	(250 * NSEC_PER_MSEC)  /* between looks at a port without a link */
#define RAIL_LIVED_NS	(500 * NSEC_PER_MSEC)  /* so long it was up, and is tried at once */
#define GUESTS_MAX	256u		       /* accepted, no HELLO yet */
#define GUEST_SLOW_NS	NSEC_PER_SEC	       /* after that long a guest gives way to the next */
#define GUEST_SILENT_NS (100 * NSEC_PER_MSEC)  /* likewise one that has said nothing at all */
#define LISTEN_PAUSE_NS (100 * NSEC_PER_MSEC)  /* when there is nothing left to accept with */
#define STAGGER_NS	(250 * NSEC_PER_MSEC)  /* head start of an address before the next */
#define BACKOFF_NS	(10 * NSEC_PER_MSEC)   /* of a dial that met an older one; doubles */
#define BACKOFF_MAX_NS	(500 * NSEC_PER_MSEC)
#define HOLD_NS		NSEC_PER_SEC	      /* a new peer waits for dials that may be to it */
#define RAIL_GRACE_NS	(200 * NSEC_PER_MSEC) /* a rail broke: for the connection to say why */
#define CALL_NS		(2 * NSEC_PER_SEC)    /* a call that unregisters or revokes waits at most */
#define REVOKE_NS	(100 * NSEC_PER_MSEC) /* for importers to hear of it before the keys go */
#define OUT_MAX		(1u << 20)	      /* bytes of a connection not yet sent */
#define KEY_WINDOW	16u		      /* KEY_REQs of a peer unanswered, either way */
#define GRANTS_MAX	65536u		      /* exposures of a peer */
#define PARTS_MAX	65536u		      /* adverts of a remote */
#define RANGES_MAX	(1u << 20)	      /* ranges of a region */
#define ADVERT_RIGHTS	(URCCL_RIGHT_READ | URCCL_RIGHT_WRITE | URCCL_RIGHT_ATOMIC)
#define TARGET_MAX	URCCL_METADATA_MAX
#define RX_MAX		65536u
#define PEER_HASH	4096u /* power of two */

/* What the %v of a reason takes. */
static inline uint64_t versions_arg(uint64_t our_min, uint64_t our_max, uint64_t their_min,
				    uint64_t their_max)
{
	return our_min | our_max << 16 | their_min << 32 | their_max << 48;
}

struct control;
struct peer;

/* Why something cannot be done, to be told to whoever asked: a call or an entry. */
struct trouble {
	int res;
	uint32_t reason; /* enum reason */
	uint64_t arg[3];
};

/* ---- alarms: one sleep for all; nothing is due: nothing wakes ---- */

struct alarm {
	struct heap_node due; /* in control.alarms */
	void (*fire)(struct control *c, struct alarm *a);
};

void alarm_init(struct alarm *a, void (*fire)(struct control *c, struct alarm *a));
void alarm_set(struct control *c, struct alarm *a, uint64_t after_ns);
void alarm_stop(struct alarm *a);
static inline int alarm_is_set(const struct alarm *a)
{
	return a->due.link != NULL;
}
void alarms_run(struct control *c);
int alarms_wait_ms(struct control *c); /* until the next one, for epoll_wait() */

/* ---- commands to the engine: each is part of what it speaks of ---- */

struct cmd {
	struct engine_cmd e;
	void (*back)(struct control *c, struct cmd *cmd); /* NULL: nothing to do */
	int out;					  /* the engine has it */
};

void cmd_post(struct control *c, struct cmd *cmd, enum engine_cmd_type type,
	      void (*back)(struct control *c, struct cmd *cmd));

/* ---- connections ---- */

struct conn;
struct conn_ops {
	void (*connected)(struct control *c, struct conn *n);
	/* A whole frame. 0, or -EPROTO: the connection ends. */
	int (*frame)(struct control *c, struct conn *n, uint32_t type, const uint8_t *body,
		     uint32_t len);
	/* It is over (0: the other side closed it; -EPROTO: the other side breaks the protocol);
	 * call conn_close(). */
	void (*ended)(struct control *c, struct conn *n, int err);
	void (*expired)(struct control *c, struct conn *n); /* conn.alarm */
};

struct conn {
	struct list link;  /* of control.conns, or of those to be freed */
	struct list guest; /* of control.guests: accepted, no HELLO yet */
	const struct conn_ops *ops;
	void *owner;	 /* of the ops */
	int fd;		 /* -1: closed */
	uint32_t events; /* registered with epoll */
	uint8_t connecting;
	uint8_t spoke, greeted; /* our magic went, theirs came */
	struct alarm alarm;
	uint64_t since;	   /* clock when it began */
	struct auth *auth; /* its handshake, where there is a secret; goes with it */
	uint8_t *in;	   /* begin of a frame */
	uint32_t in_len;
	uint8_t *out; /* not yet sent */
	uint32_t out_off, out_len, out_max;
	struct sockaddr_storage remote;
};

/* Takes fd over; NULL: no memory, fd is closed. */
struct conn *conn_new(struct control *c, int fd, int connecting, const struct conn_ops *ops,
		      void *owner);
/* Dials; NULL with errno. */
struct conn *conn_dial(struct control *c, const struct sockaddr_storage *to,
		       const struct conn_ops *ops, void *owner);
/* Passes it on: from now on these ops and this owner have it. */
void conn_set(struct control *c, struct conn *n, const struct conn_ops *ops, void *owner);
void conn_guest(struct control *c, struct conn *n); /* one more without a HELLO */
/* Sends what the socket takes and keeps the rest. A failure shows as the connection's end. */
void conn_send(struct control *c, struct conn *n, const void *buf, uint32_t len);
void conn_close(struct control *c, struct conn *n);
/* Says so and what stands behind it (0 or -errno), and closes once it was heard. */
void conn_refuse(struct control *c, struct conn *n, uint32_t code, int err);
/* No transport is left for it; required: the one that the policy allows with it, or 0. */
void conn_refuse_paths(struct control *c, struct conn *n, uint32_t required, int err);
void conn_event(struct control *c, struct conn *n, uint32_t events);
void conn_read(struct control *c, struct conn *n);
void conns_free(struct control *c); /* those closed since the last time */
void conns_close(struct control *c);
/* So that a peer which vanished is noticed by the kernel. */
void conn_options(const struct control *c, int fd);
/* Our end's address, with port 0. */
void conn_local(const struct conn *n, struct sockaddr_storage *ss);
uint32_t addr_port(const struct sockaddr_storage *ss); /* host order */
void addr_port_set(struct sockaddr_storage *ss, uint32_t port);
/* "10.0.0.2:7777", "[::1]:7777" */
void addr_text(const struct sockaddr_storage *ss, char *buf, size_t len);

/* ---- control.c ---- */

/* Of threads that work on the program's memory: control_cpus, which is to keep the control thread
 * out of the way, would make them wait for it and for one another. NULL: as the control thread. */
const struct cpus *helper_cpus(const struct control *c);

/* ---- errand.c ---- */

#define MSG_ERRAND 204 /* beside the types of commands, requests and calls */

/* Those of one kind do not wait for those of the other. */
enum errand_kind {
	ERRAND_REACH, /* some seconds at most */
	ERRAND_PIN,   /* as long as there is memory */
	ERRAND_UNPIN, /* likewise */
	ERRAND_KINDS
};

/* What may block, on a thread of its own. The control thread's but for res. */
struct errand {
	struct msg msg;
	struct list link;    /* in control.errands[kind], until it begins */
	enum errand_kind kind;
	struct mailbox *out; /* where msg goes; NULL: it is not under way */
	pthread_t thread;
	int has_thread;
	int res;		       /* the thread's: 0 or -errno */
	int (*run)(struct errand *e);  /* there: what it returns is res */
	void (*back)(struct control *c, struct errand *e); /* when it is done */
};

void errand_begin(struct control *c, struct errand *e, enum errand_kind kind,
		  int (*run)(struct errand *e),
		  void (*back)(struct control *c, struct errand *e));
/* One that has not begun is not done: its back() follows with -ECANCELED. */
void errand_drop(struct control *c, struct errand *e);
/* The back() of the time before follows with res, without anything being done. */
void errand_skip(struct control *c, struct errand *e, int res);
void errand_done(struct control *c, struct msg *msg);

/* ---- paths: rails as the control thread sees them (path.c) ---- */

struct path {
	struct rail rail;
	struct errand reach; /* ep_meet() */
	struct errand grow;  /* ep_grow(): rail.grow, without which the engine does not close it */
	char small[160];     /* why not: that thread's until it is done */
	struct cmd connect, close;
	struct cmd taken;  /* the engine's word that it has the connect */
	struct peer *peer; /* NULL: a dial's, not connected */
	struct list left;  /* of peer.importers */
	int importer;	   /* there: hangs up when it has let go; -1: it has */
	uint64_t since;	   /* clock when it began, or came up */
	uint32_t id;	   /* the dialler's number of it */
	uint32_t addr_len; /* our ep */
	uint8_t addr[EP_ADDR_MAX];
	uint8_t tried, closing;
	uint8_t up;	 /* it came up */
	uint8_t posted;	 /* the engine has it, or had */
	uint8_t awaited; /* path_await() is to follow */
	int error;	/* why it did not come up, or broke before its peer was */
};

/* The transports of the context's devices, a bit for each. */
uint64_t paths_possible(const struct control *c);
/* An ep of a device; NULL: it cannot, with fail() text and *err. */
struct path *path_open(struct device *dev, uint32_t id, int *err);
/* Eps of devices of ours that a dialler offers, up to WIRE_RAILS: how many; required: of this
 * transport alone, 0: of any. 0: none, with *err. */
uint32_t paths_open(struct control *c, uint32_t required, struct path **paths, int *err);
void path_free(struct path *path); /* never connected, or closed */
uint32_t path_transport(const struct path *path);
/* The rails that a HELLO or its answer names. */
void path_say(struct path *const *paths, uint32_t n, struct wire_hello *h);
/* 1: the answer has it too; from then on it knows where it goes. */
int path_answered(struct path *path, const struct wire_hello *ack);
int path_carries(const struct path *path);
/* Of a peer that is up: its transport is the peer's. The numbers of others are their own. */
uint32_t path_is_rail(const struct path *path);
/* The chosen one: where it breaks before its peer is up, that is not the peer's end. */
int path_returns(const struct path *path);
struct path *path_next(const struct peer *p); /* that was not tried yet, or NULL */
/* Dialled: connects it, and with it all others of its transport that may be there beside it. */
void paths_try(struct control *c, struct peer *p, struct path *path);
uint32_t paths_trying(const struct peer *p, struct path **paths); /* how many of them are on it */
void path_close_others(struct control *c, struct peer *p); /* that do not go with the one in use */
void path_connect(struct control *c, struct path *path, int active);
void path_await(struct control *c, struct path *path); /* then RAIL_ACK */
/* Gives it back, at once or when the engine has let go; peer_step() follows in that case. */
void path_close(struct control *c, struct path *path);
int paths_reaching(const struct peer *p);
void path_grow_req(struct control *c, struct control_req *req);

/* ---- rails.c: those of a peer that has its data path ---- */

void rails_known(struct peer *p, const struct path *path); /* of which it may have one */
void rails_agree(struct peer *p); /* the first of them is up: p->path */
void rails_begin(struct control *c, struct peer *p); /* both ends have said so */
void rails_end(struct peer *p);			     /* until rails_begin() */
struct path *rail_path(const struct peer *p, uint32_t number); /* NULL: it has none */
uint32_t rails_up(const struct peer *p);		       /* their numbers, a bit each */
void rails_came(struct control *c, struct path *path);
void rails_missed(struct control *c, struct path *path);
void rails_broke(struct control *c, struct path *path, int err);
/* One that came up is gone. Unless it was there for long, the next try waits a little. */
void rails_rest(struct peer *p, const struct path *path);
void rails_closed(struct control *c, struct peer *p, uint32_t number);
void rails_say(struct control *c, const struct path *path, uint32_t type);
void rails_alarm(struct control *c, struct alarm *a);
int rails_port(struct control *c, struct peer *p);		     /* PORT came, */
int rails_fence(struct control *c, struct peer *p, uint64_t number); /* FENCE came, */
int rails_frame(struct control *c, struct peer *p, uint32_t type,    /* RAIL or RAIL_ACK */
		const uint8_t *body, uint32_t len);

/* ---- policy.c ---- */

uint32_t host_id(void); /* of this machine; 0: not to be had */
uint32_t policy_required(const struct control *c, uint32_t host);
int policy_allows(const struct control *c, uint32_t host, uint32_t transport);
void log_peer_up(const struct control *c, const struct peer *p);
void log_peer_down(const struct control *c, const struct peer *p, uint32_t reason, uint64_t arg,
		   int graceful);
void log_rail(const struct control *c, const struct peer *p, uint32_t transport, int err);
/* What its device calls it: device_code(). */
void log_device(const struct control *c, const struct peer *p, const struct path *path,
		uint64_t code);
/* Its ep stays as it is. */
void log_small(const struct control *c, const struct path *path);
void log_heat(const struct control *c, const struct peer *p);
void log_link(const struct control *c, const struct peer *p);
/* A device cannot make so many bytes ready for peers; does not give back what it has pinned. */
void log_short(const struct control *c, const struct device *dev, uint64_t len, int err);
void log_unpinned(const struct control *c, const struct device *dev, uint64_t len, int err);
/* The context ends, and the peer may still have memory of it mapped. */
void log_importer(const struct control *c, const struct peer *p);
void log_refused(const struct control *c, const struct conn *n, const struct wire_refuse *r);

/* ---- peers ---- */

enum peer_stage { STAGE_RAILS, STAGE_COMMITTED, STAGE_UP, STAGE_DOWN };

/* Of a peer that is up: whether it has its data path. Who asks for it to go: WARM, LOOKING, ASKING,
 * PAUSING, COMMITTED, COLD; the other side: WARM, YIELDING, YIELDED, COLD. */
enum heat {
	HEAT_WARM,
	HEAT_LOOKING,	/* the engine says whether it is idle */
	HEAT_ASKING,	/* COOL went */
	HEAT_PAUSING,	/* it said YES; the engine pauses it if it is still idle */
	HEAT_YIELDING,	/* COOL came; likewise */
	HEAT_YIELDED,	/* YES went */
	HEAT_COMMITTED, /* COLD went */
	HEAT_COLD,	/* COLD came: rails close, or are closed */
	HEAT_RAISING,	/* new ones are tried */
};

struct fetch {		       /* a KEY_REQ of ours */
	struct cmd cmd;	       /* ENGINE_REMOTE_KEYS with the answer */
	struct remote *remote; /* NULL: free, or forgotten meanwhile */
	struct path *path;     /* whose key it is; NULL: it is gone */
	uint32_t number;       /* of that rail */
	uint64_t id;	       /* 0: none awaited */
	uint32_t part;
	uint8_t *data;
};

struct peer {
	struct list link; /* of control.peers */
	struct peer *hash_next;
	struct list held; /* of control.held */
	uint32_t handle;
	uint32_t refs; /* the program's */
	uint64_t incarnation;
	enum peer_stage stage;
	uint64_t lost_ns; /* when it went down */
	uint8_t dialled;  /* by us */
	uint8_t leaving; /* BYE came: its end is in order */
	uint8_t said_bye;
	uint8_t added;	     /* the engine knows it */
	uint8_t answered;    /* accepted: HELLO_ACK went */
	uint8_t path_wanted; /* accepted: PATH came for peer.path */
	uint8_t deleting;
	uint8_t bonded; /* data connections prove that they are of this one by bond */
	uint8_t bond[AUTH_BOND];
	uint32_t transport; /* of the path, also when that is gone */
	struct conn *conn;  /* NULL: gone */
	struct engine_peer *engine;
	struct cmd add, up, event, lost, del;
	struct alarm silence;	/* armed while a PING is unanswered */
	struct alarm delay;	/* HOLD_NS, or RAIL_GRACE_NS if broken */
	uint32_t silence_spans, delay_spans; /* of dead_after that are left of them; 0: delay is
						HOLD_NS, or RAIL_GRACE_NS */
	int broken;		/* -errno of the rail in use */
	int rail_error;		/* of the last one that did not come up */
	uint64_t rail_errors;	/* of the last three: rails_arg() */
	uint32_t required;	/* the one transport that the policy allows with it; 0: any */
	uint64_t rail_versions; /* -EPROTONOSUPPORT: of which versions, for a reason */
	struct path *paths[WIRE_RAILS];
	uint32_t npaths;
	struct path *path;	       /* in use; NULL: none yet, or none any more */
	struct {
		uint8_t transport, number, device; /* of ours */
	} known[WIRE_RAILS]; /* those that both have, also where there is no path now */
	uint32_t nknown;
	uint32_t stays;	 /* while the connection lives: a rail that breaks is not its end */
	uint32_t rails;	 /* it has, and here are bits by their number: all, */
	uint32_t theirs; /* those whose other end is closed, */
	uint32_t unlinked; /* and those whose port here had no link at the last look */
	struct {
		struct cmd fenced; /* the engine hears that both are */
		uint64_t at;	   /* when it is tried again; 0: now */
		uint32_t tries;	   /* in vain, since there was a sign that it may come */
		uint32_t hoped;	   /* there was one while it was tried */
	} rail[RAIL_NUMBERS];
	uint32_t fences_out;
	struct alarm rails_alarm;
	struct list dials;	       /* CONNECTs that wait for it */
	struct list remotes, fetching; /* struct remote: all; those with keys to be asked for; */
	struct list busy;	       /* those that wait for keys or for pages, in turn */
	uint64_t busy_seq;	       /* turns given out */
	struct list warming;	       /* struct control_req: WARM */
	struct fetch fetch[KEY_WINDOW];
	uint32_t fetch_window, fetch_out;
	uint64_t fetch_seq;
	struct list grants;
	uint32_t ngrants, grants_sweep; /* look for expired ones at that many */
	uint32_t asked;			/* KEY_REQs of the peer unanswered, */
	uint64_t asked_upto;		/* and the highest number that any had */
	struct list untold;		/* grants that a REVOKE speaks of, by its number */
	uint64_t revokes, revokes_done; /* REVOKEs told, and heard of by it */
	uint64_t revoke_round;		/* the last that it was told of */
	uint64_t revokes_seen;		/* REVOKEs of the peer's, */
	uint64_t revokes_told;		/* and answered */
	struct list revoking;		/* struct remote: with entries that these end, in turn */
	struct control_req *closing;	/* the last CLOSE */
	uint32_t hello_len;
	uint8_t hello[HELLO_MAX];
	uint8_t answer[HELLO_MAX]; /* accepted: the ACCEPT's, of event */
	struct sockaddr_storage remote;
	struct sockaddr_storage at; /* where it was found or its blob says; no family: unknown */
	struct sockaddr_storage place; /* accepted: where it says that it listens; likewise */
	enum heat heat;
	uint8_t wanted, own_want;    /* cold: entries wait, here or there; here */
	uint8_t want_said;	     /* accepted: WANT went */
	struct list warm;	     /* of control.warm */
	uint32_t qps;		     /* of its rails, while it is there */
	struct cmd cool;	     /* the engine's word for each step */
	uint64_t cool_ns;	     /* when it was last to be asked, */
	uint8_t cool_unused;	     /* and not because there were too many */
	uint64_t idle_seen, idle_ns; /* of both sides' use: at the last look, and since when */
	uint64_t used_seen, used_ns; /* engine_peer_used() at the last look, and since when */
	uint64_t raise_ns;	     /* since when rails are tried; 0: they are not */
	struct alarm raise_alarm;    /* cold: to try again */
	struct wire_hello *later;    /* HELLO, to be answered when the old rails are closed */
	uint8_t cut;		     /* 1: it has no rail, and no port to it has a link */
	uint64_t down_ns;	     /* since when it is seen down; 0: it is up */
	struct cmd cutting;	     /* the engine is told of it, */
	uint8_t cut_again;	     /* and is to be told what it is since */
	struct cmd restarted;	     /* and that another incarnation is where it was */
	int process;		     /* a pidfd, where it is of this host; -1: none */
	uint8_t died;		     /* it has ended, */
	struct cmd dying;	     /* which the engine is told */
	struct list importers;	     /* paths: it may have memory of ours mapped by them */
};

/* peer.c: what a peer is, and its end */

/* n is its connection, and its from now on. NULL with *err: -ENOMEM; for max_peers -EUSERS, or
 * -EBUSY if some of them may not stay. */
struct peer *peer_new(struct control *c, struct conn *n, const struct wire_hello *hello,
		      int dialled, int *err);
struct peer *peer_find(struct control *c, uint64_t incarnation); /* connected, or about to be */
struct peer *peer_of(struct control *c,
		     uint32_t handle); /* NULL with fail() text: the program has no such */
void peer_send(struct control *c, struct peer *p, uint32_t type, uint64_t word);
void peer_bye(struct control *c, struct peer *p);
void peer_ping(struct control *c, struct peer *p);
/* It is lost, or (graceful) closed by us: dials that wait for it are told, the rest goes step by
 * step. */
void peer_down(struct control *c, struct peer *p, int cause, uint32_t reason, uint64_t arg,
	       int graceful);
static inline uint64_t peer_down_ms(const struct peer *p)
{
	return (clock_ns() - p->lost_ns) / NSEC_PER_MSEC;
}
/* It was found there: others that were are earlier incarnations of it, and are asked for a sign of
 * life. */
void peer_answers(struct control *c, struct peer *p, const struct sockaddr_storage *at);
/* The same of one that came by itself, and says at which port it listens. */
void peer_comes(struct control *c, struct peer *p, uint32_t port);
void peer_step(struct control *c, struct peer *p);
void peer_close(struct control *c, struct peer *p); /* its last reference is gone */
void peer_close_req(struct control *c, struct control_req *req);
void peer_rail_down_req(struct control *c, struct control_req *req);
void peer_awaited_req(struct control *c, struct control_req *req);
void peer_delay(struct control *c, struct alarm *a);
/* dead_after is waited for in so many spans, one after another: in a time in which this process did
 * not run, its peers had nobody to answer, and no more than one of them is over. */
#define SPANS 4u
void peer_span(struct control *c, struct alarm *a);

/* meet.c: from HELLO_ACK to READY, on both sides */
extern const struct conn_ops peer_conn_ops;
void path_take(const struct control *c, struct peer *p, struct path *path);
void meet_take_path(const struct control *c, struct peer *p, struct path *path); /* of HELLO */
void meet_begin(struct control *c, struct peer *p);
void meet_reached(struct control *c, struct peer *p); /* a path of it */
void meet_refuse(struct control *c, struct peer *p, int err); /* accepted: no rail of use */
void meet_yield(struct control *c, struct peer *p); /* another connection of the two is kept */
void meet_path_up(struct control *c, struct path *path);
void meet_path_failed(struct control *c, struct path *path);
/* Accepted: the program is asked for its ACCEPT. */
void meet_ask(struct control *c, struct peer *p);
void meet_unhold(struct control *c); /* those held for dials_unknown() */
void meet_dialled(struct control *c,
		  struct peer *p); /* a CONNECT waits for it: no PEER event is needed */

/* process.c: the process of a peer of this host */

#define PROCESS_EVENT 1u /* in an epoll event's data.u64, which is no pointer then */

/* Registers fd with epoll: the process itself, or what it lets go of. 0 or -errno. */
int process_epoll(struct control *c, const struct peer *p, int fd, uint32_t events);
void process_begin(struct control *c, struct path *path); /* it is up */
void process_event(struct control *c, uint64_t data);
void process_leave(struct control *c, struct peer *p); /* its end is of no interest any more */

/* cool.c: the data path goes */
void cool_warm(struct control *c, struct peer *p);  /* it has one now: others may have to go */
void cool_leave(struct control *c, struct peer *p); /* it has none, or is down */
int cool_word(struct control *c, struct peer *p, uint32_t type);
void cool_alarm(struct control *c, struct alarm *a);
void cool_idle(struct control *c, struct alarm *a);

/* raise.c: it comes back */
void raise_step(struct control *c, struct peer *p); /* cold: looks whether it can and should */
void raise_req(struct control *c, struct control_req *req); /* CONTROL_WANT */
int raise_wanted(struct control *c, struct peer *p);	    /* WANT */
void raise_refused(struct control *c, struct peer *p);	    /* COLD came on the way */
void raise_reached(struct control *c, struct peer *p);	    /* a path of it, accepted */
int raise_hello(struct control *c, struct peer *p, uint32_t type, const struct wire_hello *h);
int raise_path(struct control *c, struct peer *p, uint64_t id);
int raise_ready(struct control *c, struct peer *p);
void raise_up(struct control *c, struct path *path);
void raise_failed(struct control *c, struct path *path, int err);
void raise_alarm(struct control *c, struct alarm *a);
void raise_expired(struct control *c, struct peer *p); /* of its connection's alarm */

/* link.c: our ports lose their links and have them again */
void link_lost(struct control *c, struct peer *p);  /* it has no rail any more, */
void link_back(struct control *c, struct peer *p);  /* and has one again, or needs none */
void links_look(struct control *c, struct alarm *a);

/* ---- accept.c ---- */

struct listener {
	int fd;
	uint32_t watched; /* registered with epoll */
	struct sockaddr_storage addr;
};

int listener_open(struct control *c); /* 0 or -errno with fail() text */
/* ptr: of an epoll event; NULL: none of them. */
struct listener *listener_of(struct control *c, const void *ptr);
void listener_event(struct control *c, struct listener *l);
/* The port where we can be dialled at this address of ours; 0: nowhere. */
uint32_t listener_port(const struct control *c, const struct sockaddr_storage *from);
/* The address and port of the i-th listener: snprintf()'s result, or -errno with fail() text. */
int listener_text(const struct control *c, uint32_t i, char *buf, uint32_t len);
void accept_answer(struct control *c, struct peer *p); /* HELLO_ACK */
/* An ep for each rail of theirs that a device here has the transport of; *err: of the last that
 * could not be had. */
uint32_t accept_paths(struct control *c, const struct wire_hello *h, struct path **paths, int *err);
void listener_close(struct control *c);

/* ---- dial.c: CONNECT, from the request to the peer ---- */

struct dial;
void dial_req(struct control *c, struct control_req *req);
void dial_drop(struct control *c, struct control_req *req); /* nobody waits for it any more */
/* The peer is up: the CONNECTs that wait for it succeed. How many. */
uint32_t dials_succeed(struct control *c, struct peer *p);
/* It went down before: they try again, or fail with this if the handshake was their own. */
void dials_lost(struct control *c, struct peer *p, int res, uint32_t reason, uint64_t arg);
/* Dials that are to this peer by their metadata wait for it. */
void dials_adopt(struct control *c, struct peer *p);
/* Two dials of two contexts met: those that waited for one peer wait for another (NULL: try again).
 */
void dials_take(struct peer *from, struct list *to);
void dials_give(struct control *c, struct list *from, struct peer *to);
/* Is a HELLO unanswered that may have gone to any context? */
int dials_unknown(const struct control *c);
void dials_close(struct control *c); /* all fail with -ESHUTDOWN */
void dial_resolved(struct control *c, struct msg *msg);

/* ---- resolve.c ---- */

struct resolver;
#define MSG_RESOLVED 200 /* beside the types of commands, requests and calls */
struct job {		 /* a name to be resolved, for a dial */
	struct msg msg;
	struct dial *dial; /* the control thread's; NULL: nobody waits any more */
	char host[256], port[8];
	uint32_t n; /* results, */
	uint32_t found; /* of so many */
	int error;  /* -errno */
	int gai;    /* what getaddrinfo() said */
	struct sockaddr_storage addr[METADATA_HOSTS];
};

/* "host:port" in pieces: 0 or -EINVAL. */
int address_split(const char *text, uint64_t len, char host[256], char port[8]);
/* Numeric addresses, at once: how many (at most 1), 0: it is a name. */
uint32_t address_numeric(const char *host, const char *port, struct sockaddr_storage *out);
/* dial_resolved() follows. NULL: no memory, or no thread. */
struct job *resolver_ask(struct control *c, struct dial *d, const char *host, const char *port);
void resolver_close(struct control *c);

/* ---- regions, adverts, remotes ---- */

#include "control/regions.h"

/* ---- calls ---- */

/* Answers; a failure's sentence is fail()'s. */
void call_answer(struct control_call *call, int res);
void call_run(struct control *c, struct control_call *call);
void control_request(struct control *c, struct control_req *req);
/* How to dial this context: bytes of the blob, or -errno with fail() text. */
int metadata_make(struct control *c, void *buf, uint32_t len);
/* Something that SHUTDOWN waits for is gone. */
void control_step(struct control *c);

/* ---- the thread ---- */

/* Sleeps until something is there, and does all of it. */
void control_turn(struct control *c);

/* Pinned memory for bytes of GPUs: staging.c. */
struct staging {
	pthread_mutex_t lock; /* of memory and gpu: helper threads make it */
	struct allocation *memory;
	struct gpu_dev *gpu; /* by which it is pinned */
	struct region *region; /* the context's own, of that memory */
	struct cmd cmd;
};

struct control {
	struct control_config config;
	struct engine *engine;
	struct mailbox *to_engine;
	struct mailbox mailbox; /* requests of engines, calls */
	struct mailbox back;	/* commands and jobs that are done */
	struct cpus opener; /* where the thread may run that opened the context */
	int wake_fd, epoll_fd;
	struct alarm link_alarm;
	struct listener listeners[LISTEN_MAX];
	uint32_t nlisteners;
	struct mappings mappings; /* ranges.c's */
	int reserve_fd; /* given up for a moment when descriptors run out */
	struct alarm listen_alarm;
	struct class_socket socket; /* of control connections */
	struct log log;
	uint32_t host; /* host_id() */
	pthread_t thread;
	int started;
	uint64_t start_ns; /* what adverts' expiry counts from */
	uint8_t advert_key[16];
	struct heap alarms;
	struct list conns, closed; /* closed: freed after this round of events */
	struct list guests;	   /* oldest first */
	uint32_t nguests;
	struct list peers, held, dials, regions, allocations;
	struct peer **peer_hash;	     /* by incarnation: PEER_HASH lists */
	uint32_t region_slots, remote_slots; /* those that the engine has room for */
	uint32_t scratch;		     /* handle of the region that is; 0: none yet */
	struct staging staging;
	struct memory_map *map;		     /* the newest; the engine's, until it brings it back */
	struct handles peer_handles, region_handles, remote_handles;
	uint32_t live;	  /* peers connected, or about to be */
	struct list errands[ERRAND_KINDS]; /* that wait for a thread */
	uint32_t nerrands[ERRAND_KINDS];   /* that have one */
	struct list warm;    /* peers with a data path */
	uint32_t nwarm, nqps, nowners; /* and of these: queue pairs, and who has some */
	struct alarm cool_alarm; /* more than max_warm, or max_qps: to ask again */
	uint64_t cool_rest_ns;
	struct alarm idle_alarm; /* to look whom nobody uses */
	struct grant **grants; /* hash */
	uint32_t grants_mask, ngrants;
	struct pinned **pins; /* PIN_HASH lists */
	uint64_t revoke_round;
	struct resolver *resolver;
	struct control_call *shutdown;
	struct cmd stop;
	uint8_t ending; /* SHUTDOWN: 1 peers go, 2 regions go, 3 the engine stops */
	uint8_t quitting;
	uint8_t unpinned; /* a device has what was forgotten here */
	struct msg quit;
	uint8_t rx[RX_MAX];
	uint8_t tx[WIRE_BUF]; /* of a frame being made */
};

/* To the entry or the call that asked; a failure's sentence is the reason's. */
void req_answer(struct control_req *req, int res, uint32_t reason, uint64_t a, uint64_t b,
		uint64_t c);
/* req->handle names nothing: -EINVAL if it is of another kind than wanted, else -ESTALE. */
void req_answer_handle(struct control_req *req, enum handle_kind wanted, uint32_t stale);

#endif
