/* SPDX-License-Identifier: Apache-2.0 */
/* Metadata: damaged it is refused at once; of a context that is gone, with another in its place, it
 * is stale; and a context that listens on every address can be dialled by it. */
#include "control_rig.h"

static void damaged(struct side *a, const struct side *b)
{
	uint8_t blob[URCCL_METADATA_MAX];
	uint32_t i;

	/* A first byte that is not 0 makes it text, and no good one. */
	for (i = 0; i < b->blob_len; i++) {
		memcpy(blob, b->blob, b->blob_len);
		blob[i] ^= 0x20;
		side_cannot_connect(a, blob, b->blob_len, -EINVAL, "metadata");
	}
	for (i = 1; i < b->blob_len; i++)
		side_cannot_connect(a, b->blob, i, -EINVAL, "metadata");
}

/* Whole, and of a version to come. */
static void unknown(struct side *a, const struct side *b)
{
	static const uint8_t key[16];
	uint8_t blob[URCCL_METADATA_MAX], check[16];
	uint32_t len = b->blob_len - 8;

	memcpy(blob, b->blob, len);
	blob[1] = METADATA_VERSION + 6;
	siphash128(key, blob, len, check);
	memcpy(blob + len, check, 8);
	side_cannot_connect(a, blob, b->blob_len, -EPROTONOSUPPORT,
			    "version 7, and this library reads version 1");
}

static void stale(struct side *a, struct urccl_params *p)
{
	struct side first, second;
	char listen[32];
	uint16_t port;
	int fd = rig_port(&port);

	snprintf(listen, sizeof(listen), "127.0.0.1:%u", port);
	p->listen = listen;
	side_open(&first, p);
	side_close(&first);
	side_open(&second, p);
	p->listen = NULL;
	side_cannot_connect(a, first.blob, first.blob_len, -ESTALE, "another incarnation");
	/* By address there is somebody. */
	side_accept(&second, 1);
	side_connect(a, listen, (uint32_t)strlen(listen), 0, 2);
	CHECK_EQ(side_end_of(a, 2), 0);
	side_close(&second);
	close(fd);
}

static void listens(struct urccl_params *p, const char *listen)
{
	struct side a, b;
	struct metadata m;
	uint32_t ab, ba;

	p->listen = listen;
	side_open(&b, p);
	p->listen = "";
	side_open(&a, p);
	p->listen = NULL;
	CHECK_EQ(metadata_get(b.blob, b.blob_len, &m), 0);
	CHECK(m.nhosts >= 1);
	sides_connect(&a, &b, &ab, &ba);
	CHECK_EQ(urccl_metadata(a.ctx, a.blob, sizeof(a.blob)), -EOPNOTSUPP);
	CHECK(strstr(urccl_errmsg(), "listen"));
	side_close(&a);
	side_close(&b);
}

static int has_ipv6(void)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return 0;
	rc = bind(fd, (struct sockaddr *)&in6, sizeof(in6));
	close(fd);
	return !rc;
}

int case_control_metadata(void)
{
	struct urccl_params p = rig_params();
	uint8_t small[8];
	struct side a, b;

	side_open(&a, &p);
	side_open(&b, &p);
	CHECK_EQ(urccl_metadata(a.ctx, small, sizeof(small)), -ENOSPC);
	unknown(&a, &b);
	damaged(&a, &b);
	unknown(&a, &b);
	stale(&a, &p);
	listens(&p, "0.0.0.0:0");
	if (has_ipv6()) {
		listens(&p, "[::1]:0");
		listens(&p, "[::]:0");
	}
	side_close(&a);
	side_close(&b);
	return 0;
}
