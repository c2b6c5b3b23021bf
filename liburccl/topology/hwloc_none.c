/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces hwloc.c in a build without the header of hwloc. */
#include "topology.h"

int machine_read_hwloc(struct machine *m, const char *path)
{
	(void)m;
	(void)path;
	return fail(-EOPNOTSUPP, "this library was built without hwloc (option hwloc)");
}
