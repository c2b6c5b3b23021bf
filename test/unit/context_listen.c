/* SPDX-License-Identifier: Apache-2.0 */
/* Nobody but this machine reaches a context that was told nothing of where to listen: its
 * listener, for peers and for their data, is on loopback. */
#include <netinet/in.h>
#include <sys/socket.h>

#include <liburccl.h>
#include "test.h"

#define FDS 1024 /* more than are open */

/* Those of any internet family. */
static int listeners(void)
{
	struct sockaddr_in at;
	int fd, listens, n = 0;
	socklen_t len;

	for (fd = 0; fd < FDS; fd++) {
		len = sizeof(listens);
		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) || !listens)
			continue;
		len = sizeof(at);
		CHECK_EQ(getsockname(fd, (struct sockaddr *)&at, &len), 0);
		if (at.sin_family == AF_UNIX)
			continue;
		CHECK_EQ(at.sin_family, AF_INET);
		CHECK_EQ(ntohl(at.sin_addr.s_addr), INADDR_LOOPBACK);
		n++;
	}
	return n;
}

int case_context_listen(void)
{
	struct urccl *ctx;
	int before = listeners();

	CHECK_EQ(urccl_open(NULL, &ctx), 0);
	CHECK_EQ(listeners(), before + 1);
	urccl_close(ctx);
	CHECK_EQ(listeners(), before);
	return 0;
}
