/* SPDX-License-Identifier: Apache-2.0 */
/* Every message arrives once, each poster's in order, and a sleeping owner is woken; answers come
 * back. */
#include <poll.h>
#include <pthread.h>

#include "base/base.h"
#include "test.h"

#define POSTERS	 2
#define MESSAGES 30000u
#define LOST_MS	 20000 /* a wake-up that takes longer is lost */

struct item {
	struct msg msg;
	uint32_t poster, number;
};

static struct mailbox box, answers;
static struct item items[POSTERS][MESSAGES];
static uint32_t answered;

static void *post_all(void *arg)
{
	uint32_t poster = (uint32_t)(uintptr_t)arg, i;

	for (i = 0; i < MESSAGES; i++) {
		struct item *it = &items[poster][i];

		it->poster = poster;
		it->number = i;
		it->msg.reply = poster ? &answers : NULL;
		mailbox_post(&box, &it->msg);
		/* Uneven, so that the owner is met asleep and awake. */
		while (i % 64 == 63 && load_acquire(&answered) + 256 < i)
			cpu_relax();
	}
	return NULL;
}

static void owner_sleep(struct mailbox *m)
{
	struct pollfd p = {.fd = m->fd, .events = POLLIN};

	if (mailbox_arm(m))
		return;
	CHECK_EQ(poll(&p, 1, LOST_MS), 1);
	wake_drain(m->fd);
}

static uint32_t take_answers(uint32_t expected)
{
	struct msg *m, *next;

	for (m = mailbox_take(&answers); m; m = next) {
		next = m->next;
		CHECK_EQ(m->res, -(int)container_of(m, struct item, msg)->number);
		CHECK_EQ(container_of(m, struct item, msg)->number, expected);
		expected++;
	}
	return expected;
}

int case_mailbox(void)
{
	uint32_t next[POSTERS] = {0}, back = 0;
	pthread_t threads[POSTERS];
	struct msg *m, *after;
	uintptr_t i;

	mailbox_init(&box, wake_open());
	mailbox_init(&answers, wake_open());
	CHECK(!mailbox_take(&box));
	for (i = 0; i < POSTERS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, post_all, (void *)i), 0);
	while (next[0] < MESSAGES || next[1] < MESSAGES) {
		m = mailbox_take(&box);
		if (!m)
			owner_sleep(&box);
		for (; m; m = after) {
			struct item *it = container_of(m, struct item, msg);

			after = m->next;
			CHECK_EQ(it->number, next[it->poster]);
			next[it->poster]++;
			msg_reply(m, -(int)it->number);
		}
		back = take_answers(back);
		store_release(&answered, next[0] < next[1] ? next[0] : next[1]);
	}
	for (i = 0; i < POSTERS; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(take_answers(back), MESSAGES);
	CHECK(!mailbox_take(&box));
	CHECK_EQ(mailbox_arm(&box), 0);
	close(box.fd);
	close(answers.fd);
	return 0;
}
