/* SPDX-License-Identifier: Apache-2.0 */
/* chunk_bytes: no device has a larger piece of an entry at a time, and all of them together are the
 * entry. Without it they are as large as the transport likes. */
#include "pair.h"

#define LEN   (256u << 10)
#define PIECE 4096u

static struct pair p;
static struct target t;
static uint8_t *local;

static uint64_t chunks_of(uint8_t opcode)
{
	uint64_t before = side_stats(&p.a).chunks;
	struct urccl_sqe *sqe = side_sqe(&p.a);

	if (opcode == URCCL_OP_READ)
		urccl_prep_read(sqe, t.remote, local, LEN, 0);
	else
		urccl_prep_write(sqe, t.remote, local, LEN, 0);
	urccl_sqe_set_data64(sqe, opcode);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	CHECK_EQ(pair_end(&p, &p.a, opcode).res, LEN);
	return side_stats(&p.a).chunks - before;
}

/* The most pieces of the two entries. */
static uint64_t moves(int argc, char **argv, uint32_t chunk_bytes)
{
	uint64_t writes, reads;

	pair_options(&p, argc, argv);
	p.params.chunk_bytes = chunk_bytes;
	pair_open(&p);
	memset(&t, 0, sizeof(t));
	target_open(&p, &t, LEN, 0);
	side_register(&p.a, local, LEN, 0);
	pattern_fill(local, LEN, 0, chunk_bytes + 1);
	writes = chunks_of(URCCL_OP_WRITE);
	CHECK(pattern_holds(t.bytes, LEN, 0, chunk_bytes + 1));
	memset(local, 0, LEN);
	reads = chunks_of(URCCL_OP_READ);
	CHECK(pattern_holds(local, LEN, 0, chunk_bytes + 1));
	target_close(&p, &t);
	pair_close(&p);
	if (chunk_bytes)
		CHECK(writes >= LEN / PIECE && reads >= LEN / PIECE);
	return writes > reads ? writes : reads;
}

int main(int argc, char **argv)
{
	local = malloc(LEN);
	CHECK(local);
	CHECK(moves(argc, argv, 0) < LEN / PIECE);
	moves(argc, argv, PIECE);
	free(local);
	return 0;
}
