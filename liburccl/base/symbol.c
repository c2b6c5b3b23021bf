/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of libraries that are loaded by name. */
#include <dlfcn.h>

#include "base/base.h"

const char *symbols_find(void *library, const struct symbol *s, size_t n)
{
	for (; n; n--, s++) {
		void *found = dlsym(library, s->name);

		if (!found)
			return s->name;
		/* POSIX allows dlsym() to return a function; ISO C allows the copy. */
		memcpy(s->at, &found, sizeof(found));
	}
	return NULL;
}
