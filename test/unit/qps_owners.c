/* SPDX-License-Identifier: Apache-2.0 */
/* A context may have fewer queue pairs (max_qps) than one peer needs: the only peer that has some
 * keeps them, also beside one that is reached otherwise; beside another that has some one of the
 * two lets its data path go, and never who has none. Transport sim has queue pairs here. */
#include "backend/backend.h"
#include "control_rig.h"

#define EACH	3u
#define KEEP_NS (500 * NSEC_PER_MSEC) /* who were to go would be asked at once */

extern const struct backend __real_backend_sim;
extern struct backend __wrap_backend_sim;

static uint32_t closed;

static int has_queue_pairs(const struct device_config *config, struct device **dev)
{
	int rc = __real_backend_sim.open(config, dev);

	if (!rc)
		(*dev)->ops = &__wrap_backend_sim;
	return rc;
}

/* Of the hub. */
static void told(void *arg, int level, const char *text)
{
	(void)arg, (void)level;
	if (!strstr(text, "its data path is closed"))
		return;
	__atomic_add_fetch(&closed, 1, __ATOMIC_SEQ_CST);
	futex_wake(&closed);
}

static int is_warm(struct side *s, uint32_t peer)
{
	struct urccl_peer_info info = {.size = sizeof(info)};

	CHECK_EQ(urccl_get_peer_info(s->ctx, (struct urccl_peer){peer}, &info), 0);
	CHECK_EQ(info.state, URCCL_PEER_UP);
	return (int)info.warm;
}

/* 0: none let its path go for so long. */
static uint32_t one_went(uint64_t ns)
{
	uint64_t until = clock_ns() + ns;

	while (!load_acquire(&closed) && clock_ns() < until)
		futex_wait(&closed, 0, until - clock_ns());
	return load_acquire(&closed);
}

int case_qps_owners(void)
{
	struct urccl_params p = rig_params();
	struct side hub, paired, another, other;
	struct urccl_sim *sim;
	uint32_t unused, a, b, c;

	__wrap_backend_sim = __real_backend_sim;
	__wrap_backend_sim.open = has_queue_pairs;
	__wrap_backend_sim.qps = EACH;
	CHECK_EQ(urccl_sim_open("", &sim), 0);
	p.sim_network = sim;
	p.transport = "sim,tcp";
	p.max_qps = EACH - 1;
	p.log = told;
	p.log_level = URCCL_LOG_INFO;
	side_open(&hub, &p);
	p.max_qps = 0;
	p.log = NULL;
	p.transport = "sim";
	side_open(&paired, &p);
	side_open(&another, &p);
	p = rig_params();
	side_open(&other, &p);

	sides_connect(&hub, &paired, &a, &unused);
	sides_connect(&hub, &other, &b, &unused);
	CHECK(!one_went(KEEP_NS));
	CHECK(is_warm(&hub, a) && is_warm(&hub, b));
	sides_connect(&hub, &another, &c, &unused);
	CHECK_EQ(one_went(RIG_NS), 1);
	CHECK(!is_warm(&hub, a) != !is_warm(&hub, c));
	CHECK(is_warm(&hub, b));

	side_close(&other);
	side_close(&another);
	side_close(&paired);
	side_close(&hub);
	CHECK_EQ(urccl_sim_close(sim), 0);
	return 0;
}
