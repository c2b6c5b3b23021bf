/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that breaks the rules of the relay harms nobody: it names another run while a slot of the
 * first is read, or gives a key of its run that no device can read by. And a write that the peer's
 * device acknowledged is never proved by a key of the relay. */
#include "engine_rig.h"

enum { ENTRIES = 8, LEN = 4096, RUN = RIG_REMOTE + 1 };

static struct engine_rig rig;

/* Its runs are the second remote, whatever their numbers. */
static void answer_all(void)
{
	struct msg *m = mailbox_take(&rig.control), *next;

	for (; m; m = next) {
		next = m->next;
		if (m->type == CONTROL_RUN)
			container_of(m, struct control_req, msg)->handle = RUN;
		msg_reply(m, 0);
	}
}

static void turns(void)
{
	uint32_t i;

	for (i = 0; i < 8; i++) {
		engine_drive(rig.e);
		answer_all();
	}
}

/* No bytes: the key of memory that is relayed. */
static void key(uint32_t remote, uint32_t part, uint32_t len)
{
	uint64_t bytes = 0;
	struct engine_cmd cmd = {.remote = rig.remote[remote],
				 .rail = &rig.rail[0],
				 .part = part,
				 .data = &bytes,
				 .len = len};

	rig_command(&rig, &cmd, ENGINE_REMOTE_KEYS);
}

static void begin(void)
{
	rig_engine_open(&rig, ENTRIES, 4);
	rig_peer_open(&rig);
}

static void end(void)
{
	rig_peer_close(&rig);
	rig_all_ended(&rig);
	rig_engine_close(&rig);
}

static void read_begin(uint64_t user_data)
{
	struct urccl_sqe *sqe = rig_sqe(&rig, user_data);

	urccl_prep_read(sqe, (struct urccl_remote){RIG_REMOTE}, rig.bytes, LEN, 0);
	urccl_sqe_set_region(sqe, (struct urccl_region){RIG_REGION});
	sqe->user_data = user_data;
	rig_enter(&rig);
	turns();
}

/* The request that the device has; it comes out, and its answer comes. */
static void fetched(uint32_t run)
{
	struct relay_request *m = rig.taken[rig.ntaken - 1]->local;
	struct relay_answer a = {.type = MESSAGE_RELAYED, .word = RELAY_READY, .run = run};

	CHECK_EQ(rig.taken[rig.ntaken - 1]->kind, CHUNK_SEND);
	CHECK_EQ(m->kind, RELAY_FETCH);
	a.seq = m->seq;
	rig_out(&rig, rig.ntaken - 1, 0, CHUNK_QUIET);
	turns();
	rig_event(&rig, (struct event){.type = EVENT_MESSAGE,
				       .ep = &rig.ep[0],
				       .data = (const void *)&a,
				       .len = sizeof(a)});
	turns();
}

static void run_stays_while_it_is_read(void)
{
	struct engine_cmd cmd;

	begin();
	key(0, 0, 0);
	key(1, 0, 8);
	read_begin(1);
	fetched(1);
	CHECK_EQ(rig.ntaken, 1);
	CHECK_EQ(rig.taken[0]->kind, CHUNK_READ);
	cmd = (struct engine_cmd){.remote = rig.remote[1]};
	rig_send(&rig, &cmd, ENGINE_REMOTE_DEL);
	turns();
	CHECK(!mailbox_take(&rig.back));
	rig_out(&rig, 0, 0, CHUNK_QUIET);
	CHECK_EQ(rig_returns(&rig, &cmd), 0);
	CHECK_EQ(rig_ended(&rig, 1).res, LEN);
	cmd = (struct engine_cmd){.remote = rig.remote[1]};
	rig_command(&rig, &cmd, ENGINE_REMOTE_ADD);
	end();
}

static void run_is_read_by_a_key_of_the_device(void)
{
	begin();
	key(0, 0, 0);
	key(1, 0, 0);
	read_begin(1);
	fetched(1);
	CHECK_EQ(rig_ended(&rig, 1).res, -EREMOTEIO);
	CHECK_EQ(rig.ntaken, 1);
	CHECK_EQ(rig.taken[0]->kind, CHUNK_SEND); /* END */
	end();
}

/* The first part is relayed, the second is not. */
static void write_is_proved_by_a_key_of_the_device(void)
{
	const uint64_t lens[2] = {LEN, LEN};
	struct engine_cmd cmd;
	struct urccl_sqe *sqe;

	begin();
	cmd = (struct engine_cmd){.remote = rig.remote[0]};
	rig_command(&rig, &cmd, ENGINE_REMOTE_DEL);
	engine_remote_free(rig.remote[0]);
	rig.remote[0] = engine_remote_new(RIG_REMOTE, rig.peer, lens, 2);
	CHECK(rig.remote[0]);
	cmd = (struct engine_cmd){.remote = rig.remote[0]};
	rig_command(&rig, &cmd, ENGINE_REMOTE_ADD);
	key(0, 0, 0);
	key(0, 1, 8);
	sqe = rig_write(&rig, 0, LEN, 1);
	sqe->off = LEN;
	rig_enter(&rig);
	turns();
	CHECK_EQ(rig.ntaken, 1);
	rig_out(&rig, 0, 0, 0);
	turns();
	CHECK_EQ(rig.ntaken, 1);
	CHECK_EQ(rig.taken[0]->kind, CHUNK_FLUSH);
	CHECK(!rig.taken[0]->key->relay);
	rig_out(&rig, 0, 0, CHUNK_QUIET);
	turns();
	CHECK_EQ(rig_ended(&rig, 1).res, LEN);
	end();
}

int case_engine_relay(void)
{
	run_stays_while_it_is_read();
	run_is_read_by_a_key_of_the_device();
	write_is_proved_by_a_key_of_the_device();
	return 0;
}
