/* SPDX-License-Identifier: Apache-2.0 */
/* Submission, and whoever takes completions: the program that polls, or else the thread. */
#include "plugin.h"

#include <poll.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

static constexpr uint64_t POLLED_NS = 1000000; /* a program that polled since takes completions */
static constexpr int BURST = 256;

uint64_t now_ns()
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int urccl_engine::open_rings()
{
	struct urccl_ring_params p = {sizeof(p), 1024, 1, 0};
	int res = urccl_ring_open(ctx, &p, &ring);

	p = {sizeof(p), 4, 4096, 0};
	if (!res)
		res = urccl_ring_open(ctx, &p, &events);
	if (res)
		return res;
	urccl_prep_accept(urccl_get_sqe(events));
	urccl_prep_watch(urccl_get_sqe(events), urccl_peer{0});
	urccl_submit(events);
	return 0;
}

/* ---- submission ---- */

static void put(urccl_ring *ring, entry *x)
{
	urccl_sqe *sqe = urccl_get_sqe(ring);

	x->fill(ring, sqe);
	urccl_sqe_set_data(sqe, x);
}

void urccl_engine::submit(entry *x, uint32_t reserve)
{
	lock l(producer);

	if ((!reserve || waiting.empty()) && urccl_sq_space_left(ring) > reserve) {
		put(ring, x);
		urccl_submit(ring);
	} else if (reserve) {
		waiting.push_back(x);
	} else {
		waiting.push_front(x);
	}
}

void urccl_engine::submit_waiting()
{
	lock l(producer);

	for (; !waiting.empty() && urccl_sq_space_left(ring) > RESERVE; waiting.pop_front())
		put(ring, waiting.front());
	urccl_submit(ring);
}

bool urccl_engine::withdraw(entry *x)
{
	lock l(producer);
	auto at = std::find(waiting.begin(), waiting.end(), x);
	bool was_there = at != waiting.end();

	if (was_there)
		waiting.erase(at);
	return was_there;
}

/* An entry whose result nobody waits for. */
struct control_entry final : entry {
	std::function<void(urccl_sqe *)> prepare;

	void fill(urccl_ring *, urccl_sqe *sqe) override { prepare(sqe); }
	void ended(const urccl_cqe &cqe) override
	{
		cqe.flags &URCCL_CQE_MORE ? void() : delete this;
	}
	void refused(int) override { delete this; }
};

void urccl_engine::control(std::function<void(urccl_sqe *)> prepare, uint32_t reserve)
{
	control_entry *x = new control_entry;

	x->prepare = std::move(prepare);
	submit(x, reserve);
}

void urccl_engine::cancel(urccl_cancel_by by, uint64_t key)
{
	control([by, key](urccl_sqe *sqe) { urccl_prep_cancel(sqe, by, key); });
}

void urccl_engine::close_reference(uint32_t id)
{
	control([id](urccl_sqe *sqe) { urccl_prep_close(sqe, urccl_peer{id}); });
}

/* ---- completions ---- */

/* A ring of events that is not taken makes senders wait: that bounds what has arrived. */
void urccl_engine::take()
{
	urccl_cqe *at, cqe;
	int n = 0, m = 0;

	for (; n < BURST && (at = urccl_peek_cqe(ring)); n++) {
		cqe = *at;
		urccl_cqe_seen(ring, at);
		static_cast<entry *>(urccl_cqe_get_data(&cqe))->ended(cqe);
	}
	for (; m < BURST && arrived_bytes < ARRIVED_MAX && (at = urccl_peek_cqe(events)); m++) {
		event(*at, static_cast<const char *>(urccl_cqe_note(events, at)));
		urccl_cqe_seen(events, at);
	}
	if (n)
		submit_waiting();
	if (n + m && user_fd >= 0)
		wake(user_fd);
}

void urccl_engine::look()
{
	lock l(consumer, std::try_to_lock);

	looked.store(now_ns(), std::memory_order_relaxed);
	if (l)
		take();
}

void urccl_engine::wake(int fd)
{
	uint64_t one = 1;

	if (write(fd, &one, sizeof(one)) < 0)
		return; /* it counts already */
}

/* Sleeps until there is something to take, and for 1 ms at a time while a program polls. */
void urccl_engine::run()
{
	struct pollfd fds[3] = {{wake_fd, POLLIN, 0}, {urccl_ring_fd(ring), POLLIN, 0}, {}};
	uint64_t count;

	pthread_setname_np(pthread_self(), "urccl-nixl");
	while (!stopping) {
		lock l(consumer, std::defer_lock);
		bool is_full;

		if (now_ns() - looked.load(std::memory_order_relaxed) < POLLED_NS) {
			poll(fds, 1, 1);
			continue;
		}
		l.lock();
		take();
		is_full = arrived_bytes >= ARRIVED_MAX;
		if (urccl_arm(ring, URCCL_ARM_FOR_CQE, 0) ||
		    (!is_full && urccl_arm(events, URCCL_ARM_FOR_CQE, 0)))
			continue;
		l.unlock();
		fds[2] = {is_full ? -1 : urccl_ring_fd(events), POLLIN, 0};
		poll(fds, 3, -1);
		if (fds[0].revents & POLLIN && read(wake_fd, &count, sizeof(count)) < 0)
			continue;
	}
}
