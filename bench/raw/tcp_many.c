/* SPDX-License-Identifier: Apache-2.0 */
/* Many senders, a process each, and one thread that receives from all of them by turns. */
#include "tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SENDERS	 14u
#define RECEIVED 65536u /* bytes of one call */

struct many {
	int fd;
	pid_t child;
	uint8_t *buf;
	uint64_t at, bytes;
};

/* The receiver has its CPU alone, if there are others. */
static void leave_cpu(int cpu)
{
	cpu_set_t set;

	if (cpu < 0 || sched_getaffinity(0, sizeof(set), &set))
		return;
	CPU_CLR((unsigned int)cpu, &set);
	if (CPU_COUNT(&set))
		sched_setaffinity(0, sizeof(set), &set);
}

/* Sends messages until it is ended. */
static void send_all(int fd, const struct raw_options *o)
{
	uint8_t *buf = bench_map(o->span, o->pages);
	uint64_t at = 0;

	for (;;) {
		uint64_t sent = 0;

		while (sent < o->size) {
			ssize_t n = send(fd, buf + at + sent, o->size - sent, MSG_NOSIGNAL);

			if (n < 0)
				_exit(0);
			sent += (uint64_t)n;
		}
		at = at + 2 * o->size > o->span ? 0 : at + o->size;
	}
}

static void start(struct many *m, const struct raw_options *o)
{
	int fd[2];

	tcp_pair(fd, o->cc);
	m->child = fork();
	if (m->child < 0)
		bench_die("fork: %s", strerror(errno));
	if (!m->child) {
		close(fd[1]);
		leave_cpu(o->cpu[0]);
		send_all(fd[0], o);
	}
	close(fd[0]);
	m->fd = fd[1];
	m->at = m->bytes = 0;
	m->buf = bench_map(o->span, o->pages);
	if (fcntl(m->fd, F_SETFL, O_NONBLOCK) < 0)
		bench_die("O_NONBLOCK: %s", strerror(errno));
}

static void receive(struct many *m, const struct raw_options *o)
{
	uint64_t room = o->span - m->at < RECEIVED ? o->span - m->at : RECEIVED;
	ssize_t n = recv(m->fd, m->buf + m->at, room, 0);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0)
		bench_die("recv: %s", n ? strerror(errno) : "a sender has ended");
	m->at = (m->at + (uint64_t)n) % o->span;
	m->bytes += (uint64_t)n;
}

static uint64_t receive_for(struct many *all, uint32_t n, const struct raw_options *o,
			    double seconds)
{
	uint64_t start = bench_now();
	uint32_t i;

	while ((double)(bench_now() - start) < seconds * 1e9)
		for (i = 0; i < n; i++)
			receive(&all[i], o);
	return bench_now() - start;
}

void tcp_many(struct report *report, const struct raw_options *o)
{
	uint32_t n = o->depth ? (uint32_t)o->depth : SENDERS, i;
	struct many *all = calloc(n, sizeof(*all));
	uint64_t ns, bytes = 0, least = UINT64_MAX, most = 0;

	if (!all)
		bench_die("out of memory");
	for (i = 0; i < n; i++)
		start(&all[i], o);
	bench_pin(o->cpu[0]);
	receive_for(all, n, o, 0.1);
	for (i = 0; i < n; i++)
		all[i].bytes = 0;
	ns = receive_for(all, n, o, o->seconds);
	for (i = 0; i < n; i++) {
		bytes += all[i].bytes;
		least = all[i].bytes < least ? all[i].bytes : least;
		most = all[i].bytes > most ? all[i].bytes : most;
		kill(all[i].child, SIGKILL);
		waitpid(all[i].child, NULL, 0);
	}
	report_metric(report, (double)bytes / (double)ns, "GB/s", "tcp.many.bandwidth");
	report_metric(report, (double)bytes / (double)o->size / (double)ns * 1e3, "M/s",
		      "tcp.many.messages");
	report_metric(report, (double)least / (double)most, "", "tcp.many.least_over_most");
	free(all);
}
