/* SPDX-License-Identifier: Apache-2.0 */
/* The machines of this folder; where they are comes from meson. */
#ifndef LOAD_H
#define LOAD_H

#include "topology/topology.h"
#include "test.h"

static inline void load_machine(struct machine *m, const char *name)
{
	char path[512];

	CHECK_EQ(machine_init(m), 0);
	snprintf(path, sizeof(path), MACHINES "/%s.txt", name);
	if (machine_read_file(m, path)) {
		fprintf(stderr, "%s\n", urccl_errmsg());
		test_end(1);
	}
}

#endif
