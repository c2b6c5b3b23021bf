/* SPDX-License-Identifier: Apache-2.0 */
/* An entry names what is not known yet, so that the engine looks at its mailbox while it takes the
 * entry: there lie the remote and, behind it, the end of the very ring. The entry ends once, in its
 * turn, and nothing of it is left with the peer. */
#include "engine/post.h"
#include "ring_rig.h"

enum { ENTRIES = 4, HANDLE = 1u << HANDLE_SLOT_BITS };

static struct mailbox control, back;
static struct engine *e;
static struct ring *r;
static struct engine_ring *er;
static struct engine_peer *peer;
static struct engine_remote *remote;

static void begin(struct urccl_params *p, struct mailbox *home)
{
	struct engine_config config = {.control = &control, .is_inline = 1, .incarnation = 1};
	uint64_t len = 4096;

	urccl_params_init(p);
	config.params = p;
	mailbox_init(&control, wake_open());
	mailbox_init(&back, wake_open());
	CHECK_EQ(engine_open(&config, &e), 0);
	r = rig_open(ENTRIES, 4, URCCL_RING_INLINE, home);
	CHECK_EQ(engine_ring_new(e, r, &er), 0);
	peer = engine_peer_new(e, HANDLE, 1, "peer");
	CHECK(peer);
	remote = engine_remote_new(HANDLE, peer, &len, 1);
	CHECK(remote);
}

static void post(struct engine_cmd *cmd, enum engine_cmd_type type)
{
	*cmd = (struct engine_cmd){.msg = {.type = type, .reply = &back}};
	cmd->ring = er;
	cmd->peer = peer;
	cmd->remote = remote;
	mailbox_post(engine_mailbox(e), &cmd->msg);
}

/* This one and the next are back, and nothing else. */
static void came(const struct engine_cmd *cmd)
{
	const struct msg *m = mailbox_take(&back);

	CHECK(m == &cmd->msg && !m->res);
	m = m->next;
	CHECK(m == &cmd[1].msg && !m->res && !m->next);
}

/* Which entries ended with what. */
static void ended(uint32_t n, int64_t res)
{
	uint32_t i;

	CHECK_EQ(r->own.tail, n);
	CHECK_EQ(r->own.done, n);
	CHECK_EQ(er->nfree, ENTRIES);
	CHECK_EQ(peer->unfinished, 0);
	for (i = 0; i < n; i++) {
		CHECK_EQ(r->pub.cqes[i].user_data, 100 + i);
		CHECK_EQ(r->pub.cqes[i].res, res);
	}
}

int case_engine_take(void)
{
	struct urccl_params p = {.size = sizeof(p)};
	struct engine_cmd cmds[4];
	struct mailbox home;
	uint32_t i;
	uint8_t mem[8];

	begin(&p, &home);
	post(&cmds[0], ENGINE_RING_ADD);
	post(&cmds[1], ENGINE_PEER_ADD);
	engine_drive(e);
	came(&cmds[0]);
	for (i = 0; i < 2; i++) {
		struct urccl_sqe *sqe = urccl_get_sqe(&r->pub);

		urccl_prep_write(sqe, (struct urccl_remote){HANDLE}, mem, sizeof(mem), 0);
		urccl_sqe_set_data64(sqe, 100 + i);
	}
	/* The program's own, which would drive: here the engine is turned by hand. */
	r->producer_line.sq_tail = r->pub.sqe_tail;
	post(&cmds[2], ENGINE_REMOTE_ADD);
	post(&cmds[3], ENGINE_RING_DEL);
	engine_drive(e);
	ended(2, -ESHUTDOWN);
	for (i = 0; i < 3; i++)
		engine_drive(e);
	ended(2, -ESHUTDOWN);
	came(&cmds[2]);

	engine_ring_free(er);
	rig_close(r);
	engine_remote_free(remote);
	engine_peer_free(peer);
	engine_close(e);
	close(control.fd);
	close(back.fd);
	return 0;
}
