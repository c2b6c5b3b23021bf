/* SPDX-License-Identifier: Apache-2.0 */
/* Over a provider that crashes where two contexts of one process meet (shm), CONNECT between these
 * fails and says so; with another process it is as over any transport. */
#include "child.h"
#include "meet.h"

#define LEN (1u << 20)

static struct pair p;
static struct child c;
static uint8_t local[LEN], back[LEN];

static void within(void)
{
	uint8_t blob[URCCL_METADATA_MAX];
	struct urccl_cqe cqe;
	int len;

	side_open(&p, &p.b);
	side_accept(&p.b, 1);
	len = urccl_metadata(p.b.ctx, blob, sizeof(blob));
	CHECK_GE(len, 1);
	cqe = side_dialled(&p.a, &p.b, blob, (uint32_t)len, 20000000);
	CHECK_EQ(cqe.res, -EHOSTUNREACH);
	check_sentence(&p.a, &cqe, "EOPNOTSUPP");
	side_close(&p.b);
}

static void move(void)
{
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	CHECK_EQ(side_end(&p.a, NULL, 0).res, LEN);
}

static void beyond(void)
{
	struct urccl_remote remote;

	child_connect(&p, &c);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &c.advert, 1, &remote), 0);
	pattern_fill(local, LEN, 0, 1);
	urccl_prep_write(side_sqe(&p.a), remote, local, LEN, 0);
	move();
	urccl_prep_read(side_sqe(&p.a), remote, back, LEN, 0);
	move();
	CHECK(pattern_holds(back, LEN, 0, 1));
	child_kill(&c);
}

int main(int argc, char **argv)
{
	child_main(argc, argv);
	pair_options(&p, argc, argv);
	child_start(&p, &c, LEN, "127.0.0.1:0");
	side_open(&p, &p.a);
	side_register(&p.a, local, LEN, 0);
	side_register(&p.a, back, LEN, 0);
	within();
	beyond();
	side_close(&p.a);
	return 0;
}
