/* SPDX-License-Identifier: Apache-2.0 */
/* READs end by their deadline with a part of their bytes here, and the rest on a link that is too
 * slow for it. Each ends, the process lives, and what comes next is whole. */
#include <stdlib.h>
#include "ns.h"
#include "pair.h"

#define LEN    (4u << 20)
#define ROUNDS 12u
#define US     60000u /* a part of what they take */

static struct pair p;
static struct target t;
static uint8_t *local;

/* 4 MiB in a third of a second. */
static const char *slow_loopback(void)
{
	if (ns_enter(CLONE_NEWNET, 1))
		return "user and network namespaces are denied here";
	setenv("PATH", "/usr/sbin:/sbin:/usr/bin:/bin", 1);
	if (system("ip link set lo mtu 1500 up &&"
		   " tc qdisc add dev lo root tbf rate 100mbit burst 32k latency 400ms"))
		return "no ip(8) and tc(8) to set a slow interface up with";
	return NULL;
}

static int64_t read_all(uint32_t us)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	memset(local, 0, LEN);
	urccl_prep_read(sqe, t.remote, local, LEN, 0);
	urccl_sqe_set_timeout(sqe, us);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	do
		side_take(&p.a, NULL, &cqe, NULL);
	while (cqe.flags & URCCL_CQE_MORE);
	return cqe.res;
}

int main(int argc, char **argv)
{
	uint32_t i, halves = 0;
	const char *why;
	int64_t res;

	pair_options(&p, argc, argv);
	why = slow_loopback();
	if (why)
		SKIP(why);
	local = malloc(LEN);
	CHECK(local);
	pair_open(&p);
	target_open(&p, &t, LEN, 0);
	side_register(&p.a, local, LEN, 0);
	memset(t.bytes, 0xa5, LEN);
	for (i = 0; i < ROUNDS; i++) {
		res = read_all(US);
		CHECK(res == LEN || res == -ETIMEDOUT);
		halves += res != LEN && local[0];
	}
	CHECK_GE(halves, ROUNDS / 2);
	CHECK_EQ(read_all(60000000), LEN);
	CHECK(local[0] == 0xa5 && !memcmp(local, local + 1, LEN - 1));
	target_close(&p, &t);
	pair_close(&p);
	free(local);
	return 0;
}
