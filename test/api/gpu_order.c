/* SPDX-License-Identifier: Apache-2.0 */
/* device_order=explicit: an entry on memory of a GPU says when that is ready, or is refused with a
 * sentence and moves nothing of it; other memory is as ever. By default nobody has to say it. */
#include <stdlib.h>
#include "pair.h"
#include "cuda/stream.h"

#define LEN 4096u

static struct pair p;
static struct target t;
static uint64_t device;
static uint64_t *word;
static uint8_t *host;

static struct urccl_sqe *entry(const void *from, int reads)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	if (reads)
		urccl_prep_read(sqe, t.remote, (void *)(uintptr_t)from, LEN, 0);
	else
		urccl_prep_write(sqe, t.remote, from, LEN, 0);
	return sqe;
}

static void refused(struct urccl_sqe *sqe, uint32_t segment)
{
	struct urccl_cqe cqe = pair_run(&p, &p.a, sqe);

	CHECK_EQ(cqe.res, -EINVAL);
	CHECK_EQ(cqe.fail.segment, segment);
	CHECK(cqe.flags & URCCL_CQE_REMOTE_QUIET);
	check_sentence(&p.a, &cqe, "urccl_sqe_set_ready()");
}

static void runs(struct urccl_sqe *sqe)
{
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, LEN);
}

static void explicit(const void *on_gpu)
{
	struct urccl_seg segs[2] = {
		{.addr = (uintptr_t)host, .len = LEN, .remote = t.remote.id},
		{.addr = device, .len = LEN, .off = LEN, .remote = t.remote.id}};
	void *event = event_open();
	struct urccl_sqe *sqe;

	refused(entry(on_gpu, 0), 0);
	refused(entry(on_gpu, 1), 0);
	sqe = side_sqe(&p.a);
	urccl_prep_writev(sqe, p.a.peer, segs, 2);
	refused(sqe, 1);
	runs(entry(host, 0));
	sqe = entry(on_gpu, 0);
	urccl_sqe_set_ready(p.a.ring, sqe);
	runs(sqe);
	sqe = entry(on_gpu, 1);
	urccl_sqe_set_wait(p.a.ring, sqe, word, 0);
	runs(sqe);
	sqe = entry(on_gpu, 0);
	urccl_sqe_set_wait_event(p.a.ring, sqe, event);
	runs(sqe);
	event_close(event);
}

static void with(int argc, char **argv, uint8_t order)
{
	pair_options(&p, argc, argv);
	p.params.device_order = order;
	pair_open(&p);
	side_register(&p.a, (void *)(uintptr_t)device, LEN, 0);
	side_register(&p.a, host, LEN, 0);
	side_register(&p.a, word, sizeof(*word), URCCL_RIGHT_READ);
	target_open(&p, &t, 2 * LEN, p.shared);
	if (order == URCCL_DEVICE_ORDER_EXPLICIT)
		explicit((void *)(uintptr_t)device);
	else
		runs(entry((void *)(uintptr_t)device, 0));
	target_close(&p, &t);
	pair_close(&p);
}

int main(int argc, char **argv)
{
	device_load();
	stream_load();
	device = device_alloc(LEN, 0);
	host = calloc(1, LEN);
	word = calloc(1, sizeof(*word));
	CHECK(host && word);
	with(argc, argv, URCCL_DEVICE_ORDER_DEFAULT);
	with(argc, argv, URCCL_DEVICE_ORDER_EXPLICIT);
	free(host);
	free(word);
	return 0;
}
