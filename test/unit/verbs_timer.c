/* SPDX-License-Identifier: Apache-2.0 */
/* Who sleeps on a device of transport ib has its timer set to the next deadline, also where that is
 * the last nanosecond of a second. */
#include <sys/timerfd.h>
#include <unistd.h>
#include "backend/verbs/verbs.h"
#include "test.h"

static struct ibv_context context;
static struct ibv_cq cq = {.context = &context};

static int req_notify_cq(struct ibv_cq *q, int solicited)
{
	CHECK(q == &cq && !solicited);
	return 0;
}

static int poll_cq(struct ibv_cq *q, int n, struct ibv_wc *wc)
{
	(void)n, (void)wc;
	CHECK(q == &cq);
	return 0;
}

/* That time is so many seconds from the one that runs, and ns. */
static void sleeps(struct verbs_device *d, uint64_t seconds, uint64_t ns)
{
	uint64_t now = clock_ns();
	struct itimerspec left;

	d->next_ns = (now / NSEC_PER_SEC + seconds) * NSEC_PER_SEC + ns;
	CHECK_EQ(d->dev.ops->arm(&d->dev), 0);
	CHECK_EQ(timerfd_gettime(d->timer_fd, &left), 0);
	CHECK_GE(left.it_value.tv_sec, (time_t)seconds - 2);
	CHECK_LE(left.it_value.tv_sec, (time_t)seconds + 1);
	CHECK(left.it_value.tv_sec || left.it_value.tv_nsec);
}

int case_verbs_timer(void)
{
	static const struct urccl_params params;
	const struct device_config config = {.params = &params};
	static struct verbs_device d;
	struct itimerspec left;

	context.ops.req_notify_cq = req_notify_cq;
	context.ops.poll_cq = poll_cq;
	verbs_device_init(&d, &config);
	d.cq = &cq;
	d.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	CHECK_GE(d.timer_fd, 0);
	sleeps(&d, 100, 5);
	sleeps(&d, 200, 0);
	sleeps(&d, 300, NSEC_PER_SEC - 1);
	d.next_ns = NEVER_NS;
	CHECK_EQ(d.dev.ops->arm(&d.dev), 0);
	CHECK_EQ(timerfd_gettime(d.timer_fd, &left), 0);
	CHECK(!left.it_value.tv_sec && !left.it_value.tv_nsec);
	close(d.timer_fd);
	return 0;
}
