/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon opens its contexts with a relative socket_dir and then goes to another directory: its
 * peers still meet over shm. A directory that is gone has no path, and open says so. */
#include <sys/stat.h>
#include "meet.h"

static struct pair p;

static void finds(void)
{
	uint8_t blob[URCCL_METADATA_MAX];
	struct urccl_cqe cqe;
	int len;

	side_open(&p, &p.a);
	side_open(&p, &p.b);
	side_accept(&p.b, 1);
	CHECK_EQ(chdir("/"), 0);
	len = urccl_metadata(p.b.ctx, blob, sizeof(blob));
	CHECK_GE(len, 1);
	cqe = side_dialled(&p.a, &p.b, blob, (uint32_t)len, 20000000);
	CHECK_EQ(cqe.res, 0);
	side_close(&p.a);
	side_close(&p.b);
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/urccl-paths-XXXXXX", gone[64];
	struct urccl *ctx;

	pair_options(&p, argc, argv);
	CHECK(mkdtemp(dir));
	CHECK_EQ(chdir(dir), 0);
	CHECK_EQ(mkdir("sockets", 0700), 0);
	p.params.socket_dir = "sockets";
	finds();
	snprintf(gone, sizeof(gone), "%s/sockets", dir);
	CHECK_EQ(chdir(gone), 0);
	CHECK_EQ(rmdir(gone), 0);
	CHECK_EQ(urccl_open(&p.params, &ctx), -ENOENT);
	CHECK_SAYS(urccl_errmsg(), "socket_dir \"sockets\"");
	CHECK_EQ(rmdir(dir), 0);
	return 0;
}
