/* SPDX-License-Identifier: Apache-2.0 */
/* A device has so many memory regions and no more: REGISTER says so with the number, and so does
 * the owner's log where one was wanted for a peer, whose entries say where to look and succeed
 * when there is one again. SHIM has regions=40 of test/verbs. */
#include <stdlib.h>
#include <sys/mman.h>
#include "pair.h"

#define PAGE 4096u
#define MANY 40u

static const char limit[] = "none is left of the 40 memory regions that the device can have (max_mr), "
			    "of which this context has 40";

static struct pair p;
static uint32_t logged;

/* Of b's control thread. */
static void heard(void *arg, int level, const char *text)
{
	(void)arg;
	if (level == URCCL_LOG_WARN && strstr(text, "for peers, whose entries fail") &&
	    strstr(text, limit))
		__atomic_fetch_add(&logged, 1, __ATOMIC_RELAXED);
}

/* Every other page, as those that touch are one. As many as there are, the last into *last. */
static void use_up(struct side *s, uint8_t *pages, struct urccl_region *last)
{
	struct urccl_range r = {.len = PAGE, .fd = -1};
	struct urccl_cqe cqe = {.res = 0};
	struct urccl_sqe *sqe;
	uint32_t i;

	for (i = 0; i < MANY && !cqe.res; i++) {
		r.addr = (uintptr_t)pages + 2ull * i * PAGE;
		sqe = side_sqe(s);
		urccl_prep_register(sqe, &r, 1, URCCL_RIGHT_READ);
		cqe = pair_run(&p, s, sqe);
		if (!cqe.res)
			last->id = (uint32_t)cqe.handle;
	}
	CHECK_GE(i, 2);
	CHECK_EQ(cqe.res, -ENOMEM);
	check_sentence(s, &cqe, limit);
	CHECK_EQ(urccl_register(s->ctx, &r, 1, URCCL_RIGHT_READ, last + 1), -ENOMEM);
	CHECK(strstr(urccl_errmsg(), limit));
}

static struct urccl_cqe write_to(const struct target *t, void *local)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t->remote, local, PAGE, 0);
	return pair_run(&p, &p.a, sqe);
}

int main(int argc, char **argv)
{
	uint8_t *pages = mmap(NULL, 2ull * MANY * PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct urccl_region last[2];
	struct urccl_cqe cqe;
	struct target t;

	CHECK(pages != MAP_FAILED);
	pair_options(&p, argc, argv);
	if (!getenv("SHIM"))
		SKIP("SHIM and UCCL_IBV_SO are not set: devices have more memory regions than this");
	p.params.log = heard;
	p.params.log_level = URCCL_LOG_WARN;
	pair_open(&p);
	target_open(&p, &t, PAGE, 0);
	side_register(&p.a, pages, PAGE, 0);
	use_up(&p.b, pages, last);
	cqe = write_to(&t, pages);
	CHECK_EQ(cqe.res, -EREMOTEIO);
	check_sentence(&p.a, &cqe, "no memory region of its device");
	CHECK_EQ(__atomic_load_n(&logged, __ATOMIC_RELAXED), 1);
	CHECK_EQ(urccl_unregister(p.b.ctx, last[0]), 0);
	CHECK_EQ(write_to(&t, pages).res, PAGE);
	target_close(&p, &t);
	pair_close(&p);
	munmap(pages, 2ull * MANY * PAGE);
	return 0;
}
