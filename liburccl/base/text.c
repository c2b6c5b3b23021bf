/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that grow piece by piece, and the first line of a file. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/base.h"

char *text_room(const struct text *t, size_t *room)
{
	*room = t->len < t->size ? t->size - t->len : 0;
	return *room ? t->buf + t->len : NULL;
}

void text_add(struct text *t, const char *fmt, ...)
{
	size_t room;
	char *to = text_room(t, &room);
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(to, room, fmt, args);
	va_end(args);
	t->len += n > 0 ? (size_t)n : 0;
}

int file_line(const char *path, char *to, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, to, size - 1);
	if (n < 0) {
		n = -errno;
		close(fd);
		return (int)n;
	}
	close(fd);
	to[n] = 0;
	to[strcspn(to, "\n")] = 0;
	return 0;
}
