/* SPDX-License-Identifier: Apache-2.0 */
/* The network of the guest of test/vm: our RDMA crosses v0 to v1, our TCP c0 to c1. What is lost
 * there is counted, since a fault that did not happen proves nothing. */
#include <stdlib.h>
#include <unistd.h>
#include "faults.h"

static uint64_t carrier_losses(void)
{
	FILE *f = fopen("/sys/class/net/v0/carrier_down_count", "r");
	unsigned long long n = 0;

	CHECK(f);
	CHECK_EQ(fscanf(f, "%llu", &n), 1);
	fclose(f);
	return n;
}

const char *rails_open(void)
{
	if (!getenv("VM_GUEST"))
		return "over ib this runs in the guest of `./dev vm` alone";
	if (access("/sys/class/infiniband/rxe_v0", F_OK) || access(RAILS_PEERS, F_OK))
		return "the guest's rails and its second host are not up (test/vm/network.sh)";
	return NULL;
}

#define BATCH(devices, what) "for d in " devices "; do echo qdisc " what "; done | tc -batch -"

void rails_drop(int rxm, int on)
{
	const char *cut = "ip netns exec far tc qdisc add dev c1 root netem loss 100% & " BATCH(
		"v0 v1 c0", "add dev $d root netem loss 100%") " && wait $!";
	const char *mend = BATCH("v0 v1 c0", "del dev $d root") " && ip netns exec far tc qdisc "
								"del dev c1 root";

	if (!on)
		CHECK_EQ(net_shell("tc -s qdisc show dev v0 root | grep -q 'dropped [1-9]'"), 0);
	if (rxm) {
		cut = BATCH("v0 v1 lo", "add dev $d root netem loss 100%");
		mend = BATCH("v0 v1 lo", "del dev $d root");
	}
	/* Soon: entries are under way. */
	CHECK_EQ(net_shell(on ? cut : mend), 0);
}

void rails_link(int up)
{
	uint64_t before = carrier_losses();

	CHECK_EQ(net_shell(up ? "printf 'link set v0 up\\nlink set c0 up\\n' | ip -batch -"
			      : "printf 'link set v0 down\\nlink set c0 down\\n' | ip -batch -"),
		 0);
	if (!up)
		CHECK(carrier_losses() > before);
}
