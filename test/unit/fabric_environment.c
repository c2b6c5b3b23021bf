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

/* 1: it opens, with this value; 0: this libfabric has no such provider. */
static int is_there(const char *transport, const char *name, const char *good)
{
	int res;

	CHECK_EQ(setenv(name, good, 1), 0);
	res = open_one(transport);
	if (res)
		CHECK(!strstr(urccl_errmsg(), name));
	return !res;
}

static void check_refused(const char *transport, const char *name, const char *bad)
{
	CHECK_EQ(setenv(name, bad, 1), 0);
	CHECK_EQ(open_one(transport), -EOPNOTSUPP);
	CHECK(strstr(urccl_errmsg(), name));
}

int case_fabric_environment(void)
{
	static const char cma[] = "FI_SHM_DISABLE_CMA", window[] = "FI_OFI_RXD_MAX_UNACKED";
	int shm = is_there("fabric:shm", cma, "1"), udp = is_there("fabric:udp;ofi_rxd", window, "128");

	if (shm) {
		check_refused("fabric:shm", cma, "0");
		CHECK_EQ(unsetenv(cma), 0);
		CHECK_EQ(open_one("fabric:shm"), -EOPNOTSUPP);
	}
	if (udp) {
		check_refused("fabric:udp;ofi_rxd", window, "127");
		check_refused("fabric:udp;ofi_rxd", window, "65536");
		check_refused("fabric:udp;ofi_rxd", window, "many");
		CHECK_EQ(unsetenv(window), 0);
		CHECK_EQ(open_one("fabric:udp;ofi_rxd"), 0);
	}
	if (!shm && !udp)
		SKIP("this libfabric has neither provider shm nor udp;ofi_rxd");
	if (!shm || !udp)
		SKIP(shm ? "this libfabric has no provider udp;ofi_rxd" : "it has no provider shm");
	return 0;
}
