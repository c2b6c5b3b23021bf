/* SPDX-License-Identifier: Apache-2.0 */
/* Without an ACCEPT a CONNECT waits, under its own deadline; with one that comes late it goes
 * through, and both sides have the other's hello. A newer ACCEPT or WATCH takes over from the
 * older, and WATCH of a peer goes before WATCH of all. */
#include "meet.h"

#define US 20000000u

static const char hello_a[] = "rank 3 of a model", hello_b[] = "decode, 12 GiB free";
static struct pair p;
static uint8_t blob[URCCL_METADATA_MAX];
static uint32_t blob_len;

static void times_out(void)
{
	struct urccl_cqe cqe = side_dialled(&p.a, &p.b, blob, blob_len, 150000);

	CHECK_EQ(cqe.res, -ETIMEDOUT);
	check_sentence(&p.a, &cqe, "150000 us");
}

static void dial_with_hello(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_connect(sqe, blob, blob_len);
	urccl_sqe_set_hello(p.a.ring, sqe, hello_a, sizeof(hello_a));
	urccl_sqe_set_deadline_us(sqe, US);
	urccl_sqe_set_data64(sqe, 5);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

static void check_info(struct side *s, const char *hello, uint32_t len)
{
	struct urccl_peer_info info = {.size = sizeof(info)};

	CHECK_EQ(urccl_get_peer_info(s->ctx, s->peer, &info), 0);
	CHECK_EQ(info.state, URCCL_PEER_UP);
	CHECK_EQ(info.transport, p.transport);
	CHECK(info.incarnation);
	CHECK_EQ(info.hello_len, len);
	CHECK(!memcmp(info.hello, hello, len));
	CHECK(!strncmp(info.address, "127.0.0.1:", 10));
}

static void goes_through(void)
{
	uint8_t note[URCCL_NOTE_MAX];
	struct urccl_cqe cqe;

	dial_with_hello();
	side_silent(&p.a, &p.b, 20000000);
	side_silent(&p.b, &p.a, 0);
	side_accept(&p.b, 1);
	cqe = side_end(&p.a, &p.b, 5);
	CHECK_EQ(cqe.res, 0);
	p.a.peer.id = (uint32_t)cqe.handle;
	cqe = side_event(&p.b, &p.a, URCCL_KIND_PEER, note);
	if (!cqe.res) /* the dial that timed out, if its end is not known here yet */
		cqe = side_event(&p.b, &p.a, URCCL_KIND_PEER, note);
	CHECK(cqe.flags & URCCL_CQE_MORE);
	CHECK_EQ(cqe.user_data, 1);
	CHECK_EQ(cqe.res, sizeof(hello_a));
	CHECK(!memcmp(note, hello_a, sizeof(hello_a)));
	p.b.peer.id = cqe.peer;
	check_info(&p.a, hello_b, sizeof(hello_b));
	check_info(&p.b, hello_a, sizeof(hello_a));
}

static void replaced(uint64_t user_data)
{
	struct urccl_cqe cqe = side_end(&p.b, &p.a, user_data);

	CHECK_EQ(cqe.res, -ECANCELED);
	check_sentence(&p.b, &cqe, "newer");
}

static void note_comes_to(uint64_t user_data)
{
	struct urccl_cqe cqe;

	CHECK_EQ(side_tell(&p.a, &p.b, p.a.peer.id, user_data), 0);
	do /* but for the end of the dial that timed out, if it was told of */
		side_take(&p.b, &p.a, &cqe, NULL);
	while (urccl_cqe_kind(&cqe) == URCCL_KIND_LOST && cqe.peer != p.b.peer.id);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_NOTE);
	CHECK_EQ(cqe.tag, user_data);
	CHECK_EQ(cqe.user_data, user_data);
}

/* What was submitted before is taken: nothing else tells of a WATCH that replaces none. */
static void taken(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.b);

	urccl_prep_nop(sqe);
	CHECK_GE(urccl_submit(p.b.ring), 1);
	CHECK_EQ(side_end(&p.b, &p.a, 0).res, 0);
}

static void newer(void)
{
	side_accept(&p.b, 2);
	replaced(1);
	side_watch(&p.b, (struct urccl_peer){0}, 10);
	note_comes_to(10);
	side_watch(&p.b, (struct urccl_peer){0}, 11);
	replaced(10);
	note_comes_to(11);
	side_watch(&p.b, p.b.peer, 12);
	taken();
	note_comes_to(12);
	side_watch(&p.b, p.b.peer, 13);
	replaced(12);
	note_comes_to(13);
}

/* On another ring, where a context may have more than one. */
static void other_ring(void)
{
	struct side second = p.b;

	if (p.params.flags & URCCL_OPEN_INLINE)
		return;
	CHECK_EQ(urccl_ring_open(p.b.ctx, NULL, &second.ring), 0);
	side_accept(&second, 20);
	replaced(2);
	side_watch(&second, p.b.peer, 21);
	replaced(13);
	CHECK_EQ(side_tell(&p.a, &second, p.a.peer.id, 9), 0);
	CHECK_EQ(side_event(&second, &p.a, URCCL_KIND_NOTE, NULL).user_data, 21);
	/* With its ring gone, WATCH of all has it again. */
	urccl_ring_close(second.ring);
	note_comes_to(11);
}

int main(int argc, char **argv)
{
	int rc;

	pair_options(&p, argc, argv);
	pair_sim(&p);
	side_open(&p, &p.a);
	p.params.hello = hello_b;
	p.params.hello_len = sizeof(hello_b);
	side_open(&p, &p.b);
	rc = urccl_metadata(p.b.ctx, blob, sizeof(blob));
	CHECK_GE(rc, 1);
	blob_len = (uint32_t)rc;
	times_out();
	goes_through();
	side_silent(&p.b, &p.a, 0);
	newer();
	other_ring();
	pair_close(&p);
	return 0;
}
