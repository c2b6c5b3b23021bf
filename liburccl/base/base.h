/* SPDX-License-Identifier: Apache-2.0 */
/* The tools that every room uses: lists, handles, mailboxes, the sleep handshake, clocks, and the
 * sentences that describe failures. */
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

/* Leaves l an empty list, so a second list_del() of the same entry does no harm. */
static inline void list_del(struct list *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	list_init(l);
}

#define list_entry(ptr, type, member) container_of(ptr, type, member)
#define list_first(head, type, member) container_of((head)->next, type, member)
#define list_for_each(pos, head) for ((pos) = (head)->next; (pos) != (head); (pos) = (pos)->next)
/* Like list_for_each(); the body may remove the entry at pos. */
#define list_for_each_safe(pos, tmp, head)                                                         \
	for ((pos) = (head)->next, (tmp) = (pos)->next; (pos) != (head);                           \
	     (pos) = (tmp), (tmp) = (pos)->next)

/* Like the two above, with e at each structure in turn. member: its link. */
#define list_paste(a, b) a##b
#define list_at(name, line) list_paste(name, line)
#define list_for_each_entry(e, head, member)                                                       \
	for (struct list *list_at(at_, __LINE__) = (head)->next;                                   \
	     list_at(at_, __LINE__) != (head) &&                                                   \
	     ((e) = list_entry(list_at(at_, __LINE__), __typeof__(*(e)), member), 1);              \
	     list_at(at_, __LINE__) = list_at(at_, __LINE__)->next)
#define list_for_each_entry_safe(e, head, member)                                                  \
	for (struct list *list_at(at_, __LINE__) = (head)->next,                                   \
			 *list_at(next_, __LINE__) = list_at(at_, __LINE__)->next;                 \
	     list_at(at_, __LINE__) != (head) &&                                                   \
	     ((e) = list_entry(list_at(at_, __LINE__), __typeof__(*(e)), member), 1);              \
	     list_at(at_, __LINE__) = list_at(next_, __LINE__),                                    \
			 list_at(next_, __LINE__) = list_at(at_, __LINE__)->next)

/* A priority queue of entries by their time at. heap_add() costs a few instructions; heap_first()
 * costs O(log n) amortized. A heap and its nodes start zeroed. */
struct heap_node {
	uint64_t at;
	/* The first child of this node; the next child of this node's parent. */
	struct heap_node *child, *next;
	/* The pointer that points to this node. NULL: the node is in no heap. */
	struct heap_node **link;
};

struct heap {
	struct heap_node *trees;
};

/* n must not be in a heap. */
void heap_add(struct heap *h, struct heap_node *n, uint64_t at);
/* Does nothing if n is in no heap. */
void heap_del(struct heap_node *n);
/* A node with the least at. NULL: the heap is empty. */
struct heap_node *heap_first(struct heap *h);

/* ---- words shared between threads: release and acquire; relaxed for mere counters ---- */

#define load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define load_relaxed(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
/* Adds to a counter that has one writer and any number of readers. */
#define count_add(p, n) store_relaxed((p), load_relaxed(p) + (n))

static inline void cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* ---- the sleep handshake ----
 * The sleeper stores its announcement, then checks once more for work. A poster publishes its work,
 * then checks for an announcement. Each side stores first and loads second, so both accesses, and
 * the accesses to the published work itself, are seq_cst: with a weaker order each side may miss
 * the store of the other. sleep_take() removes the announcement; a poster that gets it must wake
 * the sleeper, and a sleeper that gets its own back needs no wake-up. */

static inline void sleep_announce(uint32_t *word, uint32_t how)
{
	__atomic_store_n(word, how, __ATOMIC_SEQ_CST);
}

/* Returns the announced value, or 0. At most one of several callers gets it. */
static inline uint32_t sleep_take(uint32_t *word)
{
	if (!__atomic_load_n(word, __ATOMIC_SEQ_CST))
		return 0;
	return __atomic_exchange_n(word, 0, __ATOMIC_SEQ_CST);
}

/* Closes fd unless it is negative. */
void fd_close(int fd);
/* Opens an eventfd. Returns it or -errno. */
int wake_open(void);
/* Makes fd readable. A full counter refuses the write, but such an eventfd is readable already. */
void wake_write(int fd);
void wake_drain(int fd);

/* Sleeps while *word == value, for at most ns nanoseconds (NEVER_NS: without a limit). Returns 0
 * (woken), -EAGAIN (*word differs from value), -ETIMEDOUT or -EINTR. */
int futex_wait(uint32_t *word, uint32_t value, uint64_t ns);
void futex_wake(uint32_t *word);

/* ---- mailbox: messages between threads ----
 * A message is embedded in the object that it concerns, so mailbox_post() never fails and never
 * allocates memory. After posting a message, the sender leaves it alone until the receiver sends it
 * back to msg->reply. Any thread may post to a mailbox; one thread, its owner, takes messages
 * out. */

struct mailbox;
struct msg {
	struct msg *next;
	/* The mailbox that gets the answer. NULL: there is no answer, and the receiver owns the
	 * message. */
	struct mailbox *reply;
	uint32_t type;
	int32_t res;			/* In an answer: 0 or -errno. */
};

struct mailbox {
	/* A stack, newest message first: posters push, the owner takes all messages at once. */
	struct msg *head;
	uint32_t asleep;		/* The owner's sleep announcement. */
	int fd;				/* the owner's eventfd */
};

void mailbox_init(struct mailbox *m, int fd);
/* Adds msg, and wakes the owner if it has announced sleep. */
void mailbox_post(struct mailbox *m, struct msg *msg);
/* Returns all messages as a list linked by next, oldest first. NULL: there are none. Only the owner
 * may call this. */
struct msg *mailbox_take(struct mailbox *m);
/* Announces sleep and returns 0. Returns 1, without an announcement, if a message is waiting. Only
 * the owner may call this. */
int mailbox_arm(struct mailbox *m);
/* Sets msg->res and sends the message back. A message without a reply mailbox stays with the
 * caller. */
void msg_reply(struct msg *msg, int res);

/* ---- handles ----
 * A handle has its slot in bits 0 to 19, its generation in bits 20 to 29 and its kind in bits 30
 * and 31. It is never 0. A slot whose generation would wrap around is retired, so a table gives out
 * at most 2^30 handles in its life. A table of kind HANDLE_INTERNAL, whose handles no program sees,
 * uses the bits of the kind for the generation too. */

#define HANDLE_SLOT_BITS  20u
#define HANDLE_KIND_SHIFT 30u
#define HANDLE_SLOT(h)	  ((h) & ((1u << HANDLE_SLOT_BITS) - 1))
#define HANDLE_KIND(h)	  ((h) >> HANDLE_KIND_SHIFT)
#define HANDLE_OF_KIND(k) ((uint32_t)(k) << HANDLE_KIND_SHIFT)

enum handle_kind {
	HANDLE_INTERNAL = 0,	/* No program sees these. A ring's id has this form as well. */
	HANDLE_PEER,
	HANDLE_REGION,
	HANDLE_REMOTE,
};

struct handles {
	enum handle_kind kind;
	uint32_t max;			/* The most slots that may be in use or free at once. */
	uint32_t used;			/* Slots handed out at least once. */
	/* Slots among `used` whose last generation has passed: they are never used again. */
	uint32_t retired;
	/* The length of slots[]; it grows as slots retire. */
	uint32_t size;
	uint32_t free;			/* The first slot of the free list; ~0: the list is
					 * empty. */
	struct handle_slot {
		void *object;		/* NULL: the slot is free. */
		/* The handle of the object, or of a free slot the handle that it gets next. */
		uint32_t handle;
		uint32_t next;		/* The next slot of the free list. */
	} *slots;
};

/* Returns 0 or -ENOMEM. */
int handles_init(struct handles *h, uint32_t max, enum handle_kind kind);
void handles_fini(struct handles *h);
/* Returns the new handle. 0: all slots are in use, or there is no memory for more. */
uint32_t handles_add(struct handles *h, void *object);
/* Returns the object. NULL: the handle is stale, or was never given out. */
void *handles_get(const struct handles *h, uint32_t handle);
void handles_del(struct handles *h, uint32_t handle);
/* The reason why a handle that a program passed names nothing. */
struct handle_error {
	int res;		/* -EINVAL: the handle is of another kind than the one wanted; or
				 * -ESTALE. */
	uint32_t reason;	/* With -ESTALE: the reason that the caller passed. */
	uint64_t arg[2];
};
/* Builds the error for a handle that handles_get() did not find. stale: the reason to give if the
 * kind is right. */
struct handle_error handle_error(uint32_t handle, enum handle_kind wanted, uint32_t stale);
/* The same for a failing call: sets the text of urccl_errmsg() and returns res. */
int fail_handle(uint32_t handle, enum handle_kind wanted, uint32_t stale);

/* ---- memory files ---- */

/* Opens a memfd that can be sealed and closes on exec(). The kernel forbids its execution if it
 * can. Returns the descriptor or -errno. */
int memfd_open(const char *name);
/* Opens a second descriptor of the same memfd that does not allow writing. Returns it or -errno. */
int memfd_reader(int fd);
/* Makes the pages read as zero in a forked child. what: "a ring". Returns 0, or -errno with fail()
 * text. */
int wipe_on_fork(void *mem, size_t len, const char *what);

/* ---- clock ---- */

/* Returns the monotonic time in nanoseconds. */
uint64_t clock_ns(void);

/* A simulated clock, which INLINE contexts use. Any thread may call its functions, but a run is
 * reproducible only if one thread makes all calls. */
struct clock {
	uint64_t now;			/* In nanoseconds. Written under lock; any thread may read
					 * it. */
	pthread_mutex_t lock;		/* Protects all other fields. */
	struct list members;
	uint64_t happened;		/* Counts the events that make earlier clock_idle() reports
					 * void. */
	/* The number of clock_hold() calls without their clock_release(). */
	uint32_t held;
	/* Simulated time and wall-clock time at the first of those calls. */
	uint64_t held_at, held_since;
	/* Set by clock_release() until the time moves or a member's program submits entries. */
	uint32_t news;
};

struct clock_member {
	struct list link;
	/* The value of clock.happened when the member last said that it has nothing to do before
	 * next. */
	uint64_t idle;
	uint64_t next;
	/* Consecutive clock_idle() calls at this value of clock.happened. */
	uint32_t turns;
};

void clock_init(struct clock *c);
/* The clock must have no members. */
void clock_fini(struct clock *c);
void clock_join(struct clock *c, struct clock_member *m);
void clock_leave(struct clock *c, struct clock_member *m);
/* A control thread starts to work for a member. Until clock_release() the time stands still for a
 * second of real time, and then moves no faster than the wall clock. */
void clock_hold(struct clock *c);
void clock_release(struct clock *c);
/* A member has something to do. */
void clock_busy(struct clock *c);
/* A member's program submitted entries, so it knows what clock_release() announced. */
void clock_taken(struct clock *c);
/* The member has nothing to do before the time next. NEVER_NS: it waits for nothing. */
void clock_idle(struct clock *c, struct clock_member *m, uint64_t next);
/* A caller sleeps until the given time. Returns 1 if it is that time now, 0 if not: the caller then
 * really sleeps for a little while and calls again. */
int clock_sleep(struct clock *c, uint64_t until);

/* Returns the time of c. NULL: the real time. */
static inline uint64_t clock_now(const struct clock *c)
{
	return c ? load_acquire(&c->now) : clock_ns();
}

/* ---- libraries that are loaded by name ---- */

struct symbol {
	const char *name;
	void *at;					/* a pointer to a function pointer */
};

/* Sets the pointers of n symbols. NULL, or the name of one that the library lacks. */
const char *symbols_find(void *library, const struct symbol *s, size_t n);

/* ---- random and keyed hash ---- */

int random_bytes(void *buf, size_t len);		/* Returns 0 or -errno. */
/* SipHash-2-4 with 128-bit output (Aumasson and Bernstein, 2012). */
void siphash128(const uint8_t key[16], const void *data, size_t len, uint8_t out[16]);
/* Computes a keyed hash that identifies this machine until it reboots: it hashes the kernel's boot
 * ID, which all containers of a host share. Returns 0, or -errno if the boot ID cannot be read.
 * Peers compare the hash, so its computation must never change. */
int machine_hash(const uint8_t key[16], uint8_t out[16]);
/* Returns whether a and b are equal, in a time that does not depend on the place of a
 * difference. */
int equal_const_time(const void *a, const void *b, size_t len);

#define HMAC_BYTES 32u
/* The functions of libcrypto. */
struct hmac {
	const void *digest;
	unsigned char *(*run)(const void *digest, const void *key, int key_len,
			      const unsigned char *data, size_t len, unsigned char *out,
			      unsigned int *out_len);
};
/* Returns 0, or -EOPNOTSUPP with fail() text if libcrypto is missing or unsuitable. */
int hmac_open(struct hmac *h);
/* Computes HMAC-SHA256 (RFC 2104). Returns 0 or -ENOMEM. */
int hmac_sha256(const struct hmac *h, const void *key, size_t key_len, const void *data, size_t len,
		uint8_t out[HMAC_BYTES]);

/* ---- checksum ---- */

/* Continues a CRC32C: crc is the CRC32C of the bytes so far (0: of none). Returns the CRC32C of
 * those bytes followed by the len bytes at data. */
uint32_t crc32c(uint32_t crc, const void *data, size_t len);

/* ---- texts ---- */

/* A text under construction. Bytes that do not fit into buf are counted but not stored. */
struct text {
	char *buf;
	/* The size of buf; the length of the whole text. */
	size_t size, len;
};

void text_add(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Returns the place in buf at which the text continues and its size, for a caller that writes there
 * and adds to len itself. NULL: buf is full. */
char *text_room(const struct text *t, size_t *room);

/* Writes all len bytes to a descriptor of the program's without raising SIGPIPE. Waits as write()
 * does. Returns 0 or -errno; -EAGAIN: it does not block and took only part. */
int write_whole(int fd, const void *buf, size_t len);

/* A text on its way to a descriptor. */
struct out {
	int fd;
	/* The first error; what is added after it is dropped. */
	int err;
	uint32_t len;
	char buf[2048];
};

/* Adds a piece; the bytes of one beyond sizeof(buf) are cut off. */
void out_add(struct out *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Writes the rest. Returns 0, or the first error. */
int out_end(struct out *o);

/* Letters and digits of ASCII; <ctype.h> and <strings.h> depend on the program's locale. */
static inline char ascii_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
}

static inline char ascii_upper(char c)
{
	return c >= 'a' && c <= 'z' ? (char)(c + 'A' - 'a') : c;
}

static inline int ascii_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* 1: the first len bytes of both texts, up to their ends, are equal without regard to case. */
int ascii_same(const char *a, const char *b, size_t len);

/* Reads the first line of a file without its newline, as far as it fits. Returns 0 or -errno. */
int file_line(const char *path, char *to, size_t size);

/* ---- reasons for failures ----
 * A failed call leaves a sentence for its thread. A failed entry or event leaves a record, made
 * without any string, from which urccl_explain() makes a sentence. */

/* Sets the urccl_errmsg() text of this thread and returns err, so that a failing function ends in
 * one line. */
int fail(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Sets the text to "what: name of the errno". If this process has met a limit, the text names
 * it. */
int fail_errno(int err, const char *what);
/* Like fail(), with the text of a reason (enum reason, below) and its figures. */
int fail_reason(int err, uint32_t reason, const uint64_t arg[3]);

/* Each reason has in reasons.h a text with up to three 64-bit figures. If the record has a peer or
 * a transport, the sentence names it as well. */
enum reason {
	REASON_NONE = 0,
#define REASON(name, text) REASON_##name,
#include "reasons.h"
#undef REASON
	REASON_LAST,
	REASON_DEADLINE_LAST = REASON_DEADLINE_OTHER /* REASON_DEADLINE is the first */
};

struct failure {			/* 64 bytes */
	/* The low 32 bits are the detail of the CQE. The writer sets id to 0 first and to its value
	 * last. */
	uint64_t id;
	uint32_t reason;		/* enum reason */
	int32_t	 res;
	uint32_t peer;			/* A handle; 0: none. */
	uint32_t segment;
	uint8_t	 opcode, transport;
	uint16_t reserved;
	/* The deadline, or the time that the entry was under way if the reason's text lacks it. 0:
	 * neither. */
	uint32_t after_us;
	uint64_t arg[3];
	uint64_t user_data;
};

#define FAILURES 1024u
/* Written by one thread, the engine; any thread may read it. */
struct failures {
	uint32_t last;			/* The id given out last. */
	struct failure ring[FAILURES];
};

/* Stores a failure and returns its detail. Only the writer may call this. */
uint32_t failures_add(struct failures *f, const struct failure *what);
/* Returns 0. -ENOENT: there never was such a record, or a newer one has replaced it. Any thread may
 * call this. */
int failures_get(const struct failures *f, uint32_t detail, struct failure *out);
/* Writes the reason's text alone, with its figures filled in. Returns like snprintf(). */
int reason_text(uint32_t reason, const uint64_t arg[3], char *buf, size_t len);
/* Stores the beginning of a text in n figures, which %q of reasons.h shows. */
void text_args(uint64_t *arg, size_t n, const void *text, size_t len);
/* Stores the errors of up to three rails in 48 bits, which %p of reasons.h shows: adds the newest
 * to before. rail: 1 + the rail's number; 0: the only rail of its transport. */
uint64_t rails_arg(uint64_t before, uint32_t transport, uint32_t rail, int err);
/* Writes the whole sentence. Returns like snprintf(). peer_name: a name for the peer, or NULL. */
int failure_text(const struct failure *f, const char *peer_name, char *buf, size_t len);

/* Copies a struct that a program made with the header of its own version. dst has known bytes and
 * holds the defaults. A shorter src leaves the rest of dst unchanged; the bytes of a longer src
 * beyond known must be 0, else the call fails with -E2BIG. Afterwards size, the first field, is
 * known. Returns 0, or -errno with fail() text, in which `what` names the struct. */
int copy_sized(void *dst, uint32_t known, const void *src, const char *what);
/* Copies the other way: fills a program's struct whose first field is its size. Sets bytes beyond
 * known to 0. */
int fill_sized(void *dst, const void *src, uint32_t known, const char *what);

/* ---- log messages to the program, from the control thread, open and close; never an engine
 * ---- */

struct log {
	void (*callback)(void *arg, int level, const char *text); /* NULL: there is no log. */
	void *arg;
	uint32_t level; /* enum urccl_log_level */
};

void log_init(struct log *l, const struct urccl_params *p);
/* Ends all messages, from any thread. */
void log_end(struct log *l);
/* Returns whether a message of this level would be delivered, so its text is worth making. */
int log_wants(const struct log *l, enum urccl_log_level level);
void log_text(const struct log *l, enum urccl_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The log function of a program that has set none: writes to stderr. */
void log_stderr(void *arg, int level, const char *text);

/* ---- threads ---- */

#define CPUS_MAX 8192u
struct cpus {
	uint64_t bits[CPUS_MAX / 64];
};

/* Parses a list such as "0-3,8". Returns 0 or -EINVAL. */
int cpus_parse(const char *text, struct cpus *cpus);
/* Returns the first CPU that is in wanted and not in there, or -ENOENT. */
int cpus_missing(const struct cpus *wanted, const struct cpus *there);
uint32_t cpus_count(const struct cpus *cpus);

/* The libraries that are loaded unless a setting names others. */
#define IBV_SO	     "libibverbs.so.1"
#define LIBFABRIC_SO "libfabric.so.1"
#define CUDA_SO	     "libcuda.so.1"

/* The bytes of the prefix that a thread's name keeps. */
#define THREAD_NAME_MAX 7
/* The prefix if no other is set. */
#define THREAD_PREFIX	"urccl"
struct thread_how {
	const char *prefix, *part; /* The two parts of the thread's name: "urccl", "control". */
	/* The beginning of the settings' names, for sentences: "control" of control_cpus. */
	const char *setting;
	const char *cpus;	   /* NULL: the CPUs of the starting thread. */
	int nice;		   /* 0: the nice value of the starting thread. */
};

/* Starts a thread with every signal blocked. Returns 0 after the thread got its CPUs and nice
 * value. Otherwise returns -errno with fail() text, and no thread runs. */
int thread_start(pthread_t *thread, const struct thread_how *how, void *(*run)(void *arg),
		 void *arg);
/* Starts a short-lived thread. The caller has every signal blocked, so the new thread has too. It
 * runs on cpus, or on the caller's CPUs if cpus is NULL or the kernel refuses it. Returns 0 or
 * -errno. */
int helper_start(pthread_t *thread, const char *prefix, const char *part, const struct cpus *cpus,
		 void *(*run)(void *arg), void *arg);
/* Gets the CPUs on which this thread may run. An empty set: the kernel does not say. */
void thread_cpus(struct cpus *cpus);

/* ---- settings with one value per class ---- */

#define CLASSES 3u /* enum urccl_class */
struct class_words {
	const char *at[CLASSES]; /* NULL: the text names no value for this class. */
	size_t len[CLASSES];
};

/* Splits "x" (for all classes) or "bulk:x,latency:y". Returns 0 or -EINVAL. */
int classes_split(const char *text, struct class_words *w);
const char *class_name(uint32_t cls);

/* The options that a class sets on its TCP sockets. */
struct class_socket {
	char congestion[16];		/* "": the system's default. */
	int tclass, priority;		/* 0: the system's default. */
};

/* Reads the settings of a class and tries them on a socket. Returns 0, or -errno with fail() text
 * that names the setting that the kernel refuses. */
int class_socket_read(struct class_socket *cs, const struct urccl_params *p, uint32_t cls);
/* Returns 0 or -errno. */
int class_socket_set(const struct class_socket *cs, int fd);

/* ---- network interfaces of this host ---- */

/* The most addresses that a context listens on. */
#define LISTEN_MAX 16u
#define NETIFS_MAX 64u

/* One address of an interface. */
struct netif {
	char name[16];
	struct sockaddr_storage addr; /* Its port is 0. */
	uint32_t prefix;	      /* The length of the network prefix in bits. */
	int loopback;
};

/* Checks rules for interface names: "eth,ib" means names with these beginnings, "=eth0" this name
 * alone, "^docker" and "^=eth1" all others. Returns 0 or -EINVAL. */
int netif_rules_check(const char *rules);
int netif_matches(const char *rules, const char *name);
/* Collects the addresses of all interfaces that are up and match rules (NULL: all interfaces).
 * Leaves out link-local IPv6 addresses, which other hosts cannot use. Returns their number or
 * -errno. */
int netifs(struct netif *out, uint32_t max, const char *rules);
/* Collects the scopes of link-local IPv6 addresses: the indices of the interfaces that are up, have
 * such an address, are not loopback and match rules (NULL: all). Returns their number or -errno. */
int netif_scopes(uint32_t *out, uint32_t max, const char *rules);
/* Returns whether both are in one network. */
int netif_near(const struct netif *n, const struct sockaddr_storage *to);
/* Chooses the source address of a connection, with port 0. AF_UNSPEC: the kernel chooses.
 * -EADDRNOTAVAIL: no matching interface has an address of the family of `to`. */
int netif_source(const char *rules, const struct sockaddr_storage *to,
		 struct sockaddr_storage *from);
/* Compares addresses without ports; scopes only if both have one. */
int addr_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b);
int addr_loopback(const struct sockaddr_storage *ss);
int addr_wildcard(const struct sockaddr_storage *ss);
/* Is it link-local IPv6? Only with a scope it names a host. */
int addr_link_local(const struct sockaddr_storage *ss);
uint32_t addr_scope(const struct sockaddr_storage *ss);
void addr_scope_set(struct sockaddr_storage *ss, uint32_t scope);
/* Turns ::ffff:10.0.0.1 into 10.0.0.1. */
void addr_unmap(struct sockaddr_storage *ss);

/* ---- RDMA devices of this host, and the setting rdma_dev ---- */

#define NIC_NAME_MAX 63u
#define NIC_PORT_MAX 255u

struct nic_port {
	char name[NIC_NAME_MAX + 1]; /* The name of the device. */
	uint8_t port;
};

/* Checks rules such as "mlx5_0,mlx5_1:2". A word that is a device's name means that device. Any
 * other word means the devices whose names begin with it, and if it is a number also the device at
 * that place in the list (as UCCL does). ":2" restricts a word to port 2. "=mlx5" means whole names
 * only; "^mlx5_2,mlx5_3" means all devices but those. Returns 0 or -EINVAL. */
int nic_rules_check(const char *rules);
/* Returns whether rules mean port `port` of device i. names: all n devices of this host in the
 * order of the verbs library. */
int nic_matches(const char *rules, const char *const *names, uint32_t n, uint32_t i, uint32_t port);
/* Returns 1 and the k-th word that means no device, if it fits. Returns 0 if there is none. */
int nic_missing(const char *rules, const char *const *names, uint32_t n, uint32_t k, char *word,
		size_t size);
/* Returns 1 if a word means device i alone, by its whole name or by its place. */
int nic_named(const char *rules, const char *const *names, uint32_t n, uint32_t i);
/* Returns whether rules list the devices to use, rather than those to leave out. NULL lists
 * neither. */
int nic_names(const char *rules);
/* Returns whether a word is a number, which is a place in the list unless it is a name. */
int nic_places(const char *rules);

/* The name ("EPERM") and the C locale's text of an errno value. NULL: unknown value. */
const char *errno_name(int err);
const char *errno_text(int err);

/* Names of enum values, for dumps, tools and sentences: "write", "tcp". NULL: unknown value. */
const char *opcode_name(uint32_t opcode);
const char *transport_name(uint32_t transport);
/* Returns the enum urccl_transport, or -EINVAL. */
int transport_parse(const char *name, size_t len);

#endif
