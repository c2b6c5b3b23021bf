/* SPDX-License-Identifier: Apache-2.0 */
/* Many notifications, each behind a write or an atomic of its own or alone, while the network does
 * what it will: none is lost, none comes twice, each finds its bytes there, and each atomic was
 * done once. Every entry succeeds.
 * --notes=N, --breaks=N: RAIL events there shall be at least, or nothing was shown
 */
#include <stdlib.h>
#include "pair.h"

#define SLOTS 64u /* as many are in flight */
#define LEN   2048u
#define SUM   (SLOTS * LEN) /* of the atomics */

static struct pair p;
static struct target t;
static uint64_t nnotes, came, ended, adds;
static uint32_t breaks;
static uint8_t *local, *seen;

/* Of --NAME=N, which is then taken out. */
static uint64_t number(int *argc, char **argv, const char *name, uint64_t none)
{
	size_t len = strlen(name);
	int i, n = 1;

	for (i = 1; i < *argc; i++)
		if (!strncmp(argv[i], name, len))
			none = strtoull(argv[i] + len, NULL, 10);
		else
			argv[n++] = argv[i];
	*argc = n;
	return none;
}

static int has_data(uint64_t tag)
{
	return tag % 4 < 2;
}

static int is_atomic(uint64_t tag)
{
	return tag % 4 == 2;
}

static void begin(uint64_t tag)
{
	uint64_t off = tag % SLOTS * LEN;
	struct urccl_sqe *sqe = side_sqe(&p.a);

	if (has_data(tag)) {
		memcpy(local + off, &tag, sizeof(tag));
		memcpy(local + off + LEN - sizeof(tag), &tag, sizeof(tag));
		urccl_prep_write(sqe, t.remote, local + off, LEN, off);
		urccl_sqe_set_notify(p.a.ring, sqe, tag, NULL, 0);
	} else if (is_atomic(tag)) {
		urccl_prep_fetch_add(sqe, t.remote, SUM, 1);
		urccl_sqe_set_notify(p.a.ring, sqe, tag, NULL, 0);
	} else {
		urccl_prep_notify(sqe, p.a.peer, tag, NULL, 0);
	}
	urccl_sqe_set_data64(sqe, tag);
}

static int64_t well(uint64_t tag)
{
	return has_data(tag) ? LEN : is_atomic(tag) ? 8 : 0;
}

/* Its bytes, or those of an entry that began when it had ended: later by a multiple of SLOTS. */
static int is_there(uint64_t tag)
{
	uint64_t first, last, off = tag % SLOTS * LEN;

	memcpy(&last, t.bytes + off + LEN - sizeof(last), sizeof(last));
	memcpy(&first, t.bytes + off, sizeof(first));
	return first >= tag && last >= tag && first % SLOTS == tag % SLOTS &&
	       last % SLOTS == tag % SLOTS;
}

static void take_notes(void)
{
	struct urccl_cqe cqe;

	while (side_take_within(&p.b, &p.a, 0, &cqe, NULL)) {
		CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_NOTE);
		CHECK_EQ(cqe.res, 0);
		CHECK(cqe.tag < nnotes && !seen[cqe.tag]);
		CHECK(!has_data(cqe.tag) || is_there(cqe.tag));
		seen[cqe.tag] = 1;
		came++;
	}
}

/* Slots are used anew in any order in which they come free. */
static void all(void)
{
	uint64_t begun[SLOTS], last = now_ns(), slot;
	struct urccl_cqe cqe;

	for (slot = 0; slot < SLOTS && slot < nnotes; slot++)
		begin(begun[slot] = slot);
	while (ended < nnotes || came < nnotes) {
		CHECK_GE(urccl_submit(p.a.ring), 0);
		take_notes();
		if (!side_take_within(&p.a, &p.b, 1000000, &cqe, NULL)) {
			CHECK(now_ns() - last < PAIR_LATE_NS);
			continue;
		}
		last = now_ns();
		slot = cqe.user_data % SLOTS;
		CHECK_EQ(cqe.user_data, begun[slot]);
		CHECK_EQ(cqe.res, well(cqe.user_data));
		adds += (uint64_t)is_atomic(cqe.user_data);
		ended++;
		begun[slot] += SLOTS;
		if (begun[slot] < nnotes)
			begin(begun[slot]);
	}
}

int main(int argc, char **argv)
{
	uint64_t sum;

	nnotes = number(&argc, argv, "--notes=", 0);
	breaks = (uint32_t)number(&argc, argv, "--breaks=", 0);
	pair_options(&p, argc, argv);
	p.faults =
		p.faults
			? p.faults
			: "rails=2,delay=1us..20us,drop=1%,duplicate=1%,early=30%,kill=1ms..3ms/100ms..200ms";
	pair_open(&p);
	nnotes = nnotes ? nnotes : p.sim ? 60000 : 20000;
	target_open(&p, &t, SUM + 8, 0);
	local = calloc(SLOTS, LEN);
	seen = calloc(nnotes, 1);
	CHECK(local && seen);
	side_register(&p.a, local, SLOTS * LEN, 0);
	all();
	memcpy(&sum, t.bytes + SUM, sizeof(sum));
	CHECK_EQ(sum, adds);
	printf("%llu notifications, %u RAIL events\n", (unsigned long long)came, p.a.rails_told);
	CHECK_GE(p.a.rails_told, (p.sim && !breaks ? 2 : breaks));
	target_close(&p, &t);
	pair_close(&p);
	free(local);
	free(seen);
	return 0;
}
