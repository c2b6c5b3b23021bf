/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole control connection, frame after frame and in pieces, as somebody sends it who dialled us
 * or whom we dial: before a handshake, in it, with a peer that is up, that lets its data path go,
 * whose rails break, whose memory we use and who uses ours. First byte: which of the two, and how
 * far it goes as it should. Then deeds of the other side's and of the program's. Whatever came, in
 * the end nothing of it is left.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <unistd.h>

#include "../unit/ring_rig.h"
#include "control_stub.h"

#define ENTRIES	 64u
#define BYTES	 4096u
#define THEIRS	 0x7e57ull /* incarnation */
#define DIALLING 0xd1a1ull
#define LATE_NS	 (8 * NSEC_PER_SEC) /* no input takes so long to end */

static struct control *c;
static struct engine *e;
static struct ring *r;
static struct device dev = {.ops = &stub, .fd = -1, .caps = CAP_FAILOVER}, *devices[] = {&dev};
static struct mailbox home, back;
static uint8_t bytes[BYTES];
static uint64_t region;
static struct urccl_advert ours; /* of it */
static struct urccl_range range;
static uint32_t peer, remote; /* of the connection, 0: none */
static int listener = -1, fd = -1;
static char target[32];
static struct sockaddr_in loopback;

/* ---- the library, turned by hand ---- */

static struct urccl_sqe *entry(void)
{
	struct urccl_sqe *sqe = urccl_get_sqe(&r->pub);

	must(!!sqe);
	return sqe;
}

static void drop_reference(uint32_t handle)
{
	urccl_prep_close(entry(), (struct urccl_peer){handle});
}

static void on_cqe(const struct urccl_cqe *cqe)
{
	if (urccl_cqe_kind(cqe) == URCCL_KIND_PEER) {
		peer = cqe->peer;
	} else if (urccl_cqe_kind(cqe) == URCCL_KIND_LOST) {
		drop_reference(cqe->peer);
		peer = cqe->peer == peer ? 0 : peer;
	} else if (cqe->user_data == DIALLING && cqe->res >= 0) {
		peer = (uint32_t)cqe->handle;
	} else if (cqe->user_data == URCCL_OP_IMPORT && cqe->res >= 0) {
		remote = (uint32_t)cqe->handle;
	} else if (cqe->user_data == URCCL_OP_REGISTER && cqe->res >= 0) {
		region = cqe->handle;
	}
}

static void turn(void)
{
	uint32_t *head = &r->consumer_line.cq_head;

	wake_write(c->wake_fd);
	control_turn(c);
	r->producer_line.sq_tail = r->pub.sqe_tail;
	engine_drive(e);
	while (*head != r->publish_line.cq_tail) {
		struct urccl_cqe cqe = r->pub.cqes[*head & r->pub.cq_mask];

		urccl_cq_advance(&r->pub, 1);
		on_cqe(&cqe);
	}
}

static void turns(uint32_t n)
{
	while (n--)
		turn();
}

/* All that it waits for is over now. */
static void hurry(void)
{
	struct heap now = {0};
	struct heap_node *n;

	while ((n = heap_first(&c->timers))) {
		heap_del(n);
		heap_add(&now, n, 0);
	}
	while ((n = heap_first(&now))) {
		heap_del(n);
		heap_add(&c->timers, n, 0);
	}
}

static void add_ring(void)
{
	static struct engine_cmd cmd;

	r = rig_open(ENTRIES, 64, URCCL_RING_INLINE, &home);
	must(!engine_ring_new(e, r, &cmd.ring));
	mailbox_init(&back, wake_open());
	cmd.msg = (struct msg){.type = ENGINE_RING_ADD, .reply = &back};
	mailbox_post(engine_mailbox(e), &cmd.msg);
	engine_drive(e);
	must(mailbox_take(&back) == &cmd.msg);
}

static void add_region(void)
{
	static struct control_call call = {.msg = {.type = CALL_ADVERTISE}};
	struct urccl_sqe *sqe = entry();

	range = (struct urccl_range){.addr = (uintptr_t)bytes, .len = BYTES, .fd = -1};
	urccl_prep_register(sqe, &range, 1, ADVERT_RIGHTS);
	sqe->user_data = URCCL_OP_REGISTER;
	while (!region)
		turn();
	call.handle = (uint32_t)region;
	call.len = BYTES;
	call.rights = ADVERT_RIGHTS;
	call.advert = &ours;
	control_call(c, &call);
	while (!load_acquire(&call.done))
		turn();
	must(!call.msg.res);
}

static void listen_too(void)
{
	struct sockaddr_in in = loopback;
	socklen_t len = sizeof(in);

	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	must(listener >= 0 && !bind(listener, (struct sockaddr *)&in, len));
	must(!listen(listener, 16) && !getsockname(listener, (struct sockaddr *)&in, &len));
	snprintf(target, sizeof(target), "127.0.0.1:%u", ntohs(in.sin_port));
}

static void open_all(void)
{
	static struct urccl_params params = {.size = sizeof(params)};
	static struct secret none;
	static struct sockaddr_storage at[1];
	struct control_config cc = {.params = &params,
				    .incarnation = 1,
				    .listen = at,
				    .devices = devices,
				    .ndevices = 1,
				    .secret = &none};
	struct engine_config ec = {.params = &params,
				   .devices = devices,
				   .ndevices = 1,
				   .is_inline = 1,
				   .incarnation = 1};

	loopback.sin_family = AF_INET;
	loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	urccl_params_init(&params);
	memcpy(at, &loopback, sizeof(loopback));
	cc.nlisten = 1;
	must(!control_open(&cc, &c));
	ec.control = control_mailbox(c);
	must(!engine_open(&ec, &e));
	c->engine = e;
	c->to_engine = engine_mailbox(e);
	add_ring();
	add_region();
	listen_too();
	urccl_prep_accept(entry());
	urccl_prep_watch(entry(), (struct urccl_peer){0});
	turn();
}

/* ---- the other side ---- */

static void say(const void *buf, size_t len)
{
	uint8_t heard[4096];

	if (fd >= 0)
		(void)send(fd, buf, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	turns(2);
	while (fd >= 0 && recv(fd, heard, sizeof(heard), MSG_DONTWAIT) > 0)
		;
}

static void say_hello(uint32_t type, uint32_t how)
{
	struct wire_hello h = {.version_min = 1 + ((how & 15) == 15),
			       .version_max = WIRE_VERSION,
			       .incarnation = THEIRS,
			       .key_window = 1 + (how >> 4 & 1),
			       .nrails = 1 + (how >> 5 & 1)};
	uint8_t frame[WIRE_BUF];
	uint32_t i;

	h.version_max = h.version_min > h.version_max ? h.version_min : h.version_max;
	for (i = 0; i < h.nrails; i++) {
		h.rails[i] = (struct wire_rail){.transport = URCCL_TRANSPORT_TCP,
						.id = i,
						.addr_len = ADDR,
						.addr = {1, 1}};
		h.rails[i].addr[2] = how >> (6 + i) & 1;
	}
	say(frame, wire_put_hello(frame, type, &h));
}

static void say_word(uint32_t type, uint64_t word)
{
	uint8_t frame[WIRE_BUF];

	say(frame, wire_put_word(frame, type, word));
}

static void raw(struct input *in)
{
	size_t n = take(in);

	n = n < in->left ? n : in->left;
	say(in->at, n);
	in->at += n;
	in->left -= n;
}

/* Of a type that there is and a body as it comes, in two pieces. */
static void framed(struct input *in)
{
	uint8_t frame[WIRE_HEADER + 255] = {0};
	uint32_t type = take(in) % (WIRE_TYPES + 1), n = take(in), cut = take(in), i;

	frame[0] = (uint8_t)n;
	frame[4] = (uint8_t)type;
	for (i = 0; i < n; i++)
		frame[WIRE_HEADER + i] = take(in);
	cut %= WIRE_HEADER + n + 1;
	say(frame, cut);
	say(frame + cut, WIRE_HEADER + n - cut);
}

static void word(struct input *in)
{
	uint32_t type = take(in) % WIRE_TYPES;

	say_word(type ? type : WIRE_PATH, take(in));
}

static void keys(struct input *in)
{
	static const uint8_t key[KEY];
	struct wire_key_req req = {.id = take(in), .advert = ours};
	struct wire_key_rep rep = {.id = 1u + take(in) % 4, .grant = 1, .len = KEY, .key = key};
	struct wire_revoke revoke = {.number = req.id, .upto = rep.id};
	uint8_t frame[WIRE_BUF], how = take(in);

	req.rail = how >> 4 & 1;
	req.advert.token[0] ^= how >> 5 & 1;
	if (how & 8) {
		rep.status = -EACCES;
		rep.grant = rep.len = 0;
	}
	revoke.region = how >> 6;
	if (how % 3 == 0)
		say(frame, wire_put_key_req(frame, &req));
	else if (how % 3 == 1)
		say(frame, wire_put_key_rep(frame, &rep));
	else
		say(frame, wire_put_revoke(frame, &revoke));
}

static void rail(struct input *in)
{
	uint8_t frame[WIRE_BUF], how = take(in);
	struct wire_rail rail = {.transport = URCCL_TRANSPORT_TCP,
				 .id = how >> 1 & 3,
				 .addr_len = ADDR,
				 .addr = {1, 1, how >> 3 & 1}};

	say(frame, wire_put_rail(frame, how & 1 ? WIRE_RAIL : WIRE_RAIL_ACK, &rail));
}

static void hello(struct input *in)
{
	uint8_t how = take(in);

	say_hello(how & 8 ? WIRE_HELLO : WIRE_HELLO_ACK, how);
}

/* ---- the program, and time ---- */

static void program(struct input *in)
{
	static struct urccl_advert theirs = {
		.version = 1, .rights = 3, .region = 1, .incarnation = THEIRS, .length = BYTES};
	struct urccl_sqe *sqe;

	if (urccl_sq_space_left(&r->pub) < ENTRIES / 2)
		return;
	switch (take(in) % 7) {
	case 0:
		sqe = entry();
		urccl_prep_import(sqe, (struct urccl_peer){peer}, &theirs, 1);
		sqe->user_data = URCCL_OP_IMPORT;
		break;
	case 1:
		urccl_prep_write(entry(), (struct urccl_remote){remote}, bytes, 8, 0);
		break;
	case 2:
		urccl_prep_warm(entry(), (struct urccl_peer){peer});
		break;
	case 3:
		urccl_prep_notify(entry(), (struct urccl_peer){peer}, 1, NULL, 0);
		break;
	case 4:
		drop_reference(peer);
		break;
	case 5:
		urccl_prep_cancel(entry(), URCCL_CANCEL_BY_USER_DATA, DIALLING);
		break;
	default:
		hurry();
		break;
	}
	turns(2);
}

static void deed(struct input *in)
{
	static void (*const deeds[])(struct input * in) = {raw,	 framed, word,	 keys,
							   rail, hello,	 program};

	deeds[take(in) % ARRAY_SIZE(deeds)](in);
}

/* ---- a connection ---- */

/* In order, which leaves the port to itself for a minute, or not. */
static void hang_up(int in_order)
{
	const struct linger at_once = {.l_onoff = 1};

	if (in_order) {
		(void)shutdown(fd, SHUT_WR);
		turns(2);
	}
	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(fd);
	fd = -1;
}

/* From one address of this host after the other: ports that were used last are not free at once. */
static void dial_us(void)
{
	static uint32_t host;
	struct sockaddr_storage at = c->listeners[0].addr;
	struct sockaddr_in from = loopback;

	from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + ++host % 200);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(fd >= 0 && !bind(fd, (struct sockaddr *)&from, sizeof(from)));
	must(!connect(fd, (struct sockaddr *)&at, sizeof(struct sockaddr_in)));
	turns(2);
}

static void is_dialled(void)
{
	struct urccl_sqe *sqe = entry();
	uint32_t i;

	urccl_prep_connect(sqe, target, (uint32_t)strlen(target));
	sqe->user_data = DIALLING;
	for (i = 0; i < 64 && fd < 0; i++) {
		turn();
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	}
	must(fd >= 0);
	turns(2);
}

static void begin(uint8_t how)
{
	uint32_t first = how & 1 ? WIRE_HELLO_ACK : WIRE_HELLO;

	peer = remote = 0;
	if (how & 1)
		is_dialled();
	else
		dial_us();
	if (how & 2)
		say(wire_magic, WIRE_MAGIC);
	if ((how & 6) == 6)
		say_hello(first, 3);
	if ((how & 14) == 14) {
		turns(4);
		say_word(how & 1 ? WIRE_READY : WIRE_PATH, 0);
		turns(4);
	}
}

static int is_over(void)
{
	return list_empty(&c->conns) && list_empty(&c->dials) && list_empty(&c->peers) &&
	       !c->npending && r->own.sq_head - r->own.done == 2;
}

static void end(uint8_t how)
{
	uint64_t late = clock_ns() + LATE_NS;
	struct urccl_sqe *sqe = entry();
	uint32_t i;
	int again;

	hang_up((how & 17) == 16);
	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, DIALLING);
	for (i = 0; !is_over(); i++) {
		must(clock_ns() < late);
		turn();
		if (i % 4 == 3)
			hurry();
		/* A dial that was under way is tried again. */
		again = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (again >= 0)
			close(again);
	}
	must(!neps && !c->live);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	uint8_t how = take(&in);

	if (!c)
		open_all();
	begin(how);
	while (in.left)
		deed(&in);
	end(how);
	return 0;
}
