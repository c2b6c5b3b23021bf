/* SPDX-License-Identifier: Apache-2.0 */
/* Diallers get the hello of the ACCEPT that accepts them, also if they dialled before it came, or
 * the hello of the context where it has none. A newer ACCEPT brings another. */
#include "meet.h"

static const char of_context[] = "the context's";
static struct pair p;
static uint8_t blob[URCCL_METADATA_MAX];
static uint32_t blob_len;

static void accept_with(const void *hello, uint32_t len, uint64_t user_data)
{
	struct urccl_sqe *sqe = side_sqe(&p.b);

	urccl_prep_accept(sqe);
	urccl_sqe_set_hello(p.b.ring, sqe, hello, len);
	urccl_sqe_set_data64(sqe, user_data);
	CHECK_EQ(urccl_submit(p.b.ring), 1);
}

/* The dial of a new context ends, and it finds this. */
static void comes(struct side *s, uint64_t accepted_by, const void *hello, uint32_t len)
{
	struct urccl_peer_info info = {.size = sizeof(info)};
	struct urccl_cqe cqe = side_end(s, &p.b, 5);

	CHECK_EQ(cqe.res, 0);
	CHECK_EQ(urccl_get_peer_info(s->ctx, urccl_cqe_peer(&cqe), &info), 0);
	CHECK_EQ(info.hello_len, len);
	CHECK(!memcmp(info.hello, hello, len));
	cqe = side_event(&p.b, s, URCCL_KIND_PEER, NULL);
	CHECK_EQ(cqe.user_data, accepted_by);
}

static void dials(struct side *s)
{
	side_open(&p, s);
	side_dial(s, blob, blob_len, 20000000, 5);
}

/* The ACCEPT before it ended: what it pointed to is the program's. */
static void replaced(uint8_t *payload, uint32_t len, uint64_t user_data)
{
	CHECK_EQ(side_end(&p.b, NULL, user_data).res, -ECANCELED);
	memset(payload, 0xee, len);
	free(payload);
}

int main(int argc, char **argv)
{
	uint8_t *longest = malloc(URCCL_NOTE_MAX), *other = malloc(9);
	uint8_t same[URCCL_NOTE_MAX];
	struct side s[5];
	uint32_t i;

	pair_options(&p, argc, argv);
	pair_sim(&p);
	p.params.hello = of_context;
	p.params.hello_len = sizeof(of_context);
	side_open(&p, &p.b);
	blob_len = (uint32_t)urccl_metadata(p.b.ctx, blob, sizeof(blob));
	CHECK(longest && other && (int)blob_len > 0);
	pattern_fill(longest, URCCL_NOTE_MAX, 0, 1);
	memcpy(same, longest, sizeof(same));
	memcpy(other, "an advert", 9);
	dials(&s[0]);
	side_silent(&s[0], &p.b, 20000000);
	accept_with(longest, URCCL_NOTE_MAX, 1);
	comes(&s[0], 1, same, sizeof(same));
	dials(&s[1]);
	comes(&s[1], 1, same, sizeof(same));
	accept_with(other, 9, 2);
	replaced(longest, URCCL_NOTE_MAX, 1);
	dials(&s[2]);
	comes(&s[2], 2, "an advert", 9);
	accept_with(NULL, 0, 3);
	replaced(other, 9, 2);
	dials(&s[3]);
	comes(&s[3], 3, "", 0);
	side_accept(&p.b, 4);
	CHECK_EQ(side_end(&p.b, NULL, 3).res, -ECANCELED);
	dials(&s[4]);
	comes(&s[4], 4, of_context, sizeof(of_context));
	for (i = 0; i < 5; i++)
		side_close(&s[i]);
	side_close(&p.b);
	return 0;
}
