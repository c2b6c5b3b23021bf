/* SPDX-License-Identifier: Apache-2.0 */
/* Remote agents: their connection, their memory, and the events that they cause. */
#include "plugin.h"

#include <limits.h>

/* ---- connection ---- */

void peer::fill(urccl_ring *ring, urccl_sqe *sqe)
{
	urccl_prep_connect(sqe, address.data(), (uint32_t)address.size());
	urccl_sqe_set_hello(ring, sqe, e.agent.data(), (uint32_t)e.agent.size());
	urccl_sqe_set_deadline_us(sqe,
				  (uint32_t)std::min<uint64_t>(e.params.dead_after_ms * 1000ull,
							       ~0u));
}

/* The CONNECT's. */
void peer::ended(const urccl_cqe &cqe)
{
	lock l(e.state);
	auto keep = e.owned.extract(this);

	if (cqe.res >= 0)
		e.hold(id = urccl_cqe_peer(&cqe));
	if (removed)
		return;
	if (cqe.res < 0)
		e.say(URCCL_LOG_ERROR, "cannot connect to agent \"%s\": %s", name.c_str(),
		      e.explain(cqe).c_str());
	link = cqe.res >= 0 ? SUCCESS : cqe.res == -EACCES ? NOT_ALLOWED : REMOTE_DISCONNECT;
	start_parked();
}

void peer::start(transfer *x)
{
	if (link == IN_PROG) {
		parked.push_back(x);
		return;
	}
	import_slots();
	x->proceed();
}

void peer::start_parked()
{
	std::vector<transfer *> them;

	them.swap(parked);
	for (transfer *x : them)
		start(x);
}

/* Those that were loaded since, once the peer is there. It may be lost, and nobody took the event. */
void peer::import_slots()
{
	if (link != SUCCESS || imported == slots.size())
		return;
	for (; link == SUCCESS && imported < slots.size(); imported++) {
		slot &s = slots[imported];
		int res = urccl_import(e.ctx, id, &s.advert, 1, &s.remote);

		if (res)
			e.say(URCCL_LOG_ERROR, "cannot import memory of agent \"%s\": %s",
			      name.c_str(), urccl_errmsg());
		if (status_of(res) == REMOTE_DISCONNECT)
			link = REMOTE_DISCONNECT;
	}
	e.control(urccl_prep_warm, id);
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

/* Keeps one reference until the peer is lost: an agent that removes another must not take the
 * connection from it. */
void urccl_engine::hold(urccl_peer id)
{
	sender &s = sender_of(id);

	if (s.held)
		control(urccl_prep_close, id);
	s.held = true;
}

void urccl_engine::lost(const urccl_cqe &cqe)
{
	lock l(state);

	senders.erase(cqe.peer);
	control(urccl_prep_close, urccl_peer{cqe.peer});
	for (auto &[name, p] : peers)
		if (p->id.id == cqe.peer) {
			say(URCCL_LOG_INFO, "agent \"%s\" is lost: %s", name.c_str(),
			    explain(cqe).c_str());
			p->link = REMOTE_DISCONNECT;
		}
}

void urccl_engine::event(const urccl_cqe &cqe, const char *payload)
{
	uint32_t kind = urccl_cqe_kind(&cqe);

	if (kind == URCCL_KIND_PEER) {
		lock l(state);

		hold(urccl_cqe_peer(&cqe));
	} else if (kind == URCCL_KIND_NOTE) {
		note(cqe, payload);
	} else if (kind == URCCL_KIND_LOST) {
		take_completions(INT_MAX); /* the peer's CONNECT may still be among them */
		lost(cqe);
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
	peer_ptr p = peers[name] = std::make_shared<peer>(*this, name, info);
	owned[p.get()] = p;
	submit(p.get());
	return SUCCESS;
}

status urccl_engine::connect(const std::string &name)
{
	lock l(state);
	peer_ptr p = find(name);

	l.unlock();
	if (name == agent)
		return SUCCESS;
	if (!p || is_dead())
		return p ? BACKEND : NOT_FOUND;
	for (; p->link == IN_PROG; std::this_thread::sleep_for(microseconds(50)))
		look();
	return p->link;
}

/* Entries to it end; nothing is waited for. */
status urccl_engine::disconnect(const std::string &name)
{
	lock l(state);
	peer_ptr p = find(name);

	if (!p || is_dead())
		return NOT_FOUND;
	peers.erase(name);
	p->removed = true;
	p->link = REMOTE_DISCONNECT;
	p->start_parked();
	l.unlock();
	for (const peer::slot &s : p->slots)
		urccl_unimport(ctx, s.remote);
	return SUCCESS;
}

/* Of a path that is measured once. */
status urccl_engine::estimate(const direction &dir, const descriptors &, const descriptors &,
			      const std::string &name, request *const &r, microseconds &duration,
			      microseconds &margin, cost_method &method,
			      const agent_options *) const
{
	struct urccl_measure_args args = {sizeof(args), 0, 0, 0, 4u << 20, 0};
	transfer *x = static_cast<transfer *>(r);
	status res = x->to ? x->e.connect(name) : NOT_SUPPORTED;

	if (res)
		return res;
	lock l(measuring);
	struct urccl_measurement &m = x->to->measured;
	m.size = sizeof(m);
	if (!m.rtt_median_ns && urccl_measure(ctx, x->to->id, &args, &m)) {
		x->e.say(URCCL_LOG_ERROR, "cannot measure the path to agent \"%s\": %s",
			 name.c_str(), urccl_errmsg());
		return BACKEND;
	}
	double ns = dir == READ ? (double)m.read_ns / (double)(m.read + 1)
				: (double)m.write_ns / (double)(m.written + 1);
	ns = ns * (double)x->bytes + (double)m.rtt_median_ns;
	duration = microseconds((uint64_t)ns / 1000 + 1);
	margin = duration * 3 / 10;
	method = ANALYTICAL;
	return SUCCESS;
}
