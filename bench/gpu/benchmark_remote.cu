/* SPDX-License-Identifier: Apache-2.0 */
/*
 * benchmark_remote RANK ADDRESS [OPTIONS]: rank 0 sends to rank 1 at ADDRESS, from GPU to GPU; both
 * need the same options. benchmark_remote --self [OPTIONS] starts both on this host.
 *	--transport T	shm, tcp, ib ... (shm)
 *	--lanes N	warps that push (8)
 *	--len BYTES	of a message, a multiple of 8 (7168)
 *	--window N	messages of a lane under way (64)
 *	--messages N	of all lanes together (200000)
 *	--part NAME	check, signal, cpu, notify, ping, kill, stop; several times (all but the
 *			last two, which end rank 1)
 *	--host		memory of the host in place of the GPU's
 *	--port N	(18515)
 */
#include "remote.h"

#include <algorithm>
#include <cstring>
#include <pthread.h>
#include <signal.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#define LIMIT_NS    60000000000ull
#define DEADLINE_MS 500u /* while a peer dies */

static struct remote_options o;
static struct remote_link s;
static struct urccl_device_ring ring;
static struct lane_result *results;
static uint64_t *cycles;
static int status;

static struct flow flow_of(void)
{
	struct flow f = {};

	f.j.ring = ring;
	f.j.remote = s.remote;
	f.j.counters = s.counters;
	f.j.peer = s.end.peer;
	f.j.per_block = 1;
	f.j.len = o.len;
	f.j.local = s.local;
	f.j.span = (uint64_t)o.window * o.len;
	f.j.n = o.messages / o.lanes;
	f.j.limit_ns = LIMIT_NS;
	f.memory = s.memory;
	f.arrived = s.arrived;
	return f;
}

/* Seconds of the lanes' kernel; failures are told. */
static double results_take(const char *part)
{
	uint64_t begun = UINT64_MAX, ended = 0, failed = 0;
	int res = 0;

	for (uint32_t i = 0; i < o.lanes; i++) {
		begun = std::min(begun, results[i].begun);
		ended = std::max(ended, results[i].ended);
		failed += results[i].failed;
		res = results[i].res ? results[i].res : res;
	}
	if (failed || res) {
		printf("%s: rank %d FAILED: %llu wrong, %d\n", part, o.rank,
		       (unsigned long long)failed, res);
		status = 1;
	}
	return (double)(ended - begun) * 1e-9;
}

static void rates_print(const char *part, uint64_t n, double took)
{
	printf("%s: %s, %u lanes, %llu messages of %u bytes: %.4f M/s, %.2f GB/s\n", part,
	       o.transport, o.lanes, (unsigned long long)n, o.len, (double)n / took * 1e-6,
	       (double)n * o.len / took * 1e-9);
	fflush(stdout);
}

/* Rank 1's kernel waits before rank 0 begins. */
static void begin(void)
{
	memset(s.arrived, 0, o.lanes * 8);
	link_barrier(&s);
}

static void by_kernels(const char *part, uint32_t checked)
{
	struct flow f = flow_of();

	f.checked = checked;
	begin();
	if (o.rank)
		flow_receive(&f, o.lanes, results);
	link_barrier(&s);
	if (!o.rank)
		flow_send(&f, o.lanes, results);
	flow_wait();
	if (double took = results_take(part); !o.rank)
		rates_print(part, f.j.n * o.lanes, took);
	link_barrier(&s);
}

static void part_check(void)
{
	by_kernels("check", 1);
}

static void part_signal(void)
{
	by_kernels("signal", 0);
}

/* ---- The same entries from a thread ---- */

static struct urccl_sqe *next_sqe(struct urccl_ring *r)
{
	struct urccl_sqe *sqe;

	while (!(sqe = urccl_get_sqe(r)))
		urccl_submit(r);
	return sqe;
}

static void message_submit(const struct flow *f, uint32_t lane, uint64_t off)
{
	struct urccl_sqe *sqe = next_sqe(s.end.ring);

	urccl_prep_write(sqe, f->j.remote, f->j.local + off, f->j.len, off);
	urccl_sqe_set_group(sqe, lane + 1);
	urccl_sqe_add_flags(sqe, URCCL_SQE_SKIP_SUCCESS);
	sqe = next_sqe(s.end.ring);
	urccl_prep_fetch_add(sqe, f->j.counters, 8 * lane, 1);
	urccl_sqe_set_group(sqe, lane + 1);
	urccl_sqe_add_flags(sqe, URCCL_SQE_FENCE | URCCL_SQE_SKIP_SUCCESS);
}

static uint64_t acked(uint32_t lane)
{
	return __atomic_load_n(&s.arrived[lane], __ATOMIC_ACQUIRE);
}

static void cpu_send(const struct flow *f)
{
	std::vector<uint64_t> sent(o.lanes);
	uint64_t left = f->j.n * o.lanes;
	uint32_t lane;

	while (left) {
		for (lane = 0; lane < o.lanes; lane++) {
			for (; sent[lane] < f->j.n && sent[lane] - acked(lane) < o.window;
			     sent[lane]++, left--)
				message_submit(f, lane,
					       lane * f->j.span + sent[lane] % o.window * o.len);
		}
		urccl_submit(s.end.ring);
	}
	for (lane = 0; lane < o.lanes; lane++)
		while (acked(lane) < f->j.n)
			;
}

static void part_cpu(void)
{
	struct flow f = flow_of();
	double begun;

	begin();
	if (o.rank)
		flow_receive(&f, o.lanes, results);
	link_barrier(&s);
	begun = now_s();
	if (!o.rank) {
		cpu_send(&f);
		rates_print("cpu", f.j.n * o.lanes, now_s() - begun);
	} else {
		flow_wait();
		results_take("cpu");
	}
	link_barrier(&s);
}

/* ---- WRITE with notification ---- */

static void part_notify(void)
{
	struct flow f = flow_of();
	uint64_t n = f.j.n * o.lanes, got = 0;
	struct urccl_cqe *cqe;

	f.j.kind = KIND_WRITE_NOTIFY;
	f.j.by = BY_WARP;
	begin();
	if (o.rank) {
		for (double until = now_s() + 60; got < n && now_s() < until;) {
			if (urccl_wait_cqe_timeout(s.end.ring, &cqe, 100000000))
				continue;
			got += urccl_cqe_kind(cqe) == URCCL_KIND_NOTE;
			urccl_cqe_seen(s.end.ring, cqe);
		}
		if (got != n) {
			printf("notify: FAILED: %llu of %llu\n", (unsigned long long)got,
			       (unsigned long long)n);
			status = 1;
		}
	} else {
		lanes_push(&f.j, o.lanes, results);
		double took = results_take("notify");

		rates_print("notify", n, took);
	}
	link_barrier(&s);
}

/* ---- Latency ---- */

static void part_ping(void)
{
	struct flow f = flow_of();
	uint32_t lanes = o.lanes, i;
	double khz;

	f.j.n = std::min(20000ull, (unsigned long long)o.messages);
	begin();
	o.lanes = 1;
	if (o.rank)
		flow_ping(&f, 0, cycles, results);
	link_barrier(&s);
	if (!o.rank)
		flow_ping(&f, 1, cycles, results);
	flow_wait();
	results_take("ping");
	o.lanes = lanes;
	link_barrier(&s);
	if (o.rank)
		return;
	for (i = 0, khz = 0; i < f.j.n; i++)
		khz += (double)cycles[i];
	khz /= (double)(results->pushed - results->begun) * 1e-6;
	std::sort(cycles, cycles + f.j.n);
	printf("ping: %s, %u bytes and a signal, there and back: p50 %.1f us, p99 %.1f us\n",
	       o.transport, o.len, (double)cycles[f.j.n / 2] / khz * 1e3,
	       (double)cycles[f.j.n * 99 / 100] / khz * 1e3);
}

/* ---- A peer that dies ---- */

static uint32_t told_count(const uint32_t *told)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < o.lanes; i++)
		n += __atomic_load_n(&told[i], __ATOMIC_ACQUIRE);
	return n;
}

/* The process goes on: entries of another ring end. */
static int goes_on(void)
{
	struct urccl_sqe *sqe = urccl_get_sqe(s.end.ring);
	struct urccl_cqe *cqe;

	urccl_prep_nop(sqe);
	urccl_sqe_set_data64(sqe, 77);
	urccl_submit(s.end.ring);
	while (!urccl_wait_cqe_timeout(s.end.ring, &cqe, 2000000000)) {
		if (urccl_cqe_kind(cqe) == URCCL_KIND_OP && cqe->user_data == 77)
			return 1;
		urccl_cqe_seen(s.end.ring, cqe);
	}
	return 0;
}

static void lose_peer(const char *part, int signal)
{
	uint32_t *told = (uint32_t *)host_alloc(o.lanes * sizeof(*told)), n;
	struct flow f = flow_of();
	double begun, took;

	begin();
	if (o.rank)
		for (;;)
			pause();
	flow_until_failure(&f, o.lanes, told, results);
	usleep(500000);
	n = told_count(told);
	begun = now_s();
	kill(o.peer, signal);
	while (told_count(told) < o.lanes && now_s() - begun < 10)
		;
	took = now_s() - begun;
	flow_wait();
	printf("%s: %s, %u lanes push, deadline %u ms: %u told before, all %u after %.1f ms; kernel "
	       "ended after %.1f ms; the process goes on: %s\n",
	       part, o.transport, o.lanes, DEADLINE_MS, n, told_count(told), took * 1e3,
	       (now_s() - begun) * 1e3, goes_on() ? "yes" : "NO");
	fflush(stdout);
	kill(o.peer, SIGKILL);
}

static void part_kill(void)
{
	lose_peer("kill", SIGKILL);
}

static void part_stop(void)
{
	lose_peer("stop", SIGSTOP);
}

static const struct {
	const char *name;
	void (*run)(void);
	int is_asked;
} parts[] = {{"check", part_check, 0},	 {"signal", part_signal, 0}, {"cpu", part_cpu, 0},
	     {"notify", part_notify, 0}, {"ping", part_ping, 0},     {"kill", part_kill, 1},
	     {"stop", part_stop, 1}};

#define NPARTS (sizeof(parts) / sizeof(parts[0]))

static int is_chosen(uint32_t i)
{
	if (o.parts.empty())
		return !parts[i].is_asked;
	return o.parts.find("," + std::string(parts[i].name) + ",") != o.parts.npos;
}

static int run(void)
{
	struct urccl_device_ring_params params = {};
	uint32_t i;

	for (i = 0; i < NPARTS; i++)
		s.deadline_ms |= parts[i].is_asked && is_chosen(i) ? DEADLINE_MS : 0;
	link_open(&s, &o);
	results = (struct lane_result *)host_alloc(o.lanes * sizeof(*results));
	cycles = (uint64_t *)host_alloc(20000 * sizeof(*cycles));
	params.size = sizeof(params);
	params.lanes = o.lanes;
	params.entries = o.lanes > 64 ? 64 : 256;
	params.device = 1 + (uint32_t)o.gpu;
	must(urccl_device_ring_open(s.end.ctx, &params, &ring), "urccl_device_ring_open");
	must(urccl_device_ring_busy(&ring, 1), "urccl_device_ring_busy");
	for (i = 0; i < NPARTS; i++)
		if (is_chosen(i))
			parts[i].run();
	urccl_device_ring_close(&ring);
	link_close(&s);
	return status;
}

int main(int argc, char **argv)
{
	int ended = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	options_read(&o, argc, argv);
	if (!o.self)
		return run();
	o.peer = rank_start(argv, 1);
	o.rank = 0;
	status |= run();
	kill(o.peer, SIGCONT);
	waitpid(o.peer, &ended, 0);
	if (WIFEXITED(ended))
		status |= WEXITSTATUS(ended);
	return status;
}
