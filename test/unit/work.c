/* SPDX-License-Identifier: Apache-2.0 */
/* Errands run beside one another: those that block hold up nobody while there are threads left,
 * those of the other kind never; more wait for a thread, and may be dropped. */
#include <poll.h>

#include "control/private.h"
#include "test.h"

#define THREADS 16u /* of a kind, at most */
#define LATE_MS 20000

static struct control c;
static const struct urccl_params params;
static struct work held[THREADS], passing[64], other, late, dropped;
static uint32_t gate; /* who is held waits for it */
static uint32_t back, failed;

static int waits(struct work *e)
{
	(void)e;
	while (!load_acquire(&gate))
		futex_wait(&gate, 0, NEVER_NS);
	return 0;
}

static int goes_by(struct work *e)
{
	(void)e;
	return 0;
}

static int never(struct work *e)
{
	(void)e;
	CHECK(!"one that was dropped runs");
	return 0;
}

static void is_back(struct control *control, struct work *e)
{
	CHECK(control == &c);
	CHECK(!e->out);
	back++;
	failed += e->res < 0;
}

/* As the control thread does it, until so many are back. */
static void take_until(uint32_t n)
{
	struct pollfd pfd = {.fd = c.wake_fd, .events = POLLIN};
	struct msg *m, *next;

	while (back < n) {
		for (m = mailbox_take(&c.back); m; m = next) {
			next = m->next;
			CHECK_EQ(m->type, MSG_WORK);
			work_done(&c, m);
		}
		if (back >= n || mailbox_arm(&c.back))
			continue;
		CHECK_EQ(poll(&pfd, 1, LATE_MS), 1);
		wake_drain(c.wake_fd);
	}
	CHECK_EQ(back, n);
}

static void begin(struct work *e, enum work_kind kind, int (*run)(struct work *e))
{
	list_init(&e->link);
	work_begin(&c, e, kind, run, is_back);
}

int case_work(void)
{
	uint32_t i;

	c.config.params = &params;
	c.wake_fd = wake_open();
	CHECK(c.wake_fd >= 0);
	mailbox_init(&c.back, c.wake_fd);
	for (i = 0; i < WORK_KINDS; i++)
		list_init(&c.works[i]);

	/* All but one are held: the others pass it by, one after the other. */
	for (i = 0; i < THREADS - 1; i++)
		begin(&held[i], WORK_PIN, waits);
	for (i = 0; i < ARRAY_SIZE(passing); i++)
		begin(&passing[i], WORK_PIN, goes_by);
	take_until(ARRAY_SIZE(passing));

	/* Now there is none left, for that kind. */
	begin(&held[THREADS - 1], WORK_PIN, waits);
	begin(&late, WORK_PIN, goes_by);
	begin(&dropped, WORK_PIN, never);
	begin(&other, WORK_PREPARE, goes_by);
	take_until(ARRAY_SIZE(passing) + 1);
	CHECK(!other.out);
	CHECK(late.out);
	work_drop(&c, &dropped);
	take_until(ARRAY_SIZE(passing) + 2);
	CHECK_EQ(dropped.res, -ECANCELED);

	CHECK_EQ(failed, 1);
	store_release(&gate, 1);
	futex_wake(&gate);
	take_until(ARRAY_SIZE(passing) + 2 + THREADS + 1);
	CHECK_EQ(failed, 1);
	close(c.wake_fd);
	return 0;
}
