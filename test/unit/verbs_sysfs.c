/* SPDX-License-Identifier: Apache-2.0 */
/* A port's table of GIDs is read from files as the kernel writes them: empty rows are left out, a
 * row whose attributes cannot be read is kept without them. */
#include <arpa/inet.h>
#include <net/if.h>
#include <sys/stat.h>
#include "backend/verbs/gid.h"
#include "test.h"

#define ZERO "0000:0000:0000:0000:0000:0000:0000:0000\n"

static char root[] = "/tmp/urccl-gids-XXXXXX";

static void make_dirs(void)
{
	static const char *const dirs[] = {"mlx5_0",
					   "mlx5_0/ports",
					   "mlx5_0/ports/1",
					   "mlx5_0/ports/1/gids",
					   "mlx5_0/ports/1/gid_attrs",
					   "mlx5_0/ports/1/gid_attrs/types",
					   "mlx5_0/ports/1/gid_attrs/ndevs"};
	char path[256];
	uint32_t i;

	CHECK(mkdtemp(root));
	for (i = 0; i < ARRAY_SIZE(dirs); i++) {
		snprintf(path, sizeof(path), "%s/%s", root, dirs[i]);
		CHECK_EQ(mkdir(path, 0700), 0);
	}
}

static void put(const char *what, uint32_t index, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/mlx5_0/ports/1/%s/%u", root, what, index);
	f = fopen(path, "w");
	CHECK(f);
	CHECK_GE(fputs(text, f), 0);
	CHECK_EQ(fclose(f), 0);
}

static void check_row(const struct gid_entry *e, uint32_t index, uint8_t type, uint32_t ifindex,
		      const char *gid)
{
	uint8_t bytes[GID_BYTES];

	CHECK_EQ(inet_pton(AF_INET6, gid, bytes), 1);
	CHECK(!memcmp(e->gid, bytes, GID_BYTES));
	CHECK_EQ(e->index, index);
	CHECK_EQ(e->type, type);
	CHECK_EQ(e->ifindex, ifindex);
}

static void remove_all(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", root);
	CHECK_EQ(system(command), 0);
}

int case_verbs_sysfs(void)
{
	static struct gid_entry rows[GIDS_MAX];
	uint32_t lo = if_nametoindex("lo");

	make_dirs();
	CHECK_EQ(gid_table_read(root, "mlx5_0", 1, rows), -ENOENT);
	put("gids", 0, "fe80:0000:0000:0000:a288:c2ff:fe5b:03ec\n");
	put("gid_attrs/types", 0, "IB/RoCE v1\n");
	put("gid_attrs/ndevs", 0, "lo\n");
	put("gids", 1, ZERO);
	put("gids", 2, "0000:0000:0000:0000:0000:ffff:0b00:0048\n");
	put("gid_attrs/types", 2, "RoCE v2\n");
	put("gid_attrs/ndevs", 2, "lo\n");
	put("gids", 3, "fe80:0000:0000:0006:b859:9f03:00db:f884\n");
	put("gids", 5, "fe80:0000:0000:0006:b859:9f03:00db:f885\n");

	CHECK_EQ(gid_table_read(root, "mlx5_0", 1, rows), 3);
	check_row(&rows[0], 0, GID_TYPE_ROCE_V1, lo, "fe80::a288:c2ff:fe5b:3ec");
	check_row(&rows[1], 2, GID_TYPE_ROCE_V2, lo, "::ffff:11.0.0.72");
	check_row(&rows[2], 3, GID_TYPE_IB, 0, "fe80:0:0:6:b859:9f03:db:f884");

	put("gids", 4, "no address\n");
	CHECK_EQ(gid_table_read(root, "mlx5_0", 1, rows), 3);
	CHECK_EQ(gid_table_read(root, "mlx5_1", 1, rows), -ENOENT);
	CHECK_EQ(gid_table_read(root, "mlx5_0", 2, rows), -ENOENT);
	remove_all();
	return 0;
}
