/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many senders, a process each, and one thread that receives from all of them by turns. A sender
 * has at most WINDOW calls in flight, each of which the receiver answers by a byte: without that
 * the kernel would send what waits in full sockets in the receiver's time.
 */
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
#define RECEIVED 65536u /* bytes of one call, or of one turn */
#define BATCH	 64u	/* messages of one call of a sender */
#define WINDOW	 4u	/* its calls in flight */

/* Goes before each message: its length and its place. As long as a header of the library. */
struct header {
	uint64_t len, at, unused[2];
};

struct many {
	int fd;
	pid_t child;
	uint8_t *buf;
	uint64_t at;	       /* without headers: the place of the next byte */
	uint64_t bytes, calls; /* without headers; receives that got some */
	uint64_t before;       /* bytes when measuring began */
	uint64_t answered;     /* calls of the sender */
	uint64_t held;	       /* bytes of the next headers that are here */
	uint32_t next, ahead;  /* the message that arrives, and those whose headers are here */
	struct header headers[2][BATCH]; /* theirs: what is still to come; and the next ones */
	uint32_t half;			 /* theirs */
};

/* A way to receive. Returns the bytes that came, 0 or -1 with errno as recv() does. */
struct form {
	const char *name;
	uint64_t header; /* bytes for each message */
	int ahead;	 /* the headers of all messages of a call of the sender go first */
	ssize_t (*receive)(struct many *m, const struct raw_options *o);
};

static uint8_t staging[RECEIVED];
static int wait_flags; /* of a sender that waits: it spins if each has a CPU */

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

/* Messages of one call of a sender: as many as one receive takes. */
static uint32_t batch(const struct raw_options *o)
{
	uint64_t n = RECEIVED / o->size;

	return n < 1 ? 1 : n > BATCH ? BATCH : (uint32_t)n;
}

/* Waits until a call may be in flight. Returns how many are. */
static uint32_t wait_for_answer(int fd, uint32_t flying)
{
	uint8_t answers[WINDOW];

	while (flying == WINDOW) {
		ssize_t n = recv(fd, answers, sizeof(answers), wait_flags);

		if (!n || (n < 0 && errno != EAGAIN))
			_exit(0); /* the receiver has ended */
		flying -= n > 0 ? (uint32_t)n : 0;
		bench_relax();
	}
	return flying;
}

/* Sends messages until it is ended. */
static void send_all(int fd, const struct form *form, const struct raw_options *o)
{
	uint8_t *buf = bench_map(o->span, o->pages);
	uint32_t n = batch(o), ahead = form->ahead ? n : 1, flying = 0, i;
	struct header headers[BATCH] = {0};
	struct iovec iov[2 * BATCH];
	struct msghdr m = {.msg_iov = iov};
	uint64_t at = 0;
	ssize_t sent;

	for (;; flying++) {
		flying = wait_for_answer(fd, flying);
		m.msg_iovlen = 0;
		for (i = 0; i < n; i++) {
			headers[i].len = o->size;
			headers[i].at = at;
			if (i % ahead == 0)
				iov[m.msg_iovlen++] =
					(struct iovec){&headers[i], ahead * form->header};
			iov[m.msg_iovlen++] = (struct iovec){buf + at, o->size};
			at = at + 2 * o->size > o->span ? 0 : at + o->size;
		}
		sent = sendmsg(fd, &m, MSG_NOSIGNAL);
		if (sent == (ssize_t)(n * (form->header + o->size)))
			continue;
		if (sent >= 0 || errno == EPIPE || errno == ECONNRESET)
			_exit(0); /* the receiver has ended */
		bench_die("a sender cannot send: %s", strerror(errno));
	}
}

static void start(struct many *m, const struct form *form, const struct raw_options *o)
{
	int fd[2];

	tcp_pair(fd, o->cc);
	m->child = fork();
	if (m->child < 0)
		bench_die("fork: %s", strerror(errno));
	if (!m->child) {
		close(fd[1]);
		leave_cpu(o->cpu[0]);
		send_all(fd[0], form, o);
	}
	close(fd[0]);
	m->fd = fd[1];
	m->next = m->ahead = form->ahead ? batch(o) : 1;
	m->buf = bench_map(o->span, o->pages);
	if (fcntl(m->fd, F_SETFL, O_NONBLOCK) < 0)
		bench_die("O_NONBLOCK: %s", strerror(errno));
}

/* ---- forms ---- */

/* Without headers, straight to its place. */
static ssize_t receive_bare(struct many *m, const struct raw_options *o)
{
	uint64_t room = o->span - m->at < RECEIVED ? o->span - m->at : RECEIVED;
	ssize_t n = recv(m->fd, m->buf + m->at, room, 0);

	if (n > 0) {
		m->at = (m->at + (uint64_t)n) % o->span;
		m->bytes += (uint64_t)n;
		m->calls++;
	}
	return n;
}

/* The next n bytes are where they belong. */
static void advance(struct many *m, uint64_t n, const struct raw_options *o)
{
	uint64_t part;
	uint32_t i;

	for (; n && m->next < m->ahead; n -= part) {
		struct header *h = &m->headers[m->half][m->next];

		part = n < h->len ? n : h->len;
		h->at += part;
		h->len -= part;
		m->bytes += part;
		m->next += !h->len;
	}
	m->held += n;
	if (m->held < m->ahead * sizeof(struct header))
		return;
	m->held = 0;
	m->next = 0;
	m->half ^= 1;
	for (i = 0; i < m->ahead; i++) {
		const struct header *h = &m->headers[m->half][i];

		if (!h->len || h->len > o->span || h->at > o->span - h->len)
			bench_die("a header names bytes beyond the span");
	}
}

/* Where the next bytes belong: messages, then the next headers; at most so many pieces. */
static size_t places(struct many *m, struct iovec *iov, size_t most)
{
	const struct header *h = m->headers[m->half];
	uint32_t i;
	size_t n = 0;

	for (i = m->next; i < m->ahead && n < most; i++)
		iov[n++] = (struct iovec){m->buf + h[i].at, h[i].len};
	if (n < most)
		iov[n++] = (struct iovec){(uint8_t *)m->headers[m->half ^ 1] + m->held,
					  m->ahead * sizeof(struct header) - m->held};
	return n;
}

/* A large receive into a buffer, whose messages are then copied: two copies, few calls. */
static ssize_t receive_staged(struct many *m, const struct raw_options *o)
{
	ssize_t n = recv(m->fd, staging, sizeof(staging), 0);
	uint64_t left = n > 0 ? (uint64_t)n : 0, part;
	const uint8_t *from = staging;
	struct iovec iov;

	m->calls += n > 0;
	for (; left; left -= part, from += part) {
		places(m, &iov, 1);
		part = iov.iov_len < left ? iov.iov_len : left;
		memcpy(iov.iov_base, from, part);
		advance(m, part, o);
	}
	return n;
}

/* Receives a turn's bytes straight to their places, at most so many pieces in a call: one copy. */
static ssize_t receive_pieces(struct many *m, const struct raw_options *o, size_t most)
{
	struct iovec iov[BATCH + 1];
	struct msghdr msg = {.msg_iov = iov};
	uint64_t got = 0, asked;
	ssize_t n;
	size_t i;

	do {
		msg.msg_iovlen = places(m, iov, most);
		for (i = 0, asked = 0; i < msg.msg_iovlen; i++)
			asked += iov[i].iov_len;
		n = msg.msg_iovlen == 1 ? recv(m->fd, iov[0].iov_base, iov[0].iov_len, 0)
					: recvmsg(m->fd, &msg, 0);
		if (n <= 0)
			break;
		m->calls++;
		got += (uint64_t)n;
		advance(m, (uint64_t)n, o);
	} while ((uint64_t)n == asked && got < RECEIVED);
	return got ? (ssize_t)got : n;
}

/* The header, then the message: two receives each. */
static ssize_t receive_two(struct many *m, const struct raw_options *o)
{
	return receive_pieces(m, o, 1);
}

/* The rest of a message and the next header: one receive each. */
static ssize_t receive_one(struct many *m, const struct raw_options *o)
{
	return receive_pieces(m, o, 2);
}

/* All messages whose headers came first, and the next headers. */
static ssize_t receive_ahead(struct many *m, const struct raw_options *o)
{
	return receive_pieces(m, o, BATCH + 1);
}

static const struct form forms[] = {
	{"many", 0, 0, receive_bare},
	{"many_staged", sizeof(struct header), 0, receive_staged},
	{"many_two", sizeof(struct header), 0, receive_two},
	{"many_one", sizeof(struct header), 0, receive_one},
	{"many_ahead", sizeof(struct header), 1, receive_ahead},
};

/* ---- measuring ---- */

/* Receives what a sender has in flight, and answers. */
static void take_turn(struct many *m, const struct form *form, const struct raw_options *o)
{
	static const uint8_t answers[WINDOW];
	uint32_t i = 0, due;
	ssize_t n;

	do {
		n = form->receive(m, o);
		if (!n || (n < 0 && errno != EAGAIN))
			bench_die("recv: %s", n ? strerror(errno) : "a sender has ended");
	} while (++i < WINDOW && n >= (ssize_t)(RECEIVED / 2));
	due = (uint32_t)(m->bytes / (batch(o) * o->size) - m->answered);
	if (due && send(m->fd, answers, due, MSG_NOSIGNAL) != due)
		bench_die("cannot answer a sender: %s", strerror(errno));
	m->answered += due;
}

static uint64_t receive_for(struct many *all, uint32_t n, const struct form *form,
			    const struct raw_options *o, double seconds)
{
	uint64_t start = bench_now();
	uint32_t i;

	while ((double)(bench_now() - start) < seconds * 1e9) {
		for (i = 0; i < n; i++)
			take_turn(&all[i], form, o);
	}
	return bench_now() - start;
}

static void measure(struct report *report, const struct form *form, const struct raw_options *o)
{
	uint32_t n = o->depth ? (uint32_t)o->depth : SENDERS, i;
	struct many *all = calloc(n, sizeof(*all));
	uint64_t ns, bytes = 0, calls = 0, least = UINT64_MAX, most = 0;
	double messages;
	cpu_set_t set;

	if (!sched_getaffinity(0, sizeof(set), &set) && CPU_COUNT(&set) > (int)n)
		wait_flags = MSG_DONTWAIT;
	if (!all)
		bench_die("out of memory");
	for (i = 0; i < n; i++)
		start(&all[i], form, o);
	bench_pin(o->cpu[0]);
	receive_for(all, n, form, o, 0.1);
	for (i = 0; i < n; i++) {
		all[i].before = all[i].bytes;
		all[i].calls = 0;
	}
	ns = receive_for(all, n, form, o, o->seconds);
	for (i = 0; i < n; i++) {
		all[i].bytes -= all[i].before;
		bytes += all[i].bytes;
		calls += all[i].calls;
		least = all[i].bytes < least ? all[i].bytes : least;
		most = all[i].bytes > most ? all[i].bytes : most;
		kill(all[i].child, SIGKILL);
		waitpid(all[i].child, NULL, 0);
	}
	free(all);
	if (!bytes)
		bench_die(
			"no sender sent a byte in %g s: raise --duration, or name a free CPU by --cpu",
			o->seconds);
	messages = (double)bytes / (double)o->size;
	report_metric(report, (double)bytes / (double)ns, "GB/s", "tcp.%s.bandwidth", form->name);
	report_metric(report, messages / (double)ns * 1e3, "M/s", "tcp.%s.messages", form->name);
	report_metric(report, (double)calls / messages, "calls", "tcp.%s.receives", form->name);
	report_metric(report, (double)least / (double)most, "x", "tcp.%s.least_over_most",
		      form->name);
}

int tcp_many(struct report *report, const struct raw_options *o)
{
	uint32_t i;

	for (i = 0; o->mode && i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (!raw_wanted(o, forms[i].name))
			continue;
		measure(report, &forms[i], o);
		return 1;
	}
	return 0;
}
