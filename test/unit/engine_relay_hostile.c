/* SPDX-License-Identifier: Apache-2.0 */
/* A peer answers requests of the relay as it likes, and names runs as it likes. Each entry ends
 * once, devices read within a run into memory of the entry alone, and slots come back. */
#include "engine_rig.h"
#include "random.h"

enum { ENTRIES = 64, LEN = 4096, STEPS = 20000, SEQS = 4 * RELAY_WINDOW };

#define RUN (RIG_REMOTE + 1)

static struct engine_rig rig;
static struct extent extents[2];
static struct memory *staging;
static struct engine_cmd del; /* of the run */
static struct control_req *forget;
static uint64_t seed = 1;
static uint32_t last; /* number of a request */

static uint32_t below(uint32_t n)
{
	return (uint32_t)random_below(&seed, n);
}

static struct memory *slots_new(void)
{
	const uint64_t len = 8u << 20;
	struct memory *m = calloc(1, sizeof(*m) + sizeof(m->spans[0]));
	uint8_t *bytes = calloc(1, len);

	CHECK(m && bytes);
	extents[0] = (struct extent){.addr = (uintptr_t)bytes, .len = len, .fd = -1, .direct = 1};
	m->handle = RIG_REGION + 1;
	m->len = len;
	m->nspans = 1;
	m->spans[0] = (struct span){.len = len,
				    .addr = (uintptr_t)bytes,
				    .fd = -1,
				    .extent = &extents[0]};
	return m;
}

static void begin(void)
{
	struct engine_cmd cmd = {0};

	rig_engine_open(&rig, ENTRIES, 4);
	extents[1] = (struct extent){.addr = (uintptr_t)rig.bytes,
				     .len = RIG_BYTES,
				     .fd = -1,
				     .direct = 1};
	rig.memory->spans[0].extent = &extents[1];
	staging = slots_new();
	cmd.memory = staging;
	rig_command(&rig, &cmd, ENGINE_STAGE);
	rig_peer_open(&rig);
	cmd = (struct engine_cmd){.remote = rig.remote[0], .rail = &rig.rail[0]};
	rig_command(&rig, &cmd, ENGINE_REMOTE_KEYS);
	rig_key(&rig, 1, 0);
}

/* The control thread: the second remote is any run. */
static void answer_all(void)
{
	struct msg *m = mailbox_take(&rig.control), *next;

	for (; m; m = next) {
		struct control_req *req = container_of(m, struct control_req, msg);

		next = m->next;
		if (m->type == CONTROL_RUN_FORGET) {
			forget = req;
			del = (struct engine_cmd){.remote = rig.remote[1]};
			rig_send(&rig, &del, ENGINE_REMOTE_DEL);
			continue;
		}
		if (m->type == CONTROL_RUN)
			req->handle = RUN;
		msg_reply(m, 0);
	}
}

/* It is deleted, and there is a new one. */
static void run_anew(void)
{
	uint64_t len = RELAY_RUN * SLOT_BYTES;
	struct engine_cmd cmd;

	if (!forget || !mailbox_take(&rig.back))
		return;
	engine_remote_free(rig.remote[1]);
	rig.remote[1] = engine_remote_new(RUN, rig.peer, &len, 1);
	CHECK(rig.remote[1]);
	cmd = (struct engine_cmd){.remote = rig.remote[1]};
	rig_command(&rig, &cmd, ENGINE_REMOTE_ADD);
	rig_key(&rig, 1, 0);
	msg_reply(&forget->msg, 0);
	forget = NULL;
}

static void turns(uint32_t n)
{
	while (n-- > 0) {
		engine_drive(rig.e);
		answer_all();
		run_anew();
	}
}

static void entry(void)
{
	uint32_t len = 1 + below(LEN), off = below(RIG_BYTES - LEN);
	struct urccl_sqe *sqe = urccl_get_sqe(&rig.r->pub);
	struct urccl_remote remote = {RIG_REMOTE};

	if (!sqe)
		return;
	if (!below(64)) {
		urccl_prep_cancel(sqe, URCCL_CANCEL_BY_ALL, 0);
		rig_enter(&rig);
		return;
	}
	if (below(2))
		urccl_prep_write(sqe, remote, rig.bytes + off, len, off);
	else
		urccl_prep_read(sqe, remote, rig.bytes + off, len, off);
	urccl_sqe_set_region(sqe, (struct urccl_region){RIG_REGION});
	rig_enter(&rig);
}

static void device(void)
{
	uint32_t i = below(rig.ntaken);
	const struct chunk *c = rig.taken[i];
	const uint8_t *at = c->local;
	uint32_t seq;

	if (c->kind == CHUNK_SEND) {
		seq = ((const struct relay_request *)c->local)->seq;
		last = seq > last ? seq : last;
	} else {
		CHECK_EQ(c->kind, CHUNK_READ);
		CHECK(c->off + c->len <= RELAY_RUN * (uint64_t)SLOT_BYTES);
		CHECK(at >= rig.bytes && at + c->len <= rig.bytes + RIG_BYTES);
		CHECK(key_of(c->key)->remote == rig.remote[1]);
	}
	rig_out(&rig, i, c->kind == CHUNK_SEND || below(4) ? 0 : -EIO, CHUNK_QUIET);
}

static void answer(uint32_t seq, uint32_t word, int32_t res, uint32_t run)
{
	static struct relay_answer a;

	a = (struct relay_answer){.type = MESSAGE_RELAYED,
				  .word = (uint8_t)word,
				  .slot = word == RELAY_READY ? (uint8_t)below(RELAY_RUN + 1) : 0,
				  .seq = seq,
				  .run = run,
				  .res = res};
	rig_event(&rig, (struct event){.type = EVENT_MESSAGE,
				       .ep = &rig.ep[0],
				       .data = (const void *)&a,
				       .len = sizeof(a)});
	turns(1);
}

static void hostile(void)
{
	static const int32_t words[] = {0, 0, 0, -EACCES, -EBADMSG, -EOPNOTSUPP, -5000, 7};
	static uint32_t run = 1;
	uint32_t ready = below(2);

	run += !below(50);
	answer(last - below(RELAY_WINDOW), below(20) ? RELAY_READY + ready : below(5),
	       ready ? words[below(8)] : 0, ready ? 0 : run - !below(9));
}

/* The peer's last word on everything, whatever it is. */
static void settle(void)
{
	uint32_t i, k;

	for (k = 0; k < SEQS; k++) {
		while (rig.ntaken)
			device();
		turns(4);
		for (i = 0; i < RELAY_WINDOW; i++)
			answer(rig.peer->relay->slots[i].request.seq, RELAY_FINAL, -EACCES, 0);
	}
	CHECK(relay_idle(rig.peer));
	CHECK(!rig.peer->relay->run || !rig.peer->relay->run->used);
}

int case_engine_relay_hostile(void)
{
	uint32_t i, ended = 0, well = 0;
	struct urccl_cqe cqe;

	begin();
	for (i = 0; i < STEPS; i++) {
		if (!below(4))
			entry();
		if (rig.ntaken && below(2))
			device();
		if (below(2))
			hostile();
		turns(1);
		for (; rig_cqe(&rig, &cqe); ended++) {
			CHECK(!(cqe.flags & URCCL_CQE_MORE));
			well += cqe.res > 0;
		}
	}
	CHECK_GE(ended, STEPS / 20);
	CHECK_GE(well, STEPS / 200);
	settle();
	rig_peer_close(&rig);
	rig_all_ended(&rig);
	free((void *)(uintptr_t)staging->spans[0].addr);
	free(staging);
	rig_engine_close(&rig);
	return 0;
}
