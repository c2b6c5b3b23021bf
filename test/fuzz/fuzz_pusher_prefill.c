/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kvcache_pusher's prefill is told by a decode: notes, and page tables in its memory.
 * Whatever they say, it writes into pages that decode has and from pages of its own, says of an
 * aborted request that nothing more of it lands only if each of its writes ended with that proof,
 * has no more entries under way than its ring holds, and counts each request once. The first byte
 * says how it runs; then a byte says what happens next.
 */
#include "pusher_stub.h"

#include "push.c"
#include "push_request.c"

#define PAGES	 8u
#define OURS	 6u /* pages of our cache */
#define REQUESTS 6u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct push p;
static struct job job;
static struct options o;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool unproved[2]; /* of a slot's writes one failed that may still land */

/* ---- what must hold ---- */

static void check_write(const struct slot *s)
{
	uint32_t i;

	must(s->nsend && s->nsend <= s->npages && s->npages <= OURS);
	for (i = 0; i < s->nsend; i++)
		must(s->src[i] < OURS && s->dst[i] < p.pool.pages);
}

static void check_entry(const struct urccl_sqe *sqe)
{
	uint64_t what = sqe->user_data >> 56;
	const struct slot *s = &p.slots[sqe->user_data & 0xffffffff];

	if (what == ENTRY_ASK)
		unproved[s->index] = false;
	else if (what == ENTRY_WRITE)
		check_write(s);
	else if (what == ENTRY_ABORT)
		must(s->abort.quiet == !unproved[s->index]);
}

static void check(void)
{
	const struct tally *t = &p.tally;
	uint32_t i;

	for (i = 0; i < STUB_ENTRIES; i++) {
		if (stub_entries[i].busy && !stub_entries[i].seen)
			check_entry(&stub_entries[i].sqe);
		stub_entries[i].seen = true;
	}
	must(stub_busy <= ring_entries(&p));
	must(t->done + t->wrong + t->aborted + t->failed + t->nrefused <= REQUESTS);
	must(t->exposed.n == t->done && t->whole.n == t->done);
	must(p.pages.nfree <= OURS);
	must(!p.computing || p.computing->state == SLOT_COMPUTING);
}

/* ---- what happens ---- */

static void note(uint64_t tag, const void *payload, int64_t res)
{
	got_note(&p, stub_event(URCCL_KIND_NOTE, 1, tag, payload, res));
}

static void welcome(struct input *in)
{
	struct msg_welcome w = {.pages = PAGES, .verify = 1, .ask_bytes = ask_bytes(PAGES)};

	if (take(in) & 1)
		((uint8_t *)&w)[take(in) % 16] = take(in);
	note(tag_make(MSG_WELCOME, 0, 0), &w, sizeof(w));
}

/* As it would be made, or with some of it changed. */
static void table(struct input *in)
{
	uint8_t how = take(in);
	struct slot *s = &p.slots[how % p.nslots];
	uint8_t *at = p.post + mailbox_off(&p, s);
	struct msg_table head = {.id = s->id, .npages = s->npages, .held = how >> 2 & 1};
	uint32_t i, page, n = s->npages < p.cache.pages ? s->npages : p.cache.pages;

	if (how & 8)
		((uint32_t *)&head)[take(in) & 3] = take(in);
	memcpy(at, &head, sizeof(head));
	for (i = 0; i < n; i++) {
		page = how & 16 ? take(in) : i;
		page = page == 255 ? NO_PAGE : page;
		memcpy(at + sizeof(head) + i * sizeof(page), &page, sizeof(page));
	}
	note(tag_make(MSG_TABLE, s->index, s->id), NULL, 0);
}

static void answer(struct input *in)
{
	uint8_t how = take(in);
	struct slot *s = &p.slots[how % p.nslots];
	struct msg_answer a = {.verdict = how >> 2 & 7};

	if (how & 128)
		note(tag_make(MSG_FETCHED, s->index, s->id), NULL, 0);
	else
		note(tag_make(MSG_ANSWER, s->index, s->id), &a, sizeof(a));
}

static void says(struct input *in)
{
	uint8_t what = take(in), slot = take(in), id = take(in), len = take(in);
	uint8_t payload[URCCL_NOTE_MAX];
	uint32_t i;

	for (i = 0; i < len; i++)
		payload[i] = take(in);
	note(tag_make((enum message)what, slot, id), payload,
	     what & 128 ? what & 64 ? -ESHUTDOWN : -ECANCELED : (int64_t)len);
}

static void ends(uint32_t which, uint8_t how)
{
	struct urccl_cqe cqe = {.flags = URCCL_KIND_OP};
	const struct urccl_sqe *sqe;
	struct urccl_sqe copy;

	sqe = stub_end(which, &copy);
	if (!sqe)
		return;
	cqe.user_data = sqe->user_data;
	cqe.res = how & 1 ? how & 2 ? -ECANCELED : -ETIMEDOUT : 0;
	if (how & 4)
		cqe.flags |= URCCL_CQE_REMOTE_QUIET;
	if (sqe->user_data >> 56 == ENTRY_WRITE && (how & 5) == 1)
		unproved[sqe->user_data & 0xffffffff] = true;
	got_end(&p, &cqe);
}

static void goes_on(void)
{
	p.node.now += 1000;
	while (!p.over && p.welcomed && request_next(&p))
		;
	if (!p.over && p.welcomed)
		request_compute(&p);
}

static void happens(struct input *in)
{
	uint8_t what = take(in);

	switch (what & 7) {
	case 0:
		welcome(in);
		break;
	case 1:
		table(in);
		break;
	case 2:
		answer(in);
		break;
	case 3:
		says(in);
		break;
	case 4:
	case 5:
		ends(take(in), what >> 3);
		break;
	default:
		if (what == 255)
			request_give_up(&p, &p.slots[take(in) % p.nslots]);
		goes_on();
		break;
	}
}

static void make_trace(void)
{
	static struct request requests[REQUESTS];
	static const uint64_t hashes[] = {1, 2, 3, 4, 5, 6};
	uint32_t i;

	for (i = 0; i < REQUESTS; i++)
		requests[i] = (struct request){.line = i + 1,
					       .tokens = 4 + i,
					       .nblocks = 2 + i / 4,
					       .hash = hashes + i % 3};
	job.trace = (struct trace){.requests = requests, .n = REQUESTS, .block_tokens = 4};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	uint8_t how = take(&in);
	struct problem why;

	job.shape =
		(struct shape){.layers = 2, .planes = 1, .heads = 1, .dim = 4, .elt = 1, .page = 2};
	o = (struct options){.quiet = true, .json = true, .tp_prefill = 1, .tp_decode = 1};
	o.contexts = 1;
	o.parallel = 1 + (how & 1);
	o.pull = how >> 1 & 1;
	o.verify = how >> 2 & 1;
	o.abort_percent = how & 8 ? 100 : 0;
	o.cache_bytes = OURS * shape_page_bytes(&job.shape);
	job.o = &o;
	make_trace();
	memset(stub_entries, 0, sizeof(stub_entries));
	stub_busy = 0;
	push_init(&p, &job, 0, &p, &lock);
	must(!push_open(&p, &why));
	p.peer.id = 1;
	while (in.left && !p.over) {
		happens(&in);
		check();
	}
	push_close(&p);
	return 0;
}
