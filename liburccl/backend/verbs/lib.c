/* SPDX-License-Identifier: Apache-2.0 */
/* Loads libibverbs by name, so that programs run on hosts without it. The inline functions of
 * rdma-core's verbs.h call through the context's own table and need nothing from here. */
#include <dlfcn.h>
#include "backend/verbs/verbs.h"

static int lib_find(void *lib, const char *so, const char *name, void *function)
{
	void *found = dlsym(lib, name);

	if (!found)
		return fail(-EOPNOTSUPP, "ib: %s has no %s: rdma-core 28 or later is needed", so,
			    name);
	memcpy(function, &found, sizeof(found));
	return 0;
}

int verbs_lib_open(struct verbs_lib *lib, const char *so)
{
	void *handle, *found;
	int err = 0;

	so = so ? so : IBV_SO;
	handle = dlopen(so, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return fail(-EOPNOTSUPP,
			    "ib: needs libibverbs (Debian: libibverbs1 ibverbs-providers): %s",
			    dlerror());
#define X(type, name, args) \
	if (!err)           \
		err = lib_find(handle, so, "ibv_" #name, &lib->name);
	VERBS_FUNCTIONS(X)
#undef X
	found = dlsym(handle, "_ibv_query_gid_table");
	memcpy(&lib->query_gid_table, &found, sizeof(found));
	found = dlsym(handle, "ibv_reg_dmabuf_mr");
	memcpy(&lib->reg_dmabuf_mr, &found, sizeof(found));
	return err;
}
