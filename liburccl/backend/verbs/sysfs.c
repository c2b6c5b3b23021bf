/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a port's table of GIDs from /sys. */
#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>

#include "backend/verbs/gid.h"

/* Reads the first line of a file of the port, without the newline. 0 or -errno. */
static int read_port(const char *dir, const char *what, uint32_t index, char *to, size_t size)
{
	char path[512];

	if (snprintf(path, sizeof(path), "%s/%s/%u", dir, what, index) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	return file_line(path, to, size);
}

static uint8_t type_of(const char *text)
{
	if (!strcmp(text, "RoCE v2"))
		return GID_TYPE_ROCE_V2;
	return strstr(text, "RoCE") ? GID_TYPE_ROCE_V1 : GID_TYPE_IB;
}

/* Unused rows hold zeroes, and reading their attributes fails with EINVAL. */
static int read_row(const char *dir, uint32_t index, struct gid_entry *e)
{
	static const uint8_t zero[GID_BYTES];
	char text[64];
	int err = read_port(dir, "gids", index, text, sizeof(text));

	*e = (struct gid_entry){.index = index};
	if (err)
		return err;
	if (inet_pton(AF_INET6, text, e->gid) != 1)
		return -EPROTO;
	if (!memcmp(e->gid, zero, GID_BYTES))
		return 0;
	if (!read_port(dir, "gid_attrs/types", index, text, sizeof(text)))
		e->type = type_of(text);
	if (!read_port(dir, "gid_attrs/ndevs", index, text, sizeof(text)))
		e->ifindex = if_nametoindex(text);
	return 1;
}

int gid_table_read(const char *root, const char *device, uint32_t port,
		   struct gid_entry out[GIDS_MAX])
{
	char dir[256];
	uint32_t index, n = 0;
	int row = 0;

	if (snprintf(dir, sizeof(dir), "%s/%s/ports/%u", root, device, port) >= (int)sizeof(dir))
		return -ENAMETOOLONG;
	for (index = 0; index < GIDS_MAX; index++) {
		row = read_row(dir, index, &out[n]);
		if (row < 0)
			break;
		n += (uint32_t)row;
	}
	return index ? (int)n : row;
}
