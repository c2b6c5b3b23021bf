/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of the control thread, which owns all of it, and calls that its rooms (control, peer,
 * region) share: for connections, timers, helper threads and the engine. The thread never blocks:
 * sockets are non-blocking, commands to the engine return by mailbox, other threads resolve names.
 *
 * The life of a peer: HELLO and HELLO_ACK create it on both sides (STAGE_RAILS). The dialler tries
 * its rails, and PATH names the one that came up (STAGE_COMMITTED). The acceptor's program takes
 * the peer, and READY follows (STAGE_UP). A loss or a close (STAGE_DOWN) takes it down in the order
 * of peer_step(). While a peer is up, its data path may be suspended and resumed: enum path_state.
 */
#ifndef CONN_SHARED_H
#define CONN_SHARED_H

#include <pthread.h>
#include <sys/socket.h>
#include "conn/auth.h"
#include "conn/conn.h"
#include "conn/wire.h"

/* Limit for HELLO of a pending connection, and for its answer. */
#define HELLO_NS (5 * NSEC_PER_SEC)
#define PATH_NS	 (30 * NSEC_PER_SEC) /* limit for PATH after HELLO_ACK */
/* Limit for a rail to come up, if there are others to try. */
#define TRY_NS (900 * NSEC_PER_MSEC)
/* Connect timeout of a rail of a peer that is up; doubles up to RAIL_TRY_MAX. */
#define RAIL_TRY_NS  (700 * NSEC_PER_MSEC)
#define RAIL_TRY_MAX (5 * NSEC_PER_SEC)
/* Backoff before the next try; doubles up to RAIL_BACKOFF_MAX, or to RAIL_BACKOFF_ONLY if the peer
 * has no other rail. */
#define RAIL_BACKOFF_NS	  (10 * NSEC_PER_MSEC)
#define RAIL_BACKOFF_MAX  (30 * NSEC_PER_SEC)
#define RAIL_BACKOFF_ONLY (500 * NSEC_PER_MSEC)
#define RAIL_PORT_NS	  (250 * NSEC_PER_MSEC) /* interval of checks of a port without a link */
/* A rail that was up for this long is set up again at once. */
#define RAIL_LIVED_NS (500 * NSEC_PER_MSEC)
#define PENDING_MAX   256u /* pending connections: accepted, no HELLO yet */
/* Age after which a pending connection may be closed for the next one. */
#define PENDING_SLOW_NS	  NSEC_PER_SEC
#define PENDING_SILENT_NS (100 * NSEC_PER_MSEC) /* likewise if it has sent nothing at all */
/* Pause of the listener if no descriptor or memory is left. */
#define LISTEN_PAUSE_NS (100 * NSEC_PER_MSEC)
/* From the start of one address of a dial to the next. */
#define STAGGER_NS (250 * NSEC_PER_MSEC)
/* Backoff of a dial that meets an older connection; doubles. */
#define BACKOFF_NS     (10 * NSEC_PER_MSEC)
#define BACKOFF_MAX_NS (500 * NSEC_PER_MSEC)
/* Longest delay of a new peer while one of our dials, to an address only, may lead to the same
 * peer. */
#define HOLD_NS NSEC_PER_SEC
/* Time after the last rail broke in which the connection may still give the reason. */
#define RAIL_GRACE_NS (200 * NSEC_PER_MSEC)
/* An unregister or revoke call waits at most this long. */
#define CALL_NS (2 * NSEC_PER_SEC)
/* Time for importers to answer a REVOKE before the keys end. */
#define REVOKE_NS (100 * NSEC_PER_MSEC)
#define OUT_MAX	  (1u << 20) /* bytes that a connection queues for its socket */
/* Unanswered KEY_REQs of a peer, in either direction. */
#define KEY_WINDOW    16u
#define GRANTS_MAX    65536u	 /* exports to a peer */
#define PARTS_MAX     65536u	 /* adverts of a remote */
#define RANGES_MAX    (1u << 20) /* ranges of a region */
#define ADVERT_RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE | URCCL_RIGHT_ATOMIC)
#define TARGET_MAX    URCCL_METADATA_MAX
#define RX_MAX	      65536u
#define PEER_HASH     4096u /* power of two */

/* The argument of %v in a reason. */
static inline uint64_t versions_arg(uint64_t our_min, uint64_t our_max, uint64_t their_min,
				    uint64_t their_max)
{
	return our_min | our_max << 16 | their_min << 32 | their_max << 48;
}

struct control;
struct peer;
struct resolver;

/* The reason for a failure, for the call or the entry that asked. */
struct control_error {
	int res;
	uint32_t reason; /* enum reason */
	uint64_t arg[3];
};

static inline int error_set(struct control_error *t, int res, uint32_t reason, uint64_t a,
			    uint64_t b, uint64_t e)
{
	*t = (struct control_error){res, reason, {a, b, e}};
	return res;
}

/* ---- timers: one sleep for all of them; the thread does not wake if none is due ---- */

struct control_timer {
	struct heap_node due; /* in control.timers */
	void (*fire)(struct control *c, struct control_timer *a);
};

void timer_init(struct control_timer *a, void (*fire)(struct control *c, struct control_timer *a));
void timer_set(struct control *c, struct control_timer *a, uint64_t after_ns);
void timer_stop(struct control_timer *a);
static inline int timer_is_set(const struct control_timer *a)
{
	return a->due.link != NULL;
}
void timers_run(struct control *c);
int timers_wait_ms(struct control *c); /* until the next one, for epoll_wait() */

/* ---- commands to the engine: each is part of its object ---- */

struct cmd {
	struct engine_cmd e;
	void (*back)(struct control *c, struct cmd *cmd); /* called with the answer; may be NULL */
	int out;					  /* posted, and not answered yet */
};

void cmd_post(struct control *c, struct cmd *cmd, enum engine_cmd_type type,
	      void (*back)(struct control *c, struct cmd *cmd));

/* ---- connections ---- */

struct conn;
struct conn_ops {
	/* NULL: the connection is established when the owner gets it. */
	void (*connected)(struct control *c, struct conn *n);
	/* A complete frame. 0, or -EPROTO: the connection ends. */
	int (*frame)(struct control *c, struct conn *n, uint32_t type, const uint8_t *body,
		     uint32_t len);
	/* The connection has ended (0: the other side closed it; -EPROTO: the other side violated
	 * the protocol). Must call conn_close(). */
	void (*ended)(struct control *c, struct conn *n, int err);
	/* conn.timer has expired. NULL: the owner does not set it. */
	void (*expired)(struct control *c, struct conn *n);
	/* Optional: the first bytes have come, and none is read yet. 1: do not read now. */
	int (*first)(struct control *c, struct conn *n);
};

struct conn {
	struct list link;    /* in control.conns, or in control.closed */
	struct list pending; /* in control.pending while it is a pending connection */
	const struct conn_ops *ops;
	void *owner;	 /* used by the ops */
	int fd;		 /* -1: closed */
	uint32_t events; /* registered with epoll */
	uint8_t connecting;
	uint8_t spoke, greeted; /* our magic was sent; theirs was received */
	struct control_timer timer;
	uint64_t since;	   /* clock at its begin */
	struct auth *auth; /* the handshake, if there is a secret; freed with the connection */
	uint8_t *in;	   /* the first part of an unfinished frame */
	uint32_t in_len;
	uint8_t *out; /* bytes that wait for the socket */
	uint32_t out_off, out_len, out_max;
	struct sockaddr_storage remote;
};

/* Takes over fd. NULL: no memory, and fd is closed. */
struct conn *conn_new(struct control *c, int fd, int connecting, const struct conn_ops *ops,
		      void *owner);
/* Starts to connect. NULL with errno. */
struct conn *conn_dial(struct control *c, const struct sockaddr_storage *to,
		       const struct conn_ops *ops, void *owner);
/* Sees no events until conn_resume(). The socket may be given away meanwhile: then call
 * conn_released(). */
void conn_hold(struct control *c, struct conn *n);
void conn_resume(struct control *c, struct conn *n);
void conn_released(struct control *c, struct conn *n);
/* Hands the connection over to another set of ops and another owner. */
void conn_set(struct control *c, struct conn *n, const struct conn_ops *ops, void *owner);
void conn_add_pending(struct control *c, struct conn *n); /* counts it as pending */
/* Sends as much as the socket takes and queues the rest. A failure appears later, as the end of the
 * connection. */
void conn_send(struct control *c, struct conn *n, const void *buf, uint32_t len);
void conn_close(struct control *c, struct conn *n);
/* Sends REFUSE with the code and its cause (0 or -errno), and closes when the other side has
 * closed. */
void conn_refuse(struct control *c, struct conn *n, uint32_t code, int err);
/* Refuses since no transport is left; required: the one transport that the policy allows, or 0. */
void conn_refuse_paths(struct control *c, struct conn *n, uint32_t required, int err);
void conn_event(struct control *c, struct conn *n, uint32_t events);
void conn_read(struct control *c, struct conn *n);
void conns_free(struct control *c); /* frees those closed since the last call */
void conns_close(struct control *c);
/* Sets the options by which the kernel detects that a peer vanished. */
void conn_options(const struct control *c, int fd);
/* The address of our end, with port 0. */
void conn_local(const struct conn *n, struct sockaddr_storage *ss);
uint32_t addr_port(const struct sockaddr_storage *ss); /* host order */
/* 1: the same address and port. */
int addr_port_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b);
void addr_port_set(struct sockaddr_storage *ss, uint32_t port);
/* Packs address and port as %a of reasons.h shows them, with 48 bits of more behind the port. */
void addr_args(const struct sockaddr_storage *ss, uint64_t more, uint64_t arg[3]);
/* "10.0.0.2:7777", "[::1]:7777" */
void addr_text(const struct sockaddr_storage *ss, char *buf, size_t len);
/* Splits "host:port". 0 or -EINVAL. */
int address_split(const char *text, uint64_t len, char host[256], char port[8]);
/* Resolves a numeric address at once. Returns 1, or 0: it is a name. */
uint32_t address_numeric(const char *host, const char *port, struct sockaddr_storage *out);

/* ---- work.c ---- */

/* The CPUs for threads that touch the program's memory; NULL: those of the control thread. With
 * control_cpus set, helpers do not use its CPUs: they would wait for the control thread and for
 * each other there. */
const struct cpus *helper_cpus(const struct control *c);

#define MSG_WORK 204 /* differs from all types of commands, requests and calls */

/* Work items of one kind do not wait for those of another kind. */
enum work_kind {
	WORK_PREPARE, /* lasts some seconds at most */
	WORK_PIN,     /* lasts longer for more memory */
	WORK_UNPIN,   /* likewise */
	WORK_KINDS
};

/* A work item: a call that may block, on a thread of its own. Only the control thread uses it, but
 * for res. */
struct work {
	struct msg msg;
	struct list link; /* in control.works[kind] until it starts */
	enum work_kind kind;
	struct mailbox *out; /* the mailbox that msg goes to; NULL: idle */
	pthread_t thread;
	int has_thread;
	int res;		    /* set by that thread: 0 or -errno */
	int (*run)(struct work *e); /* runs on that thread; its return value is res */
	void (*back)(struct control *c, struct work *e); /* runs on the control thread
							    * afterwards */
};

void work_begin(struct control *c, struct work *e, enum work_kind kind, int (*run)(struct work *e),
		void (*back)(struct control *c, struct work *e));
/* Cancels a work item that has not started; its back() follows with -ECANCELED. */
void work_drop(struct control *c, struct work *e);
/* Starts no thread: the back() of the last work_begin() runs later, with res. */
void work_skip(struct control *c, struct work *e, int res);
void work_done(struct control *c, struct msg *msg);

/* ---- paths: the control thread's view of rails (path.c) ---- */

struct path {
	struct rail rail;
	struct work prepare; /* ep_prepare() */
	struct work grow;    /* ep_add_qps(), for rail.grow; the engine closes the rail only after
			      * the answer */
	char small[160];     /* why ep_add_qps() failed; the work item's until it is done */
	struct cmd connect, close;
	struct cmd taken;  /* returns when the engine has taken `connect` */
	struct peer *peer; /* NULL: belongs to a dial, not connected */
	struct list left;  /* in peer.importers */
	int importer;	   /* while in peer.importers: fd that hangs up when the peer unmaps or its
			    * process ends; -1: the peer has nothing mapped */
	int (*importer_left)(int); /* called at the hang-up. 1: the peer has unmapped; 0: wait for
				    * the end of its process. NULL: a hang-up always means that it
				    * has unmapped */
	uint64_t since;		   /* clock when it was opened, or came up */
	uint32_t id;		   /* the dialler's number for it */
	uint32_t addr_len;	   /* the address of our ep */
	uint8_t addr[EP_ADDR_MAX];
	uint8_t tried, closing;
	uint8_t up;	 /* it came up */
	uint8_t posted;	 /* the engine has or had it */
	uint8_t awaited; /* path_await() is called when ep_prepare() is done */
	int error;	 /* -errno: it did not come up, or broke before its peer was up */
};

static inline uint32_t path_transport(const struct path *path)
{
	return path->rail.ep->dev->ops->transport;
}
static inline int path_carries(const struct path *path)
{
	return path->up && !path->error && !path->closing;
}
/* ---- policy.c ---- */

/* The transports of the context's devices, one bit each. */
uint64_t paths_possible(const struct control *c);
uint32_t host_id(void); /* identifies this machine; 0: unknown */
/* The one transport that the policy requires with a peer of this host ID; 0: any. */
uint32_t policy_required(const struct control *c, uint32_t host);
int policy_allows(const struct control *c, uint32_t host, uint32_t transport);
/* The figures of the reason why the peer went down, which has arg. */
void down_args(const struct peer *p, uint32_t reason, uint64_t arg, uint64_t args[3]);
void log_peer_up(const struct control *c, const struct peer *p);
void log_peer_down(const struct control *c, const struct peer *p, uint32_t reason, uint64_t arg,
		   int graceful);
void log_rail(const struct control *c, const struct peer *p, uint32_t transport, int err);
/* Logs the status that the device reported: device_code(). */
void log_device(const struct control *c, const struct peer *p, const struct path *path,
		uint64_t code);
/* Logs that the ep did not grow. */
void log_small(const struct control *c, const struct path *path);
void log_path_state(const struct control *c, const struct peer *p);
void log_link(const struct control *c, const struct peer *p);
/* Log that a device cannot pin len bytes for peers, or does not unpin them. */
void log_short(const struct control *c, struct device *dev, uint64_t len, int err);
void log_unpinned(const struct control *c, const struct device *dev, uint64_t len, int err);
/* Logs at close that the peer may still have memory of the context mapped. */
void log_importer(const struct control *c, const struct peer *p);
void log_refused(const struct control *c, const struct conn *n, const struct wire_refuse *r);
void log_garbage(const struct control *c, const struct conn *n);

/* ---- peers ---- */

enum peer_stage { STAGE_RAILS, STAGE_COMMITTED, STAGE_UP, STAGE_DOWN };

/* The data path of a peer that is up. The side that asks to suspend it: ACTIVE, LOOKING, ASKING,
 * PAUSING, COMMITTED, SUSPENDED. The other side: ACTIVE, YIELDING, YIELDED, SUSPENDED. */
enum path_state {
	PATH_ACTIVE,
	PATH_LOOKING,	/* the engine is asked whether it is idle */
	PATH_ASKING,	/* SUSPEND was sent */
	PATH_PAUSING,	/* SUSPEND_YES came; the engine pauses the peer if it is still idle */
	PATH_YIELDING,	/* SUSPEND came; likewise */
	PATH_YIELDED,	/* SUSPEND_YES was sent */
	PATH_COMMITTED, /* SUSPENDED was sent */
	PATH_SUSPENDED, /* suspended: SUSPENDED came, and the rails are closing or closed */
	PATH_RESUMING,	/* resuming: new rails are tried */
};

struct fetch {		       /* one KEY_REQ that this side sent */
	struct cmd cmd;	       /* ENGINE_REMOTE_KEYS with its answer */
	struct remote *remote; /* NULL: unused, or the remote ended meanwhile */
	struct path *path;     /* the rail that the key is for; NULL: closed */
	uint32_t number;       /* the number of that rail */
	uint64_t id;	       /* 0: no answer is expected */
	uint32_t part;
	uint8_t *data;
};

struct peer {
	struct list link; /* in control.peers */
	struct peer *hash_next;
	struct list due;  /* in control.due_peers */
	struct list held; /* in control.held */
	uint32_t handle;
	uint32_t refs; /* references that the program holds */
	uint64_t incarnation;
	enum peer_stage stage;
	uint64_t lost_ns; /* clock at its end */
	uint8_t dialled;  /* we dialled it */
	uint8_t leaving;  /* BYE came: an orderly end */
	uint8_t said_bye;
	uint8_t added;	  /* the engine has it */
	uint8_t answered; /* acceptor: HELLO_ACK was sent */
	uint8_t deleting;
	uint8_t watched; /* a ring watches it: it is pinged while idle, too */
	uint8_t bonded;	 /* data connections prove by bond that they belong to this peer */
	uint8_t bond[AUTH_BOND];
	uint32_t transport; /* the transport of its path; kept after the path closed */
	struct conn *conn;  /* NULL: closed */
	struct engine_peer *engine;
	struct cmd add, up, event, lost, del;
	struct control_timer ping_timer;  /* while a PING is unanswered: its timeout; else, if
					   * watched: the next PING */
	struct control_timer delay;	  /* while held: HOLD_NS; after its last rail broke:
					   * RAIL_GRACE_NS, or delay_spans spans */
	uint32_t ping_spans, delay_spans; /* spans of dead_after that each timer still runs;
					   * ping_spans 0: no PING is unanswered;
					   * delay_spans 0: `delay` runs once */
	int broken;			  /* -errno of the last rail that broke */
	int rail_error;			  /* -errno of the last rail that did not come up */
	uint64_t rail_errors;		  /* errors of the last three: rails_arg() */
	uint32_t required;		  /* the one transport that the policy allows; 0: any */
	uint64_t rail_versions;		  /* versions_arg() of the last rail with
					   * -EPROTONOSUPPORT */
	struct path *paths[WIRE_RAILS];
	uint32_t npaths;
	struct path *path; /* the path in use; NULL: none */
	struct {
		uint8_t transport, number, device; /* device: index of ours */
	} known[WIRE_RAILS]; /* rails that both sides have a device for, with or without a path */
	uint32_t nknown;
	uint32_t failover; /* a rail that breaks does not end the peer while the connection lives */
	uint32_t rails;	   /* rails of the peer, one bit for each number */
	uint32_t theirs;   /* rails that the other end closed */
	uint32_t unlinked; /* rails whose local port had no link at the last check */
	struct {
		struct cmd fenced;	/* tells the engine that both ends are closed */
		uint64_t at;		/* time of the next try; 0: now */
		uint32_t tries;		/* failed tries since the backoff was reset */
		uint32_t backoff_reset; /* the backoff was reset during a try */
	} rail[RAIL_NUMBERS];
	uint32_t fences_out;
	struct control_timer rails_timer;
	struct list dials;	       /* dials that wait for it */
	struct list remotes, fetching; /* struct remote: all; those with keys to request */
	struct list busy;	       /* remotes that wait for keys or pages, in order */
	uint64_t busy_seq;	       /* last number given in that order */
	struct list warming;	       /* struct control_req: CONTROL_WARM */
	struct fetch fetch[KEY_WINDOW];
	uint32_t fetch_window, fetch_out;
	uint64_t fetch_seq;
	struct list grants;
	uint32_t ngrants, grants_sweep; /* ngrants at which expired exports are ended */
	uint32_t asked;			/* KEY_REQs of the peer that are unanswered */
	uint64_t asked_upto;		/* highest number of a KEY_REQ of the peer */
	struct list revoke_unacked;	/* exports that a REVOKE covers, by its number */
	uint64_t revokes, revokes_done; /* REVOKEs sent, and confirmed by the peer */
	uint64_t revoke_round;		/* the last round in which it was sent a REVOKE */
	uint64_t revokes_seen;		/* REVOKEs that came from the peer */
	uint64_t revokes_answered;	/* REVOKEs of the peer that were answered */
	struct list revoking;		/* struct remote: revoked, with entries not yet ended, in
					 * order */
	struct control_req *closing;	/* the last CLOSE, not answered yet */
	uint32_t hello_len;
	uint8_t hello[HELLO_MAX];
	uint8_t answer[HELLO_MAX]; /* acceptor: note of the program's ACCEPT; the engine
				    * fills it when it answers `event` */
	struct sockaddr_storage remote;
	struct sockaddr_storage at;    /* address where it answered, or that its metadata names; no
				     * family: unknown */
	struct sockaddr_storage place; /* acceptor: the listen address that it claims; likewise */
	enum path_state path_state;
	uint8_t resume_wanted, resume_own; /* suspended: entries wait, on either side; on this
					    * side */
	uint8_t resume_sent;		   /* acceptor: RESUME was sent */
	struct list active;		   /* in control.active */
	uint32_t qps;			   /* queue pairs of its rails, while in control.active */
	struct cmd suspend;		   /* the engine's answer at each step of idle eviction */
	uint64_t suspend_ns;		   /* when it was last asked to suspend */
	uint8_t suspend_unused;	     /* 1: asked because it was idle; 0: because there were too
				      * many */
	uint64_t idle_seen, idle_ns; /* last use by either side as read at the last check, and when
				      * that value was first read */
	uint64_t used_seen, used_ns; /* engine_peer_used() as last read, and when that value was
				      * first read */
	uint64_t resume_ns;	     /* since when a resume is tried; 0: none */
	struct control_timer resume_timer; /* suspended: timer of the next try */
	struct wire_hello *later; /* a HELLO to be answered when the old rails are closed */
	uint8_t cut;		  /* 1: it has no rail, and no port that reaches it has a link */
	uint64_t down_ns;	  /* when it was first seen without a rail and a link; 0: not so */
	struct cmd cutting;	  /* tells the engine of `cut` */
	uint8_t cut_again;	  /* cutting must be sent again: `cut` changed meanwhile */
	struct cmd restarted;	  /* tells the engine that another incarnation is at its
				      * address */
	int process;		  /* its pidfd, if it is on this host; -1: none */
	uint8_t died;		  /* its process has ended */
	struct cmd dying;	  /* tells the engine that its process has ended */
	struct list importers;	  /* paths by which it may still have memory of ours mapped */
};

/* peers.c: finds peers and their rails */

/* Calls of control/ that peer/ may make, since nothing calls upward. */
struct peer_ops {
	const struct conn_ops *conn;
	void (*committed)(struct control *c, struct peer *p); /* acceptor: PATH came, and that rail
							       * is up, or is set up again */
	void (*unheld)(struct control *c, struct peer *p);    /* HOLD_NS is over */
	/* It went down before it was up: dials that wait for it go on. */
	void (*lost)(struct control *c, struct peer *p);
};

struct peer *peer_find(struct control *c, uint64_t incarnation); /* a peer that is not down */
struct peer *peer_of(struct control *c,
		     uint32_t handle); /* NULL with fail() text: the program has no such handle */
void peer_send(struct control *c, struct peer *p, uint32_t type, uint64_t word);
/* 1: the peer understands more than a refusal. A dialler that has no answer yet does not. */
int peer_listens(const struct peer *p);
void peer_ping(struct control *c, struct peer *p);
/* The peer was heard: no PING is unanswered. A watched one is pinged after dead_after of silence,
 * unless the end of its process is seen by its pidfd. */
void peer_heard(struct control *c, struct peer *p);
/* dead_after is divided into this many timers, one after the other. While this process does not
 * run, peers cannot be heard, and only one span of that time counts. */
#define SPANS 4u
void peer_span(struct control *c, struct control_timer *a);
/* The rail of this number; NULL: it has none. */
struct path *rail_path(const struct peer *p, uint32_t number);
/* The numbers of those that carry data, one bit each. */
uint32_t rails_up(const struct peer *p);
/* 1: the peer is up and uses this transport. Rails are numbered per transport, so numbers of others
 * may coincide. */
static inline int path_is_rail(const struct path *path)
{
	return path->peer->stage == STAGE_UP && path_transport(path) == path->peer->transport;
}
static inline uint64_t peer_down_ms(const struct peer *p)
{
	return (clock_ns() - p->lost_ns) / NSEC_PER_MSEC;
}
/* Posts a command about the peer; sets cmd.e.owner to the peer. */
void peer_cmd(struct control *c, struct peer *p, struct cmd *cmd, enum engine_cmd_type type,
	      void (*back)(struct control *c, struct cmd *cmd));
/* Something that it waited for has happened: peers_step() takes its next steps. */
void peer_due(struct control *c, struct peer *p);

/* pidfd.c and process.c: the process of a peer on this host */

#define PROCESS_EVENT 1u /* bit in an epoll event's data.u64; pointers do not have it */

/* Registers with epoll the pidfd, or the socket of an importer. 0 or -errno. */
int process_epoll(struct control *c, const struct peer *p, int fd, uint32_t events);
void process_begin(struct control *c, struct path *path); /* a path of its came up */
void process_leave(struct control *c, struct peer *p);	  /* its end no longer matters */

struct listener {
	int fd;
	uint32_t watched; /* registered with epoll */
	struct sockaddr_storage addr;
};

/* Pinned memory for bytes of GPUs: staging.c. */
struct staging {
	pthread_mutex_t lock; /* protects memory and gpu, which helper threads set */
	struct allocation *memory;
	struct gpu_dev *gpu;   /* the GPU that it is pinned for */
	struct region *region; /* the context's own region of that memory */
	struct cmd cmd;
	struct work work;	 /* makes the memory if none of a GPU is registered */
	struct control_req *req; /* the request that `work` answers */
	struct control_error error;
	struct list ends; /* CONTROL_RUN_ENDs not answered yet */
};

struct control {
	struct control_config config;
	struct engine *engine;
	struct mailbox *to_engine;
	struct mailbox mailbox; /* requests of engines, and calls */
	struct mailbox back;	/* commands and work items that are done */
	struct cpus opener;	/* CPUs of the thread that opened the context */
	int wake_fd, epoll_fd;
	struct {
		uint64_t ns; /* clock at its last check */
		int is_cut;
	} ports[DEVICES_MAX];
	struct listener listeners[LISTEN_MAX];
	uint32_t nlisteners;
	struct mappings mappings; /* used by ranges.c */
	int reserve_fd;		  /* closed for a moment when descriptors run out */
	struct control_timer listen_timer;
	struct class_socket socket; /* options of control connections */
	struct log log;
	uint32_t host; /* host_id() */
	pthread_t thread;
	int started;
	uint64_t start_ns; /* the time that expiries of adverts count from */
	uint8_t advert_key[16];
	struct heap timers;
	struct list conns, closed; /* closed: freed after this round of events */
	struct list pending;	   /* oldest first */
	uint32_t npending;
	struct list peers, held, dials, regions, allocations;
	const struct peer_ops *peer_ops;
	struct list due_peers, due_regions;  /* peers and regions that may be able to take their
					      * next step */
	struct peer **peer_hash;	     /* by incarnation: PEER_HASH lists */
	uint32_t region_slots, remote_slots; /* slots that the engine has room for */
	uint32_t scratch;		     /* handle of the scratch region; 0: none yet */
	struct staging staging;
	struct memory_map *map; /* the newest one; the engine has it until it returns
					      * it */
	struct handles peer_handles, region_handles, remote_handles;
	uint32_t live;			    /* peers that are not down */
	struct list works[WORK_KINDS];	    /* waiting for a thread */
	uint32_t nworks[WORK_KINDS];	    /* running */
	struct list active;		    /* peers with a data path */
	uint32_t nactive, nqps, nowners;    /* peers in `active`, their queue pairs, and the peers
					     * that have queue pairs */
	struct control_timer suspend_timer; /* more than max_warm or max_qps: time to ask again */
	uint64_t suspend_backoff_ns;
	struct control_timer idle_timer; /* time of the next check for idle peers */
	struct grant **grants;		 /* hash */
	uint32_t grants_mask, ngrants;
	struct pinned **pins; /* PIN_HASH lists */
	uint64_t revoke_round;
	struct resolver *resolver;
	struct control_call *shutdown;
	struct cmd stop;
	uint8_t ending; /* SHUTDOWN: 1 peers end, 2 regions end, 3 the engine stops */
	uint8_t quitting;
	uint8_t unpinned; /* a device or GPU driver did not unregister memory of a region that
			   * is gone */
	struct msg quit;
	uint8_t rx[RX_MAX];
	uint8_t tx[WIRE_BUF]; /* the frame being written */
};

/* Incarnations are random, so their low bits serve as hash. */
static inline struct peer **peer_bucket(const struct control *c, uint64_t incarnation)
{
	return &c->peer_hash[incarnation & (PEER_HASH - 1)];
}

/* ---- post.c ---- */

/* Answers the call. If res is negative, the caller's fail() text explains it. */
void call_answer(struct control_call *call, int res);
/* Answers the entry or the call. If res is negative, the reason explains it. */
void req_answer(struct control_req *req, int res, uint32_t reason, uint64_t a, uint64_t b,
		uint64_t c);
void req_answer_error(struct control_req *req, const struct control_error *t);
/* Answers a request whose handle is invalid: -EINVAL if its kind is not the wanted one, else
 * -ESTALE. */
void req_answer_handle(struct control_req *req, enum handle_kind wanted, uint32_t stale);

#endif
