/* SPDX-License-Identifier: Apache-2.0 */
/* A process that is stopped for three times dead_after while it waits for a peer's word finds the
 * peer alive when it goes on: whether the word has come meanwhile, or the peer was stopped for as
 * long and goes on a little later. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "control/private.h"
#include "control_rig.h"

#define DEAD_AFTER_MS 1000u
#define NOTIFY_US     30000000u

static int words[2]; /* from the controller to who waits */

static void rest(uint32_t ms)
{
	usleep(ms * 1000);
}

/* ---- the peer ---- */

__attribute__((noreturn)) static void peer(int out)
{
	struct urccl_params p = rig_params();
	struct urccl_sqe *sqe;
	struct side s;

	side_open(&s, &p);
	side_accept(&s, 1);
	sqe = urccl_get_sqe(s.ring);
	urccl_prep_watch(sqe, (struct urccl_peer){0});
	CHECK_GE(urccl_submit(s.ring), 1);
	CHECK_EQ(write(out, s.blob, s.blob_len), s.blob_len);
	for (;;) {
		struct urccl_wait_args args = {.size = sizeof(args), .min_n = 1};
		struct urccl_cqe *cqe;

		args.timeout_ns = NSEC_PER_SEC;
		if (urccl_wait(s.ring, &cqe, &args) > 0)
			urccl_cqe_seen(s.ring, cqe);
	}
}

/* ---- who waits for it ---- */

static void notify(struct side *a, uint32_t to, uint64_t data)
{
	struct urccl_sqe *sqe = urccl_get_sqe(a->ring);

	urccl_prep_notify(sqe, (struct urccl_peer){to}, 7, NULL, 0);
	urccl_sqe_set_deadline_us(sqe, NOTIFY_US);
	urccl_sqe_set_data64(sqe, data);
	CHECK_GE(urccl_submit(a->ring), 1);
}

static void heard(void)
{
	char c;

	CHECK_EQ(read(words[0], &c, 1), 1);
}

__attribute__((noreturn)) static void waiter(const uint8_t *blob, uint32_t len, int out)
{
	struct urccl_params p = rig_params();
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	struct side a;
	uint32_t id;

	p.dead_after_ms = DEAD_AFTER_MS;
	side_open(&a, &p);
	side_connect(&a, blob, len, 0, 1);
	cqe = side_next(&a);
	CHECK_EQ(cqe.res, 0);
	id = (uint32_t)cqe.handle;
	sqe = urccl_get_sqe(a.ring);
	urccl_prep_watch(sqe, (struct urccl_peer){id});
	urccl_sqe_set_data64(sqe, 2);
	notify(&a, id, 3);
	CHECK_EQ(side_end_of(&a, 3), 0);
	CHECK_EQ(write(out, "r", 1), 1);
	heard(); /* the peer is stopped */
	notify(&a, id, 4);
	CHECK_EQ(side_end_of(&a, 4), 0); /* and not LOST */
	notify(&a, id, 5);
	CHECK_EQ(side_end_of(&a, 5), 0);
	_exit(0);
}

/* ---- the controller ---- */

static void stop(pid_t pid)
{
	int status;

	CHECK_EQ(kill(pid, SIGSTOP), 0);
	CHECK_EQ(waitpid(pid, &status, WUNTRACED), pid);
	CHECK(WIFSTOPPED(status));
}

static pid_t child(void)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

/* Stops the peer, and then who waits for it, and has them go on. Returns for how many ms who waits
 * ran and the peer did not: at least so many, where this process itself is late. */
static uint64_t stops(pid_t a, pid_t b, int answered)
{
	uint64_t start, ms;

	stop(b);
	start = clock_ns();
	CHECK_EQ(write(words[1], "s", 1), 1);
	rest(DEAD_AFTER_MS / 2); /* it has asked whether the peer is there, after a quarter */
	stop(a);
	ms = (clock_ns() - start) / NSEC_PER_MSEC;
	if (answered)
		CHECK_EQ(kill(b, SIGCONT), 0);
	rest(3 * DEAD_AFTER_MS);
	start = clock_ns();
	CHECK_EQ(kill(a, SIGCONT), 0);
	if (answered)
		return ms;
	rest(DEAD_AFTER_MS / 5);
	CHECK_EQ(kill(b, SIGCONT), 0);
	return ms + (clock_ns() - start) / NSEC_PER_MSEC;
}

/* 0: this machine was so late that the peer may rightly count as lost. */
static int round_of(int answered)
{
	uint8_t blob[URCCL_METADATA_MAX];
	int out[2], status, lost;
	uint64_t ms;
	pid_t a, b;
	ssize_t n;

	CHECK_EQ(pipe(out), 0);
	CHECK_EQ(pipe(words), 0);
	b = child();
	if (!b)
		peer(out[1]);
	n = read(out[0], blob, sizeof(blob));
	CHECK_GE(n, 1);
	a = child();
	if (!a)
		waiter(blob, (uint32_t)n, out[1]);
	CHECK_EQ(read(out[0], blob, 1), 1);
	ms = stops(a, b, answered);
	CHECK_EQ(waitpid(a, &status, 0), a);
	lost = !WIFEXITED(status) || WEXITSTATUS(status);
	CHECK(!lost || ms >= DEAD_AFTER_MS - DEAD_AFTER_MS / SPANS);
	CHECK_EQ(kill(b, SIGKILL), 0);
	CHECK_EQ(waitpid(b, &status, 0), b);
	close(out[0]);
	close(out[1]);
	close(words[0]);
	close(words[1]);
	return !lost;
}

int case_control_stopped(void)
{
	while (!round_of(1))
		;
	while (!round_of(0))
		;
	return 0;
}
