/* SPDX-License-Identifier: Apache-2.0 */
/* A metadata blob with any byte changed, cut or lengthened is refused with a sentence and without
 * a wait; the blob as it was still connects. */
#include "meet.h"

static struct pair p;
static uint8_t blob[URCCL_METADATA_MAX + 1];

static void refused(const void *target, uint32_t len)
{
	struct urccl_cqe cqe = side_dialled(&p.a, &p.b, target, len, 10000000);

	CHECK_EQ(cqe.res, -EINVAL);
	check_sentence(&p.a, &cqe, "to dial");
}

int main(int argc, char **argv)
{
	static const uint8_t changes[] = {1, 0x80, 0xff};
	struct urccl_cqe cqe;
	uint32_t i, k, len;
	int rc;

	pair_options(&p, argc, argv);
	pair_sim(&p);
	side_open(&p, &p.a);
	side_open(&p, &p.b);
	side_accept(&p.b, 1);
	rc = urccl_metadata(p.b.ctx, blob, URCCL_METADATA_MAX);
	CHECK_GE(rc, 8);
	len = (uint32_t)rc;
	for (i = 0; i < len; i++) {
		for (k = 0; k < sizeof(changes); k++) {
			blob[i] ^= changes[k];
			refused(blob, len);
			blob[i] ^= changes[k];
		}
	}
	for (i = 1; i < len; i++)
		refused(blob, i);
	refused(blob, len + 1);
	side_silent(&p.b, &p.a, 0);
	cqe = side_dialled(&p.a, &p.b, blob, len, 10000000);
	CHECK_EQ(cqe.res, 0);
	CHECK(side_event(&p.b, &p.a, URCCL_KIND_PEER, NULL).peer);
	pair_close(&p);
	return 0;
}
