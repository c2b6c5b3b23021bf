/* SPDX-License-Identifier: Apache-2.0 */
/* Reads short files of /proc and /sys. */
#include "info.h"

#include <errno.h>
#include <string.h>

int read_line(const char *path, char *to, size_t size)
{
	FILE *file = fopen(path, "re");
	int err = 0;

	if (!file)
		return -errno;
	if (!fgets(to, (int)size, file))
		err = -EIO;
	else
		to[strcspn(to, "\n")] = 0;
	fclose(file);
	return err;
}

int read_field(const char *path, const char *name, char *to, size_t size)
{
	FILE *file = fopen(path, "re");
	size_t len = strlen(name);
	char line[512];
	int err = -ENOENT;

	if (!file)
		return -errno;
	while (err && fgets(line, sizeof(line), file)) {
		if (strncmp(line, name, len) || line[len] != ':')
			continue;
		line[strcspn(line, "\n")] = 0;
		snprintf(to, size, "%s", line + len + 1 + strspn(line + len + 1, " \t"));
		err = 0;
	}
	fclose(file);
	return err;
}
