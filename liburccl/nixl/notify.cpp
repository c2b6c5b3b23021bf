/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications. One of at most URCCL_NOTE_MAX bytes is a NOTE, of a transfer or alone. A longer one
 * is several, begun when its transfer's bytes are placed; the tag of each says which piece of which
 * message it is: number u32, index u16, pieces - 1 u16. A peer gets one long message at a time, so
 * that it keeps the pieces of one only.
 */
#include "plugin.h"

static constexpr uint32_t PIECE = URCCL_NOTE_MAX;
static constexpr uint32_t WINDOW = 64;	/* pieces under way */
static constexpr size_t OVERHEAD = 128; /* of a notification that nobody took yet */

/* ---- sending ---- */

message::message(peer_ptr peer, const std::string &bytes, transfer *x)
    : to(std::move(peer)), text(bytes), owner(x), id(++to->e.message_ids),
      pieces(std::max<uint32_t>(1, (uint32_t)((text.size() + PIECE - 1) / PIECE)))
{
	to->e.unsent += !owner;
}

void message::fill(urccl_ring *, urccl_sqe *sqe)
{
	size_t i = filled++, len = std::min<size_t>(PIECE, text.size() - i * PIECE);
	uint64_t tag = (uint64_t)id << 32 | i << 16 | (pieces - 1);

	urccl_prep_notify(sqe, to->id, tag, text.data() + i * PIECE, (uint32_t)len);
	urccl_sqe_set_class(sqe, URCCL_CLASS_CONTROL);
}

void message::ended(const urccl_cqe &cqe)
{
	lock l(to->e.state);
	urccl_engine &e = to->e;

	if (cqe.flags & URCCL_CQE_MORE)
		return;
	if (cqe.res < 0 && !error && !to->removed)
		e.say(URCCL_LOG_ERROR, "a notification to agent \"%s\" failed: %s",
		      to->name.c_str(), e.explain(cqe).c_str());
	refused((int)std::min<int64_t>(cqe.res, 0));
}

/* Also of a piece that ended well, with 0. */
void message::refused(int res)
{
	peer_ptr p = to;

	flying--;
	if (!error)
		error = res;
	if (!stepping && step())
		p->advance();
}

/* A single piece waits for no other message. */
void message::begin()
{
	peer_ptr p = to;

	if (pieces > 1) {
		p->long_messages.push_back(this);
		p->advance();
	} else {
		step();
	}
}

bool message::step()
{
	stepping = true;
	while (asked < pieces && flying < WINDOW && !error && !stop) {
		asked++;
		flying++;
		to->start(this);
	}
	stepping = false;
	if (flying || (asked < pieces && !error && !stop))
		return false;
	if (pieces > 1)
		to->long_messages.pop_front();
	to->e.unsent -= !owner;
	if (owner) {
		owner->long_note = nullptr;
		owner->finish(error ? error : stop ? -ECANCELED : 0);
	}
	delete this;
	return true;
}

void peer::advance()
{
	while (!long_messages.empty() && !long_messages.front()->asked &&
	       long_messages.front()->step())
		continue;
}

status urccl_engine::notify(const std::string &name, const std::string &text) const
{
	urccl_engine &e = const_cast<urccl_engine &>(*this);
	lock l(state);
	peer_ptr p = find(name);

	if (text.size() > NOTE_LIMIT) {
		e.say(URCCL_LOG_ERROR, "a notification of %zu bytes is above the limit of %zu",
		      text.size(), NOTE_LIMIT);
		return INVALID_PARAM;
	}
	if (name == agent)
		e.arrive(agent, text);
	else if (!p || is_dead())
		return p ? BACKEND : NOT_FOUND;
	else if (p->link == link_state::LOST)
		return REMOTE_DISCONNECT;
	else
		(new message(p, text, nullptr))->begin();
	return SUCCESS;
}

/* ---- receiving ---- */

void urccl_engine::arrive(const std::string &from, std::string text)
{
	arrived_bytes += text.size() + OVERHEAD;
	arrived.emplace_back(from, std::move(text));
}

/* One of several. True when all are there, in partial. len < 0: it will not come. */
static bool add_piece(sender &s, uint64_t tag, const char *payload, int64_t len)
{
	uint32_t id = (uint32_t)(tag >> 32), pieces = (uint32_t)(tag & 0xffff) + 1;
	size_t i = tag >> 16 & 0xffff, at = i * PIECE;

	if (id != s.id || pieces != s.pieces) {
		s.id = id;
		s.pieces = s.missing = pieces;
		s.partial.clear();
		s.seen.assign(pieces, false);
	}
	if (i >= pieces || s.seen[i] || len < 0 || (i + 1 < pieces && len != PIECE))
		return false;
	s.seen[i] = true;
	s.partial.resize(std::max(s.partial.size(), at + (size_t)len));
	s.partial.replace(at, (size_t)len, payload, (size_t)len);
	return !--s.missing;
}

void urccl_engine::note(const urccl_cqe &cqe, const char *payload)
{
	lock l(state);
	sender &s = sender_of(urccl_cqe_peer(&cqe));

	if (!(cqe.tag & 0xffff)) {
		if (cqe.res >= 0)
			arrive(s.name, std::string(payload, (size_t)cqe.res));
	} else if (add_piece(s, cqe.tag, payload, cqe.res)) {
		arrive(s.name, std::move(s.partial));
		s.pieces = 0;
	}
}

status urccl_engine::take_notifications(notifications &out)
{
	if (!is_dead())
		look();
	lock l(state);
	out.swap(arrived);
	if (arrived_bytes.exchange(0) >= ARRIVED_MAX)
		wake(wake_fd);
	return SUCCESS;
}
