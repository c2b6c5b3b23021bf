/* SPDX-License-Identifier: Apache-2.0 */
/* Towards whom a required transport reaches: shm whoever is on this machine, any other everybody;
 * who does not say where it is counts as elsewhere. */
#include "control/private.h"
#include "test.h"

#define HERE 0x1234u

static struct control c;
static struct device shm = {.ops = &backend_shm}, tcp = {.ops = &backend_tcp};
static struct device *devices[] = {&shm, &tcp};

static void requires(uint64_t transports, uint32_t host, uint32_t transport)
{
	c.config.required = transports;
	CHECK_EQ(policy_required(&c, host), transport);
	CHECK_EQ(policy_allows(&c, host, URCCL_TRANSPORT_SHM),
		 !transport || transport == URCCL_TRANSPORT_SHM);
	CHECK_EQ(policy_allows(&c, host, URCCL_TRANSPORT_TCP),
		 !transport || transport == URCCL_TRANSPORT_TCP);
}

int case_policy(void)
{
	uint64_t by_shm = 1ull << URCCL_TRANSPORT_SHM, by_tcp = 1ull << URCCL_TRANSPORT_TCP;

	c.config.devices = devices;
	c.config.ndevices = 2;
	c.host = HERE;
	requires(0, HERE, 0);
	requires(by_shm, HERE, URCCL_TRANSPORT_SHM);
	requires(by_shm, HERE + 1, 0);
	requires(by_shm, 0, 0);
	requires(by_tcp, HERE, URCCL_TRANSPORT_TCP);
	requires(by_tcp, 0, URCCL_TRANSPORT_TCP);
	/* The first of the list that reaches. */
	requires(by_shm | by_tcp, HERE, URCCL_TRANSPORT_SHM);
	requires(by_shm | by_tcp, HERE + 1, URCCL_TRANSPORT_TCP);
	/* A machine that does not know itself knows nobody else to be on it. */
	c.host = 0;
	requires(by_shm, 0, 0);
	CHECK_EQ(host_id(), host_id());
	return 0;
}
