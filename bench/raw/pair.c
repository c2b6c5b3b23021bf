/* SPDX-License-Identifier: Apache-2.0 */
#include "pair.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LATE_NS 10000000000ull /* what was sent is there by then */

enum { LOOKS = 1024 }; /* of the second at its queue, between looks at its socket */

void pair_start(struct pair *p, const struct raw_options *o, void (*second)(int fd))
{
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) < 0 || (p->child = fork()) < 0)
		bench_die("cannot start a second process: %s", strerror(errno));
	if (!p->child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fd[0]);
		bench_pin(o->cpu[1]);
		second(fd[1]);
		_exit(1);
	}
	close(fd[1]);
	bench_pin(o->cpu[0]);
	p->fd = fd[0];
}

void pair_end(struct pair *p)
{
	int status;

	close(p->fd);
	if (waitpid(p->child, &status, 0) < 0 || status)
		bench_die("the second process failed");
}

void pair_send(int fd, const void *buf, size_t len)
{
	if (send(fd, buf, len, MSG_NOSIGNAL) != (ssize_t)len)
		bench_die("the other process failed");
}

void pair_receive(int fd, void *buf, size_t len)
{
	if (recv(fd, buf, len, MSG_WAITALL) != (ssize_t)len)
		bench_die("the other process failed");
}

/* A completion may have come before the bytes were placed. */
static uint8_t came(const uint8_t *buf, uint64_t len, void (*turn)(void *end), void *end)
{
	uint64_t late = bench_now() + LATE_NS;

	while (!raw_same(buf, len, FIRST)) {
		if (bench_now() > late)
			return 0;
		turn(end);
	}
	return 1;
}

void pair_serve(int fd, const uint8_t *buf, void (*turn)(void *end), void *end)
{
	uint64_t len;
	uint32_t i;
	uint8_t is;
	ssize_t n;

	for (i = 1;; i++) {
		turn(end);
		if (i % LOOKS)
			continue;
		n = recv(fd, &len, sizeof(len), MSG_DONTWAIT);
		if (!n)
			return;
		if (n != sizeof(len))
			continue;
		is = came(buf, len, turn, end);
		pair_send(fd, &is, sizeof(is));
	}
}

void pair_compare(const struct pair *p, int reads, const uint8_t *buf, uint64_t len,
		  void (*turn)(void *end), void *end)
{
	uint8_t is = 0;

	if (reads) {
		is = (uint8_t)raw_same(buf, len, SECOND);
	} else {
		pair_send(p->fd, &len, sizeof(len));
		while (recv(p->fd, &is, sizeof(is), MSG_DONTWAIT) < 0 && errno == EAGAIN)
			turn(end);
	}
	if (!is)
		bench_die("%lu bytes were moved, and are not those that came", len);
}

void pair_latency(struct report *r, double seconds, const char *name,
		  void (*one)(void *end, const void *mode), void *end, const void *mode)
{
	struct hist *hist = calloc(1, sizeof(*hist));
	uint64_t start, before, now;
	int i;

	if (!hist)
		bench_die("out of memory");
	for (i = 0; i < 100; i++)
		one(end, mode);
	start = now = bench_now();
	while ((double)(now - start) < seconds * 1e9) {
		before = now;
		one(end, mode);
		now = bench_now();
		hist_add(hist, now - before);
	}
	report_metric(r, (double)(now - start) / (double)hist->count, "ns", "%s.mean", name);
	raw_latency(r, name, hist);
	free(hist);
}
