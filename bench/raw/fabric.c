/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libfabric alone: reliable datagram endpoints of one provider in two processes, over which one
 * writes to the other's memory and reads from it. Many at a time, each with a completion of its own
 * that says that it is placed (FI_DELIVERY_COMPLETE), and one at a time. The other end spins on its
 * queue: a provider may need its process for what is done to its memory.
 */
#include "fabric.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOKS = 1024 }; /* of the other end at its queue, between looks at its socket */

struct mode {
	const char *name;
	void (*run)(struct report *r, struct end *e, const struct mode *m);
	int reads;
	uint64_t size;
	uint32_t depth;
};

static struct raw_options options;

/* ---- the second process ---- */

/* It ends when the first process closes its end of the socket. */
static void second(int fd)
{
	struct end e;
	uint32_t i;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	bench_pin(options.cpu[1]);
	end_open(&e, &options, fd);
	for (i = 1; i % LOOKS || recv(fd, &byte, 1, MSG_DONTWAIT); i++)
		end_poll(&e, NULL, 0);
	end_close(&e);
	_exit(0);
}

static int start(struct end *e, pid_t *child)
{
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) < 0 || (*child = fork()) < 0)
		bench_die("cannot start a second process: %s", strerror(errno));
	if (!*child) {
		close(fd[0]);
		second(fd[1]);
	}
	close(fd[1]);
	bench_pin(options.cpu[0]);
	end_open(e, &options, fd[0]);
	return fd[0];
}

static void run(struct report *r, const struct mode *named)
{
	struct mode m = *named;
	struct end e;
	pid_t child;
	int fd, status;

	m.size = options.size ? options.size : m.size;
	m.depth = options.depth ? (uint32_t)options.depth : m.depth;
	if (options.span < m.size)
		bench_die("--span is less than --size");
	fd = start(&e, &child);
	m.run(r, &e, &m);
	close(fd);
	if (waitpid(child, &status, 0) < 0 || status)
		bench_die("the second process failed");
	end_close(&e);
}

/* ---- many at a time ---- */

static void many(struct report *r, struct end *e, const struct mode *m)
{
	uint64_t start, ns, at = 0, done = 0;
	struct post *posts, *idle[DEPTH_MAX];
	uint32_t n = 0, k;

	if (m->depth > DEPTH_MAX)
		bench_die("--depth is %d at most", DEPTH_MAX);
	posts = calloc(m->depth, sizeof(*posts));
	if (!posts)
		bench_die("out of memory");
	for (; n < m->depth; n++)
		idle[n] = &posts[n];
	start = bench_now();
	do {
		while (n && end_post(e, idle[n - 1], m->reads, at, m->size)) {
			n--;
			at += m->size;
			if (at + m->size > options.span)
				at = 0;
		}
		k = end_poll(e, &idle[n], m->depth - n);
		n += k;
		done += k;
		ns = bench_now() - start;
	} while ((double)ns < options.seconds * 1e9);
	for (; n < m->depth; n += k, done += k)
		k = end_poll(e, &idle[n], m->depth - n);
	ns = bench_now() - start;
	free(posts);
	report_metric(r, (double)(done * m->size) / (double)ns, "GB/s", "fabric.%s.bandwidth",
		      m->name);
	report_metric(r, (double)done / (double)ns * 1e3, "M/s", "fabric.%s.messages", m->name);
}

/* ---- one at a time ---- */

static void one(struct end *e, const struct mode *m)
{
	struct post post, *out;

	while (!end_post(e, &post, m->reads, 0, m->size))
		end_poll(e, NULL, 0);
	while (!end_poll(e, &out, 1))
		;
}

static void latency(struct report *r, struct end *e, const struct mode *m)
{
	struct hist *hist = calloc(1, sizeof(*hist));
	uint64_t start, before, now;
	char name[64];
	int i;

	if (!hist)
		bench_die("out of memory");
	for (i = 0; i < 100; i++)
		one(e, m);
	start = now = bench_now();
	while ((double)(now - start) < options.seconds * 1e9) {
		before = now;
		one(e, m);
		now = bench_now();
		hist_add(hist, now - before);
	}
	snprintf(name, sizeof(name), "fabric.%s", m->name);
	report_metric(r, (double)(now - start) / (double)hist->count, "ns", "%s.mean", name);
	raw_latency(r, name, hist);
	free(hist);
}

static const struct mode modes[] = {
	{"write", many, 0, 65536, 16},	    {"read", many, 1, 65536, 16},
	{"single", many, 0, 64, 128},	    {"latency", latency, 0, 8, 1},
	{"read_latency", latency, 1, 8, 1},
};

int main(int argc, char **argv)
{
	struct report report;
	unsigned int i;

	raw_options(&options, argc, argv,
		    "raw_fabric: endpoints of a provider of libfabric in two processes\n"
		    "(--mode write|read: of 64 KiB; single: writes\n"
		    "of 64 bytes; latency|read_latency: one of 8 bytes, to its completion)");
	options.span = options.span ? options.span : 4u << 20;
	options.provider = options.provider ? options.provider : "tcp;ofi_rxm";
	report_open(&report, "raw_fabric", options.json);
	report_setting(&report, "provider", "%s", options.provider);
	report_setting(&report, "size", "%lu", options.size);
	report_setting(&report, "depth", "%lu", options.depth);
	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (raw_wanted(&options, modes[i].name))
			run(&report, &modes[i]);
	report_close(&report);
	return 0;
}
