/* SPDX-License-Identifier: Apache-2.0 */
/* A machine from a file. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "topology.h"

#define FILE_BYTES_MAX (16u << 20)

/* What is wrong in the file is said behind its name. */
static int named(int err, const char *path)
{
	char why[256];

	if (!err)
		return 0;
	snprintf(why, sizeof(why), "%s", urccl_errmsg());
	return fail(err, "topology \"%.200s\": %s", path, why);
}

static int is_xml(const char *text, size_t len)
{
	size_t i = 0;

	while (i < len && strchr(" \t\r\n", text[i]))
		i++;
	return i < len && text[i] == '<';
}

static int read_all(int fd, char *text, size_t len)
{
	size_t at = 0;
	ssize_t n = 1;

	while (at < len && n > 0) {
		n = read(fd, text + at, len - at);
		if (n < 0)
			return -errno;
		at += (size_t)n;
	}
	return at < len ? -EIO : 0;
}

int machine_read_file(struct machine *m, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = 0;
	struct stat st;
	char *text;

	if (fd < 0 || fstat(fd, &st)) {
		err = -errno;
		goto done;
	}
	if (!S_ISREG(st.st_mode) || st.st_size > FILE_BYTES_MAX) {
		err = -EINVAL;
		goto done;
	}
	text = malloc((size_t)st.st_size + 1);
	err = text ? read_all(fd, text, (size_t)st.st_size) : -ENOMEM;
	if (!err) {
		if (is_xml(text, (size_t)st.st_size))
			err = machine_read_hwloc(m, path);
		else
			err = machine_read_text(m, text, (size_t)st.st_size);
		free(text);
		close(fd);
		return named(err, path);
	}
	free(text);
done:
	if (fd >= 0)
		close(fd);
	return fail(err, "topology \"%.200s\" cannot be read: %s", path, errno_text(-err));
}
