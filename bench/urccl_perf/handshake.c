/* SPDX-License-Identifier: Apache-2.0 */
#include "handshake.h"
#include "client.h"
#include "result.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ANSWER_MS = 60000, PARTS = 10 };

struct handshakes {
	double seconds, cpu[2];
	double least; /* both ends' CPU for one, in the part that took the least of it */
	struct hist connect, close;
};

/* ---- the other process ---- */

/* Whoever came and left is let go of; his end of it is not waited for. */
static void host_event(struct end *e, const struct urccl_cqe *cqe)
{
	struct urccl_sqe *sqe;

	switch (urccl_cqe_kind(cqe)) {
	case URCCL_KIND_PEER:
		break;
	case URCCL_KIND_LOST:
		sqe = end_sqe(e);
		urccl_prep_close(sqe, (struct urccl_peer){cqe->peer});
		end_submit(e, sqe);
		break;
	default:
		if (cqe->res < 0)
			end_fail(e, "the accepting end", cqe);
		end_note_end(e, cqe);
	}
}

static void host_open(struct end *e, const struct options *o)
{
	struct urccl_sqe *sqe;

	end_open(e, o, end_context(o, SERVERS, o->listen), o->wait);
	e->event = host_event;
	sqe = end_sqe(e);
	urccl_prep_accept(sqe);
	end_submit(e, sqe);
	sqe = end_sqe(e);
	urccl_prep_watch(sqe, (struct urccl_peer){0});
	end_submit(e, sqe);
}

/* Says where it is; then what CPU it took, each time it is asked, until the socket is closed. */
static void host(const struct options *o, int sock)
{
	struct pollfd ask = {.fd = sock, .events = POLLIN};
	uint8_t blob[URCCL_METADATA_MAX];
	struct end e;
	double cpu;
	char byte;
	int n;

	host_open(&e, o);
	e.idle_ms = 10;
	n = urccl_metadata(e.ctx, blob, sizeof(blob));
	if (n < 0 || send(sock, blob, (size_t)n, MSG_NOSIGNAL) != n)
		_exit(1);
	for (;;) {
		if (!end_reap(&e))
			end_idle(&e);
		if (!poll(&ask, 1, 0))
			continue;
		if (recv(sock, &byte, 1, 0) <= 0)
			_exit(0);
		cpu = bench_cpu_seconds();
		if (send(sock, &cpu, sizeof(cpu), MSG_NOSIGNAL) != sizeof(cpu))
			_exit(1);
	}
}

/* ---- ours ---- */

static double host_cpu(int sock)
{
	struct pollfd answer = {.fd = sock, .events = POLLIN};
	double cpu;

	if (send(sock, "?", 1, MSG_NOSIGNAL) != 1 || poll(&answer, 1, ANSWER_MS) != 1 ||
	    recv(sock, &cpu, sizeof(cpu), MSG_WAITALL) != sizeof(cpu))
		bench_die("the accepting process is gone");
	return cpu;
}

static void ours_event(struct end *e, const struct urccl_cqe *cqe)
{
	if (cqe->res < 0)
		end_fail(e, "a handshake", cqe);
	end_note_end(e, cqe);
}

static uint64_t timed(struct end *e, struct urccl_sqe *sqe, struct hist *h)
{
	uint64_t since = bench_now();

	end_submit_wait(e, sqe);
	if (h)
		hist_add(h, bench_now() - since);
	return e->handle;
}

static void meet(struct end *e, const struct whom *whom, struct handshakes *f)
{
	struct urccl_sqe *sqe = end_sqe(e);
	struct urccl_peer peer;

	urccl_prep_connect(sqe, whom->bytes, whom->len);
	peer.id = (uint32_t)timed(e, sqe, f ? &f->connect : NULL);
	sqe = end_sqe(e);
	urccl_prep_close(sqe, peer);
	timed(e, sqe, f ? &f->close : NULL);
}

static void print(const struct options *o, const struct handshakes *f)
{
	double n = (double)f->connect.count, cpu = (f->cpu[OURS] + f->cpu[SERVERS]) / n * 1e6;
	struct report r;

	if (!o->json) {
		printf("%.0f handshakes and ends: %.0f/s, CONNECT p50 %.0f us, p99 %.0f us, CLOSE "
		       "p50 %.0f us; %.0f us of CPU each, both ends\n",
		       n, n / f->seconds, hist_quantile(&f->connect, 0.5) / 1e3,
		       hist_quantile(&f->connect, 0.99) / 1e3, hist_quantile(&f->close, 0.5) / 1e3,
		       cpu);
		return;
	}
	result_open(&r, o, 0);
	report_metric(&r, n, "handshakes", "handshakes");
	report_metric(&r, n / f->seconds, "1/s", "rate");
	report_metric(&r, hist_quantile(&f->connect, 0.5), "ns", "latency.p50");
	report_metric(&r, hist_quantile(&f->connect, 0.99), "ns", "latency.p99");
	report_metric(&r, hist_quantile(&f->close, 0.5), "ns", "close.p50");
	report_metric(&r, f->cpu[OURS] / n * 1e6, "us", "cpu.client");
	report_metric(&r, f->cpu[SERVERS] / n * 1e6, "us", "cpu.server");
	report_metric(&r, cpu, "us", "cpu.handshake");
	report_metric(&r, f->least * 1e6, "us", "cpu.least");
	report_close(&r);
}

/* n of them. What others on the machine do to us is only ever too much, so the part that took the
 * least CPU tells what a handshake does. */
static void part(struct end *e, const struct whom *whom, int sock, uint64_t n, struct handshakes *f)
{
	double before[2] = {[OURS] = bench_cpu_seconds(), [SERVERS] = host_cpu(sock)}, ours, hosts;
	uint64_t since = bench_now(), i;

	for (i = 0; i < n; i++)
		meet(e, whom, f);
	f->seconds += (double)(bench_now() - since) * 1e-9;
	ours = bench_cpu_seconds() - before[OURS];
	hosts = host_cpu(sock) - before[SERVERS];
	f->cpu[OURS] += ours;
	f->cpu[SERVERS] += hosts;
	if (!f->least || (ours + hosts) / (double)n < f->least)
		f->least = (ours + hosts) / (double)n;
}

static void measure(struct end *e, const struct options *o, const struct whom *whom, int sock)
{
	static struct handshakes f;
	uint64_t each = (o->handshakes + PARTS - 1) / PARTS, done, i;

	for (i = 0; i < o->handshakes / 10 + 1; i++)
		meet(e, whom, NULL);
	for (done = 0; done < o->handshakes; done += each) {
		if (each > o->handshakes - done)
			each = o->handshakes - done;
		part(e, whom, sock, each, &f);
	}
	print(o, &f);
}

void handshake_measure(const struct options *o)
{
	struct whom whom;
	struct end e;
	ssize_t n;
	int fd[2];
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0 || (child = fork()) < 0)
		bench_die("cannot start the accepting process: %s", strerror(errno));
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fd[0]);
		host(o, fd[1]);
	}
	close(fd[1]);
	n = recv(fd[0], whom.bytes, sizeof(whom.bytes), 0);
	if (n <= 0)
		bench_die("the accepting process did not start");
	whom.len = (uint32_t)n;
	end_open(&e, o, end_context(o, OURS, o->listen), o->wait);
	e.event = ours_event;
	measure(&e, o, &whom, fd[0]);
	bench_flush();
	end_close(&e);
	urccl_close(e.ctx);
	close(fd[0]);
	waitpid(child, NULL, 0);
}
