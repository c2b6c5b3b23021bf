/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a machine from a file. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "topology.h"

#define FILE_BYTES_MAX (16u << 20)

/* Puts the file's name before the sentence of a failure. */
static int fail_named(int err, const char *path)
{
	char why[256];

	if (!err)
		return 0;
	snprintf(why, sizeof(why), "%s", urccl_errmsg());
	return fail(err, "topology \"%.200s\": %s", path, why);
}

int machine_read_file(struct machine *m, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = 0;
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		err = -errno;
	else if (!S_ISREG(st.st_mode) || st.st_size > FILE_BYTES_MAX)
		err = -EINVAL;
	fd_close(fd);
	if (err)
		return fail(err, "topology \"%.200s\" cannot be read: %s", path, errno_text(-err));
	return fail_named(machine_read_hwloc(m, path), path);
}
