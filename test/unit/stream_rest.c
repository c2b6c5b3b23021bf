/* SPDX-License-Identifier: Apache-2.0 */
/* A receive that ended shortly before the end of a large payload: the next one asks for all of the
 * rest and for the header behind it, and not for a header at a time. */
#include "stream_pair.h"

#define LEN  65536u
#define REST 4000u

enum { WRITE = 1 };

static struct pair pair;

int case_stream_rest(void)
{
	static uint8_t bytes[LEN];
	uint8_t frame[STREAM_HEADER] = {WRITE};
	struct stream *s = &pair.side[0].stream;
	uint32_t len = LEN, staging;
	struct iovec iov[2];

	pair_init(&pair, 1);
	memcpy(frame + 4, &len, 4);
	CHECK_EQ(stream_rx(s, frame, STREAM_HEADER), STREAM_HEADER);
	CHECK_EQ(stream_rx(s, bytes, LEN - REST), LEN - REST);
	CHECK_EQ(stream_into(s, iov, 2, PIPE_MAX, &staging), 0);
	CHECK_EQ(staging, REST + 2 * STREAM_HEADER);
	CHECK_EQ(stream_rx(s, bytes, REST), REST);
	CHECK_EQ(stream_into(s, iov, 2, PIPE_MAX, &staging), 0);
	CHECK_EQ(staging, 2 * STREAM_HEADER);
	pair_fini(&pair);
	return 0;
}
