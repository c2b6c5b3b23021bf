/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NIXL backend URCCL: one context of liburccl an agent, with a ring for transfers and one for
 * the events of peers, and a thread that sleeps until there is something to take.
 *
 * Locks, in the order in which they are taken: consumer (of completions), state (peers, and what
 * waits for them), producer (of entries). post() takes producer alone where the peer is connected.
 */
#ifndef URCCL_NIXL_PLUGIN_H
#define URCCL_NIXL_PLUGIN_H

#include <liburccl.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "nixl_backend.h"

using namespace nixl;
using lock = std::unique_lock<std::mutex>;
struct urccl_engine;
struct transfer;
struct message;

uint64_t now_ns();
status status_of(int64_t res);

/* An entry of the ring of transfers, which is its user_data. */
struct entry {
	virtual ~entry() = default;
	virtual void fill(urccl_ring *ring, urccl_sqe *sqe) = 0; /* producer */
	virtual void ended(const urccl_cqe &cqe) = 0; /* consumer; also an outcome with MORE */
	virtual void refused(int error) = 0;	      /* state; it was not submitted */
	virtual bool ready() { return true; }	      /* state; the peer is there */
	uint64_t key() const { return (uint64_t)(uintptr_t)this; }
};

enum class link_state { IDLE, DIALLING, UP, LOST };

/* A remote agent, from its metadata to disconnect(). Members without a note: state. */
struct peer final : entry, std::enable_shared_from_this<peer> {
	struct slot { /* an advert, and its place in the remote that it became part of */
		urccl_advert advert;
		uint32_t remote; /* 0: not imported */
		uint64_t off;
	};

	urccl_engine &e;
	const std::string name, address; /* address: a metadata blob */
	std::atomic<link_state> link = link_state::IDLE;
	std::atomic<bool> removed = false;
	urccl_peer id = {};
	int error = 0; /* of the last CONNECT */
	std::vector<slot> slots;
	size_t imported = 0; /* slots that were tried */
	std::vector<urccl_remote> remotes;
	std::vector<entry *> parked;	     /* they wait for the connection */
	std::deque<message *> long_messages; /* the first is under way */
	std::shared_ptr<peer> self;	     /* while a CONNECT is under way */
	uint64_t rtt_ns = 0, kib_ns[2] = {}; /* measured once, by direction */

	peer(urccl_engine &engine, const std::string &agent, const std::string &blob)
	    : e(engine), name(agent), address(blob)
	{
	}
	void fill(urccl_ring *ring, urccl_sqe *sqe) override;
	void ended(const urccl_cqe &cqe) override;
	void refused(int) override {}
	void dial();
	void start(entry *x); /* submits it, or parks it and dials */
	void flush(int res);  /* submits or refuses what is parked */
	void import_slots();  /* all that were loaded since, in one pass */
	void advance();	      /* begins the first long message, and those behind one that failed */
};
using peer_ptr = std::shared_ptr<peer>;

struct local_memory final : memory {
	urccl_region region = {};
	uint64_t base = 0, len = 0;
	urccl_advert advert = {};
};

struct remote_memory final : memory {
	peer_ptr owner;
	uint32_t slot = 0;
	uint64_t base = 0, len = 0;
};

/* A notification that no entry of a transfer carries, in pieces of URCCL_NOTE_MAX. */
struct message final : entry {
	peer_ptr to;
	std::string text;
	transfer *owner;		 /* is told of the end, or NULL */
	uint32_t id, pieces, filled = 0; /* filled: producer */
	uint32_t asked = 0, flying = 0;	 /* state: pieces begun, and those not ended */
	bool stop = false, stepping = false;
	int64_t error = 0;

	message(peer_ptr peer, const std::string &bytes, transfer *x);
	void fill(urccl_ring *ring, urccl_sqe *sqe) override;
	void ended(const urccl_cqe &cqe) override;
	void refused(int res) override;
	void begin(); /* state */
	bool step();  /* state: begins pieces. True: it has ended and is freed */
};

/* The word of a transfer has its status, and whether the library is done with its buffers; whoever
 * stores QUIET does not touch the transfer afterwards. */
enum : int { QUIET = 1, HELD = 2 /* a status: refused by a peer that may be ending */ };
constexpr int word(int status, int quiet) { return status * 2 + quiet; }
constexpr int status_in(int word) { return (word - (word & 1)) / 2; }

struct transfer final : request, entry {
	urccl_engine &e;
	peer_ptr to; /* NULL: to oneself */
	direction way;
	std::atomic<int> at = word(NOT_POSTED, QUIET);
	std::atomic<bool> cancelled = false;
	bool resolved = false, released = false, has_note = false;
	uint32_t region = 0, remote = 0, deadline_us = 0; /* region, remote: of a paged entry */
	std::vector<urccl_seg> segs;	   /* remote: slot of the peer until resolved */
	std::vector<urccl_paged> patterns; /* in place of segs */
	std::vector<uint32_t> local_index, remote_index;
	uint64_t base = 0, bytes = 0, held_until = 0;
	std::string note;
	message *long_note = nullptr; /* state */

	transfer(urccl_engine &engine, direction d) : e(engine), way(d)
	{
		note.reserve(URCCL_NOTE_MAX);
	}
	void fill(urccl_ring *ring, urccl_sqe *sqe) override;
	void ended(const urccl_cqe &cqe) override;
	void refused(int res) override { finish(res); }
	bool ready() override; /* slots become remotes, and segments patterns */
	bool add(const descriptor &local, const descriptor &remote);
	void find_patterns();
	int outcome(int64_t res); /* the status that a result means */
	void finish(int64_t res) { at.store(word(outcome(res), QUIET), std::memory_order_release); }
	bool is_quiet() const { return at.load(std::memory_order_acquire) & QUIET; }
	status look();
	void stop(); /* asks for its end */
};

/* Transfers to oneself: up to 256 KiB at once on the caller's thread, others on one of theirs. */
struct copies {
	std::mutex guard;
	pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
	std::deque<transfer *> queue;
	transfer *current = nullptr;
	bool stop = false;
	std::thread thread;

	~copies();
	void post(transfer *x);
	void run();
	template <class F> void wait(F is_over); /* guard is held */
	void withdraw(transfer *x);	/* returns when it does not touch memory */
	void wait_for(uint32_t region); /* until no copy names the region */
};

struct sender { /* a connected agent, by the peer's handle */
	std::string name;
	uint32_t references = 0;
	uint32_t id = 0, pieces = 0, missing = 0; /* of the long message that is coming */
	std::string partial;
	std::vector<bool> seen;
};

/* The virtual functions are NIXL's, in its order. It calls those marked X under the agent's
 * exclusive lock, the others from several threads at once where the agent's mode is RW. */
struct urccl_engine : engine_state {
	virtual ~urccl_engine();
	virtual bool supports_remote() const { return true; }
	virtual bool supports_local() const { return true; }
	virtual bool supports_notifications() const { return true; }
	virtual segment_types types() const { return {DRAM}; }
	virtual status register_memory(const blob_range &, const segment_type &, memory *&); /* X */
	virtual status deregister_memory(memory *);	     /* X; the result is ignored */
	virtual status connect(const std::string &agent);    /* X */
	virtual status disconnect(const std::string &agent); /* X */
	virtual status unload(memory *);		     /* X */
	virtual status prepare(const direction &, const descriptors &local,
			       const descriptors &remote, const std::string &agent, request *&,
			       const transfer_options *) const;
	virtual status post(const direction &, const descriptors &local, const descriptors &remote,
			    const std::string &agent, request *&, const transfer_options *) const;
	virtual status check(request *) const;
	virtual status release(request *) const;
	virtual status remote_view(const void *, void *&, const void *) const
	{
		return NOT_SUPPORTED;
	}
	virtual status local_view(const void *, void *&, const void *) const
	{
		return NOT_SUPPORTED;
	}
	virtual void release_view(void *) const {}
	virtual status public_data(const memory *, std::string &) const;
	virtual status connection_info(std::string &) const;
	virtual status load_connection(const std::string &agent, const std::string &info); /* X */
	virtual status load_remote(const blob_range &, const segment_type &,
				   const std::string &agent, memory *&); /* X */
	virtual status load_local(memory *, memory *&);			 /* X */
	virtual status take_notifications(notifications &);		 /* X */
	virtual status notify(const std::string &agent, const std::string &text) const;
	virtual status query(const blob_ranges &, answers &) const { return NOT_SUPPORTED; }
	virtual status estimate(const direction &, const descriptors &, const descriptors &,
				const std::string &agent, request *const &, microseconds &duration,
				microseconds &margin, cost_method &, const agent_options *) const;

	static constexpr uint32_t RESERVE = 16; /* entries for CANCEL and CLOSE */
	static constexpr uint64_t ARRIVED_MAX = 64u << 20;
	static constexpr size_t NOTE_LIMIT = 16u << 20;

	const pid_t process;
	urccl *ctx = nullptr;
	urccl_ring *ring = nullptr, *events = nullptr;
	uint32_t deadline_ms = 0, dead_after_ms = 0, release_wait_ms = 20;
	int log_level = URCCL_LOG_WARN, wake_fd = -1;
	std::atomic<int> user_fd = -1; /* of urccl_nixl_fd() */
	mutable std::mutex consumer, state, producer, saying, measuring;
	std::deque<entry *> waiting;	  /* producer: for room in the ring */
	std::atomic<uint64_t> looked = 0; /* when the program last polled, ns */
	std::atomic<uint32_t> unsent = 0, message_ids = 0;
	std::atomic<uint64_t> arrived_bytes = 0;
	std::atomic<bool> stopping = false;
	std::map<std::string, peer_ptr> peers;		   /* state */
	std::map<uint32_t, std::weak_ptr<peer>> connected; /* state: by handle */
	std::map<uint32_t, sender> senders;		   /* state: by handle */
	notifications arrived;				   /* state */
	std::unique_ptr<copies> local;
	std::thread thread;
	std::string said; /* saying */

	explicit urccl_engine(const engine_params &p);
	int open_context(const options &custom);
	int open_rings();
	bool is_dead() const { return !ring->flags; }	   /* the agent of a parent process */
	peer_ptr find(const std::string &name) const;	   /* state; or NULL */
	void submit(entry *x, uint32_t reserve = RESERVE); /* queues it where the ring is full */
	void submit_waiting();
	bool withdraw(entry *x); /* true: it was queued and is forgotten */
	void control(std::function<void(urccl_sqe *)> prepare, uint32_t reserve = 0);
	void cancel(urccl_cancel_by by, uint64_t key);
	void close_reference(uint32_t id);
	void take(); /* consumer: some completions and events */
	void look(); /* take(), for a program that polls, unless another thread does */
	void run();  /* the thread */
	void wake(int fd);
	void event(const urccl_cqe &cqe, const char *payload);
	void lost(const urccl_cqe &cqe);
	void note(const urccl_cqe &cqe, const char *payload);
	sender &sender_of(urccl_peer id);
	void arrive(const std::string &from, std::string text); /* state */
	void say(int level, const char *format, ...) __attribute__((format(printf, 3, 4)));
	std::string explain(const urccl_cqe &cqe);
};

#endif
