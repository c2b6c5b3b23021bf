/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reliable queue pairs between two processes, each on an RDMA device: writes and reads by size,
 * depth and queue pairs, one doorbell for each or for a chain; one inline write to its completion,
 * the same with a read of one byte behind it, which proves that it was placed; and a ping-pong of
 * writes with an immediate, in which each may be acknowledged by one of its own. Both ends spin on
 * their completion queues.
 */
#include "verbs.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GO_ON = 0, STOP = 1, TAKEN = 2 }; /* what an immediate says */

struct mode {
	const char *name;
	void (*run)(struct report *r, struct link *l, const struct mode *m);
	enum ibv_wr_opcode op;
	uint64_t size;
	uint32_t depth, chain;
	int acks; /* a word is acknowledged when it comes, before it is answered */
	int busy; /* other code runs between two of them, or while none has ended */
};

static struct raw_options options;

/* ---- the second process ---- */

static void answer(struct link *l, const struct mode *m);

/*
 * Its memory is written and read without it; it answers immediates. It ends when the first process
 * closes its end of the socket.
 */
static void second(int fd, const struct mode *m)
{
	struct link l;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	bench_pin(options.cpu[1]);
	link_open(&l, &options, 1, m->depth, fd);
	if (m->op == IBV_WR_RDMA_WRITE_WITH_IMM)
		answer(&l, m);
	while (read(fd, &byte, 1) > 0)
		;
	link_close(&l);
	_exit(0);
}

static int start(struct link *l, const struct mode *m, pid_t *child)
{
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) < 0 || (*child = fork()) < 0)
		bench_die("cannot start a second process: %s", strerror(errno));
	if (!*child) {
		close(fd[0]);
		second(fd[1], m);
	}
	close(fd[1]);
	bench_pin(options.cpu[0]);
	link_open(l, &options, 0, m->depth, fd[0]);
	return fd[0];
}

static void run(struct report *r, const struct mode *named)
{
	struct mode m = *named;
	struct link l;
	pid_t child;
	int fd, status;

	m.size = options.size ? options.size : m.size;
	m.depth = options.depth ? (uint32_t)options.depth : m.depth;
	m.chain = options.chain ? (uint32_t)options.chain : m.chain;
	m.chain = m.chain < m.depth ? m.chain : m.depth;
	if (options.span < m.size)
		bench_die("--span is less than --size");
	fd = start(&l, &m, &child);
	m.run(r, &l, &m);
	close(fd);
	if (waitpid(child, &status, 0) < 0 || status)
		bench_die("the second process failed");
	link_close(&l);
}

/* ---- many at a time ---- */

/* The work requests of one queue pair: a chain is made once and its addresses moved on. */
struct lane {
	struct ibv_send_wr *wr;
	struct ibv_sge *sge;
	uint64_t at;	   /* next bytes of the span */
	uint32_t inflight; /* not known to be done */
	uint32_t silent;   /* of these, since the last one that was signalled */
};

static void lane_open(struct lane *lane, struct link *l, const struct mode *m)
{
	uint32_t k;

	memset(lane, 0, sizeof(*lane));
	lane->wr = calloc(m->chain, sizeof(*lane->wr));
	lane->sge = calloc(m->chain, sizeof(*lane->sge));
	if (!lane->wr || !lane->sge)
		bench_die("out of memory");
	for (k = 0; k < m->chain; k++) {
		lane->sge[k] = (struct ibv_sge){.length = (uint32_t)m->size, .lkey = l->mr->lkey};
		lane->wr[k] = (struct ibv_send_wr){
			.next = k + 1 < m->chain ? &lane->wr[k + 1] : NULL,
			.sg_list = &lane->sge[k],
			.num_sge = 1,
			.opcode = m->op,
			.wr.rdma.rkey = l->theirs.rkey,
		};
		if (m->op == IBV_WR_RDMA_WRITE && m->size <= l->inline_max)
			lane->wr[k].send_flags = IBV_SEND_INLINE;
	}
}

static void lane_close(struct lane *lane)
{
	free(lane->wr);
	free(lane->sge);
}

/* A chain has one signalled request, its last; single ones have four in a queue: enough to go on
 * before it is empty. */
static uint32_t signalled_every(const struct mode *m)
{
	return m->chain > 1 ? m->chain : m->depth < 8 ? 1 : m->depth / 4;
}

static void lane_post(struct lane *lane, struct link *l, uint32_t qp, const struct mode *m)
{
	struct ibv_send_wr *last = &lane->wr[m->chain - 1];
	uint32_t k;

	for (k = 0; k < m->chain; k++) {
		lane->sge[k].addr = (uintptr_t)l->buf + lane->at;
		lane->wr[k].wr.rdma.remote_addr = l->theirs.addr + lane->at;
		lane->at += m->size;
		if (lane->at + m->size > options.span)
			lane->at = 0;
	}
	lane->inflight += m->chain;
	lane->silent += m->chain;
	last->send_flags &= ~(unsigned int)IBV_SEND_SIGNALED;
	if (lane->silent >= signalled_every(m)) {
		last->send_flags |= IBV_SEND_SIGNALED;
		last->wr_id = (uint64_t)qp << 32 | lane->silent;
		lane->silent = 0;
	}
	link_post(l, qp, lane->wr);
}

/* A completion is of its own request and of the silent ones before it. Returns of how many. */
static uint32_t reap(struct link *l, struct lane *lanes)
{
	struct ibv_wc wc;
	uint32_t n;

	if (!link_poll(l, &wc))
		return 0;
	n = (uint32_t)wc.wr_id;
	lanes[wc.wr_id >> 32].inflight -= n;
	return n;
}

/* Silent ones at the end get a chain behind them, and with it a completion. */
static uint64_t drain(struct link *l, struct lane *lanes, const struct mode *m)
{
	uint64_t done = 0;
	uint32_t q;

	for (q = 0; q < l->qps; q++) {
		while (lanes[q].inflight) {
			if (lanes[q].silent && lanes[q].inflight + m->chain <= m->depth)
				lane_post(&lanes[q], l, q, m);
			done += reap(l, lanes);
		}
	}
	return done;
}

/*
 * 3,266 instructions that have nothing to do with queue pairs (callgrind, glibc 2.36): less than
 * those of a library and of a program that uses it. An emulated processor keeps what it translated
 * of the kernel in a small table, out of which they put some.
 */
static void something_else(int i)
{
	char text[64];

	snprintf(text, sizeof(text), "%d %lx %g", i, (unsigned long)text, i * 1.7);
}

static void many(struct report *r, struct link *l, const struct mode *m)
{
	struct lane lanes[QPS_MAX];
	uint64_t start, ns, done = 0;
	uint32_t q, n, turns = 0;

	for (q = 0; q < l->qps; q++)
		lane_open(&lanes[q], l, m);
	start = bench_now();
	do {
		for (q = 0; q < l->qps; q++)
			while (lanes[q].inflight + m->chain <= m->depth)
				lane_post(&lanes[q], l, q, m);
		n = reap(l, lanes);
		done += n;
		if (!n && m->busy)
			something_else((int)turns++);
		ns = bench_now() - start;
	} while ((double)ns < options.seconds * 1e9);
	done += drain(l, lanes, m);
	ns = bench_now() - start;
	for (q = 0; q < l->qps; q++)
		lane_close(&lanes[q]);
	report_metric(r, (double)(done * m->size) / (double)ns, "GB/s", "verbs.%s.bandwidth",
		      m->name);
	report_metric(r, (double)done / (double)ns * 1e3, "M/s", "verbs.%s.messages", m->name);
}

/* ---- one at a time ---- */

static struct ibv_send_wr one(struct link *l, struct ibv_sge *sge, enum ibv_wr_opcode op,
			      uint64_t size)
{
	struct ibv_send_wr wr = {.sg_list = sge, .num_sge = 1, .opcode = op};

	*sge = (struct ibv_sge){(uintptr_t)l->buf, (uint32_t)size, l->mr->lkey};
	wr.wr.rdma.remote_addr = l->theirs.addr;
	wr.wr.rdma.rkey = l->theirs.rkey;
	if (op != IBV_WR_RDMA_READ && size <= l->inline_max)
		wr.send_flags = IBV_SEND_INLINE;
	return wr;
}

static void say(struct report *r, const struct mode *m, const char *what, const struct hist *h,
		uint64_t ns)
{
	char name[64];

	snprintf(name, sizeof(name), "verbs.%s%s", m->name, what);
	report_metric(r, (double)ns / (double)h->count, "ns", "%s.mean", name);
	raw_latency(r, name, h);
}

/* Posts the chain, whose last is signalled, and waits for it, again and again. */
static void again_and_again(struct report *r, struct link *l, const struct mode *m,
			    struct ibv_send_wr *chain)
{
	struct hist *hist = calloc(1, sizeof(*hist));
	uint64_t start, before, now;
	struct ibv_wc wc;
	int i;

	if (!hist)
		bench_die("out of memory");
	for (i = 0; i < 100; i++)
		for (link_post(l, 0, chain); !link_poll(l, &wc);)
			;
	start = now = bench_now();
	while ((double)(now - start) < options.seconds * 1e9) {
		if (m->busy)
			something_else(i++);
		before = m->busy ? bench_now() : now;
		link_post(l, 0, chain);
		while (!link_poll(l, &wc))
			;
		now = bench_now();
		hist_add(hist, now - before);
	}
	say(r, m, "", hist, now - start);
	free(hist);
}

static void latency(struct report *r, struct link *l, const struct mode *m)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = one(l, &sge, m->op, m->size);

	wr.send_flags |= IBV_SEND_SIGNALED;
	again_and_again(r, l, m, &wr);
}

static void placed(struct report *r, struct link *l, const struct mode *m)
{
	struct ibv_sge sge[2];
	struct ibv_send_wr wr = one(l, &sge[0], m->op, m->size);
	struct ibv_send_wr proof = one(l, &sge[1], IBV_WR_RDMA_READ, 1);

	wr.next = &proof;
	proof.send_flags = IBV_SEND_SIGNALED;
	again_and_again(r, l, m, &wr);
}

/* ---- there and back ---- */

/* In a ping-pong no word can come while one's own is yet to be sent; the other's acknowledgement
 * can. */
static void wait_sent(struct link *l, uint32_t *sent)
{
	struct ibv_wc wc;

	while (*sent) {
		if (!link_poll(l, &wc))
			continue;
		if (wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM)
			--*sent;
		else if (wc.imm_data == TAKEN)
			link_receive(l);
		else
			bench_die("a word came too soon");
	}
}

static void send_word(struct link *l, const struct mode *m, uint32_t word, uint32_t *sent)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = one(l, &sge, IBV_WR_RDMA_WRITE_WITH_IMM, m->size);

	if (*sent == m->depth)
		wait_sent(l, sent);
	if (m->busy)
		something_else((int)*sent);
	wr.imm_data = word;
	wr.send_flags |= IBV_SEND_SIGNALED;
	link_post(l, 0, &wr);
	++*sent;
}

static uint32_t wait_word(struct link *l, const struct mode *m, uint32_t *sent)
{
	struct ibv_wc wc;

	for (;;) {
		if (!link_poll(l, &wc))
			continue;
		if (wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM) {
			--*sent;
			continue;
		}
		link_receive(l);
		if (wc.imm_data == TAKEN)
			continue;
		if (m->acks)
			send_word(l, m, TAKEN, sent);
		return wc.imm_data;
	}
}

static void answer(struct link *l, const struct mode *m)
{
	uint32_t sent = 0;

	while (wait_word(l, m, &sent) == GO_ON)
		send_word(l, m, GO_ON, &sent);
	wait_sent(l, &sent);
}

static void there_and_back(struct report *r, struct link *l, const struct mode *m)
{
	struct hist *hist = calloc(1, sizeof(*hist));
	uint64_t start, before, now;
	uint32_t sent = 0, warm;

	if (!hist)
		bench_die("out of memory");
	for (warm = 0; warm < 100; warm++) {
		send_word(l, m, GO_ON, &sent);
		wait_word(l, m, &sent);
	}
	start = now = bench_now();
	while ((double)(now - start) < options.seconds * 1e9) {
		before = now;
		send_word(l, m, GO_ON, &sent);
		wait_word(l, m, &sent);
		now = bench_now();
		hist_add(hist, now - before);
	}
	send_word(l, m, STOP, &sent);
	wait_sent(l, &sent);
	say(r, m, ".round_trip", hist, now - start);
	free(hist);
}

static const struct mode modes[] = {
	{"write", many, IBV_WR_RDMA_WRITE, 65536, 32, 1, 0, 0},
	{"read", many, IBV_WR_RDMA_READ, 65536, 32, 1, 0, 0},
	{"read_busy", many, IBV_WR_RDMA_READ, 65536, 32, 1, 0, 1},
	{"single", many, IBV_WR_RDMA_WRITE, 64, 128, 1, 0, 0},
	{"chain", many, IBV_WR_RDMA_WRITE, 64, 128, 32, 0, 0},
	{"chain_busy", many, IBV_WR_RDMA_WRITE, 64, 128, 32, 0, 1},
	{"blocks", many, IBV_WR_RDMA_WRITE, 4096, 128, 128, 0, 0},
	{"latency", latency, IBV_WR_RDMA_WRITE, 8, 2, 1, 0, 0},
	{"latency_busy", latency, IBV_WR_RDMA_WRITE, 8, 2, 1, 0, 1},
	{"placed", placed, IBV_WR_RDMA_WRITE, 8, 4, 1, 0, 0},
	{"placed_busy", placed, IBV_WR_RDMA_WRITE, 8, 4, 1, 0, 1},
	{"imm", there_and_back, IBV_WR_RDMA_WRITE_WITH_IMM, 8, 64, 1, 0, 0},
	{"imm_acked", there_and_back, IBV_WR_RDMA_WRITE_WITH_IMM, 8, 64, 1, 1, 0},
	{"imm_acked_busy", there_and_back, IBV_WR_RDMA_WRITE_WITH_IMM, 8, 64, 1, 1, 1},
};

int main(int argc, char **argv)
{
	struct report report;
	unsigned int i;

	raw_options(
		&options, argc, argv,
		"raw_verbs: reliable queue pairs between two processes\n"
		"(--mode write|read: of 64 KiB; single|chain: of 64 bytes, a doorbell each or\n"
		"for 32; blocks: 128 of 4 KiB for one; latency: one inline, to its completion;\n"
		"placed: with a read of one byte behind it; imm: ping-pong of immediates;\n"
		"imm_acked: each of them acknowledged by another; read, chain, latency, placed\n"
		"and imm_acked with _busy: other code runs between them, or while none ends)");
	options.span = options.span ? options.span : 4u << 20;
	report_open(&report, "raw_verbs", options.json);
	report_setting(&report, "device", "%s", options.device ? options.device : "the first two");
	report_setting(&report, "size", "%lu", options.size);
	report_setting(&report, "depth", "%lu", options.depth);
	report_setting(&report, "chain", "%lu", options.chain);
	report_setting(&report, "queue_pairs", "%lu", options.qps ? options.qps : 1);
	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (raw_wanted(&options, modes[i].name))
			run(&report, &modes[i]);
	report_close(&report);
	return 0;
}
