/* SPDX-License-Identifier: Apache-2.0 */
/* A path by which nothing large gets through is down when dead_after is over, though the other end
 * is heard by it all the time. */
#include "tcp_cut.h"

#define READS 24u

/* What it sends by the same connections meanwhile is small: it asks for bytes of a's. */
static void run(void)
{
	static struct exposure ours;
	static struct chunk reads[READS];
	uint64_t since = clock_ns();
	uint32_t i = 0;
	struct rkey key;

	meet();
	give(&ours, &a, &b, local, URCCL_RIGHT_READ, &key);
	cut(LARGE);
	post();
	while (!a.down && clock_ns() - since < 8 * DEAD_NS) {
		if (i < READS && clock_ns() - since > i * DEAD_NS / 8) {
			struct chunk *c = &reads[i++];

			*c = (struct chunk){.ep = b.ep,
					    .kind = CHUNK_READ,
					    .local = remote,
					    .len = LEN,
					    .key = &key};
			CHECK_EQ(backend_tcp.post(b.ep, &c, 1), 1);
		}
		tcp_turn(&a);
		tcp_turn(&b);
	}
	CHECK_EQ(a.down_res, -ECONNRESET);
	CHECK_LE(i, READS - 1); /* it was heard even then */
	printf("not reached: down after %llu ms\n",
	       (unsigned long long)((clock_ns() - since) / NSEC_PER_MSEC));
	mend();
	backend_tcp.unexpose(&ours);
	backend_tcp.unexpose(&exposure);
	tcp_close_eps(&a, &b);
}

int case_tcp_unreached(void)
{
	by_each(run);
	return 0;
}
