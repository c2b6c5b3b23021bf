/* SPDX-License-Identifier: Apache-2.0 */
/* A Kubernetes Service that is called urccl, or urccl-kv, leaves its addresses in the environment
 * of every pod: they are nobody's settings. What only looks like that is still refused, and a
 * setting's own name is never passed over. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <liburccl.h>
#include "test.h"

static int reads(void)
{
	struct urccl_params p = {.size = sizeof(p)};

	urccl_params_init(&p);
	return urccl_params_from_env(&p);
}

static void passed_over(void)
{
	static const char *const given[][2] = {
		{"URCCL_SERVICE_HOST", "10.96.0.17"},
		{"URCCL_SERVICE_PORT", "7777"},
		{"URCCL_SERVICE_PORT_DIAL", "7777"},
		{"URCCL_PORT", "tcp://10.96.0.17:7777"},
		{"URCCL_PORT_7777_TCP", "tcp://10.96.0.17:7777"},
		{"URCCL_PORT_7777_TCP_PROTO", "tcp"},
		{"URCCL_PORT_7777_TCP_PORT", "7777"},
		{"URCCL_PORT_7777_TCP_ADDR", "10.96.0.17"},
		{"URCCL_KV_SERVICE_HOST", "fd00::11"},
		{"URCCL_KV_SERVICE_PORT", "53"},
		{"URCCL_KV_PORT", "udp://[fd00::11]:53"},
		{"URCCL_KV_PORT_53_UDP", "udp://[fd00::11]:53"},
		{"URCCL_KV_PORT_53_UDP_ADDR", "fd00::11"},
		{"URCCL_KV_PORT_9_SCTP_PROTO", "sctp"},
	};
	uint32_t i;

	for (i = 0; i < sizeof(given) / sizeof(*given); i++) {
		setenv(given[i][0], given[i][1], 1);
		CHECK_EQ(reads(), 0);
	}
	clearenv();
}

static void refused(const char *name, const char *value)
{
	setenv(name, value, 1);
	CHECK_EQ(reads(), -EINVAL);
	CHECK(strstr(urccl_errmsg(), name));
	clearenv();
}

int case_env_service(void)
{
	clearenv();
	passed_over();
	refused("URCCL_PORT", "7777");
	refused("URCCL_TCP_PORT", "");
	refused("URCCL_PORT_TCP", "7777");
	refused("URCCL_SERVICE", "x");
	refused("URCCL_HOST", "10.96.0.17");
	/* Of a Service called urccl-rdma, and a setting. */
	refused("URCCL_RDMA_PORT", "tcp://10.96.0.17:7777");
	return 0;
}
