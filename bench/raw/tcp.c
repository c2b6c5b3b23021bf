/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One TCP stream over loopback between two processes: bandwidth of messages of --size (1 MiB), and
 * the round trip of 8 bytes; with blocking sockets, non-blocking ones that spin at both ends, and
 * io_uring asleep and spinning. CPU seconds are of both processes together.
 */
#include "tcp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the receiving process tells at its end. */
struct received {
	uint64_t bytes, ns;
	double cpu;
};

static struct raw_options options;

static void push(struct wire *w, const struct way *way)
{
	uint8_t *buf = bench_map(options.span, options.pages);
	uint64_t start = bench_now(), at = 0;

	while ((double)(bench_now() - start) < options.seconds * 1e9) {
		size_t sent = 0;

		while (sent < options.size)
			sent += way->send(w, buf + at + sent, options.size - sent);
		at += options.size;
		if (at + options.size > options.span)
			at = 0;
	}
	shutdown(w->fd, SHUT_WR);
}

static struct received pull(struct wire *w, const struct way *way)
{
	uint8_t *buf = bench_map(options.span, options.pages);
	double cpu = bench_cpu_seconds();
	uint64_t start = 0, at = 0, part = 0;
	struct received r = {0, 0, 0};
	size_t n;

	while ((n = way->recv(w, buf + at + part, options.size - part)) > 0) {
		if (!start)
			start = bench_now();
		r.bytes += n;
		part += n;
		if (part < options.size)
			continue;
		part = 0;
		at += options.size;
		if (at + options.size > options.span)
			at = 0;
	}
	r.ns = bench_now() - start;
	r.cpu = bench_cpu_seconds() - cpu;
	return r;
}

/* The second process: receives and reports by the pipe, or answers each message. */
static void second(int fd, int pipe_fd, const struct way *way, uint64_t answers)
{
	struct wire w = {.fd = fd};
	struct received r;
	uint8_t word[8];
	uint64_t i;

	bench_pin(options.cpu[1]);
	way->open(&w);
	for (i = 0; i < answers; i++) {
		size_t got = 0;

		while (got < sizeof(word)) {
			size_t n = way->recv(&w, word + got, sizeof(word) - got);

			if (!n)
				bench_die("the stream ended early");
			got += n;
		}
		way->send(&w, word, sizeof(word));
	}
	if (answers)
		_exit(0);
	r = pull(&w, way);
	if (write(pipe_fd, &r, sizeof(r)) != sizeof(r))
		bench_die("pipe: %s", strerror(errno));
	_exit(0);
}

/* Starts the second process and leaves the first end in w; the read end of its pipe is returned. */
static int start(struct wire *w, const struct way *way, uint64_t answers, pid_t *child)
{
	int fd[2], result[2];

	tcp_pair(fd, options.cc);
	if (pipe(result) < 0)
		bench_die("pipe: %s", strerror(errno));
	*child = fork();
	if (*child < 0)
		bench_die("fork: %s", strerror(errno));
	if (!*child) {
		close(fd[0]);
		close(result[0]);
		second(fd[1], result[1], way, answers);
	}
	close(fd[1]);
	close(result[1]);
	w->fd = fd[0];
	bench_pin(options.cpu[0]);
	way->open(w);
	return result[0];
}

static void end(pid_t child)
{
	int status;

	if (waitpid(child, &status, 0) < 0 || status)
		bench_die("the second process failed");
}

static void bandwidth(struct report *report, const struct way *way)
{
	struct received r;
	struct wire w;
	double cpu, gb;
	pid_t child;
	int fd = start(&w, way, 0, &child);

	cpu = bench_cpu_seconds();
	push(&w, way);
	cpu = bench_cpu_seconds() - cpu;
	if (read(fd, &r, sizeof(r)) != sizeof(r))
		bench_die("the second process said nothing");
	end(child);
	close(fd);
	close(w.fd);
	gb = (double)r.bytes * 1e-9;
	report_metric(report, (double)r.bytes / (double)r.ns, "GB/s", "tcp.%s.bandwidth",
		      way->name);
	report_metric(report, gb / (double)options.size / (double)r.ns * 1e12, "M/s",
		      "tcp.%s.messages", way->name);
	report_metric(report, (cpu + r.cpu) / gb, "s/GB", "tcp.%s.cpu", way->name);
}

static void round_trip(struct report *report, const struct way *way)
{
	/* Enough for the percentiles at the slowest: a sleeping round trip takes some 50 us. */
	uint64_t rounds = (uint64_t)(options.seconds * 1e9 / (way == &way_spin ? 8000 : 50000)) + 1;
	uint64_t warm = rounds / 10, i, before;
	struct hist *hist = calloc(1, sizeof(*hist));
	char name[64];
	uint8_t word[8] = {0};
	struct wire w;
	pid_t child;
	int fd = start(&w, way, rounds + warm, &child);

	if (!hist)
		bench_die("out of memory");
	for (i = 0; i < rounds + warm; i++) {
		size_t got = 0;

		before = bench_now();
		way->send(&w, word, sizeof(word));
		while (got < sizeof(word)) {
			size_t n = way->recv(&w, word + got, sizeof(word) - got);

			if (!n)
				bench_die("the stream ended early");
			got += n;
		}
		if (i >= warm)
			hist_add(hist, bench_now() - before);
	}
	end(child);
	close(fd);
	close(w.fd);
	snprintf(name, sizeof(name), "tcp.%s.round_trip", way->name);
	raw_latency(report, name, hist);
	free(hist);
}

int main(int argc, char **argv)
{
	static const struct way *const ways[] = {&way_block, &way_spin, &way_uring,
						 &way_uring_spin};
	struct report report;
	unsigned int i, found = 0;

	raw_options(
		&options, argc, argv,
		"raw_tcp: one TCP stream over loopback\n"
		"(--mode block|spin|uring|uring_spin for bandwidth, rtt_block|rtt_spin)\n"
		"or --depth senders to one thread\n"
		"(--mode many; with a header before each message many_staged: received into a\n"
		"buffer and copied, many_two: the header, then the message, many_one: a message\n"
		"with the next header, many_ahead: messages whose headers came together)");
	options.size = options.size ? options.size : 1u << 20;
	options.span = options.span > options.size ? options.span : options.size;
	report_open(&report, "raw_tcp", options.json);
	report_setting(&report, "size", "%lu", options.size);
	report_setting(&report, "span", "%lu", options.span);
	report_setting(&report, "congestion_control", "%s", options.cc ? options.cc : "default");
	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (!raw_wanted(&options, ways[i]->name))
			continue;
		bandwidth(&report, ways[i]);
		found = 1;
	}
	if (raw_wanted(&options, "rtt_block")) {
		round_trip(&report, &way_block);
		found = 1;
	}
	if (raw_wanted(&options, "rtt_spin")) {
		round_trip(&report, &way_spin);
		found = 1;
	}
	if (!tcp_many(&report, &options) && !found)
		bench_die("--mode '%s' is no case; --help lists them", options.mode);
	report_close(&report);
	return 0;
}
