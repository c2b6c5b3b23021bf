/* SPDX-License-Identifier: Apache-2.0 */
/* Loads libfabric by dlopen: programs that do not use it need not have it. All its other functions
 * are inline, and call through the tables of its objects. */
#include <dlfcn.h>
#include <unistd.h>
#include "backend/fabric/fabric.h"

static int bind_all(struct fabric_lib *lib, void *handle)
{
	uint32_t (*version)(void) = NULL;
	const struct symbol symbols[] = {
		{"fi_version", &version},	 {"fi_getinfo", &lib->getinfo},
		{"fi_freeinfo", &lib->freeinfo}, {"fi_dupinfo", &lib->dupinfo},
		{"fi_fabric", &lib->fabric},	 {"fi_strerror", &lib->strerror},
	};
	const char *missing = symbols_find(handle, symbols, ARRAY_SIZE(symbols));

	if (missing)
		return fail(-ELIBACC, "libfabric lacks %s", missing);
	lib->version = version();
	return 0;
}

/* Returns -errno if dlopen() failed for lack of a descriptor, which it does not report. 0: another
 * reason. */
static int no_descriptor(void)
{
	int fd = wake_open();

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

int fabric_load(struct fabric_lib *lib, const char *path)
{
	void *handle;
	int err, full;

	/* It stays loaded: threads of its providers may outlive our close. */
	handle = dlopen(path ? path : LIBFABRIC_SO, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	full = handle ? 0 : no_descriptor();
	if (full)
		return fail_errno(full, "libfabric cannot be loaded");
	if (!handle)
		return fail(-ELIBACC,
			    "no libfabric: %s. Install libfabric1, or let libfabric_so name it",
			    dlerror());
	err = bind_all(lib, handle);
	if (!err && FI_VERSION_LT(lib->version, FABRIC_API))
		err = fail(-ELIBACC, "libfabric is of version %u.%u: 1.17 or later is needed",
			   FI_MAJOR(lib->version), FI_MINOR(lib->version));
	dlclose(handle);
	return err;
}
