/* SPDX-License-Identifier: Apache-2.0 */
/* What a device calls an error is told with it: in the sentence of an entry that it fails, and to
 * the log when the rail breaks by it. SHIM has fail=1:9 of ibv_shim.c: the first READ ends as a
 * request that the peer's device takes for invalid (enum ibv_wc_status 9). */
#include <stdlib.h>
#include "pair.h"

#define LEN 4096u

static struct pair p;
static uint32_t logged;

/* Of a's control thread. */
static void heard(void *arg, int level, const char *text)
{
	(void)arg;
	(void)level;
	if (strstr(text, "rail 0 of transport ib: its device says status 9 and the vendor's code "
			 "0x8a"))
		__atomic_fetch_add(&logged, 1, __ATOMIC_RELAXED);
}

static struct urccl_cqe read_of(const struct target *t, void *local)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_read(sqe, t->remote, local, LEN, 0);
	return pair_run(&p, &p.a, sqe);
}

int main(int argc, char **argv)
{
	static uint8_t local[LEN];
	struct urccl_cqe cqe;
	struct target t;

	pair_options(&p, argc, argv);
	if (!getenv("SHIM"))
		SKIP("SHIM and UCCL_IBV_SO are not set: no request fails here");
	p.params.log = heard;
	p.params.log_level = URCCL_LOG_INFO;
	pair_open(&p);
	target_open(&p, &t, LEN, 0);
	side_register(&p.a, local, LEN, 0);
	cqe = read_of(&t, local);
	CHECK_EQ(cqe.res, -EREMOTEIO);
	check_sentence(&p.a, &cqe,
		       "the device gave EREMOTEIO (Remote I/O error), status 9 and the vendor's "
		       "code 0x8a; 0 of 4096 bytes");
	/* By the rail that is made anew: what was told of the one before came first. */
	CHECK_EQ(read_of(&t, local).res, LEN);
	CHECK_EQ(__atomic_load_n(&logged, __ATOMIC_RELAXED), 1);
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
