/* SPDX-License-Identifier: Apache-2.0 */
/* A notification that nobody takes in time: its sender is told whether the peer's library has it,
 * and nobody there watches or takes events, or whether that library says nothing; and the
 * receiver's dump says who waits for what. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "meet.h"

#define US     1000000u
#define WINDOW 32u /* notifications of a peer that may be unacknowledged */
#define CANCEL 0xca9ce1u

static struct pair p;

static void notify(uint64_t tag)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_notify(sqe, p.a.peer, tag, NULL, 0);
	urccl_sqe_set_deadline_us(sqe, US);
	urccl_sqe_set_data64(sqe, tag);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

static int dump_says(const struct side *s, const char *what)
{
	static char text[65536];
	int fd = memfd_create("dump", MFD_CLOEXEC);
	ssize_t n;

	CHECK(fd >= 0);
	CHECK_EQ(urccl_dump(s->ctx, fd), 0);
	n = pread(fd, text, sizeof(text) - 1, 0);
	CHECK(n > 0);
	text[n] = 0;
	close(fd);
	return strstr(text, what) != NULL;
}

static void dump_comes(const char *what)
{
	uint64_t until = now_ns() + PAIR_LATE_NS;
	struct urccl_cqe cqe;

	while (!dump_says(&p.b, what)) {
		CHECK(!is_late(until));
		CHECK(!side_take_within(&p.a, &p.b, 1000000, &cqe, NULL));
	}
}

/* All of them, in any order. */
static void time_out(uint32_t n, struct side *other, const char *why)
{
	struct urccl_cqe cqe;

	while (n--) {
		side_take(&p.a, other, &cqe, NULL);
		CHECK_EQ(cqe.res, -ETIMEDOUT);
		check_sentence(&p.a, &cqe, why);
	}
}

/* For b's entries; the CANCEL's end comes last. */
static void cancel_all(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.b);
	struct urccl_cqe cqe;

	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_ALL, 0);
	urccl_sqe_set_data64(sqe, CANCEL);
	CHECK_EQ(urccl_submit(p.b.ring), 1);
	do {
		side_take(&p.b, &p.a, &cqe, NULL);
		CHECK(cqe.user_data == CANCEL ? cqe.res > 0 : cqe.res == -ECANCELED);
	} while (cqe.user_data != CANCEL);
}

/* As the failure that it is by now; or as it was sent, where the sender did not wait for the word
 * that the failure is here. */
static void note_comes(void)
{
	struct urccl_cqe cqe = side_event(&p.b, &p.a, URCCL_KIND_NOTE, NULL);

	CHECK(cqe.res == -ETIMEDOUT || !cqe.res);
}

/* The pair's own WATCH goes; with another what waits comes. */
static void nobody_watches(uint32_t n)
{
	char line[80];
	uint32_t i;

	cancel_all();
	for (i = 0; i < n; i++)
		notify(i);
	time_out(n, &p.b, "no ring there watches us, or its event slots are full");
	snprintf(line, sizeof(line), "no ring watches peer 0x%x; %u notifications wait\n",
		 p.b.peer.id, n < WINDOW ? n : WINDOW);
	dump_comes(line);
	side_watch(&p.b, p.b.peer, 2);
	for (i = 0; i < n; i++)
		note_comes();
}

static void slots_are_full(void)
{
	uint32_t n = p.ring_params.event_slots, i;
	char line[80];

	for (i = 0; i < n; i++)
		CHECK_EQ(side_tell(&p.a, &p.b, p.a.peer.id, i), 0);
	notify(n);
	snprintf(line, sizeof(line), "1 notification waits for event slots of ring %u\n",
		 urccl_ring_id(p.b.ring));
	time_out(1, &p.b, "no ring there watches us, or its event slots are full");
	dump_comes(line);
	for (i = 0; i < n; i++)
		CHECK_EQ(side_event(&p.b, &p.a, URCCL_KIND_NOTE, NULL).tag, i);
	note_comes();
}

/* Nothing turns b. */
static void library_is_silent(void)
{
	notify(1);
	time_out(1, NULL, "the peer's library has said nothing for ");
}

int main(int argc, char **argv)
{
	pair_options(&p, argc, argv);
	p.ring_params.event_slots = 4;
	pair_open_idle(&p);
	nobody_watches(3);
	nobody_watches(WINDOW + 8);
	slots_are_full();
	library_is_silent();
	pair_close(&p);
	return 0;
}
