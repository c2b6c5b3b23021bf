/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications. The tag of one says which piece of which it is: number u32, index u16,
 * pieces - 1 u16.
 */
#include "plugin.h"

#include <sys/eventfd.h>

static constexpr uint32_t PIECE = URCCL_NOTE_MAX;
static constexpr size_t OVERHEAD = 128; /* of a notification that nobody took yet */

void transfer::fill_piece(urccl_sqe *sqe, size_t i)
{
	size_t last = steps - (bytes != 0) - 1,
	       len = std::min<size_t>(PIECE, note.size() - i * PIECE);

	urccl_prep_notify(sqe, to->id, (uint64_t)id << 32 | i << 16 | last, note.data() + i * PIECE,
			  (uint32_t)len);
	urccl_sqe_set_class(sqe, URCCL_CLASS_CONTROL);
}

status urccl_engine::notify(const std::string &name, const std::string &text) const
{
	urccl_engine &e = const_cast<urccl_engine &>(*this);
	lock l(state);
	peer_ptr p = find(name);

	if (text.size() > NOTE_LIMIT)
		return INVALID_PARAM;
	if (name == agent)
		e.arrive(agent, text);
	if (!p || is_dead())
		return name == agent ? SUCCESS : p ? BACKEND : NOT_FOUND;
	if (p->link < 0)
		return p->link;
	auto x = std::make_shared<transfer>(e, WRITE);
	x->to = p;
	x->note = text;
	x->has_note = x->alone = true;
	e.owned[x.get()] = x;
	e.unsent++;
	l.unlock();
	x->begin();
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
	}
	if (i >= pieces || len < 0 || (i + 1 < pieces && len != PIECE))
		return false;
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
		eventfd_write(wake_fd, 1);
	return SUCCESS;
}
