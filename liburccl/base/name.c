/* SPDX-License-Identifier: Apache-2.0 */
/* Names of opcodes and transports. A new opcode or transport needs a line here. */
#include "base/base.h"

static const char *const opcodes[URCCL_OP_LAST] = {
	[URCCL_OP_NOP] = "nop",
	[URCCL_OP_READ] = "read",
	[URCCL_OP_WRITE] = "write",
	[URCCL_OP_READV] = "readv",
	[URCCL_OP_WRITEV] = "writev",
	[URCCL_OP_READ_PAGED] = "read_paged",
	[URCCL_OP_WRITE_PAGED] = "write_paged",
	[URCCL_OP_NOTIFY] = "notify",
	[URCCL_OP_FETCH_ADD] = "fetch_add",
	[URCCL_OP_CMP_SWAP] = "cmp_swap",
	[URCCL_OP_CONNECT] = "connect",
	[URCCL_OP_ACCEPT] = "accept",
	[URCCL_OP_WATCH] = "watch",
	[URCCL_OP_WARM] = "warm",
	[URCCL_OP_CLOSE] = "close",
	[URCCL_OP_REGISTER] = "register",
	[URCCL_OP_UNREGISTER] = "unregister",
	[URCCL_OP_REVOKE] = "revoke",
	[URCCL_OP_IMPORT] = "import",
	[URCCL_OP_CANCEL] = "cancel",
	[URCCL_OP_TIMEOUT] = "timeout",
	[URCCL_OP_MSG_RING] = "msg_ring",
};

static const char *const transports[] = {
	[URCCL_TRANSPORT_SIM] = "sim",	     [URCCL_TRANSPORT_SHM] = "shm",
	[URCCL_TRANSPORT_TCP] = "tcp",	     [URCCL_TRANSPORT_IB] = "ib",
	[URCCL_TRANSPORT_EFA] = "efa",	     [URCCL_TRANSPORT_CXI] = "cxi",
	[URCCL_TRANSPORT_FABRIC] = "fabric", [URCCL_TRANSPORT_IPC] = "ipc",
	[URCCL_TRANSPORT_NCCL] = "nccl",     [URCCL_TRANSPORT_TCPX] = "tcpx",
};

const char *opcode_name(uint32_t opcode)
{
	return opcode < ARRAY_SIZE(opcodes) ? opcodes[opcode] : NULL;
}

const char *transport_name(uint32_t transport)
{
	return transport < ARRAY_SIZE(transports) ? transports[transport] : NULL;
}

int transport_parse(const char *name, size_t len)
{
	uint32_t t;

	for (t = 1; t < ARRAY_SIZE(transports); t++)
		if (strlen(transports[t]) == len && !memcmp(transports[t], name, len))
			return (int)t;
	return -EINVAL;
}
