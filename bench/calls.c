/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For LD_PRELOAD: counts the calls by which a program and its children move bytes and wait, and
 * slows them by nothing else, as tracing would: slower calls carry more each. When the first
 * process ends it says "calls.WHAT N calls" on stderr.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum what { SENT, RECEIVED, EMPTY, WAITED, OTHER, WHATS };

static const char *const names[WHATS] = {"sent", "received", "empty", "waited", "other"};
static uint64_t *counts; /* shared with children */
static pid_t first;

__attribute__((constructor)) static void begin(void)
{
	counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED)
		_exit(1);
	first = getpid();
}

__attribute__((destructor)) static void end(void)
{
	int i;

	for (i = 0; i < WHATS && getpid() == first; i++)
		fprintf(stderr, "calls.%s %llu calls\n", names[i],
			(unsigned long long)__atomic_load_n(&counts[i], __ATOMIC_RELAXED));
}

static ssize_t count(enum what what, ssize_t res)
{
	if (!counts)
		return res;
	if (what != WAITED && res < 0 && errno == EAGAIN)
		what = EMPTY;
	__atomic_fetch_add(&counts[what], 1, __ATOMIC_RELAXED);
	return res;
}

/* The C library's function, found at its first call. */
#define COUNTED(what, type, name, declared, ...)                   \
	type name declared                                         \
	{                                                          \
		static type(*next) declared;                       \
	\
		if (!next)                                         \
			*(void **)&next = dlsym(RTLD_NEXT, #name); \
		return (type)count(what, next(__VA_ARGS__));       \
	}

COUNTED(SENT, ssize_t, send, (int fd, const void *buf, size_t n, int flags), fd, buf, n, flags)
COUNTED(SENT, ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), fd, m, flags)
COUNTED(SENT, ssize_t, write, (int fd, const void *buf, size_t n), fd, buf, n)
COUNTED(SENT, ssize_t, writev, (int fd, const struct iovec *v, int n), fd, v, n)
COUNTED(RECEIVED, ssize_t, recv, (int fd, void *buf, size_t n, int flags), fd, buf, n, flags)
COUNTED(RECEIVED, ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), fd, m, flags)
COUNTED(RECEIVED, ssize_t, read, (int fd, void *buf, size_t n), fd, buf, n)
COUNTED(RECEIVED, ssize_t, readv, (int fd, const struct iovec *v, int n), fd, v, n)
COUNTED(WAITED, int, epoll_wait, (int fd, struct epoll_event *ev, int n, int ms), fd, ev, n, ms)
COUNTED(WAITED, int, poll, (struct pollfd * fds, nfds_t n, int ms), fds, n, ms)

/* io_uring's, which both submit and wait, and the library's epoll_pwait2(). */
long syscall(long number, ...)
{
	static long (*next)(long number, ...);
	long a[6];
	va_list more;
	int i;

	va_start(more, number);
	for (i = 0; i < 6; i++)
		a[i] = va_arg(more, long);
	va_end(more);
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "syscall");
	return count(number == SYS_epoll_pwait2 ? WAITED : OTHER,
		     next(number, a[0], a[1], a[2], a[3], a[4], a[5]));
}
