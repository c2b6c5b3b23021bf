/* SPDX-License-Identifier: Apache-2.0 */
/* Faults that make no sense are refused with a sentence that names them, a context's own go before
 * the network's, and a network in use is not closed. */
#include "rig.h"

static void refused(const char *faults, const char *words)
{
	struct urccl_sim *sim = NULL;

	CHECK_EQ(urccl_sim_open(faults, &sim), -EINVAL);
	CHECK(!sim);
	if (!strstr(urccl_errmsg(), words))
		fprintf(stderr, "\"%s\" gives: %s\n", faults, urccl_errmsg());
	CHECK(strstr(urccl_errmsg(), words));
}

static void taken(const char *faults)
{
	struct urccl_sim *sim = NULL;

	CHECK_EQ(urccl_sim_open(faults, &sim), 0);
	CHECK(sim);
	CHECK_EQ(urccl_sim_close(sim), 0);
}

static void values(void)
{
	taken(NULL);
	taken("");
	taken("seed=18446744073709551615,clock=simulated,delay=0ns..3600s,rate=1024g,drop=100%,"
	      "resend=1us,retries=30,duplicate=0.0001%,early=0%,error=99.9999%,partial=100.0%,"
	      "freeze=1us/1us..2us,flap=1ms..1s/2s,restart=1s..2s,depth=65536");
	taken("freeze=off,flap=off,restart=off,kill=off,rate=off,clock=real");
	taken("kill=5ms..20ms/1s,rails=8,rate@0=1m,rate@7=2m,rate=3m");
	refused("rails=9", "from 1 to 8");
	refused("rate@8=1m", "rate@8: the number of a rail");
	refused("rate@=1m", "rate@: the number of a rail");
	refused("rails@0=2", "rails is of all rails");
	refused("clock@0=real", "clock is of all rails");
	refused("rate@1=1m,rate@1=2m", "rate is twice");
	refused("drop@1=1", "drop@1=1: a share");
	refused("late=1", "\"late\" is no fault");
	refused("drop", "\"drop\" is no fault");
	refused("drop=1%,", "last comma");
	refused(",drop=1%", "\"\" is no fault");
	refused(" drop=1%", "\" drop\" is no fault");
	refused("drop=1%,drop=2%", "drop is twice");
	refused("drop=1", "drop=1: a share");
	refused("drop=100.1%", "drop=100.1%: a share");
	refused("drop=1.00001%", "a share");
	refused("drop=.1%", "a share");
	refused("drop=1% ", "a share");
	refused("delay=5", "delay=5: a time or a range");
	refused("delay=5us..4us", "a time or a range");
	refused("delay=1us..", "a time or a range");
	refused("delay=3601s", "a time or a range");
	refused("delay=99999999999999999999ns", "a time or a range");
	refused("delay=18446744073709551615s", "a time or a range");
	refused("resend=999ns", "resend=999ns: a time");
	refused("freeze=5ms", "freeze=5ms: how long / how often");
	refused("flap=5ms/0s", "flap=5ms/0s: how long / how often");
	refused("restart=0s", "restart=0s: a time or a range");
	refused("clock=fast", "real or simulated");
	refused("rate=0", "bytes a second");
	refused("retries=31", "from 0 to 30");
	refused("depth=0", "from 1 to 65536");
	refused("seed=-1", "a number");
	refused("seed=18446744073709551616", "a number");
}

static void own(struct rig *rig)
{
	struct urccl_params params = {.size = sizeof(params), .sim_network = rig->sim};
	struct device_config config = {.params = &params, .index = 2};
	struct device *dev = NULL;

	params.sim = "drop=1";
	CHECK_EQ(rig->backend->open(&config, &dev), -EINVAL);
	CHECK(!dev && strstr(urccl_errmsg(), "drop=1"));
	params.sim = "clock=simulated";
	CHECK_EQ(rig->backend->open(&config, &dev), -EINVAL);
	CHECK(!dev && strstr(urccl_errmsg(), "the clock is the network's"));
	params.sim = "drop=1%";
	CHECK_EQ(rig->backend->open(&config, &dev), 0);
	rig->backend->close(dev);
	dev = NULL;
	params.sim_network = NULL;
	CHECK_EQ(rig->backend->open(&config, &dev), -EINVAL);
	CHECK(!dev && strstr(urccl_errmsg(), "sim_network"));
}

void case_sim_params(struct rig *rig)
{
	values();
	own(rig);
	CHECK_EQ(urccl_sim_close(rig->sim), -EBUSY);
	CHECK_EQ(urccl_sim_close(NULL), 0);
}
