/* SPDX-License-Identifier: Apache-2.0 */
/* 10,000 connections of strangers that say nothing, or begin and do not go on, some with as much of
 * a frame as there can be: few of them are kept at a time, with no more memory than liburccl(7)
 * says, those that take their time are gone in time, and a peer gets through. */
#include <fcntl.h>

#include "control/private.h"
#include "control_rig.h"
#include "fds.h"
#include "resident.h"

#define STRANGERS 10000u
#define SECRET	  "known to the two of them"
#define PEER_NS	  (25 * NSEC_PER_SEC) /* for one that comes behind all of them */
#define EACH	  (16u << 10)	      /* bytes of what one has said */
#define MORE	  (4ull << 20)	      /* of all of them, for all else, and for the peer */

static int fds[STRANGERS];
static uint64_t before;

/* All of a HELLO but its end, as long as one can be. */
static void begin_long(int fd)
{
	static uint8_t bytes[WIRE_MAGIC + WIRE_HEADER + WIRE_FRAME_MAX - 1];
	const uint8_t header[WIRE_HEADER] = {WIRE_FRAME_MAX & 0xff, WIRE_FRAME_MAX >> 8, 0, 0,
					     WIRE_HELLO};

	memcpy(bytes, wire_magic, WIRE_MAGIC);
	memcpy(bytes + WIRE_MAGIC, header, WIRE_HEADER);
	(void)send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int dial(uint16_t port)
{
	struct sockaddr_in in = rig_loopback(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	CHECK(fd >= 0);
	CHECK(!connect(fd, (struct sockaddr *)&in, sizeof(in)) || errno == EINPROGRESS);
	return fd;
}

static uint64_t behind_all(struct side *a, struct side *b)
{
	uint64_t begin = clock_ns();
	struct urccl_cqe cqe;

	side_accept(b, 1);
	side_connect(a, b->blob, b->blob_len, (uint32_t)(PEER_NS / NSEC_PER_USEC), 2);
	while (!urccl_peek_cqe(a->ring) && clock_ns() - begin < 2 * PEER_NS) {
		CHECK_LE(fds_open(), STRANGERS + PENDING_MAX + 200);
		CHECK_LE(resident(), before + PENDING_MAX * EACH + MORE);
		(void)urccl_wait(a->ring, NULL,
				 &(struct urccl_wait_args){.size = sizeof(struct urccl_wait_args),
							   .min_n = 1,
							   .timeout_ns = NSEC_PER_SEC / 4});
	}
	cqe = side_next(a);
	CHECK_EQ(cqe.res, 0);
	return clock_ns() - begin;
}

/* A byte now and then is no reason to be kept. */
static void slowly(uint16_t port)
{
	struct wire_hello h = stranger_hello();
	uint8_t frame[WIRE_BUF];
	uint32_t len, i;
	uint64_t begin = clock_ns();
	int fd = stranger_dial(port);
	struct pollfd pfd = {fd, POLLIN, 0};

	h.features = WIRE_HAS_SECRET;
	stranger_say_hello(fd, &h);
	CHECK_EQ(stranger_frame(fd, frame, 0).type, WIRE_CHALLENGE);
	len = wire_put_bytes(frame, WIRE_PROOF, h.note, WIRE_PROOF_BYTES);
	for (i = 0; i < len && poll(&pfd, 1, 300) == 0; i++)
		(void)send(fd, frame + i, 1, MSG_NOSIGNAL);
	CHECK(i < len);
	CHECK(!is_late(begin + 2 * HELLO_NS));
	close(fd);
}

int case_control_half_open(void)
{
	struct urccl_params p = rig_params();
	struct side a, b;
	uint32_t i;

	if (!fds_allow(STRANGERS + 1000))
		SKIP("RLIMIT_NOFILE does not allow 10,000 descriptors");
	p.secret = SECRET;
	p.secret_len = sizeof(SECRET) - 1;
	p.dead_after_ms = 60000;
	if (urccl_open(&p, &a.ctx) == -EOPNOTSUPP)
		SKIP(urccl_errmsg());
	urccl_close(a.ctx);
	side_open(&a, &p);
	side_open(&b, &p);
	before = resident();
	for (i = 0; i < STRANGERS; i++)
		fds[i] = dial(b.port);
	for (i = 1; i < STRANGERS; i += 9)
		begin_long(fds[i]);
	/* Some of those whom the kernel lets through begin. */
	for (i = 0; i < STRANGERS; i += 97)
		(void)send(fds[i], wire_magic, i % (WIRE_MAGIC + 1), MSG_NOSIGNAL | MSG_DONTWAIT);
	printf("a peer behind %u strangers got through in %llu ms\n", STRANGERS,
	       (unsigned long long)(behind_all(&a, &b) / NSEC_PER_MSEC));
	for (i = 0; i < STRANGERS; i++)
		close(fds[i]);
	slowly(b.port);
	side_close(&a);
	side_close(&b);
	return 0;
}
