/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that tells us things without end, every other one behind a write, is killed in the middle
 * of it: each notification comes at most once and after its bytes; all that the peer was told we
 * hold come; then LOST, and nothing after it, neither an event nor a byte. In every other round
 * no event is taken until it is dead, and in half of them the memory is mapped where it can be. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include "meet.h"

#define PLACES	64u
#define LEN	20000u
#define MEMORY	((uint64_t)PLACES * LEN)
#define TAGS	(1u << 20)
#define WINDOW	128u
#define SLOTS	64u
#define ROUNDS	8u
#define WATCHED 2u /* user_data */
#define SCRAP	0x77
#define RW	(URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

/* What the two processes both see. */
struct shared {
	struct urccl_advert advert;
	uint8_t blob[URCCL_METADATA_MAX];
	uint32_t blob_len;
	uint32_t submitted;  /* the sender's */
	uint32_t waits;	     /* the sender's: times that nothing came for 10 ms */
	uint8_t held[TAGS];  /* the sender's: it ended, with success */
	uint8_t taken[TAGS]; /* the receiver's */
};

static struct pair p;
static struct shared *shared;
static uint8_t *bytes;
static uint32_t peer, notes, lost;

static uint8_t is_set(const uint8_t *flag)
{
	return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static uint32_t load(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static uint8_t *place_of(uint8_t *memory, uint32_t tag)
{
	return memory + (uint64_t)(tag / 2 % PLACES) * LEN;
}

/* ---- the sender ---- */

static uint32_t ended;

static void take_end(struct side *s)
{
	struct urccl_cqe cqe;

	if (!side_take_within(s, NULL, 10000000, &cqe, NULL)) {
		__atomic_store_n(&shared->waits, shared->waits + 1, __ATOMIC_RELEASE);
		return;
	}
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_OP);
	CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
	CHECK_EQ(cqe.res, cqe.user_data % 2 ? LEN : 0);
	__atomic_store_n(&shared->held[cqe.user_data], 1, __ATOMIC_RELEASE);
	ended++;
}

/* The place of a write is free when the one before it there was heard of at both ends. */
static int may_submit(uint32_t tag)
{
	uint32_t before = tag - 2 * PLACES;

	if (tag - ended >= WINDOW)
		return 0;
	return tag % 2 == 0 || tag < 2 * PLACES ||
	       (is_set(&shared->held[before]) && is_set(&shared->taken[before]));
}

static void submit(struct side *s, struct urccl_remote remote, uint8_t *local, uint32_t tag)
{
	struct urccl_sqe *sqe = side_sqe(s);
	uint8_t *from = place_of(local, tag);

	if (tag % 2) {
		pattern_fill(from, LEN, 0, tag);
		urccl_prep_write(sqe, remote, from, LEN, (uint64_t)(from - local));
		urccl_sqe_set_notify(s->ring, sqe, tag, NULL, 0);
	} else {
		urccl_prep_notify(sqe, s->peer, tag, NULL, 0);
	}
	urccl_sqe_set_data64(sqe, tag);
	urccl_sqe_set_deadline_us(sqe, 60000000);
	__atomic_store_n(&shared->submitted, tag + 1, __ATOMIC_RELEASE);
	CHECK_EQ(urccl_submit(s->ring), 1);
}

__attribute__((noreturn)) static void tell_without_end(struct pair its)
{
	static uint8_t local[MEMORY];
	struct side *s = &its.a;
	struct urccl_remote remote;
	struct urccl_cqe cqe;
	uint32_t tag;

	its.params.flags = 0;
	its.params.listen = "";
	side_open(&its, s);
	side_register(s, local, MEMORY, 0);
	cqe = side_dialled(s, NULL, shared->blob, shared->blob_len, 20000000);
	CHECK_EQ(cqe.res, 0);
	s->peer.id = (uint32_t)cqe.handle;
	CHECK_EQ(urccl_import(s->ctx, s->peer, &shared->advert, 1, &remote), 0);
	for (tag = 0; tag < TAGS; tag++) {
		while (!may_submit(tag))
			take_end(s);
		submit(s, remote, local, tag);
	}
	CHECK(!"it is killed long before");
	test_end(1);
}

static pid_t sender_start(void)
{
	pid_t pid;

	memset(shared->held, 0, TAGS);
	memset(shared->taken, 0, TAGS);
	shared->submitted = shared->waits = 0;
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		tell_without_end(p);
	}
	return pid;
}

static void sender_kill(pid_t pid)
{
	int status;

	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
}

/* ---- the receiver ---- */

static void on_note(const struct urccl_cqe *cqe)
{
	CHECK_EQ(cqe->peer, peer);
	CHECK_EQ(cqe->res, 0);
	CHECK(cqe->tag < load(&shared->submitted));
	CHECK(!shared->taken[cqe->tag]);
	if (cqe->tag % 2)
		CHECK(pattern_holds(place_of(bytes, (uint32_t)cqe->tag), LEN, 0, cqe->tag));
	settle(); /* the place is written anew from here on */
	__atomic_store_n(&shared->taken[cqe->tag], 1, __ATOMIC_RELEASE);
	notes++;
}

static void take_event(void)
{
	struct urccl_cqe cqe;

	side_take(&p.b, NULL, &cqe, NULL);
	if (urccl_cqe_kind(&cqe) == URCCL_KIND_PEER) {
		peer = cqe.peer;
	} else if (urccl_cqe_kind(&cqe) == URCCL_KIND_LOST) {
		CHECK_EQ(cqe.user_data, WATCHED);
		CHECK_EQ(cqe.peer, peer);
		CHECK_EQ(cqe.res, -ECONNRESET);
		check_sentence(&p.b, &cqe, "connection");
		lost++;
	} else {
		CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_NOTE);
		on_note(&cqe);
	}
}

/* Until the sender waits for us: every event slot is in use, and more is on its way. */
static void take_nothing(void)
{
	uint32_t waits = load(&shared->waits);
	uint64_t late = now_ns() + PAIR_LATE_NS;

	while (load(&shared->waits) < waits + 2) {
		CHECK(!is_late(late));
		side_turn(&p.b);
	}
}

/* What the sender knows we hold it need not tell anybody else. */
static void all_held_came(void)
{
	uint32_t i, n = load(&shared->submitted);

	for (i = 0; i < n; i++)
		CHECK(!is_set(&shared->held[i]) || shared->taken[i]);
}

static void nothing_follows(void)
{
	uint64_t i;

	memset(bytes, SCRAP, MEMORY);
	side_silent(&p.b, NULL, 20000000);
	CHECK_EQ(side_drop(&p.b, NULL, peer), 0);
	side_silent(&p.b, NULL, 10000000);
	for (i = 0; i < MEMORY; i++)
		CHECK_EQ(bytes[i], SCRAP);
}

static struct urccl_region memory_open(int mapped)
{
	struct urccl_region region;
	void *m;

	if (mapped)
		CHECK_EQ(urccl_alloc(p.b.ctx, MEMORY, &m), 0);
	else
		m = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(m != MAP_FAILED);
	bytes = m;
	region = side_register(&p.b, m, MEMORY, RW);
	CHECK_EQ(urccl_advertise(p.b.ctx, region, 0, MEMORY, RW, 0, &shared->advert), 0);
	return region;
}

static void round_of(uint32_t i)
{
	int mapped = i / 2 % 2;
	struct urccl_region region = memory_open(mapped);
	pid_t pid = sender_start();

	notes = lost = 0;
	while (notes < 40 + 97 * i)
		take_event();
	if (i % 2)
		take_nothing();
	sender_kill(pid);
	while (!lost)
		take_event();
	all_held_came();
	nothing_follows();
	printf("%u of %u came, %s\n", notes, shared->submitted,
	       i % 2 ? "with no slot free" : "while they were taken");
	CHECK_EQ(urccl_unregister(p.b.ctx, region), 0);
	if (mapped)
		CHECK_EQ(urccl_free(p.b.ctx, bytes), 0);
	else
		munmap(bytes, MEMORY);
}

int main(int argc, char **argv)
{
	uint32_t i;
	int len;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	CHECK(shared != MAP_FAILED);
	pair_options(&p, argc, argv);
	if (p.transport == URCCL_TRANSPORT_SIM)
		SKIP("a simulated network ends at the process");
	p.ring_params.event_slots = SLOTS;
	side_open(&p, &p.b);
	side_accept(&p.b, 1);
	side_watch(&p.b, (struct urccl_peer){0}, WATCHED);
	len = urccl_metadata(p.b.ctx, shared->blob, sizeof(shared->blob));
	CHECK_GE(len, 1);
	shared->blob_len = (uint32_t)len;
	for (i = 0; i < ROUNDS; i++)
		round_of(i);
	side_close(&p.b);
	return 0;
}
