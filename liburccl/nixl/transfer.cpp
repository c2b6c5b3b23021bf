/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a transfer: prepared once, posted many times. */
#include "plugin.h"

#include <string.h>

#include <numeric>

static constexpr uint64_t HOLD_NS = 100000000; /* an agent that ends revokes first, then says so */
static constexpr uint64_t RATE = 100;	       /* bytes/us that a deadline allows for */
static constexpr uint32_t WINDOW = 64;	       /* pieces of a notification under way */

/* ---- preparation ---- */

static bool covers(const known_memory &m, const descriptor &d)
{
	return d.addr >= m.base && d.addr - m.base <= m.len && d.len <= m.len - (d.addr - m.base);
}

/* False: it lies outside its memory. */
bool transfer::add(const descriptor &here, const descriptor &there)
{
	auto mine = static_cast<const known_memory *>(here.owner);
	auto theirs = static_cast<const known_memory *>(there.owner);

	if (here.len != there.len || !covers(*mine, here) || !covers(*theirs, there) ||
	    theirs->owner != to)
		return false;
	if (!here.len)
		return true;
	if (segs.empty())
		base = mine->base;
	bytes += here.len;
	segs.push_back({here.addr, here.len, to ? there.addr - theirs->base : there.addr, mine->id,
			theirs->id});
	return true;
}

status urccl_engine::prepare(const direction &dir, const descriptors &here,
			     const descriptors &there, const std::string &name, request *&out,
			     const transfer_options *) const
{
	std::unique_ptr<transfer> x(new transfer(const_cast<urccl_engine &>(*this), dir));
	lock l(state);

	x->to = find(name);
	l.unlock();
	if (!x->to && name != agent)
		return NOT_FOUND;
	if (!x->to && (here.type != DRAM || there.type != DRAM))
		return NOT_SUPPORTED;
	x->segs.reserve(here.items.size());
	for (size_t i = 0; i < here.items.size(); i++) {
		if (i < there.items.size() && x->add(here.items[i], there.items[i]))
			continue;
		x->e.say(URCCL_LOG_ERROR, "descriptor %zu of a transfer with \"%s\" is invalid", i,
			 name.c_str());
		return INVALID_PARAM;
	}
	x->deadline_us =
		(uint32_t)std::min<uint64_t>(params.deadline_ms * 1000ull + x->bytes / RATE, ~0u);
	if (x->to) {
		l.lock();
		x->to->import_slots();
		std::vector<peer::slot> slots = x->to->slots;
		l.unlock();
		x->resolve(slots);
	}
	out = x.release();
	return SUCCESS;
}

/* Slots become remotes, once all are imported. */
bool transfer::resolve(const std::vector<peer::slot> &slots)
{
	auto is_missing = [&slots](const urccl_seg &s) { return !slots[s.remote].remote.id; };

	if (resolved || std::any_of(segs.begin(), segs.end(), is_missing))
		return resolved;
	for (urccl_seg &s : segs)
		s.remote = slots[s.remote].remote.id;
	find_blocks();
	return resolved = true;
}

/* Equal blocks between one region and one remote are one pattern, with two tables of indices. */
void transfer::find_blocks()
{
	if (segs.empty())
		return;
	const urccl_seg first = segs[0];
	uint64_t unit = first.len; /* that all offsets are multiples of */
	for (const urccl_seg &s : segs) {
		if (s.len != first.len || s.region != first.region || s.remote != first.remote)
			return;
		if ((s.addr - base) % unit || s.off % unit)
			unit = std::gcd(unit, std::gcd(s.addr - base, s.off));
	}
	for (const urccl_seg &s : segs) {
		if (std::max(s.addr - base, s.off) / unit > UINT32_MAX)
			return;
		local_index.push_back((uint32_t)((s.addr - base) / unit));
		remote_index.push_back((uint32_t)(s.off / unit));
	}
	blocks.size = sizeof(blocks);
	blocks.ndims = 1;
	blocks.block = first.len;
	blocks.dim[0] = {segs.size(), (int64_t)unit, (int64_t)unit,
			 (uint64_t)(uintptr_t)local_index.data(),
			 (uint64_t)(uintptr_t)remote_index.data()};
	region = {first.region};
	remote = {first.remote};
	segs = {};
}

/* ---- its entries ---- */

void transfer::fill(urccl_ring *ring, urccl_sqe *sqe)
{
	uint32_t n = filled++, data = bytes != 0;

	if (n >= data) {
		fill_piece(sqe, n - data);
		return;
	}
	if (blocks.size && dir == READ)
		urccl_prep_read_paged(sqe, remote, region, &blocks, 1);
	else if (blocks.size)
		urccl_prep_write_paged(sqe, remote, region, &blocks, 1);
	else if (dir == READ)
		urccl_prep_readv(sqe, to->id, segs.data(), (uint32_t)segs.size());
	else
		urccl_prep_writev(sqe, to->id, segs.data(), (uint32_t)segs.size());
	urccl_sqe_set_deadline_us(sqe, deadline_us);
	if (has_note && steps == 1)
		urccl_sqe_set_notify(ring, sqe, (uint64_t)id << 32, note.data(),
				     (uint32_t)note.size());
}

/* state. A long notification waits for those before it to the same peer, which keeps the pieces of
 * one only. */
void transfer::proceed()
{
	uint32_t data = bytes != 0;

	if (steps <= data + 1 || done < data) {
		step();
		return;
	}
	peer_ptr keep = to;
	if (asked == data)
		keep->long_notes.push_back(this);
	keep->advance_notes();
}

void peer::advance_notes()
{
	while (!long_notes.empty() && long_notes.front()->step())
		long_notes.pop_front();
}

/* state. Begins what may begin. True: it has ended, and may be gone. */
bool transfer::step()
{
	if (to->link < 0)
		settle(to->link, false);
	else if (!resolve(to->slots))
		settle(NOT_ALLOWED, false);
	while (at.load().s == IN_PROG && !cancelled && asked < steps && asked - done < WINDOW &&
	       (!asked || !bytes || done)) {
		asked++;
		e.submit(this);
	}
	if (asked != done)
		return false;
	settle(cancelled ? CANCELED : SUCCESS, true);
	return true;
}

void transfer::ended(const urccl_cqe &cqe)
{
	status s = outcome(cqe);
	lock l(e.state, std::defer_lock);

	if (alone || steps > 1)
		l.lock();
	if (cqe.flags & URCCL_CQE_MORE || steps == 1) {
		settle(s, !(cqe.flags & URCCL_CQE_MORE));
		return;
	}
	done++;
	if (s)
		settle(s, false);
	proceed();
}

/* ---- its end ---- */

/* The status that an entry's result means. */
status transfer::outcome(const urccl_cqe &cqe)
{
	status s = status_of(cqe.res), up = SUCCESS;

	if (!s || cancelled)
		return s ? CANCELED : SUCCESS;
	if (at.load().s == IN_PROG && !to->removed)
		e.say(URCCL_LOG_ERROR, "a %s agent \"%s\" failed: %s",
		      bytes ? "transfer with" : "notification to", to->name.c_str(),
		      e.explain(cqe).c_str());
	if (s == REMOTE_DISCONNECT)
		to->link.compare_exchange_strong(up, s);
	if (to->link < 0)
		return to->link;
	if (s == NOT_ALLOWED)
		held_until = now_ns() + HOLD_NS;
	return s == NOT_ALLOWED ? HELD : s;
}

/* The first failure counts. A transfer without a handle is gone afterwards; it needs state. */
void transfer::settle(status s, bool quiet)
{
	result before = at;

	if (!alone || !quiet) {
		at = {before.s == IN_PROG ? s : before.s, quiet};
		return;
	}
	e.unsent--;
	e.owned.erase(this);
}

status transfer::look()
{
	status s = at.load().s;

	if (s != HELD)
		return s;
	if (to->link < 0)
		return to->link;
	return now_ns() < held_until ? IN_PROG : NOT_ALLOWED;
}

/* ---- NIXL's calls ---- */

/* Transfers to oneself are copies, on the caller's thread. */
void transfer::copy()
{
	for (const urccl_seg &s : segs) {
		void *here = (void *)(uintptr_t)s.addr, *there = (void *)(uintptr_t)s.off;

		memmove(dir == READ ? here : there, dir == READ ? there : here, s.len);
	}
	lock l(e.state);
	if (has_note)
		e.arrive(e.agent, note);
	at = {SUCCESS, true};
}

void transfer::begin()
{
	bool has_pieces = has_note && (!bytes || note.size() > URCCL_NOTE_MAX);
	lock l(e.state);

	steps = bytes != 0;
	if (has_pieces)
		steps += std::max<uint32_t>(1, (uint32_t)((note.size() + URCCL_NOTE_MAX - 1) /
							  URCCL_NOTE_MAX));
	asked = filled = done = 0;
	id = ++e.note_ids;
	cancelled = false;
	at = {IN_PROG, false};
	to->start(this);
}

status urccl_engine::post(const direction &, const descriptors &, const descriptors &,
			  const std::string &, request *&r, const transfer_options *opt) const
{
	transfer *x = static_cast<transfer *>(r);

	if (!x->is_quiet())
		return REPOST_ACTIVE;
	x->has_note = opt && opt->has_notification;
	if (x->has_note && opt->notification.size() > NOTE_LIMIT)
		return INVALID_PARAM;
	if (x->has_note)
		x->note.assign(opt->notification);
	if (is_dead()) {
		x->e.say(URCCL_LOG_ERROR, "this agent is of the parent process: make another");
		return BACKEND;
	}
	uint64_t began = telemetry ? now_ns() : 0;
	x->to ? x->begin() : x->copy();
	/* NIXL's telemetry counts whole microseconds, and 0 means that nothing was posted. */
	while (telemetry && now_ns() - began < 1000)
		;
	return x->look();
}

status urccl_engine::check(request *r) const
{
	transfer *x = static_cast<transfer *>(r);

	if (x->look() == IN_PROG && !is_dead())
		x->e.look();
	return x->look();
}

/* Nothing more begins; what is in the ring is cancelled. False: no room for that now. */
bool transfer::stop()
{
	lock l(e.state);

	cancelled = true;
	std::erase(to->parked, this);
	done += (uint32_t)std::erase(e.waiting, this);
	if (is_quiet())
		return true;
	if (asked == done) {
		std::erase(to->long_notes, this);
		settle(CANCELED, true);
		to->advance_notes();
		return true;
	}
	urccl_sqe *sqe = urccl_get_sqe(e.ring);
	if (!sqe)
		return false;
	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, key());
	urccl_submit(e.ring);
	return true;
}

/* NIXL believes one refusal: the second call waits for the end, which the library bounds. */
status urccl_engine::release(request *r) const
{
	transfer *x = static_cast<transfer *>(r);
	uint64_t until = now_ns() + release_wait_ms * 1000000ull;
	bool is_second = x->cancelled, is_asked = false;

	if (is_dead())
		return SUCCESS;
	for (; !x->is_quiet(); std::this_thread::sleep_for(microseconds(50))) {
		is_asked = is_asked || x->stop();
		x->e.look();
		if (!is_second && !x->is_quiet() && now_ns() > until)
			return REPOST_ACTIVE;
	}
	delete x;
	return SUCCESS;
}
