/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a machine that there is not, under a folder of the test's own. */
#ifndef TREE_H
#define TREE_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "test.h"

static char root[64];

static inline void tree_begin(void)
{
	snprintf(root, sizeof(root), "/tmp/urccl-tree-XXXXXX");
	CHECK(mkdtemp(root));
}

static inline void tree_end(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r %s", root);
	CHECK_EQ(system(command), 0);
}

/* The file and all folders above it. */
static inline void put(const char *name, const char *text)
{
	char path[512], *slash;
	FILE *f;

	snprintf(path, sizeof(path), "%s%s", root, name);
	for (slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		CHECK(!mkdir(path, 0700) || errno == EEXIST);
		*slash = '/';
	}
	f = fopen(path, "w");
	CHECK(f);
	CHECK_GE(fprintf(f, "%s\n", text), 0);
	CHECK_EQ(fclose(f), 0);
}

#endif
