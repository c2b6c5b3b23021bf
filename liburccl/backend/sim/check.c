/* SPDX-License-Identifier: Apache-2.0 */
/* Bits that the network flips, and the checksum that detects them. */
#include "backend/sim/sim.h"

void sim_check_send(struct sim_packet *p, uint64_t draw)
{
	struct sim_op *op = p->op;

	if (op->checksum)
		p->sum = crc32c(0, p->data, p->len);
	/* Some engine messages have no checksum, like a header of tcp: these stay intact. */
	if (!p->len || (op->kind == CHUNK_SEND && !op->checksum))
		return;
	if (!sim_happens(op->ep->dev->faults.flip, draw))
		return;
	draw = sim_draw(draw, p->number, p->len);
	p->data[(draw >> 3) % p->len] ^= (uint8_t)(1u << (draw & 7));
}

int sim_check_arrived(const struct sim_packet *p)
{
	return p->op->checksum && crc32c(0, p->data, p->len) != p->sum ? -EBADMSG : 0;
}

/* A later copy has the shorter length and its checksum. A READ packet has no data yet: it is summed
 * once filled. */
void sim_check_cut(struct sim_packet *p, uint32_t len)
{
	p->len = len;
	if (p->op->checksum && p->op->kind != CHUNK_READ)
		p->sum = crc32c(0, p->data, len);
}
