/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters that make no sense are refused with a sentence, and a network in use is not closed. */
#include "rig.h"

struct longer {
	struct urccl_sim_params params;
	uint64_t more;
};

static void refused(const struct urccl_sim_params *p, int err)
{
	struct urccl_sim *sim = NULL;

	CHECK_EQ(urccl_sim_open(p, &sim), err);
	CHECK(!sim);
	CHECK(strlen(urccl_errmsg()) > 10);
}

static void taken(const struct urccl_sim_params *p)
{
	struct urccl_sim *sim = NULL;

	CHECK_EQ(urccl_sim_open(p, &sim), 0);
	CHECK(sim);
	CHECK_EQ(urccl_sim_close(sim), 0);
}

static void sizes(void)
{
	struct longer longer = {.params.size = sizeof(longer)};
	struct urccl_sim_params p = {.size = 0};

	refused(&p, -EINVAL);
	p.size = offsetof(struct urccl_sim_params, early_ack);
	p.error = 1u << 20; /* beyond its size: not looked at */
	taken(&p);
	taken(&longer.params);
	longer.more = 1;
	refused(&longer.params, -E2BIG);
}

static void values(void)
{
	const struct urccl_sim_params good = {.size = sizeof(good), .early_ack = 65536};
	struct urccl_sim_params p = good;

	taken(&p);
	p.early_ack = 65537;
	refused(&p, -EINVAL);
	p = good;
	p.delay_ns_min = 1;
	refused(&p, -EINVAL);
	p = good;
	p.reserved = 1;
	refused(&p, -EINVAL);
	p = good;
	p.queue_depth = UINT32_MAX;
	refused(&p, -EINVAL);
}

void case_sim_params(struct rig *rig)
{
	struct urccl_params params = {.size = sizeof(params)};
	struct device_config config = {.params = &params};
	struct device *dev = NULL;

	sizes();
	values();
	taken(NULL);
	CHECK_EQ(urccl_sim_close(rig->sim), -EBUSY);
	CHECK_EQ(urccl_sim_close(NULL), 0);
	CHECK_EQ(rig->backend->open(&config, &dev), -EINVAL);
	CHECK(!dev && strstr(urccl_errmsg(), "sim"));
}
