/* SPDX-License-Identifier: Apache-2.0 */
/* A library built without liburing refuses tcp_driver io_uring with a sentence that says so. */
#define tcp_uring tcp_uring_of_a_build_without
#include "backend/tcp/uring_none.c"
#include "test.h"

int case_tcp_uring_none(void)
{
	CHECK_EQ(tcp_uring.open(NULL), -EOPNOTSUPP);
	CHECK(strstr(urccl_errmsg(), "tcp_driver io_uring"));
	CHECK(strstr(urccl_errmsg(), "built without liburing"));
	return 0;
}
