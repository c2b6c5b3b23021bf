/* SPDX-License-Identifier: Apache-2.0 */
/* Built without hwloc's header. */
#include "topology.h"

int machine_read_xml(struct machine *m, const char *path)
{
	(void)m;
	(void)path;
	return fail(-EOPNOTSUPP,
		    "it is XML, and this library was built without hwloc (option hwloc)");
}
