/* SPDX-License-Identifier: Apache-2.0 */
/* What comes first over a connection: the hello by which the waiting side knows whose it is, and
 * the one that answers it. The first byte says at which end we are, whether what only the peer
 * knows is filled in, and in how many pieces it comes; then the hello, and what comes after it.
 * A link is taken for greeted by that hello alone which names it, byte by byte. */
#include "../unit/tcp_pair.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DIALS = 1, KNOWS_FORM = 2, KNOWS_COOKIE = 4, IN_PIECES = 8, BONDED = 16, LATE = 32 };

static struct tcp_node node;
static uint8_t hello[TCP_HELLO];
static uint32_t hello_len;

static struct tcp_ep *ep(void)
{
	return tcp_ep(node.ep);
}

/* As it should be for a link, byte by byte. */
static void good(uint8_t out[TCP_HELLO], uint8_t link)
{
	uint8_t whose[TCP_COOKIE + 1];

	memset(out, 0, TCP_HELLO);
	memcpy(out, "UCCL", 4);
	out[4] = STREAM_VERSION;
	out[6] = link;
	memcpy(whose, ep()->cookie, TCP_COOKIE);
	whose[TCP_COOKIE] = link;
	if (ep()->ep.bonded)
		siphash128(ep()->ep.bond, whose, sizeof(whose), out + 8);
	else
		memcpy(out + 8, whose, TCP_COOKIE);
}

static void read_hello(uint8_t how, const uint8_t *data, size_t size)
{
	uint8_t whole[TCP_HELLO];

	hello_len = size < TCP_HELLO ? (uint32_t)size : TCP_HELLO;
	memset(hello, 0, sizeof(hello));
	memcpy(hello, data, hello_len);
	good(whole, hello[6]);
	/* Bytes that are 0 stay as they should be, so that what the others do is seen. */
	if (how & KNOWS_FORM) {
		uint32_t i;

		for (i = 0; i < 8; i++)
			hello[i] = hello[i] && i != 6 ? hello[i] : whole[i];
	}
	if (how & KNOWS_COOKIE)
		memcpy(hello + 8, whole + 8, TCP_COOKIE);
}

/* Some of the way to our end, which is told of it. */
static void say(struct tcp_source *s, int far, uint32_t from, uint32_t to)
{
	if (to > from)
		CHECK_EQ(write(far, hello + from, to - from), (ssize_t)(to - from));
	tcp_event(tcp_device(node.dev), s, EPOLLIN);
}

static void say_all(struct tcp_source *s, int far, uint8_t how)
{
	uint32_t half = how & IN_PIECES ? hello_len / 2 : 0;

	if (half)
		say(s, far, 0, half);
	say(s, far, half, hello_len);
}

/* The waiting side: a connection that nobody has claimed. */
static void waits(uint8_t how, int near, int far)
{
	struct tcp_device *d = tcp_device(node.dev);
	struct tcp_stray *s = &d->strays[0];

	CHECK_EQ(d->nstrays, 0);
	d->nstrays = 1;
	s->used = 1;
	s->got = 0;
	s->since_ns = clock_ns();
	tcp_source_init(&s->source, TCP_STRAY, near);
	CHECK_EQ(tcp_watch(d, &s->source, EPOLLIN), 0);
	if (!(how & LATE))
		list_add_tail(&ep()->waiting, &d->waiting);
	say_all(&s->source, far, how);
	/* The ep comes after its connection. */
	if (how & LATE) {
		list_add_tail(&ep()->waiting, &d->waiting);
		tcp_claim(ep());
	}
}

static void dials(uint8_t how, int near, int far)
{
	struct tcp_link *l = &ep()->links[0];

	list_add_tail(&ep()->waiting, &tcp_device(node.dev)->waiting);
	ep()->active = 1;
	tcp_source_init(&l->source, TCP_LINK, near);
	l->state = LINK_GREETING;
	CHECK_EQ(tcp_watch(tcp_device(node.dev), &l->source, EPOLLIN), 0);
	say_all(&l->source, far, how);
}

static void check(uint8_t how)
{
	uint32_t i, greeted = 0, link = hello[6];
	uint8_t whole[TCP_HELLO];
	int is_good;

	good(whole, (uint8_t)link);
	is_good = hello_len == TCP_HELLO && !memcmp(hello, whole, TCP_HELLO) &&
		  link < (how & DIALS ? 1 : ep()->nlinks);
	for (i = 0; i < ep()->nlinks; i++) {
		greeted += ep()->links[i].state == LINK_READY;
		CHECK(ep()->links[i].state != LINK_READY || (is_good && i == link));
	}
	CHECK_EQ(greeted, (uint32_t)is_good);
	CHECK_EQ(ep()->ready, greeted);
	/* A stranger does no harm to who waits; who answered wrong is no peer. */
	if (how & DIALS && hello_len == TCP_HELLO)
		CHECK_EQ(ep()->state, is_good ? EP_CONNECTING : EP_DOWN);
	else
		CHECK_EQ(ep()->state, EP_CONNECTING);
}

static void begin(void)
{
	struct urccl_params p = tcp_params();

	if (!node.dev)
		CHECK_EQ(tcp_try_open(&node, &p, AF_INET), 0);
}

/* All of it goes, and nothing stays with the device. */
static void finish(int far)
{
	struct tcp_device *d = tcp_device(node.dev);

	close(far);
	backend_tcp.ep_close(node.ep);
	while (!node.closed)
		tcp_turn(&node);
	backend_tcp.ep_free(node.ep);
	if (d->strays[0].used)
		tcp_event(d, &d->strays[0].source, EPOLLIN);
	CHECK_EQ(d->nstrays, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t how = size ? data[0] : 0;
	int ends[2];

	begin();
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
	tcp_open_ep(&node);
	ep()->state = EP_CONNECTING;
	ep()->nlinks = ep()->nmax;
	ep()->deadline_ns = UINT64_MAX;
	ep()->ep.bonded = !!(how & BONDED);
	read_hello(how, data + !!size, size - !!size);
	(how & DIALS ? dials : waits)(how, ends[0], ends[1]);
	check(how);
	finish(ends[1]);
	return 0;
}
