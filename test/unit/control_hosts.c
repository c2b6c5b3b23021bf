/* SPDX-License-Identifier: Apache-2.0 */
/* Metadata with several addresses: one that refuses, one that answers nothing, and one where a
 * stranger is do not keep a CONNECT from the right one. */
#include "control_rig.h"

#define FILL 4

static int bound(const char *host, uint16_t port)
{
	struct sockaddr_in in = rig_loopback(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	CHECK_EQ(inet_pton(AF_INET, host, &in.sin_addr), 1);
	if (bind(fd, (struct sockaddr *)&in, sizeof(in)))
		SKIP("this machine has no second loopback address, or it is taken");
	return fd;
}

/* A listener whose queue is full: the next connection gets no answer at all. */
static int swallowing(const char *host, uint16_t port, int fill[FILL])
{
	struct sockaddr_in in = rig_loopback(port);
	int fd = bound(host, port), i;

	CHECK_EQ(listen(fd, 0), 0);
	CHECK_EQ(inet_pton(AF_INET, host, &in.sin_addr), 1);
	for (i = 0; i < FILL; i++) {
		fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		(void)connect(fill[i], (struct sockaddr *)&in, sizeof(in));
	}
	return fd;
}

/* The blob of b with another host before its own. */
static uint32_t with_host(const struct side *b, const char *host, uint8_t *blob)
{
	struct metadata m;

	CHECK_EQ(metadata_get(b->blob, b->blob_len, &m), 0);
	m.hosts[1] = m.hosts[0];
	m.hosts[0].family = 4;
	CHECK_EQ(inet_pton(AF_INET, host, m.hosts[0].addr), 1);
	m.nhosts = 2;
	return metadata_put(blob, &m);
}

static void connects(struct side *a, const struct side *b, const char *host)
{
	uint8_t blob[METADATA_MAX];
	struct urccl_cqe cqe;

	side_connect(a, blob, with_host(b, host, blob), 0, 2);
	cqe = side_next(a);
	CHECK_EQ(cqe.user_data, 2);
	CHECK_EQ(cqe.res, 0);
	side_hang_up(a, (uint32_t)cqe.handle, 3);
	CHECK_EQ(side_end_of(a, 3), 0);
}

/* Another context at the first address is not the one that is meant. */
static void another_context(struct side *a, const struct side *b)
{
	struct urccl_params p = rig_params();
	struct side other;
	char listen[32];

	snprintf(listen, sizeof(listen), "127.0.0.4:%u", b->port);
	p.listen = listen;
	side_open(&other, &p);
	connects(a, b, "127.0.0.4");
	side_close(&other);
}

int case_control_hosts(void)
{
	struct urccl_params p = rig_params();
	struct side a, b;
	int swallow, fill[FILL], refuses, i;

	side_open(&a, &p);
	side_open(&b, &p);
	side_accept(&b, 1);
	refuses = bound("127.0.0.2", b.port);
	swallow = swallowing("127.0.0.3", b.port, fill);
	connects(&a, &b, "127.0.0.2");
	connects(&a, &b, "127.0.0.3");
	another_context(&a, &b);
	for (i = 0; i < FILL; i++)
		close(fill[i]);
	close(swallow);
	close(refuses);
	side_close(&a);
	side_close(&b);
	return 0;
}
