/* SPDX-License-Identifier: Apache-2.0 */
/* Built without hwloc's header. */
#include "topology.h"

int machine_read_hwloc(struct machine *m, const char *path)
{
	(void)m;
	(void)path;
	return fail(-EOPNOTSUPP, "this library was built without hwloc (option hwloc)");
}
