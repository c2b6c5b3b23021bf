/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that grow piece by piece, texts to a descriptor, and the first line of a file. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
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

int ascii_same(const char *a, const char *b, size_t len)
{
	for (; len && *a && ascii_lower(*a) == ascii_lower(*b); len--) {
		a++;
		b++;
	}
	return !len || ascii_lower(*a) == ascii_lower(*b);
}

int write_whole(int fd, const void *buf, size_t len)
{
	const struct timespec none = {0};
	sigset_t broken, before, pending;
	const char *at = buf;
	int err = 0;

	sigemptyset(&broken);
	sigaddset(&broken, SIGPIPE);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &broken, &before);
	while (len && !err) {
		ssize_t n = write(fd, at, len);

		if (n >= 0) {
			at += n;
			len -= (size_t)n;
		} else if (errno != EINTR) {
			err = -errno;
		}
	}
	/* write() sends SIGPIPE to this thread alone: it is taken before the mask lets it in. */
	if (err == -EPIPE && !sigismember(&pending, SIGPIPE))
		sigtimedwait(&broken, NULL, &none);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

static void out_flush(struct out *o)
{
	if (!o->err)
		o->err = write_whole(o->fd, o->buf, o->len);
	o->len = 0;
}

void out_add(struct out *o, const char *fmt, ...)
{
	uint32_t tries;
	va_list args;
	int n = 0;

	for (tries = 0; tries < 2; tries++) {
		size_t room = sizeof(o->buf) - o->len;

		va_start(args, fmt);
		n = vsnprintf(o->buf + o->len, room, fmt, args);
		va_end(args);
		if (n < 0 || (size_t)n < room)
			break;
		if (!o->len)
			n = sizeof(o->buf) - 1; /* longer than any text: cut off */
		else
			out_flush(o);
	}
	o->len += n > 0 ? (uint32_t)n : 0;
}

int out_end(struct out *o)
{
	out_flush(o);
	return o->err;
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
