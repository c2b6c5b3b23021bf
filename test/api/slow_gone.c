/* SPDX-License-Identifier: Apache-2.0 */
/* REVOKE, UNREGISTER, WARM and IMPORT beside a peer process that is stopped or killed, and has
 * memory of ours: each ends in time and with the right code, whatever the peer owes it. */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include "meet.h"

#define LEN	 8192u
#define RW	 (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)
#define SHORT_US 300000u
#define ENDS_US	 2000000u
#define SLACK_NS (PAIR_LATE_NS / 10) /* others may have the CPU for long */

enum { MAPPED, ORDINARY, KINDS };

struct ours {
	uint8_t blob[URCCL_METADATA_MAX];
	uint32_t blob_len;
	struct urccl_advert adverts[KINDS];
};

static struct pair p;
static pid_t child;
static int to_child[2], from_child[2];
static struct urccl_region region[KINDS];
static struct urccl_advert its;
static void *memory[KINDS];

static struct urccl_cqe run(struct side *s, struct urccl_sqe *sqe)
{
	CHECK_GE(urccl_submit(s->ring), 1);
	return side_end(s, NULL, sqe->user_data);
}

/* The other process: writes to both kinds of our memory, so that it has what keys there are. */
__attribute__((noreturn)) static void use_ours(void)
{
	static uint8_t bytes[LEN];
	struct side *s = &p.b;
	struct urccl_remote remote;
	struct urccl_advert ad;
	struct urccl_sqe *sqe;
	struct ours o;
	uint32_t k;

	p.params.flags = 0;
	side_open(&p, s);
	CHECK_EQ(read(to_child[0], &o, sizeof(o)), sizeof(o));
	s->peer.id = (uint32_t)side_dialled(s, NULL, o.blob, o.blob_len, 20000000).handle;
	for (k = 0; k < KINDS; k++) {
		CHECK_EQ(urccl_import(s->ctx, s->peer, &o.adverts[k], 1, &remote), 0);
		if (!k)
			CHECK_EQ(urccl_advertise(s->ctx, side_register(s, bytes, LEN, RW), 0, LEN,
						 RW, 0, &ad),
				 0);
		sqe = side_sqe(s);
		urccl_prep_write(sqe, remote, bytes, LEN, 0);
		CHECK_EQ(run(s, sqe).res, LEN);
	}
	CHECK_EQ(write(from_child[1], &ad, sizeof(ad)), sizeof(ad));
	for (;;)
		pause();
}

static void child_begin(void)
{
	CHECK_EQ(pipe(to_child), 0);
	CHECK_EQ(pipe(from_child), 0);
	child = fork();
	CHECK(child >= 0);
	if (child)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	use_ours();
}

static void begin(void)
{
	struct ours o = {0};
	struct side *s = &p.a;
	struct urccl_cqe cqe;
	uint32_t k;

	child_begin();
	side_open(&p, s);
	side_accept(s, 100);
	CHECK_EQ(urccl_alloc(s->ctx, LEN, &memory[MAPPED]), 0);
	memory[ORDINARY] =
		mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (k = 0; k < KINDS; k++) {
		region[k] = side_register(s, memory[k], LEN, RW);
		CHECK_EQ(urccl_advertise(s->ctx, region[k], 0, LEN, RW, 0, &o.adverts[k]), 0);
	}
	o.blob_len = (uint32_t)urccl_metadata(s->ctx, o.blob, sizeof(o.blob));
	CHECK_EQ(write(to_child[1], &o, sizeof(o)), sizeof(o));
	side_take(s, NULL, &cqe, NULL);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_PEER);
	s->peer.id = cqe.peer;
	/* An INLINE side is driven until the child is done. */
	CHECK_EQ(fcntl(from_child[0], F_SETFL, O_NONBLOCK), 0);
	while (read(from_child[0], &its, sizeof(its)) != sizeof(its))
		CHECK(!side_take_within(s, NULL, 1000000, &cqe, NULL));
}

static void end(void)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(to_child[0]);
	close(to_child[1]);
	close(from_child[0]);
	close(from_child[1]);
	side_close(&p.a);
	munmap(memory[ORDINARY], LEN);
}

/* An entry of `us`: what it ends with, and that it does by then. */
static struct urccl_cqe within(struct urccl_sqe *sqe, uint32_t us)
{
	uint64_t start = now_ns();
	struct urccl_cqe cqe;

	urccl_sqe_set_deadline_us(sqe, us);
	urccl_sqe_set_data64(sqe, 7);
	cqe = run(&p.a, sqe);
	CHECK(!is_late(start + us * 1000ull + SLACK_NS));
	return cqe;
}

static void ends(int unregister, uint32_t kind, int64_t res)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	if (unregister)
		urccl_prep_unregister(sqe, region[kind]);
	else
		urccl_prep_revoke(sqe, region[kind]);
	cqe = within(sqe, res ? SHORT_US : ENDS_US);
	CHECK_EQ(cqe.res, res);
	if (res)
		check_sentence(&p.a, &cqe, "still in use");
}

static struct urccl_cqe imports(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_import(sqe, p.a.peer, &its, 1);
	return within(sqe, SHORT_US);
}

static struct urccl_cqe warms(uint32_t us)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_warm(sqe, p.a.peer);
	return within(sqe, us);
}

static void stop(void)
{
	int status;

	CHECK_EQ(kill(child, SIGSTOP), 0);
	CHECK_EQ(waitpid(child, &status, WUNTRACED), child);
	CHECK(WIFSTOPPED(status));
}

/* It does not let go of what it has mapped. */
static void stopped(void)
{
	int64_t mapped = p.transport == URCCL_TRANSPORT_SHM ? -ETIMEDOUT : 0;
	struct urccl_cqe cqe;
	uint32_t i;

	begin();
	stop();
	CHECK_EQ(imports().res, 0);
	cqe = warms(SHORT_US);
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	for (i = 0; i < 2; i++) {
		ends(i, ORDINARY, 0);
		ends(i, MAPPED, mapped);
	}
	end();
}

/* It counts as lost before the deadline. */
static void silent(void)
{
	struct urccl_cqe cqe;

	p.params.dead_after_ms = 1000;
	begin();
	stop();
	CHECK_EQ(imports().res, 0);
	cqe = warms(60000000);
	CHECK_EQ(cqe.res, -ECONNRESET);
	check_sentence(&p.a, &cqe, "1000 ms");
	CHECK_EQ(imports().res, -ECONNRESET);
	ends(1, ORDINARY, 0);
	end();
}

static void killed(void)
{
	struct urccl_cqe cqe;
	uint32_t i;

	begin();
	CHECK_EQ(imports().res, 0);
	CHECK_EQ(kill(child, SIGKILL), 0);
	cqe = warms(20000000);
	CHECK(!cqe.res || cqe.res == -ECONNRESET); /* the keys may have been faster */
	for (i = 0; i < 2; i++) {
		ends(i, ORDINARY, 0);
		ends(i, MAPPED, 0);
	}
	cqe = warms(20000000);
	CHECK_EQ(cqe.res, -ECONNRESET);
	cqe = imports();
	CHECK_EQ(cqe.res, -ECONNRESET);
	check_sentence(&p.a, &cqe, "lost");
	CHECK_EQ(urccl_free(p.a.ctx, memory[MAPPED]), 0);
	end();
}

int main(int argc, char **argv)
{
	pair_options(&p, argc, argv);
	if (p.transport == URCCL_TRANSPORT_SIM)
		SKIP("a simulated network ends at the process");
	stopped();
	killed();
	silent();
	return 0;
}
