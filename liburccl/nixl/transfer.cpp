/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a transfer: prepared once, one entry of the ring each time it is posted. */
#include "plugin.h"

static constexpr uint64_t HOLD_NS = 100000000; /* an agent that ends revokes first, then says so */
static constexpr uint64_t RATE = 100;	       /* bytes/us that a deadline allows for */

/* ---- preparation ---- */

template <class T> static bool covers(const T &m, const descriptor &d)
{
	return d.addr >= m.base && d.addr - m.base <= m.len && d.len <= m.len - (d.addr - m.base);
}

/* False: it lies outside its memory. */
bool transfer::add(const descriptor &here, const descriptor &there)
{
	auto mine = static_cast<const local_memory *>(here.owner);
	auto own = static_cast<const local_memory *>(there.owner);
	auto theirs = static_cast<const remote_memory *>(there.owner);

	if (here.len != there.len || !covers(*mine, here))
		return false;
	if (to ? theirs->owner != to || !covers(*theirs, there) : !covers(*own, there))
		return false;
	if (!here.len)
		return true;
	if (segs.empty())
		base = mine->base;
	bytes += here.len;
	segs.push_back({here.addr, here.len, to ? there.addr - theirs->base : there.addr,
			mine->region.id, to ? theirs->slot : own->region.id});
	return true;
}

status urccl_engine::prepare(const direction &way, const descriptors &here,
			     const descriptors &there, const std::string &name, request *&out,
			     const transfer_options *) const
{
	std::unique_ptr<transfer> x(new transfer(const_cast<urccl_engine &>(*this), way));
	lock l(state);

	x->to = find(name);
	if (!x->to && name != agent)
		return NOT_FOUND;
	x->segs.reserve(here.items.size());
	for (size_t i = 0; i < here.items.size(); i++) {
		if (i < there.items.size() && x->add(here.items[i], there.items[i]))
			continue;
		x->e.say(URCCL_LOG_ERROR, "descriptor %zu of a transfer with \"%s\" is invalid", i,
			 name.c_str());
		return INVALID_PARAM;
	}
	x->deadline_us = (uint32_t)std::min<uint64_t>(deadline_ms * 1000ull + x->bytes / RATE, ~0u);
	if (x->to && x->to->link == link_state::UP) {
		x->to->import_slots();
		x->ready();
	}
	out = x.release();
	return SUCCESS;
}

bool transfer::ready()
{
	if (resolved)
		return true;
	for (const urccl_seg &s : segs)
		if (!to->slots[s.remote].remote)
			return false;
	for (urccl_seg &s : segs) {
		s.off += to->slots[s.remote].off;
		s.remote = to->slots[s.remote].remote;
	}
	resolved = true;
	find_patterns();
	return true;
}

void transfer::fill(urccl_ring *ring, urccl_sqe *sqe)
{
	uint32_t n = (uint32_t)(patterns.empty() ? segs.size() : patterns.size());
	urccl_remote there = {remote};
	urccl_region here = {region};

	if (patterns.empty() && way == READ)
		urccl_prep_readv(sqe, to->id, segs.data(), n);
	else if (patterns.empty())
		urccl_prep_writev(sqe, to->id, segs.data(), n);
	else if (way == READ)
		urccl_prep_read_paged(sqe, there, here, patterns.data(), n);
	else
		urccl_prep_write_paged(sqe, there, here, patterns.data(), n);
	urccl_sqe_set_deadline_us(sqe, deadline_us);
	if (has_note && note.size() <= URCCL_NOTE_MAX)
		urccl_sqe_set_notify(ring, sqe, (uint64_t)++e.message_ids << 32, note.data(),
				     (uint32_t)note.size());
}

/* ---- its end ---- */

void transfer::ended(const urccl_cqe &cqe)
{
	if (cqe.res < 0 && !cancelled && !to->removed && at.load() == word(IN_PROG, 0))
		e.say(URCCL_LOG_ERROR, "a transfer with agent \"%s\" failed: %s", to->name.c_str(),
		      e.explain(cqe).c_str());
	if (cqe.flags & URCCL_CQE_MORE) {
		at = word(outcome(cqe.res), 0);
		return;
	}
	if (cqe.res >= 0 && has_note && note.size() > URCCL_NOTE_MAX) {
		lock l(e.state);

		if (!cancelled) {
			long_note = new message(to, note, this);
			long_note->begin();
			return;
		}
	}
	finish(cqe.res);
}

int transfer::outcome(int64_t res)
{
	int before = at.load();

	if (before != word(IN_PROG, 0))
		return status_in(before);
	if (res >= 0 || !to || cancelled)
		return res < 0 && cancelled ? CANCELED : status_of(res);
	if (to->link == link_state::LOST)
		return REMOTE_DISCONNECT;
	if (res == -EACCES || res == -ESTALE) {
		held_until = now_ns() + HOLD_NS;
		return HELD;
	}
	if (status_of(res) == REMOTE_DISCONNECT && to->link == link_state::UP)
		to->link = link_state::LOST;
	return status_of(res);
}

status transfer::look()
{
	int w = at.load(std::memory_order_acquire), s = status_in(w);

	if (s != HELD)
		return (status)s;
	if (to->link != link_state::LOST && now_ns() < held_until)
		return IN_PROG;
	s = to->link == link_state::LOST ? REMOTE_DISCONNECT : NOT_ALLOWED;
	at.compare_exchange_strong(w, word(s, w & QUIET)); /* it may become quiet just now */
	return (status)s;
}

/* ---- NIXL's calls ---- */

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
	x->cancelled = x->released = false;
	x->at.store(word(IN_PROG, 0), std::memory_order_relaxed);
	if (!x->to) {
		local->post(x);
	} else if (x->to->link == link_state::UP && x->resolved && x->bytes) {
		x->e.submit(x);
	} else {
		lock l(state);

		if (x->bytes)
			x->to->start(x);
		else if (x->has_note)
			(x->long_note = new message(x->to, x->note, x))->begin();
		else
			x->finish(0);
	}
	return x->look();
}

status urccl_engine::check(request *r) const
{
	transfer *x = static_cast<transfer *>(r);
	status s = x->look();

	if (s != IN_PROG || is_dead())
		return s;
	x->e.look();
	return x->look();
}

void transfer::stop()
{
	lock l(e.state);
	auto parked = std::find(to->parked.begin(), to->parked.end(), this);

	cancelled = true;
	if (is_quiet())
		return;
	if (parked != to->parked.end()) {
		to->parked.erase(parked);
		finish(-ECANCELED);
	} else if (long_note) {
		long_note->stop = true;
		e.cancel(URCCL_CANCEL_BY_USER_DATA, long_note->key());
	} else if (e.withdraw(this)) {
		finish(-ECANCELED);
	} else {
		e.cancel(URCCL_CANCEL_BY_USER_DATA, key());
	}
}

/* NIXL believes one refusal: the second call waits for the end, which the library bounds. */
status urccl_engine::release(request *r) const
{
	transfer *x = static_cast<transfer *>(r);
	uint64_t until = now_ns() + release_wait_ms * 1000000ull;

	if (is_dead())
		return SUCCESS;
	if (!x->to)
		local->withdraw(x);
	else if (!x->is_quiet() && !x->released)
		x->stop();
	while (!x->is_quiet()) {
		x->e.look();
		if (!x->is_quiet() && !x->released && now_ns() > until) {
			x->released = true;
			return REPOST_ACTIVE;
		}
		std::this_thread::sleep_for(microseconds(x->is_quiet() ? 0 : 50));
	}
	delete x;
	return SUCCESS;
}
