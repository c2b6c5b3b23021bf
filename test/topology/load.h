/* SPDX-License-Identifier: Apache-2.0 */
/* The machines of this folder; where they are comes from meson. */
#ifndef LOAD_H
#define LOAD_H

#include <stdlib.h>
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

/* It is what is expected, in our own format. Ends it. */
static inline void check_read(struct machine *m, const char *expected)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	CHECK(f);
	machine_write(m, f);
	CHECK_EQ(fclose(f), 0);
	if (strcmp(text, expected))
		fprintf(stderr, "read:\n%s", text);
	CHECK(!strcmp(text, expected));
	free(text);
	machine_fini(m);
}

#endif
