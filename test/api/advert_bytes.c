/* SPDX-License-Identifier: Apache-2.0 */
/* An advert with any bit changed is refused, when it is imported or when it is first used, and no
 * byte moves in either direction. */
#include "pair.h"

#define LEN 4096u

static struct pair p;
static struct target t;
static uint8_t local[64], before[LEN];
static uint32_t at_import, at_use;

static void use(struct urccl_remote remote, int reads)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	if (reads)
		urccl_prep_read(sqe, remote, local, sizeof(local), 0);
	else
		urccl_prep_write(sqe, remote, local, sizeof(local), 0);
	cqe = pair_run(&p, &p.a, sqe);
	/* A length that shrank is judged on this side already. */
	CHECK(cqe.res == -EACCES || cqe.res == -ESTALE || cqe.res == -ERANGE);
	check_sentence(&p.a, &cqe, cqe.res == -ERANGE ? "remote" : "advert");
	CHECK(!memcmp(t.bytes, before, LEN));
}

static void changed(uint32_t byte, uint32_t bit)
{
	struct urccl_remote remote = {0};
	struct urccl_advert bad = t.advert;
	uint32_t i;
	int rc;

	((uint8_t *)&bad)[byte] ^= (uint8_t)(1u << bit);
	rc = urccl_import(p.a.ctx, p.a.peer, &bad, 1, &remote);
	if (rc) {
		if (byte == offsetof(struct urccl_advert, version))
			CHECK_EQ(rc, -EPROTONOSUPPORT);
		else
			CHECK(rc == -EACCES || rc == -EINVAL || rc == -ESTALE);
		CHECK(strstr(urccl_errmsg(), "advert"));
		CHECK(!remote.id);
		at_import++;
		return;
	}
	use(remote, 0);
	use(remote, 1);
	at_use++;
	for (i = 0; i < sizeof(local); i++)
		CHECK_EQ(local[i], 0x5a);
	CHECK_EQ(urccl_unimport(p.a.ctx, remote), 0);
}

int main(int argc, char **argv)
{
	struct urccl_sqe *sqe;
	uint32_t i;

	pair_begin(&p, argc, argv);
	target_open(&p, &t, LEN, 0);
	pattern_fill(t.bytes, LEN, 0, 1);
	memcpy(before, t.bytes, LEN);
	memset(local, 0x5a, sizeof(local));
	side_register(&p.a, local, sizeof(local), 0);
	for (i = 0; i < 8 * sizeof(t.advert); i++)
		changed(i / 8, i % 8);
	CHECK_EQ(at_import + at_use, 8 * sizeof(t.advert));
	CHECK_GE(at_use, 8 * sizeof(t.advert.token));
	sqe = side_sqe(&p.a);
	urccl_prep_read(sqe, t.remote, local, sizeof(local), 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, sizeof(local));
	CHECK(pattern_holds(local, sizeof(local), 0, 1));
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
