/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pusher-garbage TRANSPORT METADATA WHAT [...]: says one thing to decode that no pusher says, and
 * waits until decode has refused it, or has closed the connection.
 *	hello FIELD VALUE	with this in its hello
 *	ask FIELD VALUE		with this in a question
 *	note WHAT SLOT ID LEN	behind a good question of slot 0 with id 1, whose table it has; a
 *				BYE behind another
 *	pull ...		the same as one whose pages are read
 *	twice, page, mailbox, broken, aborts	as below
 */
#include <string.h>
#include "pusher_peer.h"

static struct peer p;
static const char *metadata;

static uint32_t number(const char *text)
{
	return (uint32_t)strtoul(text, NULL, 0);
}

static void good_question(uint32_t id)
{
	struct msg_ask ask = peer_ask(&p, id, 4);
	const uint32_t pages[4] = {0, 1, 2, 3};

	peer_asks(&p, 0, id, &ask, pages);
}

static void good_request(void)
{
	good_question(1);
	while (!peer_has_table(&p, 0))
		;
}

static void hello(char **arg)
{
	uint32_t value = number(arg[1]), len = sizeof(p.hello);

	if (!strcmp(arg[0], "magic"))
		p.hello.id.magic = value;
	else if (!strcmp(arg[0], "slots"))
		p.hello.slots = value;
	else if (!strcmp(arg[0], "pages"))
		p.hello.pages = value;
	else
		len = value;
	peer_connect(&p, metadata, len);
	while (!p.refusal[0])
		CHECK(peer_hears(&p, PEER_LATE_NS));
	printf("%s\n", p.refusal);
}

static void question(char **arg)
{
	struct msg_ask ask = peer_ask(&p, 1, 4);
	uint32_t value = number(arg[1]);

	if (!strcmp(arg[0], "id"))
		ask.id = value;
	else if (!strcmp(arg[0], "tokens"))
		ask.tokens = value;
	else if (!strcmp(arg[0], "block_tokens"))
		ask.block_tokens = value;
	else if (!strcmp(arg[0], "nblocks"))
		ask.nblocks = value;
	else
		ask.npages = value;
	/* With tokens and pages that agree, if both are too many. */
	if (!strcmp(arg[0], "tokens") && value == UINT32_MAX) {
		ask.block_tokens = 1u << 31;
		ask.nblocks = 2;
		ask.npages = 0;
	}
	peer_asks(&p, 0, 1, &ask, NULL);
}

static void note(char **arg)
{
	static uint8_t payload[URCCL_NOTE_MAX];

	memset(payload, 0xff, sizeof(payload));
	good_request();
	if (number(arg[0]) == MSG_BYE)
		peer_says(&p, tag_make(MSG_BYE, 0, 0), NULL, 0);
	peer_says(&p, tag_make((enum message)number(arg[0]), number(arg[1]), number(arg[2])),
		  payload, number(arg[3]));
}

static void twice(void)
{
	good_request();
	good_question(2);
}

/* A page that is not of its cache. */
static void page(void)
{
	struct msg_ask ask = peer_ask(&p, 1, 2);
	const uint32_t pages[2] = {1, p.hello.pages};

	peer_asks(&p, 0, 1, &ask, pages);
}

/* Its writes fail, so the DONE behind them does not come. */
static void broken(void)
{
	good_request();
	peer_breaks(&p, tag_make(MSG_DONE, 0, 1));
}

/* Decode reads, and is told to stop more often than its ring has entries. */
static void aborts(void)
{
	static const struct msg_abort word = {1};
	const struct msg_layer ready = {p.shape.layers};

	good_request();
	CHECK_EQ(peer_says(&p, tag_make(MSG_LAYER, 0, 1), &ready, sizeof(ready)), 0);
	peer_repeats(&p, 10000, tag_make(MSG_ABORT, 0, 1), &word, sizeof(word));
	peer_says(&p, tag_make(MSG_STATS, 0, 1), NULL, 0);
}

int main(int argc, char **argv)
{
	char **arg = argv + 4;
	const char *what;

	CHECK_GE(argc, 4);
	metadata = argv[2];
	peer_open(&p, argv[1], 16);
	if (!strcmp(argv[3], "pull")) {
		p.hello.pull = 1;
		arg++;
	}
	what = arg[-1];
	if (!strcmp(what, "hello")) {
		hello(arg);
		peer_close(&p);
		return 0;
	}
	if (!strcmp(what, "mailbox"))
		p.hello.mailbox = p.hello.cache;
	peer_connect(&p, metadata, sizeof(p.hello));
	peer_welcomed(&p);
	if (!strcmp(what, "ask"))
		question(arg);
	else if (!strcmp(what, "note"))
		note(arg);
	else if (!strcmp(what, "twice"))
		twice();
	else if (!strcmp(what, "page"))
		page();
	else if (!strcmp(what, "mailbox"))
		good_question(1);
	else if (!strcmp(what, "broken"))
		broken();
	else
		aborts();
	peer_await_lost(&p);
	peer_close(&p);
	return 0;
}
