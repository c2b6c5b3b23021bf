/* SPDX-License-Identifier: Apache-2.0 */
/* A setting of one transport alone asks for that transport: where it cannot be had opening fails
 * and says why, instead of going on without. */
#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include "setting.h"
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

/* Without what it takes to give a socket a priority above 6: 0, or this kernel gives it all the
 * same. */
static int unprivileged(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), seven = 7, err;
	struct __user_cap_data_struct cap[2];

	CHECK(fd >= 0);
	CHECK_EQ(syscall(SYS_capget, &head, cap), 0);
	cap[0].effective &= ~(1u << CAP_NET_ADMIN | 1u << CAP_NET_RAW);
	CHECK_EQ(syscall(SYS_capset, &head, cap), 0);
	err = setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &seven, sizeof(seven));
	close(fd);
	return err ? 0 : -1;
}

/* A name says whose a setting is. */
static void every_setting(void)
{
	uint32_t i, n = 0;

	for (i = 0; i < settings_count; i++) {
		if (strncmp(settings_table[i].name, "tcp_", 4))
			continue;
		CHECK_EQ(settings_table[i].asks_for, URCCL_TRANSPORT_TCP);
		n++;
	}
	CHECK_GE(n, 5);
}

int case_context_asked(void)
{
	struct urccl_params p = fresh();

	p.tcp_congestion = "no such thing";
	refused(&p, -ENOENT, "no such thing");
	p = fresh();
	p.socket_dir = "/no/such/folder";
	refused(&p, -ENOENT, "/no/such/folder");
	p.transport = "shm";
	refused(&p, -ENOENT, "/no/such/folder");
	every_setting();
	p = fresh();
	p.tcp_priority[URCCL_CLASS_BULK] = 7;
	if (unprivileged())
		SKIP("this kernel gives a socket any priority, whoever asks");
	refused(&p, -EPERM, "tcp_priority 7 of class bulk");
	return 0;
}
