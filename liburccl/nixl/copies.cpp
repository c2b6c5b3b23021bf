/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers of an agent to itself: copies, in pieces so that a release need not wait for all. */
#include "plugin.h"

#include <string.h>

static constexpr uint64_t AT_ONCE = 256u << 10;
static constexpr uint64_t PIECE = 4u << 20;

/* The notification goes ahead of the word: the transfer may be gone afterwards. */
static void carry_out(transfer &x)
{
	for (const urccl_seg &s : x.segs)
		for (uint64_t at = 0; at < s.len && !x.cancelled; at += PIECE) {
			void *here = (void *)(uintptr_t)(s.addr + at);
			void *there = (void *)(uintptr_t)(s.off + at);

			memmove(x.way == READ ? here : there, x.way == READ ? there : here,
				std::min(PIECE, s.len - at));
		}
	if (x.has_note && !x.cancelled) {
		lock l(x.e.state);

		x.e.arrive(x.e.agent, x.note);
	}
	x.finish(x.cancelled ? -ECANCELED : 0);
}

template <class F> void copies::wait(F is_over)
{
	while (!is_over())
		pthread_cond_wait(&changed, guard.native_handle());
}

void copies::post(transfer *x)
{
	if (x->bytes <= AT_ONCE) {
		carry_out(*x);
		return;
	}
	lock l(guard);
	if (!thread.joinable())
		thread = std::thread(&copies::run, this);
	queue.push_back(x);
	pthread_cond_broadcast(&changed);
}

void copies::run()
{
	lock l(guard);

	pthread_setname_np(pthread_self(), "urccl-copy");
	for (;;) {
		wait([this] { return stop || !queue.empty(); });
		if (stop)
			return;
		current = queue.front();
		queue.pop_front();
		l.unlock();
		carry_out(*current);
		l.lock();
		current = nullptr;
		pthread_cond_broadcast(&changed);
	}
}

void copies::withdraw(transfer *x)
{
	lock l(guard);
	auto at = std::find(queue.begin(), queue.end(), x);

	x->cancelled = true;
	if (at != queue.end()) {
		queue.erase(at);
		x->finish(-ECANCELED);
	}
	wait([this, x] { return current != x; });
}

void copies::wait_for(uint32_t region)
{
	auto names = [region](const transfer *x) {
		return x &&
		       std::any_of(x->segs.begin(), x->segs.end(), [region](const urccl_seg &s) {
			       return s.region == region || s.remote == region;
		       });
	};
	lock l(guard);

	wait([this, names] {
		return !names(current) && std::none_of(queue.begin(), queue.end(), names);
	});
}

copies::~copies()
{
	lock l(guard);

	stop = true;
	pthread_cond_broadcast(&changed);
	l.unlock();
	if (thread.joinable())
		thread.join();
}
