/* SPDX-License-Identifier: Apache-2.0 */
/* The first version of the protocols, byte by byte: a peer that speaks it gets in as long as
 * version 1 is spoken here. One that speaks version 2 as well gets in too, one that speaks version
 * 2 alone is refused. Once a release speaks version 1 its bytes here are never changed. */
#include <stddef.h>

#include "backend/shm/shm.h"
#include "control_rig.h"

#define COOKIE 16u

/* A line a field. */
/* clang-format off */
/* 75 bytes of HELLO: versions 1 to 1, incarnation 0x5eed, note "old", one rail of tcp. */
static const uint8_t hello[] = {
	0x8e, 'u', 'r', 'c', 'c', 'l', '\r', '\n',	/* magic */
	75, 0, 0, 0, 1, 0, 0, 0,			/* length, HELLO */
	1, 0, 1, 0, 1, 0, 3, 0,				/* versions, rails, note */
	0xed, 0x5e, 0, 0, 0, 0, 0, 0,			/* incarnation */
	0, 0, 0, 0, 0, 0, 0, 0,				/* expected: any */
	16, 0, 0, 0, 0, 0, 0, 0,			/* key window */
	'o', 'l', 'd',
	3, 0, 0, 0, 26, 0, 0, 0,			/* tcp, rail 0, length of its address */
	1, 1, 1, 0, 0, 0, 64, 0, 64, 0,			/* versions, streams, 0, windows */
	1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
	0, 0, 0, 0, 0, 0,				/* features, port */
};
/* clang-format on */

#define VERSIONS     16u /* where they stand in hello: least and greatest u16 */
#define RAIL_COOKIE  (sizeof(hello) - 6 - COOKIE)
#define RAIL_VERSION (RAIL_COOKIE - 10) /* least and greatest u8 */

/* 72 bytes of HELLO_ACK: version 1, no note, one rail. Incarnation, stream count, windows and
 * cookie are the acceptor's. */
static const uint8_t ack_begin[] = {72, 0, 0, 0, 2, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0};
static const uint8_t ack_rail[] = {3, 0, 0, 0, 26, 0, 0, 0, 1, 1};

static const uint8_t path[] = {8, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
static const uint8_t ready[] = {8, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};

/* One stream of data: its greeting, and the answer to it. */
static int stream_dial(uint16_t port, uint8_t link, const uint8_t *cookie)
{
	uint8_t greeting[32] = {'U', 'C', 'C', 'L', 1, 0, link, 0};
	int fd = stranger_dial(port);

	memcpy(greeting + 8, cookie, COOKIE);
	stranger_say(fd, greeting, sizeof(greeting));
	return fd;
}

static void stream_answered(int fd, uint8_t link)
{
	uint8_t expected[32] = {'U', 'C', 'C', 'L', 1, 0, link, 0}, answer[32];

	memcpy(expected + 8, hello + RAIL_COOKIE, COOKIE);
	CHECK_EQ(stranger_hear(fd, answer, sizeof(answer)), sizeof(answer));
	CHECK_EQ(memcmp(answer, expected, sizeof(answer)), 0);
}

static void gets_in(struct side *a, const uint8_t *said, size_t len)
{
	uint8_t magic[8], ack[80], last[sizeof(ready)];
	const uint8_t *rail = ack + 40;
	int fd = stranger_dial(a->port), stream[2];
	struct urccl_cqe cqe;

	side_accept(a, 1);
	stranger_say(fd, said, len);
	CHECK_EQ(stranger_hear(fd, magic, sizeof(magic)), sizeof(magic));
	CHECK_EQ(memcmp(magic, hello, sizeof(magic)), 0);
	CHECK_EQ(stranger_hear(fd, ack, sizeof(ack)), sizeof(ack));
	CHECK_EQ(memcmp(ack, ack_begin, sizeof(ack_begin)), 0);
	CHECK_EQ(memcmp(rail, ack_rail, sizeof(ack_rail)), 0);
	stream[0] = stream_dial(a->port, 0, rail + 18);
	stream[1] = stream_dial(a->port, 1, rail + 18);
	stream_answered(stream[0], 0);
	stream_answered(stream[1], 1);
	stranger_say(fd, path, sizeof(path));
	cqe = side_next(a);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_PEER);
	CHECK_EQ(cqe.res, 3);
	CHECK_EQ(stranger_hear(fd, last, sizeof(last)), sizeof(last));
	CHECK_EQ(memcmp(last, ready, sizeof(last)), 0);
	close(stream[0]);
	close(stream[1]);
	close(fd);
}

/* Its HELLO is longer, by what version 1 does not know. */
static void newer_gets_in(struct side *a)
{
	uint8_t said[sizeof(hello) + 4];

	memcpy(said, hello, sizeof(hello));
	memset(said + sizeof(hello), 0xaa, 4);
	said[8] += 4;
	said[VERSIONS + 2] = 2;
	said[RAIL_VERSION + 1] = 2;
	gets_in(a, said, sizeof(said));
}

static void is_refused(struct side *a)
{
	uint8_t said[sizeof(hello)], body[WIRE_BUF];
	int fd = stranger_dial(a->port);
	struct wire_header head;
	struct wire_refuse r;

	memcpy(said, hello, sizeof(hello));
	said[VERSIONS] = said[VERSIONS + 2] = 2;
	stranger_say(fd, said, sizeof(said));
	head = stranger_frame(fd, body, 0);
	CHECK_EQ(head.type, WIRE_REFUSE);
	CHECK_EQ(wire_get_refuse(body, head.len, &r), 0);
	CHECK_EQ(r.code, WIRE_NO_VERSION);
	CHECK_EQ(r.version_min, 1);
	CHECK_EQ(r.version_max, 1);
	close(fd);
}

/* The REFUSE of version 1. */
static void says_no(void)
{
	/* clang-format off */
	static const uint8_t refuse[] = {
		1, 0, 1, 0, 2, 0, 0, 0,			/* versions, STALE */
		0xed, 0x5e, 0, 0, 0, 0, 0, 0,		/* incarnation */
		0xc, 0, 0, 0, 0, 0, 0, 0,		/* has shm and tcp */
		0, 0, 0, 0,
	};
	/* clang-format on */
	struct wire_refuse r;

	CHECK_EQ(wire_get_refuse(refuse, sizeof(refuse), &r), 0);
	CHECK_EQ(r.code, WIRE_STALE);
	CHECK_EQ(r.incarnation, 0x5eed);
	CHECK_EQ(r.transports, 1u << URCCL_TRANSPORT_SHM | 1u << URCCL_TRANSPORT_TCP);
	CHECK_EQ(r.error, 0);
	CHECK_EQ(r.required, 0);
}

/* What it is dialled by: 127.0.0.1:18515. */
static void is_dialled(void)
{
	/* clang-format off */
	static const uint8_t blob[] = {
		0, 1, 0x53, 0x48, 1, 0, 0, 0,		/* version, port, one host */
		0xed, 0x5e, 0, 0, 0, 0, 0, 0,		/* incarnation */
		4, 127, 0, 0, 1,
		0x9c, 0xd3, 0x47, 0x2f, 0x76, 0x12, 0xeb, 0x32,	/* check */
	};
	/* clang-format on */
	struct metadata m;

	CHECK_EQ(metadata_get(blob, sizeof(blob), &m), 0);
	CHECK_EQ(m.port, 18515);
	CHECK_EQ(m.nhosts, 1);
	CHECK_EQ(m.incarnation, 0x5eed);
	CHECK_EQ(m.hosts[0].addr[3], 1);
}

/* An ep of shm: versions, abstract name, cookie; and where a record has what. */
static void shares_memory(void)
{
	/* clang-format off */
	static const uint8_t addr[] = {
		1, 1, 0, 0, 0, 0, 0, 0,
		'u', 'r', 'c', 'c', 'l', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9',
		'a', 'b', 'c', 'd', 'e', 'f', '0', '1', '2', '3', '4', '5', '6', '7', '8', 0,
		1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
	};
	/* clang-format on */
	uint8_t newer[sizeof(addr)];
	struct shm_addr a;

	CHECK_EQ(shm_listener_addr_check(addr, sizeof(addr), &a), 0);
	memcpy(newer, addr, sizeof(addr));
	newer[1] = 2;
	CHECK_EQ(shm_listener_addr_check(newer, sizeof(newer), &a), 0);
	newer[0] = 2;
	CHECK_EQ(shm_listener_addr_check(newer, sizeof(newer), &a), -EPROTONOSUPPORT);
	CHECK_EQ(offsetof(struct shm_record, version), 4);
	CHECK_EQ(offsetof(struct shm_record, to), 8);
	CHECK_EQ(offsetof(struct shm_record, from), 24);
	CHECK_EQ(offsetof(struct shm_record, serial), 40);
	CHECK_EQ(offsetof(struct shm_record, handle), 64);
	CHECK_EQ(sizeof(struct shm_record), 128);
}

int case_version_first(void)
{
	struct urccl_params p = rig_params();
	struct side a;

	side_open(&a, &p);
	newer_gets_in(&a);
	side_close(&a);
	side_open(&a, &p);
	gets_in(&a, hello, sizeof(hello));
	is_refused(&a);
	side_close(&a);
	says_no();
	is_dialled();
	shares_memory();
	return 0;
}
