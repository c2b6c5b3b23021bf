/* SPDX-License-Identifier: Apache-2.0 */
/* Loads libibverbs by name, so that programs run on hosts without it. The inline functions of
 * rdma-core's verbs.h call through the context's own table and need nothing from here. */
#include <dlfcn.h>
#include "backend/verbs/verbs.h"

int verbs_lib_open(struct verbs_lib *lib, const char *so)
{
	const struct symbol symbols[] = {
#define X(type, name, args) {"ibv_" #name, &lib->name},
		VERBS_FUNCTIONS(X)
#undef X
	};
	const char *missing;
	void *handle, *found;

	so = so ? so : IBV_SO;
	handle = dlopen(so, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return fail(-EOPNOTSUPP,
			    "ib: needs libibverbs (Debian: libibverbs1 ibverbs-providers): %s",
			    dlerror());
	missing = symbols_find(handle, symbols, ARRAY_SIZE(symbols));
	if (missing)
		return fail(-EOPNOTSUPP, "ib: %s has no %s: rdma-core 28 or later is needed", so,
			    missing);
	found = dlsym(handle, "_ibv_query_gid_table");
	memcpy(&lib->query_gid_table, &found, sizeof(found));
	found = dlsym(handle, "ibv_reg_dmabuf_mr");
	memcpy(&lib->reg_dmabuf_mr, &found, sizeof(found));
	return 0;
}
