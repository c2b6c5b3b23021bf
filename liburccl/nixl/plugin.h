/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NIXL backend URCCL: one context of liburccl an agent, with a ring for transfers and one for
 * the events of peers, and a thread that sleeps until there is something to take.
 *
 * Locks, in the order in which they are taken: consumer (of completions), state (all else, and the
 * producer's side of both rings).
 */
#ifndef URCCL_NIXL_PLUGIN_H
#define URCCL_NIXL_PLUGIN_H

#include <liburccl.h>
#include <liburccl/inspect.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <thread>

#include "nixl_backend.h"

using namespace nixl;
using lock = std::unique_lock<std::mutex>;
struct urccl_engine;
struct transfer;

uint64_t now_ns();
status status_of(int64_t res);

/* An entry of the ring of transfers, which is its user_data. */
struct entry {
	virtual ~entry() = default;
	virtual void fill(urccl_ring *ring, urccl_sqe *sqe) = 0; /* state */
	virtual void ended(const urccl_cqe &cqe) = 0; /* consumer; also an outcome with MORE */
	uint64_t key() const { return (uint64_t)(uintptr_t)this; }
};

/* A remote agent, from its metadata to disconnect(). Members without a note: state. */
struct peer final : entry {
	struct slot { /* of an advert; remote: 0 where it is not imported */
		urccl_advert advert;
		urccl_remote remote;
	};

	urccl_engine &e;
	const std::string name, address;    /* address: a metadata blob */
	std::atomic<status> link = IN_PROG; /* SUCCESS: connected; negative: why it is gone */
	std::atomic<bool> removed = false;
	urccl_peer id = {};
	std::vector<slot> slots;
	size_t imported = 0;		   /* slots that were tried */
	std::vector<transfer *> parked;	   /* they wait for the connection */
	std::deque<transfer *> long_notes; /* the first is under way */
	urccl_measurement measured = {};   /* measuring */

	peer(urccl_engine &engine, const std::string &agent, const std::string &blob)
	    : e(engine), name(agent), address(blob)
	{
	}
	void fill(urccl_ring *ring, urccl_sqe *sqe) override;
	void ended(const urccl_cqe &cqe) override;
	void start(transfer *x);
	void start_parked();
	void import_slots();
	void advance_notes();
};
using peer_ptr = std::shared_ptr<peer>;

struct known_memory final : memory { /* registered here, or described by a peer */
	peer_ptr owner;		     /* NULL: this agent */
	uint32_t id = 0;	     /* of the region; of a peer's, its slot */
	uint64_t base = 0, len = 0;
	urccl_advert advert = {};
};

/*
 * A transfer, or a notification alone. It is up to 1 + pieces entries of the ring: one for its
 * bytes, which a notification of up to URCCL_NOTE_MAX bytes is part of, and one for each piece of a
 * longer notification, begun when the bytes are placed. Whoever sets quiet does not touch it
 * afterwards.
 */
struct transfer final : request, entry {
	static constexpr status HELD = status(2); /* refused by a peer that may be ending */

	urccl_engine &e;
	peer_ptr to; /* NULL: to oneself */
	direction dir;
	struct result {
		status s;
		int quiet; /* the library is done with its buffers */
	};
	std::atomic<result> at = result{NOT_POSTED, true};
	std::atomic<bool> cancelled = false;
	bool resolved = false, has_note = false;
	bool alone = false; /* nobody has a handle: its end frees it */
	uint32_t steps = 0, asked = 0, filled = 0, done = 0; /* state: of its entries */
	uint32_t id = 0;				     /* of its notification */
	uint32_t deadline_us = 0;
	urccl_region region = {}; /* these two: of a paged entry */
	urccl_remote remote = {};
	std::vector<urccl_seg> segs; /* remote: slot of the peer until resolved */
	urccl_paged blocks = {};     /* in place of segs where size is not 0 */
	std::vector<uint32_t> local_index, remote_index;
	uint64_t base = 0, bytes = 0, held_until = 0;
	std::string note;

	transfer(urccl_engine &engine, direction d) : e(engine), dir(d)
	{
		note.reserve(URCCL_NOTE_MAX);
	}
	void fill(urccl_ring *ring, urccl_sqe *sqe) override;
	void ended(const urccl_cqe &cqe) override;
	bool add(const descriptor &local, const descriptor &remote);
	bool resolve(const std::vector<peer::slot> &slots);
	void find_blocks();
	void fill_piece(urccl_sqe *sqe, size_t piece);
	void copy();
	void begin();
	void proceed();
	bool step();
	bool stop();
	status outcome(const urccl_cqe &cqe);
	void settle(status s, bool quiet);
	bool is_quiet() const { return at.load().quiet; }
	status look();
};

struct sender { /* a connected agent, by the peer's handle */
	std::string name;
	bool held = false;			  /* a reference to the peer is kept */
	uint32_t id = 0, pieces = 0, missing = 0; /* of the long message that is coming */
	std::string partial;
};

/* The virtual functions are NIXL's, in its order. It calls those marked X under the agent's
 * exclusive lock, the others from several threads at once where the agent's mode is RW. */
struct urccl_engine : engine_state {
	virtual ~urccl_engine();
	virtual bool supports_remote() const { return true; }
	virtual bool supports_local() const { return true; }
	virtual bool supports_notifications() const { return true; }
	virtual segment_types types() const { return segments; }
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

	static constexpr uint64_t ARRIVED_MAX = 64u << 20;
	static constexpr size_t NOTE_LIMIT = 16u << 20;

	urccl *ctx = nullptr;
	urccl_ring *ring = nullptr, *events = nullptr;
	segment_types segments;
	urccl_params params;
	uint32_t release_wait_ms = 20;
	int log_level = URCCL_LOG_WARN, wake_fd = -1;
	std::atomic<int> user_fd = -1; /* of urccl_nixl_fd() */
	mutable std::mutex consumer, state, saying, measuring;
	std::deque<entry *> waiting;	  /* state: for room in the ring */
	/* state: peers while a CONNECT is under way, and notifications alone */
	std::map<entry *, std::shared_ptr<entry>> owned;
	std::atomic<uint64_t> looked = 0; /* when the program last polled, ns */
	std::atomic<uint32_t> unsent = 0;
	uint32_t note_ids = 0; /* state */
	std::atomic<uint64_t> arrived_bytes = 0;
	std::atomic<bool> stopping = false;
	std::map<std::string, peer_ptr> peers; /* state */
	std::map<uint32_t, sender> senders;    /* state: by handle */
	notifications arrived;		       /* state */
	std::thread thread;
	std::string said; /* saying */

	explicit urccl_engine(const engine_params &p);
	int open_context(const options &custom);
	int open_rings();
	bool is_dead() const { return ring && !ring->flags; } /* the agent of a parent process */
	peer_ptr find(const std::string &name) const;	      /* state; or NULL */
	void submit(entry *x);				      /* state */
	void submit_waiting();
	void control(void (*prepare)(urccl_sqe *, urccl_peer), urccl_peer id); /* state */
	int take_completions(int most);
	void take(); /* consumer: some completions and events */
	void look(); /* take(), for a program that polls, unless another thread does */
	void run();  /* the thread */
	void event(const urccl_cqe &cqe, const char *payload);
	void lost(const urccl_cqe &cqe);
	void note(const urccl_cqe &cqe, const char *payload);
	sender &sender_of(urccl_peer id);			/* state */
	void hold(urccl_peer id);				/* state */
	void arrive(const std::string &from, std::string text); /* state */
	void say(int level, const char *format, ...) __attribute__((format(printf, 3, 4)));
	std::string explain(const urccl_cqe &cqe);
};

#endif
