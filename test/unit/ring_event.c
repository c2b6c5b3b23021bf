/* SPDX-License-Identifier: Apache-2.0 */
/* Events have slots of their own: as many unseen as were asked for and no more, with their notes,
 * and without a word from the program beyond taking CQEs, whatever entries complete in between. */
#include "ring_rig.h"
#include "random.h"

#define ENTRIES 4u
#define EVENTS	3u

static int post_event(struct ring *r, uint64_t data)
{
	struct urccl_cqe cqe = {.user_data = data,
				.res = 8,
				.flags = URCCL_KIND_NOTE | URCCL_CQE_MORE};
	struct urccl_cqe *slot;
	void *note;

	slot = ring_post_event(r, &note);
	if (!slot)
		return 0;
	memcpy(note, &data, sizeof(data));
	memset((uint8_t *)note + 8, (int)data, URCCL_NOTE_MAX - 8);
	*slot = cqe;
	ring_publish(r);
	return 1;
}

/* Takes the first CQE: 1 if it was an event. */
static int see(struct ring *r, uint64_t *data)
{
	struct urccl_cqe *cqe = urccl_peek_cqe(&r->pub);
	int is_event;

	CHECK(cqe);
	is_event = urccl_cqe_kind(cqe) == URCCL_KIND_NOTE;
	*data = cqe->user_data;
	if (is_event) {
		const uint8_t *note = urccl_cqe_note(&r->pub, cqe);

		CHECK(!memcmp(note, data, sizeof(*data)));
		CHECK_EQ(note[URCCL_NOTE_MAX - 1], *data & 0xff);
	}
	urccl_cqe_seen(&r->pub, cqe);
	return is_event;
}

static void test_limit(struct ring *r)
{
	uint64_t data;
	uint32_t i;

	for (i = 0; i < EVENTS; i++)
		CHECK(post_event(r, i));
	CHECK(!post_event(r, 99));
	CHECK_EQ(urccl_sq_space_left(&r->pub), ENTRIES);
	CHECK(see(r, &data));
	CHECK_EQ(data, 0);
	CHECK(post_event(r, 50));
	CHECK(!post_event(r, 99));
	while (urccl_cq_ready(&r->pub))
		CHECK(see(r, &data));
	CHECK_EQ(data, 50);
}

/* Entries and events mixed at random against a count of what is unseen. */
static void test_mixed(struct ring *r, uint64_t seed)
{
	uint32_t events = 0, i;
	uint64_t data;

	for (i = 0; i < 20000; i++) {
		switch (random_below(&seed, 3)) {
		case 0:
			CHECK_EQ(post_event(r, i), events < EVENTS);
			events += events < EVENTS;
			break;
		case 1:
			if (urccl_sq_space_left(&r->pub)) {
				rig_submit(r, 1, 0, i);
				rig_turn(r);
			}
			break;
		default:
			if (urccl_cq_ready(&r->pub))
				events -= (uint32_t)see(r, &data);
		}
	}
}

/* So many entries after an event that its slot is used again before the engine looks for credits.
 */
static void test_overtaken(struct ring *r)
{
	uint64_t data;
	uint32_t i, k;

	for (k = 0; k < 100; k++) {
		for (i = 0; i < EVENTS; i++)
			CHECK(post_event(r, i));
		while (urccl_cq_ready(&r->pub))
			see(r, &data);
		for (i = 0; i < 50 + k; i++) {
			rig_submit(r, 1, 0, i);
			rig_turn(r);
			CHECK(!see(r, &data));
		}
	}
	for (i = 0; i < EVENTS; i++)
		CHECK(post_event(r, i));
	CHECK(!post_event(r, 99));
	while (urccl_cq_ready(&r->pub))
		see(r, &data);
}

/* An engine that sleeps while an event waits for a slot is woken by a consumer that has given some
 * back and has nothing more to do; and it does not sleep where there are some by then. */
static void test_woken(struct ring *r)
{
	int fd = r->home->fd, way;
	struct urccl_wait_args none = {.size = sizeof(none), .min_n = EVENTS + 1};
	uint64_t data;
	uint32_t i;

	for (way = 0; way < 2; way++) {
		while (ring_arm_slots(r))
			;
		for (i = 0; i < EVENTS; i++)
			CHECK(post_event(r, i));
		CHECK(!post_event(r, 99));
		while (urccl_cq_ready(&r->pub))
			see(r, &data);
		CHECK_EQ(ring_arm_slots(r), 1);
		CHECK(!rig_readable(fd));
		for (i = 0; i < EVENTS; i++)
			CHECK(post_event(r, i));
		CHECK(!post_event(r, 99));
		CHECK_EQ(ring_arm_slots(r), 0);
		while (urccl_cq_ready(&r->pub))
			see(r, &data);
		if (way)
			CHECK_EQ(urccl_arm(&r->pub, URCCL_ARM_FOR_CQE, 0), 0);
		else
			CHECK_EQ(urccl_wait(&r->pub, NULL, &none), -ETIME);
		CHECK(rig_readable(fd));
		wake_drain(fd);
	}
}

int case_ring_event(void)
{
	static const uint32_t ages[] = {0, UINT32_MAX - 5, 0x7ffffffc};
	struct mailbox home;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ages); i++) {
		struct ring *r = rig_open(ENTRIES, EVENTS, 0, &home);

		rig_age(r, ages[i], ages[i] + 1);
		test_limit(r);
		test_overtaken(r);
		test_mixed(r, 11 + i);
		while (urccl_cq_ready(&r->pub))
			see(r, &(uint64_t){0});
		test_woken(r);
		rig_close(r);
	}
	return 0;
}
