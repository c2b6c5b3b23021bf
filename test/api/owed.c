/* SPDX-License-Identifier: Apache-2.0 */
/* A receiver whose event slots are used up and that takes nothing: notifications to it end by their
 * deadlines, and when it takes its events again it hears of each one once, of those that came and
 * of those that will not. --senders=N, --notes=N */
#include "fds.h"
#include "meet.h"

#define SENDERS_MAX 1000u
#define NOTES_MAX   1000u
#define SLOTS	    4u

static struct pair p;
static struct side senders[SENDERS_MAX];
static uint32_t handles[SENDERS_MAX]; /* b's */
static struct urccl_remote remotes[SENDERS_MAX];
static int8_t told[SENDERS_MAX][NOTES_MAX];	/* to the sender: 1 came, -1 failed, 2 either */
static uint8_t arrived[SENDERS_MAX][NOTES_MAX]; /* at the receiver */
static uint32_t nsenders = 64, nnotes = 48;
static uint8_t bytes[4096], local[4096];

static void options(int argc, char **argv)
{
	char *kept[16];
	int i, n = 0;

	CHECK(argc < 16);
	for (i = 0; i < argc; i++)
		if (!strncmp(argv[i], "--senders=", 10))
			nsenders = (uint32_t)strtoul(argv[i] + 10, NULL, 0);
		else if (!strncmp(argv[i], "--notes=", 8))
			nnotes = (uint32_t)strtoul(argv[i] + 8, NULL, 0);
		else
			kept[n++] = argv[i];
	CHECK(nsenders <= SENDERS_MAX && nnotes <= NOTES_MAX);
	pair_options(&p, n, kept);
}

/* Each has some descriptors, at both sides. */
static void need_descriptors(void)
{
	if (!fds_allow(18 * nsenders))
		SKIP("too few file descriptors are allowed (ulimit -Hn)");
}

/* The senders are INLINE: there may be more of them than threads are good for. */
static void begin(void)
{
	struct urccl_region region;
	struct urccl_advert ad;
	uint32_t i;

	pair_sim(&p);
	p.ring_params.event_slots = SLOTS;
	side_open(&p, &p.b);
	side_accept(&p.b, 1);
	region = side_register(&p.b, bytes, sizeof(bytes), URCCL_RIGHT_WRITE);
	CHECK_EQ(urccl_advertise(p.b.ctx, region, 0, 64, URCCL_RIGHT_WRITE, 0, &ad), 0);
	p.params.flags |= URCCL_OPEN_INLINE;
	p.ring_params.entries = 1024;
	for (i = 0; i < nsenders; i++) {
		side_open(&p, &senders[i]);
		side_connect(&senders[i], &p.b);
		handles[i] = p.b.peer.id;
		side_register(&senders[i], local, sizeof(local), 0);
		CHECK_EQ(urccl_import(senders[i].ctx, senders[i].peer, &ad, 1, &remotes[i]), 0);
	}
	side_watch(&p.b, (struct urccl_peer){0}, 2);
}

/* One in four is on a write that fails at once. */
static void send_all(void)
{
	struct urccl_sqe *sqe;
	uint32_t i, k;

	for (i = 0; i < nsenders; i++) {
		for (k = 0; k < nnotes; k++) {
			sqe = side_sqe(&senders[i]);
			if (k % 4 == 3) {
				urccl_prep_write(sqe, remotes[i], local, 64, 4000);
				urccl_sqe_set_notify(senders[i].ring, sqe, k, NULL, 0);
			} else {
				urccl_prep_notify(sqe, senders[i].peer, k, NULL, 0);
			}
			urccl_sqe_set_data64(sqe, k);
			urccl_sqe_set_deadline_us(sqe, 100000);
		}
		CHECK_EQ(urccl_submit(senders[i].ring), (int)nnotes);
	}
}

static uint32_t take_ends(uint32_t i)
{
	uint32_t n = 0;
	struct urccl_cqe cqe;

	while (side_take_within(&senders[i], &p.b, 0, &cqe, NULL)) {
		if (cqe.flags & URCCL_CQE_MORE)
			continue;
		n++;
		CHECK(cqe.user_data < nnotes && !told[i][cqe.user_data]);
		told[i][cqe.user_data] = cqe.res >= 0 ? 1 : -1;
		if (cqe.flags & URCCL_CQE_UNKNOWN)
			told[i][cqe.user_data] = 2;
		if (cqe.user_data % 4 == 3)
			CHECK_EQ(cqe.res, -ERANGE);
		else
			CHECK(cqe.res == 0 || cqe.res == -ETIMEDOUT);
	}
	return n;
}

static void await_ends(void)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	uint32_t ended = 0, i;

	while (ended < nsenders * nnotes) {
		CHECK(!is_late(late));
		for (i = 0; i < nsenders; i++)
			ended += take_ends(i);
	}
}

static void turn_all(void)
{
	uint32_t i;

	side_turn(&p.b);
	for (i = 0; i < nsenders; i++)
		side_turn(&senders[i]);
}

static uint32_t sender_of(uint32_t handle)
{
	uint32_t i;

	for (i = 0; i < nsenders && handles[i] != handle;)
		i++;
	CHECK(i < nsenders);
	return i;
}

static void on_note(const struct urccl_cqe *cqe)
{
	uint32_t i = sender_of(cqe->peer);
	int8_t was;

	CHECK_EQ(urccl_cqe_kind(cqe), URCCL_KIND_NOTE);
	CHECK(cqe->tag < nnotes && !arrived[i][cqe->tag]++);
	was = told[i][cqe->tag];
	if (was != 2)
		CHECK_EQ(was, cqe->res >= 0 ? 1 : -1);
	if (cqe->res < 0)
		CHECK_EQ(cqe->res, cqe->tag % 4 == 3 ? -ERANGE : -ETIMEDOUT);
}

static void missing(void)
{
	uint32_t i, k;

	for (i = 0; i < nsenders; i++)
		for (k = 0; k < nnotes; k++)
			if (!arrived[i][k])
				fprintf(stderr, "%u of sender %u did not come: it was told %d\n", k,
					i, told[i][k]);
	CHECK(!"every one of them came");
}

static void await_notes(void)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	uint32_t n = 0;
	struct urccl_cqe cqe;

	while (n < nsenders * nnotes) {
		if (now_ns() >= late)
			missing();
		turn_all();
		while (side_take_within(&p.b, NULL, 0, &cqe, NULL)) {
			on_note(&cqe);
			n++;
			late = now_ns() + PAIR_LATE_NS;
		}
	}
	side_silent(&p.b, &senders[0], 20000000);
}

/* The window is free again. */
static void goes_on(void)
{
	struct urccl_cqe cqe;
	uint32_t i;

	for (i = 0; i < nsenders; i += 7) {
		CHECK_EQ(side_tell(&senders[i], &p.b, senders[i].peer.id, 5), 0);
		cqe = side_event(&p.b, &senders[i], URCCL_KIND_NOTE, NULL);
		CHECK_EQ(cqe.res, 0);
		CHECK_EQ(cqe.peer, handles[i]);
	}
}

int main(int argc, char **argv)
{
	uint32_t i;

	options(argc, argv);
	need_descriptors();
	begin();
	send_all();
	await_ends();
	await_notes();
	goes_on();
	for (i = 0; i < nsenders; i++)
		side_close(&senders[i]);
	side_close(&p.b);
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
