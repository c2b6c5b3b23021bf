/* SPDX-License-Identifier: Apache-2.0 */
/* A host that has link-local addresses of IPv6 alone: its metadata has no scope, as that is the
 * dialler's own, so the address is tried on each interface of the dialler that has such addresses,
 * or on those of socket_ifname; without any CONNECT fails and names the network. */
#include "meet.h"
#include "ns.h"

static struct pair p;

static void run(const char *command)
{
	CHECK_EQ(system(command), 0);
}

static int meets(const void *target, uint32_t len)
{
	struct urccl_cqe cqe;

	side_open(&p, &p.a);
	side_dial(&p.a, target, len, 20000000, 1);
	cqe = side_end(&p.a, &p.b, 1);
	if (cqe.res == -EHOSTUNREACH)
		check_sentence(&p.a, &cqe, "ENETUNREACH");
	if (!cqe.res)
		CHECK_EQ(side_tell(&p.a, &p.b, (uint32_t)cqe.handle, 7), 0);
	side_close(&p.a);
	return (int)cqe.res;
}

static void accepts(void)
{
	uint32_t i;

	for (i = 0; i < 4; i++)
		side_accept(&p.b, 10 + i);
	side_watch(&p.b, (struct urccl_peer){0}, 20);
}

int main(int argc, char **argv)
{
	uint8_t blob[URCCL_METADATA_MAX];
	char text[PLACE_MAX];
	int len;

	if (ns_enter(CLONE_NEWNET, 1))
		SKIP("no network namespace may be made here");
	if (system("{ ip link add near0 type veth peer name near1 && "
		   "ip link add far0 type veth peer name far1; } 2>/dev/null"))
		SKIP("no interfaces can be made here");
	run("for i in lo near0 near1 far0 far1; do ip link set $i up; done; "
	    "for i in near0 near1 far0 far1; do ip -6 addr flush dev $i; done; "
	    "ip addr add fe80::7/64 dev near0 nodad; ip addr add fe80::8/64 dev far0 nodad");
	pair_options(&p, argc, argv);
	p.params.listen = "[fe80::7%near0]:0";
	side_open(&p, &p.b);
	accepts();
	len = urccl_metadata(p.b.ctx, blob, sizeof(blob));
	CHECK_GE(len, 1);
	CHECK_GE(urccl_listening(p.b.ctx, 0, text, sizeof(text)), 1);
	CHECK_SAYS(text, "%");
	p.params.listen = "";
	CHECK_EQ(meets(text, (uint32_t)strlen(text)), 0);
	CHECK_EQ(meets(blob, (uint32_t)len), 0);
	p.params.socket_ifname = "near0";
	CHECK_EQ(meets(blob, (uint32_t)len), 0);
	p.params.socket_ifname = "none0";
	CHECK_EQ(meets(blob, (uint32_t)len), -EHOSTUNREACH);
	side_close(&p.b);
	return 0;
}
