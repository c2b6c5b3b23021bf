/* SPDX-License-Identifier: Apache-2.0 */
/* What every room stands on: lists, handles, the mailbox, the sleep hand-shake, the clock,
 * failures' words. */
#ifndef BASE_H
#define BASE_H

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <liburccl/inspect.h>

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define NSEC_PER_USEC 1000ull
#define NSEC_PER_MSEC 1000000ull
#define NSEC_PER_SEC 1000000000ull
#define NEVER_NS UINT64_MAX

#include "faults.h"

/* ---- list: circular, intrusive ---- */

struct list {
	struct list *next, *prev;
};

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline int list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_add_tail(struct list *l, struct list *head)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

/* Leaves l empty, so that removing twice does no harm. */
static inline void list_del(struct list *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	list_init(l);
}

#define list_entry(ptr, type, member) container_of(ptr, type, member)
#define list_first(head, type, member) container_of((head)->next, type, member)
#define list_for_each(pos, head) for ((pos) = (head)->next; (pos) != (head); (pos) = (pos)->next)
/* The entry at pos may be removed. */
#define list_for_each_safe(pos, tmp, head)                                                         \
	for ((pos) = (head)->next, (tmp) = (pos)->next; (pos) != (head);                           \
	     (pos) = (tmp), (tmp) = (pos)->next)

/* What is due at times of every order: adding costs a few words, the first of n O(log n) on the
 * whole. Both begin as zeros. */
struct heap_node {
	uint64_t at;
	struct heap_node *child, *next;	/* the first; the next child of the same */
	struct heap_node **link;	/* what points to it; NULL: it is in none */
};

struct heap {
	struct heap_node *trees;
};

void heap_add(struct heap *h, struct heap_node *n, uint64_t at); /* is in none */
void heap_del(struct heap_node *n);		/* also of none */
struct heap_node *heap_first(struct heap *h);	/* of those with the least at; NULL: empty */

/* ---- words shared between threads: release/acquire; relaxed for counters that only tell ---- */

#define load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define load_relaxed(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
/* A counter with one writer, read by anybody. */
#define count_add(p, n) store_relaxed((p), load_relaxed(p) + (n))

static inline void cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* ---- the sleep hand-shake ----
 * The sleeper announces, then looks once more at what it waits for; the poster publishes, then
 * looks at the announcement. Store then load on both sides, so both are seq_cst and so are the
 * published words themselves: with less, both may miss the other. Whoever takes the announcement by
 * exchange owes (or spares itself) the wake-up. */

static inline void sleep_announce(uint32_t *word, uint32_t how)
{
	__atomic_store_n(word, how, __ATOMIC_SEQ_CST);
}

/* What was announced, or 0; at most one of sleeper and posters gets it. */
static inline uint32_t sleep_take(uint32_t *word)
{
	if (!__atomic_load_n(word, __ATOMIC_SEQ_CST))
		return 0;
	return __atomic_exchange_n(word, 0, __ATOMIC_SEQ_CST);
}

/* eventfds; a full counter is as good as a written one */
int wake_open(void);		/* an eventfd, or -errno */
void wake_write(int fd);
void wake_drain(int fd);

/* Sleeps while *word == value, at most ns (NEVER_NS: for ever). 0, -EAGAIN (value differs),
 * -ETIMEDOUT, -EINTR. */
int futex_wait(uint32_t *word, uint32_t value, uint64_t ns);
void futex_wake(uint32_t *word);

/* ---- mailbox: the way between threads ----
 * Messages are part of the objects they speak of, so posting never fails and never allocates;
 * whoever posts one leaves it alone until the receiver sends it back to msg->reply. Any thread
 * posts, one thread takes. */

struct mailbox;
struct msg {
	struct msg *next;
	struct mailbox *reply;		/* where the answer goes; NULL: none, the receiver owns
					 * it */
	uint32_t type;
	int32_t res;			/* of the answer: 0 or -errno */
};

struct mailbox {
	struct msg *head;		/* newest first; posters push, the owner takes all */
	uint32_t asleep;		/* announcement of the owner */
	int fd;				/* the owner's eventfd */
};

void mailbox_init(struct mailbox *m, int fd);
/* Wakes the owner if it announced sleep. */
void mailbox_post(struct mailbox *m, struct msg *msg);
/* All messages, oldest first, linked by next; NULL: none. Owner. */
struct msg *mailbox_take(struct mailbox *m);
/* Announces sleep; 1: a message is there, not announced. Owner. */
int mailbox_arm(struct mailbox *m);
/* Sends the message back with its result; a message without reply is left to the caller. */
void msg_reply(struct msg *msg, int res);

/* ---- handles ----
 * Slot in bits 0 to 19, generation in bits 20 to 29, kind in bits 30 and 31; never 0. A slot whose
 * generation would wrap is retired: a table gives out 2^30 handles in its life. Tables whose
 * handles no program sees use the bits of the kind for the generation too. */

#define HANDLE_SLOT_BITS  20u
#define HANDLE_KIND_SHIFT 30u
#define HANDLE_SLOT(h)	  ((h) & ((1u << HANDLE_SLOT_BITS) - 1))
#define HANDLE_KIND(h)	  ((h) >> HANDLE_KIND_SHIFT)
#define HANDLE_OF_KIND(k) ((uint32_t)(k) << HANDLE_KIND_SHIFT)

enum handle_kind {
	HANDLE_INTERNAL = 0,	/* seen by no program; a ring's id looks the same */
	HANDLE_PEER,
	HANDLE_REGION,
	HANDLE_REMOTE,
};

struct handles {
	enum handle_kind kind;
	uint32_t max;			/* slots in use and free at most */
	uint32_t used;			/* slots ever handed out */
	uint32_t retired;		/* of them, those of the last generation: never used
					 * again */
	uint32_t size;			/* of slots[]: grows as slots retire */
	uint32_t free;			/* head of the free list, ~0: empty */
	struct handle_slot {
		void *object;		/* NULL: free */
		uint32_t handle;	/* of the object, or the one the slot gets next */
		uint32_t next;		/* free list */
	} *slots;
};

int handles_init(struct handles *h, uint32_t max, enum handle_kind kind); /* 0 or -ENOMEM */
void handles_fini(struct handles *h);
uint32_t handles_add(struct handles *h, void *object);	/* 0: all slots in use */
void *handles_get(const struct handles *h, uint32_t handle);	/* NULL: stale, or never was */
void handles_del(struct handles *h, uint32_t handle);
/* Why a handle that a program gave names nothing. */
struct handle_error {
	int res;		/* -EINVAL: of another kind than wanted; -ESTALE */
	uint32_t reason;	/* for -ESTALE the one that the caller gave */
	uint64_t arg[2];
};
struct handle_error handle_error(uint32_t handle, enum handle_kind wanted, uint32_t stale);
/* The same for a call: returns res, with fail() text. */
int fail_handle(uint32_t handle, enum handle_kind wanted, uint32_t stale);

/* ---- files of memory ---- */

/* A memfd that can be sealed, is closed by exec() and never executed: its descriptor or -errno. */
int memfd_open(const char *name);
/* Another descriptor of it, through which nobody can write, or -errno. */
int memfd_reader(int fd);

/* ---- clock ---- */

/* Monotonic, ns. */
uint64_t clock_ns(void);

/* A simulated clock, of INLINE contexts. Any thread, but the same moves at the same times are had
 * from one alone. */
struct clock {
	uint64_t now;			/* ns; stored under lock, read by any thread */
	pthread_mutex_t lock;		/* of all else */
	struct list members;
	uint64_t happened;		/* counts what members did */
	uint32_t held;
	uint64_t held_at, held_since;	/* its time when it was held, and the wall clock's */
	uint32_t news;			/* it was released, and nobody has gone on since */
};

struct clock_member {
	struct list link;
	uint64_t idle;			/* as of clock.happened: has nothing to do before next */
	uint64_t next;
	uint32_t turns;			/* that it had nothing to do since then */
};

void clock_init(struct clock *c);
void clock_fini(struct clock *c);	/* no members */
void clock_join(struct clock *c, struct clock_member *m);
void clock_leave(struct clock *c, struct clock_member *m);
/* A control thread works for a member, until released. */
void clock_hold(struct clock *c);
void clock_release(struct clock *c);
void clock_busy(struct clock *c);	/* a member has something to do */
void clock_taken(struct clock *c);	/* and that is entries: its program knows the news */
/* The member has nothing to do before next (NEVER_NS: ever). */
void clock_idle(struct clock *c, struct clock_member *m, uint64_t next);
/* Somebody sleeps until then: 1: it is then; 0: not yet, really sleep a little. */
int clock_sleep(struct clock *c, uint64_t until);

/* c NULL: the real one. */
static inline uint64_t clock_now(const struct clock *c)
{
	return c ? load_acquire(&c->now) : clock_ns();
}

/* ---- random and keyed hash ---- */

int random_bytes(void *buf, size_t len);		/* 0 or -errno */
/* SipHash-2-4 with 128-bit output (Aumasson and Bernstein, 2012). */
void siphash128(const uint8_t key[16], const void *data, size_t len, uint8_t out[16]);
/* Of this machine, as long as it runs, under a key: the kernel's boot ID is the same in all
 * containers of a host. 0, or -errno: it is not to be had. Peers compare it: it never changes. */
int machine_hash(const uint8_t key[16], uint8_t out[16]);
/* Equal or not, in a time that does not tell where they differ. */
int equal_const_time(const void *a, const void *b, size_t len);

#define HMAC_BYTES 32u
struct hmac { /* how libcrypto does it */
	const void *digest;
	unsigned char *(*run)(const void *digest, const void *key, int key_len,
			      const unsigned char *data, size_t len, unsigned char *out,
			      unsigned int *out_len);
};
/* 0, or -EOPNOTSUPP with fail() text: there is no libcrypto here. */
int hmac_open(struct hmac *h);
/* HMAC-SHA256 (RFC 2104): 0 or -ENOMEM. */
int hmac_sha256(const struct hmac *h, const void *key, size_t key_len, const void *data, size_t len,
		uint8_t out[HMAC_BYTES]);

/* ---- checksum ---- */

/* CRC32C of what crc (0: nothing) is the CRC32C of and the len bytes behind it. */
uint32_t crc32c(uint32_t crc, const void *data, size_t len);

/* ---- texts ---- */

/* One under construction: what does not fit is counted. */
struct text {
	char *buf;
	size_t size, len; /* of buf; of the text */
};

void text_add(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Where it goes on and what fits there, for who adds to len itself. NULL: nothing. */
char *text_room(const struct text *t, size_t *room);

/* A file's first line, without its end, as far as it fits: 0 or -errno. */
int file_line(const char *path, char *to, size_t size);

/* ---- why something failed ----
 * Failed calls leave a sentence for this thread; failed entries and events a record, made without a
 * string, that explain turns into one. */

/* Sets this thread's urccl_errmsg() text and returns err, so that a failing function ends in one
 * line. */
int fail(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "what: the errno", and where this process ran into a limit which one. */
int fail_errno(int err, const char *what);
/* The same with the text of a reason (enum reason, below) and its figures. */
int fail_reason(int err, uint32_t reason, const uint64_t arg[3]);

/* Each has a text with up to three 64-bit figures in reasons.h; where the record has a peer or a
 * transport the sentence names it. */
enum reason {
	REASON_NONE = 0,
#define REASON(name, text) REASON_##name,
#include "reasons.h"
#undef REASON
	REASON_LAST,
	REASON_DEADLINE_LAST = REASON_DEADLINE_OTHER /* the first is REASON_DEADLINE */
};

struct failure {			/* 64 bytes */
	uint64_t id;			/* detail of the CQE, in the low 32 bits; written last (and
					 * 0 first) */
	uint32_t reason;		/* enum reason */
	int32_t	 res;
	uint32_t peer;			/* handle, 0: none */
	uint32_t segment;
	uint8_t	 opcode, transport;
	uint16_t reserved;
	uint32_t after_us;		/* the deadline, or how long it was under way, where the
					 * reason lacks it; 0: none */
	uint64_t arg[3];
	uint64_t user_data;
};

#define FAILURES 1024u
struct failures {			/* one writer (the engine), any reader */
	uint32_t last;			/* id given out last */
	struct failure ring[FAILURES];
};

/* Notes a failure and returns its detail. Writer. */
uint32_t failures_add(struct failures *f, const struct failure *what);
/* 0, or -ENOENT: never was, or overwritten. Any thread. */
int failures_get(const struct failures *f, uint32_t detail, struct failure *out);
/* The reason alone, with its figures filled in. */
int reason_text(uint32_t reason, const uint64_t arg[3], char *buf, size_t len);
/* The beginning of a text in n figures. Its %q. */
void text_args(uint64_t *arg, size_t n, const void *text, size_t len);
/* Errors of up to three rails in one figure: the newest is added. rail: 1 + its number; 0: the one
 * that its transport has. Its %p. */
uint64_t rails_arg(uint64_t before, uint32_t transport, uint32_t rail, int err);
/* The sentence, snprintf's way. peer_name: how to call the peer, or NULL. */
int failure_text(const struct failure *f, const char *peer_name, char *buf, size_t len);

/* Copies a struct that the program made with its own header into dst, which has known bytes and
 * holds the defaults: a shorter one leaves the rest of dst alone, what a longer one has beyond must
 * be 0 (else -E2BIG). size, the struct's first field, is known afterwards. 0 or -errno with fail()
 * text that calls it what. */
int copy_sized(void *dst, uint32_t known, const void *src, const char *what);
/* The other way: fills a struct of the program whose first field says how long it is; what it has
 * beyond is 0. */
int fill_sized(void *dst, const void *src, uint32_t known, const char *what);

/* ---- what happens, told to the program: control thread, open and close; never an engine ---- */

struct log {
	void (*tell)(void *arg, int level, const char *text); /* NULL: nobody */
	void *arg;
	uint32_t level; /* enum urccl_log_level */
};

void log_init(struct log *l, const struct urccl_params *p);
/* Nothing is told from now on, by whichever thread. */
void log_end(struct log *l);
/* Worth making a text for. */
int log_wants(const struct log *l, enum urccl_log_level level);
void log_text(const struct log *l, enum urccl_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* A program's log for want of one. */
void log_stderr(void *arg, int level, const char *text);

/* ---- threads ---- */

#define CPUS_MAX 8192u
struct cpus {
	uint64_t bits[CPUS_MAX / 64];
};

int cpus_parse(const char *text, struct cpus *cpus); /* "0-3,8": 0 or -EINVAL */
/* The first that is wanted and not there, or -ENOENT. */
int cpus_missing(const struct cpus *wanted, const struct cpus *there);
uint32_t cpus_count(const struct cpus *cpus);

/* Libraries that are loaded where the settings name no others. */
#define IBV_SO	     "libibverbs.so.1"
#define LIBFABRIC_SO "libfabric.so.1"
#define CUDA_SO	     "libcuda.so.1"

#define THREAD_NAME_MAX 7 /* bytes of a name's beginning */
#define THREAD_PREFIX	"urccl" /* where none is given */
struct thread_how {
	const char *prefix, *part; /* its name: "urccl", "control" */
	const char *setting;	   /* for sentences: "control" of control_cpus */
	const char *cpus;	   /* NULL: as who starts it */
	int nice;		   /* 0: likewise */
};

/* Every signal is blocked in it. 0 when it has name, place and rank and runs; -errno with fail()
 * text: there is none. */
int thread_start(pthread_t *thread, const struct thread_how *how, void *(*run)(void *arg),
		 void *arg);
/* Likewise for a while, of a thread that has every signal blocked: on these CPUs, or where who
 * starts it may run (cpus is NULL, or they cannot be had). 0 or -errno. */
int helper_start(pthread_t *thread, const char *prefix, const char *part, const struct cpus *cpus,
		 void *(*run)(void *arg), void *arg);
/* Where this thread may run; none where that is not to be had. */
void thread_cpus(struct cpus *cpus);

/* ---- settings that each class has for itself ---- */

#define CLASSES 3u /* enum urccl_class */
struct class_words {
	const char *at[CLASSES]; /* NULL: not named */
	size_t len[CLASSES];
};

/* "x" for all, or "bulk:x,latency:y": 0 or -EINVAL. */
int classes_split(const char *text, struct class_words *w);
const char *class_name(uint32_t cls);

/* What a class asks of its tcp sockets. */
struct class_socket {
	char congestion[16];		/* "": the system's */
	int tclass, priority;		/* 0: the system's */
};

/* Reads it and tries it on a socket: 0, or -errno with fail() text that says what the kernel does
 * not give. */
int class_socket_read(struct class_socket *cs, const struct urccl_params *p, uint32_t cls);
int class_socket_set(const struct class_socket *cs, int fd);	/* 0 or -errno */

/* ---- interfaces of this host ---- */

#define LISTEN_MAX 16u /* addresses that a context listens on */
#define NETIFS_MAX 64u

struct netif { /* one of an interface's addresses */
	char name[16];
	struct sockaddr_storage addr; /* its port is 0 */
	uint32_t prefix;	      /* bits of its network */
	int loopback;
};

/* "eth,ib": names that begin so; "=eth0": just these; "^docker", "^=eth1": all but those. 0 or
 * -EINVAL. */
int netif_rules_check(const char *rules);
int netif_matches(const char *rules, const char *name);
/* Of the interfaces that are up and match (NULL: all), the addresses that others can use. How many,
 * or -errno. */
int netifs(struct netif *out, uint32_t max, const char *rules);
int netif_near(const struct netif *n, const struct sockaddr_storage *to); /* of one network */
/* Where to dial from, with port 0: AF_UNSPEC: anywhere. -EADDRNOTAVAIL: the interfaces that match
 * have no address of that family. */
int netif_source(const char *rules, const struct sockaddr_storage *to,
		 struct sockaddr_storage *from);
int addr_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b); /* but ports */
int addr_loopback(const struct sockaddr_storage *ss);
int addr_wildcard(const struct sockaddr_storage *ss);
void addr_unmap(struct sockaddr_storage *ss); /* ::ffff:10.0.0.1 becomes 10.0.0.1 */

/* ---- RDMA devices of this host, by the setting rdma_dev ---- */

#define NIC_NAME_MAX 63u
#define NIC_PORT_MAX 255u

struct nic_port {
	char name[NIC_NAME_MAX + 1]; /* of its device */
	uint8_t port;
};

/* "mlx5_0,mlx5_1:2": what is a device's name means that one, else the devices whose names begin so,
 * a number the device at that place of the list (as UCCL has it), ":2" port 2 alone; "=mlx5" nothing
 * but whole names; "^mlx5_2,mlx5_3" all but those. 0 or -EINVAL. */
int nic_rules_check(const char *rules);
/* names: all n of this host, in the order of the verbs; the i-th, and its port. */
int nic_matches(const char *rules, const char *const *names, uint32_t n, uint32_t i, uint32_t port);
/* 1, and the k-th word (if it fits) that means no device. */
int nic_missing(const char *rules, const char *const *names, uint32_t n, uint32_t k, char *word,
		size_t size);
/* 1: a word means the i-th alone, by its whole name or its place. */
int nic_named(const char *rules, const char *const *names, uint32_t n, uint32_t i);
/* They say which, not which not (rules NULL: neither). */
int nic_names(const char *rules);
/* They name some by a number, which is a place in the list if it is no name. */
int nic_places(const char *rules);

/* The name and the C locale's text of an errno value: "EPERM"; NULL if there is none. */
const char *errno_name(int err);
const char *errno_text(int err);

/* Names of enum values, for dumps, tools and sentences: "write", "tcp"; NULL if there is none. */
const char *opcode_name(uint32_t opcode);
const char *transport_name(uint32_t transport);
int transport_parse(const char *name, size_t len);	/* enum urccl_transport, or -EINVAL */

#endif
