/* SPDX-License-Identifier: Apache-2.0 */
/* A setting of one transport alone asks for that transport: where it cannot be had opening fails
 * and says why, instead of going on without. */
#include <errno.h>
#include <string.h>
#include <liburccl.h>
#include "test.h"

static struct urccl_params fresh(void)
{
	struct urccl_params p = {.size = sizeof(p)};

	urccl_params_init(&p);
	return p;
}

static void refused(const struct urccl_params *p, int expected, const char *part)
{
	struct urccl *ctx = NULL;

	CHECK_EQ(urccl_open(p, &ctx), expected);
	CHECK(!ctx);
	CHECK(strstr(urccl_errmsg(), part));
}

int main(void)
{
	struct urccl_params p = fresh();

	p.tcp_congestion = "no such thing";
	refused(&p, -ENOENT, "no such thing");
	p = fresh();
	p.socket_dir = "/no/such/folder";
	refused(&p, -ENOENT, "/no/such/folder");
	p.transport = "shm";
	refused(&p, -ENOENT, "/no/such/folder");
	return 0;
}
