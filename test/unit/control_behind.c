/* SPDX-License-Identifier: Apache-2.0 */
/* One that is dialled by a second name when it has answered the first and is not up yet: both
 * CONNECTs have the same peer, and there was one connection. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "control_rig.h"

static uint32_t refused; /* atomic: by b, whose control thread counts */

static void hear(void *arg, int level, const char *text)
{
	(void)arg, (void)level;
	if (strstr(text, "refused "))
		__atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
}

static int is_connecting(struct side *s)
{
	int fd = memfd_create("dump", MFD_CLOEXEC), is;
	char text[65536];
	ssize_t n;

	CHECK_GE(fd, 0);
	CHECK_EQ(urccl_dump(s->ctx, fd), 0);
	n = pread(fd, text, sizeof(text) - 1, 0);
	CHECK_GE(n, 1);
	text[n] = 0;
	is = strstr(text, ", connecting, ") != NULL;
	close(fd);
	return is;
}

static void dial(struct side *s, const char *to, uint64_t data)
{
	side_connect(s, to, (uint32_t)strlen(to), 0, data);
}

int case_control_behind(void)
{
	struct urccl_params p = rig_params();
	char second[64], nobody[32];
	struct urccl_cqe first, cqe;
	struct side a, b;
	uint16_t port;
	int fd = rig_port(&port);

	alarm(60);
	side_open(&a, &p);
	p.log = hear;
	p.log_level = URCCL_LOG_DEBUG;
	side_open(&b, &p);
	dial(&a, b.text, 1);
	while (!is_connecting(&a))
		;
	/* The end of what is dialled last says that all before it was begun. */
	snprintf(second, sizeof(second), "[::ffff:127.0.0.1]:%u", b.port);
	snprintf(nobody, sizeof(nobody), "127.0.0.1:%u", port);
	dial(&a, second, 1);
	dial(&a, nobody, 2);
	CHECK_EQ(side_end_of(&a, 2), -ECONNREFUSED);
	side_accept(&b, 3);
	first = side_next(&a);
	cqe = side_next(&a);
	CHECK_EQ(first.res, 0);
	CHECK_EQ(cqe.res, 0);
	CHECK_EQ(cqe.handle, first.handle);
	CHECK_EQ(__atomic_load_n(&refused, __ATOMIC_RELAXED), 0);
	side_close(&a);
	side_close(&b);
	close(fd);
	return 0;
}
