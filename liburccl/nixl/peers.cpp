/* SPDX-License-Identifier: Apache-2.0 */
/* Remote agents: their connection, their memory, and the events that they cause. */
#include "plugin.h"

#include <liburccl/inspect.h>

static constexpr size_t IMPORT_MAX = 65536;

/* ---- connection ---- */

void peer::dial()
{
	self = shared_from_this();
	link = link_state::DIALLING;
	e.submit(this);
}

void peer::fill(urccl_ring *ring, urccl_sqe *sqe)
{
	urccl_prep_connect(sqe, address.data(), (uint32_t)address.size());
	urccl_sqe_set_hello(ring, sqe, e.agent.data(), (uint32_t)e.agent.size());
	urccl_sqe_set_deadline_us(sqe,
				  (uint32_t)std::min<uint64_t>(e.dead_after_ms * 1000ull, ~0u));
}

/* The CONNECT's. A reference is kept until the peer is lost, two at most: an agent that removes
 * another must not take the connection from it. */
void peer::ended(const urccl_cqe &cqe)
{
	lock l(e.state);
	peer_ptr keep = std::move(self);

	if (cqe.res < 0) {
		error = (int)cqe.res;
		link = removed ? link_state::LOST : link_state::IDLE;
		if (!removed)
			e.say(URCCL_LOG_ERROR, "cannot connect to agent \"%s\": %s", name.c_str(),
			      e.explain(cqe).c_str());
		flush(error == -EACCES ? -EACCES : -ECONNRESET);
		return;
	}
	id = urccl_cqe_peer(&cqe);
	if (++e.sender_of(id).references > 2) {
		e.senders[id.id].references--;
		e.close_reference(id.id);
	}
	if (removed)
		return;
	e.connected[id.id] = keep;
	link = link_state::UP;
	flush(0);
}

void peer::start(entry *x)
{
	if (link == link_state::LOST) {
		x->refused(-ECONNRESET);
	} else if (link == link_state::UP) {
		import_slots();
		x->ready() ? e.submit(x) : x->refused(-ESTALE);
	} else {
		parked.push_back(x);
		if (link == link_state::IDLE)
			dial();
	}
}

void peer::flush(int res)
{
	std::vector<entry *> them;

	them.swap(parked);
	for (entry *x : them)
		res ? x->refused(res) : start(x);
}

/* ---- memory ---- */

static int import_range(peer &p, size_t from, size_t to)
{
	std::vector<urccl_advert> adverts;
	struct urccl_remote remote;
	uint64_t off = 0;

	for (size_t i = from; i < to; i++)
		adverts.push_back(p.slots[i].advert);
	int res = urccl_import(p.e.ctx, p.id, adverts.data(), (uint32_t)adverts.size(), &remote);
	if (res)
		return res;
	p.remotes.push_back(remote);
	for (size_t i = from; i < to; off += p.slots[i++].advert.length) {
		p.slots[i].remote = remote.id;
		p.slots[i].off = off;
	}
	return 0;
}

/* All in one remote, so that patterns may cross from one range to another; one by one where
 * something is wrong with one of them. */
void peer::import_slots()
{
	if (imported == slots.size())
		return;
	while (imported < slots.size()) {
		size_t i = imported;

		imported = std::min(slots.size(), imported + IMPORT_MAX);
		if (!import_range(*this, i, imported))
			continue;
		for (; i < imported; i++)
			if (import_range(*this, i, i + 1))
				e.say(URCCL_LOG_ERROR, "cannot import memory of agent \"%s\": %s",
				      name.c_str(), urccl_errmsg());
	}
	e.control([who = id](urccl_sqe *sqe) { urccl_prep_warm(sqe, who); }, urccl_engine::RESERVE);
}

/* ---- events ---- */

/* The peer's name is its hello. */
sender &urccl_engine::sender_of(urccl_peer id)
{
	struct urccl_peer_info info = URCCL_INIT(urccl_peer_info);
	sender &s = senders[id.id];

	if (s.name.empty() && !urccl_get_peer_info(ctx, id, &info))
		s.name.assign(reinterpret_cast<char *>(info.hello), info.hello_len);
	return s;
}

void urccl_engine::lost(const urccl_cqe &cqe)
{
	lock l(state);
	sender gone = std::move(senders[cqe.peer]);
	peer_ptr p = connected[cqe.peer].lock();

	senders.erase(cqe.peer);
	connected.erase(cqe.peer);
	while (gone.references--)
		close_reference(cqe.peer);
	if (!p)
		return;
	say(URCCL_LOG_INFO, "agent \"%s\" is lost: %s", p->name.c_str(), explain(cqe).c_str());
	p->link = link_state::LOST;
}

void urccl_engine::event(const urccl_cqe &cqe, const char *payload)
{
	uint32_t kind = urccl_cqe_kind(&cqe);

	if (kind == URCCL_KIND_PEER) {
		lock l(state);

		senders[cqe.peer].references++;
		senders[cqe.peer].name.assign(payload, (size_t)cqe.res);
	} else if (kind == URCCL_KIND_NOTE) {
		note(cqe, payload);
	} else if (kind == URCCL_KIND_LOST) {
		lost(cqe);
	} else if (kind == URCCL_KIND_OP && !stopping) {
		say(URCCL_LOG_ERROR, "nobody is accepted any more: %s", explain(cqe).c_str());
	}
}

/* ---- NIXL's calls ---- */

peer_ptr urccl_engine::find(const std::string &name) const
{
	auto at = peers.find(name);

	return at == peers.end() ? nullptr : at->second;
}

status urccl_engine::load_connection(const std::string &name, const std::string &info)
{
	if (info.empty() || info.size() > URCCL_METADATA_MAX)
		return INVALID_PARAM;
	if (is_dead())
		return BACKEND;
	disconnect(name);
	lock l(state);
	(peers[name] = std::make_shared<peer>(*this, name, info))->dial();
	return SUCCESS;
}

status urccl_engine::connect(const std::string &name)
{
	lock l(state);
	peer_ptr p = find(name);

	if (name == agent)
		return SUCCESS;
	if (!p || is_dead())
		return p ? BACKEND : NOT_FOUND;
	if (p->link == link_state::IDLE)
		p->dial();
	for (; p->link == link_state::DIALLING; l.lock()) {
		l.unlock();
		look();
		std::this_thread::sleep_for(microseconds(50));
	}
	if (p->link == link_state::UP)
		return SUCCESS;
	return p->error == -EACCES ? NOT_ALLOWED : REMOTE_DISCONNECT;
}

/* Entries to it end; nothing is waited for. */
status urccl_engine::disconnect(const std::string &name)
{
	std::vector<urccl_remote> remotes;
	lock l(state);
	peer_ptr p = find(name);

	if (!p || is_dead())
		return NOT_FOUND;
	peers.erase(name);
	p->removed = true;
	if (p->link.exchange(link_state::LOST) == link_state::DIALLING) {
		if (withdraw(p.get()))
			p->self.reset();
		else
			cancel(URCCL_CANCEL_BY_USER_DATA, p->key());
	}
	p->flush(-ECONNRESET);
	if (p->id.id) {
		cancel(URCCL_CANCEL_BY_PEER, p->id.id);
		connected.erase(p->id.id);
	}
	remotes.swap(p->remotes);
	l.unlock();
	for (urccl_remote r : remotes)
		urccl_unimport(ctx, r);
	return SUCCESS;
}

static int measure(peer &p)
{
	struct urccl_measure_args args = {sizeof(args), 0, 0, 0, 4u << 20, 0};
	struct urccl_measurement m = URCCL_INIT(urccl_measurement);
	int res = p.rtt_ns ? 0 : urccl_measure(p.e.ctx, p.id, &args, &m);

	if (res || p.rtt_ns)
		return res;
	p.rtt_ns = m.rtt_median_ns + 1;
	p.kib_ns[READ] = m.read ? m.read_ns * 1024 / m.read : 0;
	p.kib_ns[WRITE] = m.written ? m.write_ns * 1024 / m.written : 0;
	return 0;
}

status urccl_engine::estimate(const direction &way, const descriptors &, const descriptors &,
			      const std::string &name, request *const &r, microseconds &duration,
			      microseconds &margin, cost_method &method,
			      const agent_options *) const
{
	transfer *x = static_cast<transfer *>(r);
	status res = x->to ? x->e.connect(name) : NOT_SUPPORTED;

	if (res)
		return res;
	lock l(measuring);
	if (measure(*x->to)) {
		x->e.say(URCCL_LOG_ERROR, "cannot measure the path to agent \"%s\": %s",
			 name.c_str(), urccl_errmsg());
		return BACKEND;
	}
	duration = microseconds((x->to->rtt_ns + x->bytes / 1024 * x->to->kib_ns[way]) / 1000 + 1);
	margin = duration * 3 / 10;
	method = ANALYTICAL;
	return SUCCESS;
}
