/* SPDX-License-Identifier: Apache-2.0 */
/* Eventfds and futexes, on which threads sleep, and the monotonic clock. */
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

void fd_close(int fd)
{
	if (fd >= 0)
		close(fd);
}

int wake_open(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

void wake_write(int fd)
{
	uint64_t one = 1;
	ssize_t n;

	/* An eventfd with a full counter (EAGAIN) is readable too, so nothing is missing. */
	do {
		n = write(fd, &one, sizeof(one));
	} while (n < 0 && errno == EINTR);
}

void wake_drain(int fd)
{
	uint64_t count;
	ssize_t n;

	do {
		n = read(fd, &count, sizeof(count));
	} while (n < 0 && errno == EINTR);
}

/* About 95 years: the time limit that stands for "no limit". */
#define FUTEX_LONGEST_NS (3000000000ull * NSEC_PER_SEC)

int futex_wait(uint32_t *word, uint32_t value, uint64_t ns)
{
	struct timespec ts;

	/* The call always has a time limit. Without a limit the kernel restarts the call after a
	 * signal whose handler was installed with SA_RESTART, and the caller would not learn of the
	 * signal. */
	if (ns > FUTEX_LONGEST_NS)
		ns = FUTEX_LONGEST_NS;
	ts.tv_sec = (time_t)(ns / NSEC_PER_SEC);
	ts.tv_nsec = (long)(ns % NSEC_PER_SEC);
	if (!syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &ts, NULL, 0))
		return 0;
	return -errno;
}

void futex_wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}
