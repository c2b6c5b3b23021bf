/* SPDX-License-Identifier: Apache-2.0 */
/* With the environment as it is some providers of libfabric would touch memory that is in other use
 * or lose the order of their packets: they are refused, by a word that names the variable. */
#include <stdlib.h>
#include <liburccl.h>
#include "test.h"

static int open_one(const char *transport)
{
	struct urccl_params params = {.size = sizeof(params)};
	struct urccl *ctx;
	int res;

	urccl_params_init(&params);
	params.transport = transport;
	res = urccl_open(&params, &ctx);
	if (!res)
		urccl_close(ctx);
	return res;
}

static void check_one(const char *transport, const char *name, const char *bad, const char *good)
{
	CHECK_EQ(setenv(name, good, 1), 0);
	if (open_one(transport))
		SKIP(urccl_errmsg());
	CHECK_EQ(setenv(name, bad, 1), 0);
	CHECK_EQ(open_one(transport), -EOPNOTSUPP);
	CHECK(strstr(urccl_errmsg(), name));
	CHECK_EQ(unsetenv(name), 0);
}

int main(void)
{
	check_one("fabric:shm", "FI_SHM_DISABLE_CMA", "0", "1");
	check_one("fabric:udp;ofi_rxd", "FI_OFI_RXD_MAX_UNACKED", "64", "128");
	CHECK_EQ(open_one("fabric:udp;ofi_rxd"), 0);
	CHECK_EQ(open_one("fabric:shm"), -EOPNOTSUPP);
	return 0;
}
