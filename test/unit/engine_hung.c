/* SPDX-License-Identifier: Apache-2.0 */
/* A device whose driver hangs keeps the buffer of an entry past its deadline: the outcome is told
 * in the time that is promised also by an engine that sleeps, as nothing else is to do; and not
 * yet where that engine slept for longer than it meant to, so that the device had no chance. */
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine_rig.h"

enum { ENTRIES = 8, LEN = 4096, DEADLINE_MS = 10, LATE_MS = 50, SOON_MS = 3, SLEEPS = 32 };

static struct engine_rig rig;

static void begin(struct clock *clock, int fd)
{
	rig_engine_open_by(&rig, clock, fd, ENTRIES, 4);
	rig_peer_open(&rig);
	rig_key(&rig, 0, 0);
	rig.hung = 1;
	urccl_sqe_set_deadline_us(rig_write(&rig, 0, LEN, 1), DEADLINE_MS * 1000);
	rig_enter(&rig);
}

static void is_outcome(struct urccl_cqe cqe)
{
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	CHECK(cqe.flags & URCCL_CQE_MORE);
	CHECK_EQ(cqe.flags & URCCL_CQE_REMOTE_QUIET, 0);
	CHECK_EQ(rig.ntaken, 1);
}

/* What the device gives back at last ends it. */
static void end(void)
{
	struct urccl_cqe cqe;

	rig_out(&rig, 0, -ECANCELED, CHUNK_QUIET);
	rig_turns(&rig);
	cqe = rig_ended(&rig, 1);
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
	rig_peer_close(&rig);
	rig_engine_close(&rig);
}

/* As a program that waits; back after a wake-up. */
static void turn_and_sleep(void)
{
	engine_drive(rig.e);
	rig_answer(&rig);
	CHECK_EQ(engine_sleep(rig.e, NEVER_NS) < 0, 0);
}

static void asleep(int fd)
{
	struct urccl_cqe cqe;
	struct clock clock;
	uint64_t start;

	clock_init(&clock);
	begin(&clock, fd);
	start = clock_now(&clock);
	while (!rig_cqe(&rig, &cqe))
		turn_and_sleep();
	is_outcome(cqe);
	CHECK_LE(clock_now(&clock) - start, (DEADLINE_MS + LATE_MS) * NSEC_PER_MSEC);
	end();
	clock_fini(&clock);
}

/* Back from its sleep after the entry was forced, it has the device's word before it tells, and
 * does not wait long for it. */
static void away(int fd)
{
	struct urccl_cqe cqe;
	struct clock clock;
	uint64_t back;

	clock_init(&clock);
	begin(&clock, fd);
	while (!rig.peer->silent)
		turn_and_sleep();
	while (engine_sleep(rig.e, 0))
		engine_drive(rig.e);
	clock_sleep(&clock, clock_now(&clock) + NSEC_PER_SEC);
	back = clock_now(&clock);
	engine_drive(rig.e);
	CHECK(!rig_cqe(&rig, &cqe));
	while (!rig_cqe(&rig, &cqe))
		turn_and_sleep();
	is_outcome(cqe);
	CHECK_LE(clock_now(&clock) - back, SOON_MS * NSEC_PER_MSEC);
	end();
	clock_fini(&clock);
}

/* With a thread that does not spin: it sleeps a fraction of the 64 times that it would look, on a
 * machine that is late, too, for it is not woken any more when it has told. */
static void threaded(int fd)
{
	struct engine_cmd stop = {0};
	struct urccl_cqe cqe;
	uint64_t sleeps;

	begin(NULL, fd);
	sleeps = rig.e->sleeps;
	rig.e->config.is_inline = 0;
	rig.e->spin_ns = 0;
	CHECK_EQ(engine_start(rig.e), 0);
	while (load_acquire(&rig.r->publish_line.cq_tail) == rig.r->consumer_line.cq_head)
		usleep(1000);
	rig_send(&rig, &stop, ENGINE_STOP);
	CHECK_EQ(pthread_join(rig.e->thread, NULL), 0);
	rig.e->started = rig.e->stopping = 0;
	rig.e->stop = NULL;
	rig.e->config.is_inline = 1;
	CHECK_LE(rig.e->sleeps - sleeps, SLEEPS);
	CHECK(mailbox_take(&rig.back) == &stop.msg);
	CHECK(rig_cqe(&rig, &cqe));
	is_outcome(cqe);
	end();
}

int case_engine_hung(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	CHECK_GE(fd, 0);
	alarm(60);
	asleep(fd);
	asleep(-1);
	away(fd);
	threaded(fd);
	close(fd);
	return 0;
}
