/* SPDX-License-Identifier: Apache-2.0 */
/* The io_uring driver of a library that was built without liburing: opening it fails. */
#include "backend/tcp/tcp.h"

static int none_open(struct tcp_device *d)
{
	(void)d;
	return fail(-EOPNOTSUPP, "tcp_driver io_uring: this library was built without liburing 2.3 "
				 "(Debian: liburing-dev); use tcp_driver readiness");
}

const struct tcp_driver tcp_uring = {.open = none_open};
