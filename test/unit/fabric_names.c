/* SPDX-License-Identifier: Apache-2.0 */
/* Names of provider shm that a process of this number left in /dev/shm are passed over. It is the
 * same program that left them here, when it became another by exec(). */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <liburccl.h>
#include "test.h"

#define NAMES 16u

static const char *name_of(uint32_t i, char *buf, size_t len)
{
	snprintf(buf, len, "/dev/shm/%d:%u:%u", (int)getpid(), getuid(), i);
	return buf;
}

/* How many there are. */
static uint32_t names_there(void)
{
	uint32_t i, n = 0;
	char name[64];

	for (i = 0; i < NAMES; i++)
		n += !access(name_of(i, name, sizeof(name)), F_OK);
	return n;
}

static void names_remove(void)
{
	uint32_t i;
	char name[64];

	for (i = 0; i < NAMES; i++)
		unlink(name_of(i, name, sizeof(name)));
}

int main(int argc, char **argv)
{
	uint32_t before = names_there();
	struct urccl_params params = {.size = sizeof(params)};
	struct urccl *ctx;
	int res;

	CHECK_EQ(setenv("FI_SHM_DISABLE_CMA", "1", 1), 0);
	urccl_params_init(&params);
	params.transport = "fabric:shm";
	res = urccl_open(&params, &ctx);
	if (res == -EOPNOTSUPP || res == -ENOSYS || res == -ENODEV || res == -ELIBACC ||
	    res == -ENODATA)
		SKIP(urccl_errmsg());
	if (res)
		fprintf(stderr, "%s\n", urccl_errmsg());
	CHECK_EQ(res, 0);
	if (argc == 1) {
		CHECK(names_there());
		execl("/proc/self/exe", argv[0], "again", NULL);
		CHECK(!"it is another program");
	}
	CHECK(before);
	urccl_close(ctx);
	names_remove();
	return 0;
}
