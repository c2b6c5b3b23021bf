/* SPDX-License-Identifier: Apache-2.0 */
/* Submission, and whoever takes completions: the program that polls, or else the thread. */
#include "plugin.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <time.h>

static constexpr uint64_t POLLED_NS = 1000000; /* a program that polled since takes completions */
static constexpr int BURST = 256;
static constexpr uint32_t RESERVE = 16; /* entries for CANCEL */

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

	p = {sizeof(p), 256, 4096, 0};
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

void urccl_engine::submit(entry *x)
{
	if (waiting.empty() && urccl_sq_space_left(ring) > RESERVE)
		put(ring, x);
	else
		waiting.push_back(x);
	urccl_submit(ring);
}

void urccl_engine::submit_waiting()
{
	lock l(state);

	for (; !waiting.empty() && urccl_sq_space_left(ring) > RESERVE; waiting.pop_front())
		put(ring, waiting.front());
	urccl_submit(ring);
}

/* On the ring of events, which has room: the library ends it at once. */
void urccl_engine::control(void (*prepare)(urccl_sqe *, urccl_peer), urccl_peer id)
{
	urccl_sqe *sqe = urccl_get_sqe(events);

	if (!sqe)
		return;
	prepare(sqe, id);
	urccl_sqe_add_flags(sqe, URCCL_SQE_SKIP_SUCCESS);
	urccl_submit(events);
}

/* ---- completions ---- */

/* consumer. The number of those taken. */
int urccl_engine::take_completions(int most)
{
	urccl_cqe *at, cqe;
	int n = 0;

	for (; n < most && (at = urccl_peek_cqe(ring)); n++) {
		cqe = *at;
		urccl_cqe_seen(ring, at);
		if (cqe.user_data)
			static_cast<entry *>(urccl_cqe_get_data(&cqe))->ended(cqe);
	}
	if (n)
		submit_waiting();
	return n;
}

/* A ring of events that is not taken makes senders wait: that bounds what has arrived. */
void urccl_engine::take()
{
	int n = take_completions(BURST), m = 0;
	urccl_cqe *at;

	for (; m < BURST && arrived_bytes < ARRIVED_MAX && (at = urccl_peek_cqe(events)); m++) {
		event(*at, static_cast<const char *>(urccl_cqe_note(events, at)));
		urccl_cqe_seen(events, at);
	}
	if (n + m && user_fd >= 0)
		eventfd_write(user_fd, 1);
}

void urccl_engine::look()
{
	lock l(consumer, std::try_to_lock);

	looked.store(now_ns(), std::memory_order_relaxed);
	if (l)
		take();
}

/* Sleeps until there is something to take, and for 1 ms at a time while a program polls. */
void urccl_engine::run()
{
	struct pollfd fds[3] = {{wake_fd, POLLIN, 0}, {urccl_ring_fd(ring), POLLIN, 0}, {}};
	eventfd_t count;

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
		if (fds[0].revents & POLLIN)
			eventfd_read(wake_fd, &count);
	}
}
