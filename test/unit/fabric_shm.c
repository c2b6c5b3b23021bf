/* SPDX-License-Identifier: Apache-2.0 */
/* Provider efa is told to leave shared memory alone; where it knows no such option, and may go by
 * it, it is refused. Any other provider may not know the option. */
#include "backend/fabric/pick.h"
#include "test.h"

static int answer, asked;

static int setopt(struct fid *fid, int level, int name, const void *value, size_t len)
{
	(void)fid, (void)len;
	CHECK_EQ(level, FI_OPT_ENDPOINT);
	CHECK_EQ(name, 11);
	CHECK(!*(const uint8_t *)value);
	asked++;
	return answer;
}

static int forbid(uint32_t has_shm, int says)
{
	struct fi_ops_ep ops = {.size = sizeof(ops), .setopt = setopt};
	struct fid_ep ep = {.ops = &ops};
	struct fabric_device d = {.has_shm = has_shm, .lib = {.version = FI_VERSION(1, 17)}};
	int err;

	answer = says;
	asked = 0;
	err = fabric_shm_forbid(&d, &ep);
	CHECK_EQ(asked, 1);
	return err;
}

int case_fabric_shm(void)
{
	CHECK_EQ(forbid(0, 0), 0);
	CHECK_EQ(forbid(0, -FI_ENOPROTOOPT), 0);
	CHECK_EQ(forbid(1, 0), 0);
	CHECK_EQ(forbid(1, -FI_ENOPROTOOPT), -EOPNOTSUPP);
	CHECK(strstr(urccl_errmsg(), "FI_EFA_ENABLE_SHM_TRANSFER=0"));
	return 0;
}
