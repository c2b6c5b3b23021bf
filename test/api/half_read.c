/* SPDX-License-Identifier: Apache-2.0 */
/* READs end by their deadline with a part of their bytes here, and the rest on a link that is too
 * slow for it. Each ends, the process lives, and what comes next is whole. */
#include <stdlib.h>
#include <sys/socket.h>
#include "meet.h"
#include "ns.h"

#define LEN    (4u << 20)
#define HALVES 6u
#define ROUNDS 60u
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
	urccl_sqe_set_deadline_us(sqe, us);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	do
		side_take(&p.a, NULL, &cqe, NULL);
	while (cqe.flags & URCCL_CQE_MORE);
	return cqe.res;
}

/* ---- a connection of the program's own, between the same addresses ---- */

static int strangers[2];

static void strangers_meet(void)
{
	uint16_t port;
	int at = raw_listen(&port);

	strangers[0] = raw_dial(port);
	strangers[1] = accept(at, NULL, NULL);
	CHECK(strangers[1] >= 0);
	close(at);
}

static void strangers_talk(void)
{
	char byte = 0;
	uint32_t i;

	for (i = 0; i < 2; i++) {
		CHECK_EQ(send(strangers[i], "a", 1, MSG_NOSIGNAL), 1);
		CHECK_EQ(recv(strangers[!i], &byte, 1, 0), 1);
		CHECK_EQ(byte, 'a');
	}
	close(strangers[0]);
	close(strangers[1]);
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
	strangers_meet();
	for (i = 0; halves < HALVES; i++) {
		CHECK(i < ROUNDS);
		res = read_all(US);
		CHECK(res == LEN || res == -ETIMEDOUT);
		halves += res != LEN && local[0];
	}
	CHECK_EQ(read_all(60000000), LEN);
	strangers_talk();
	CHECK(local[0] == 0xa5 && !memcmp(local, local + 1, LEN - 1));
	target_close(&p, &t);
	pair_close(&p);
	free(local);
	return 0;
}
