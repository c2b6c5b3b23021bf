/* SPDX-License-Identifier: Apache-2.0 */
/*
 * benchmark_local [--seconds S] [--rounds N] [--transport T] [--only NAME]: kernels of one GPU push
 * to a device ring of this process, whose entries move host memory to another context of it.
 *	check	bytes, counters, notifications and failures are right
 *	push	into lanes with room, beside the same stores to memory that nobody reads
 *	rate	entries taken and ended, beside a thread that does nothing but take them
 *	latency	from push to end, seen by the kernel
 *	idle	processor time without entries, and the first push behind it
 */
#include "lanes.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <pthread.h>
#include <string>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

#define LANES		 256u
#define SPAN		 (16u << 10) /* of a lane */
#define LIMIT_NS	 60000000000ull
#define RATE_LIMIT_NS	 4000000000ull
#define KHZ(cycles, khz) ((double)(cycles) / (khz)*1e3) /* microseconds */

static const char *const kind_names[] = {"NOP",	   "WRITE",	   "READ",	  "FETCH_ADD",
					 "NOTIFY", "WRITE+NOTIFY", "WRITE+SIGNAL"};
static const char *const by_names[] = {"threads", "warps", "32 of a warp"};
static struct end a, b;
static char *local, *back; /* a's, pinned */
static char *there;	   /* b's */
static struct urccl_remote remote, counters;
static struct lane_result *results;
static uint64_t *cycles;
static double seconds = 0.25;
static uint32_t rounds = 50; /* of check */
static std::atomic<uint64_t> notes;
static std::atomic<int> ending;
static pthread_t listener;
static int status;

/* ---- The two ends ---- */

static void *listen_main(void *arg)
{
	struct urccl_cqe *cqe;

	while (!ending) {
		if (urccl_wait_cqe_timeout(b.ring, &cqe, 100000000))
			continue;
		notes += urccl_cqe_kind(cqe) == URCCL_KIND_NOTE;
		urccl_cqe_seen(b.ring, cqe);
	}
	return arg;
}

static void open_ends(const char *transport)
{
	static char *words;

	end_open(&a, transport, 0);
	end_open(&b, transport, 0);
	if (!local) {
		local = (char *)host_alloc((size_t)LANES * SPAN);
		back = (char *)host_alloc((size_t)LANES * SPAN);
		words = (char *)host_alloc(LANES * 8);
	}
	ends_connect(&a, &b);
	must(urccl_alloc(b.ctx, (size_t)LANES * SPAN, (void **)&there), "urccl_alloc");
	end_register(&a, local, (size_t)LANES * SPAN, URCCL_RIGHT_READ);
	end_register(&a, back, (size_t)LANES * SPAN, URCCL_RIGHT_WRITE);
	remote = ends_share(&a, &b, there, (size_t)LANES * SPAN);
	counters = ends_share(&a, &b, words, LANES * 8);
	ending = 0;
	pthread_create(&listener, NULL, listen_main, NULL);
}

static void close_ends(void)
{
	ending = 1;
	pthread_join(listener, NULL);
	end_close(&a);
	end_close(&b);
}

static struct urccl_device_ring ring_open(uint32_t lanes, uint32_t entries, int busy)
{
	struct urccl_device_ring_params params = {};
	struct urccl_device_ring ring;

	params.size = sizeof(params);
	params.lanes = lanes;
	params.entries = entries;
	params.device = 1;
	must(urccl_device_ring_open(a.ctx, &params, &ring), "urccl_device_ring_open");
	must(urccl_device_ring_busy(&ring, busy), "urccl_device_ring_busy");
	return ring;
}

static struct job job_of(const struct urccl_device_ring *ring, uint32_t kind, uint64_t n)
{
	struct job j = {};

	j.ring = *ring;
	j.remote = remote;
	j.counters = counters;
	j.peer = a.peer;
	j.kind = kind;
	j.per_block = 1;
	j.len = 64;
	j.local = local;
	j.span = SPAN;
	j.n = n;
	j.limit_ns = LIMIT_NS;
	return j;
}

/* Entries a second from the first push to the last end, or to the last store. */
static double rate(const struct job *j, uint32_t lanes, int until_pushed)
{
	uint64_t begun = UINT64_MAX, ended = 0, failed = 0, each;
	uint32_t i;
	int res = 0;

	for (i = 0; i < lanes; i++) {
		each = until_pushed ? results[i].pushed : results[i].ended;
		begun = std::min(begun, results[i].begun);
		ended = std::max(ended, each);
		failed += results[i].failed;
		res = results[i].res ? results[i].res : res;
	}
	if (failed || res) {
		printf("FAILED: %llu failures, %d\n", (unsigned long long)failed, res);
		status = 1;
	}
	return (double)(j->n * lanes) / ((double)(ended - begun) * 1e-9);
}

static double median(std::vector<double> &v)
{
	std::sort(v.begin(), v.end());
	return v[v.size() / 2];
}

/* ---- check ---- */

static void check_lanes(uint32_t by, uint32_t per_block)
{
	struct urccl_device_ring ring = ring_open(LANES, 16, 1);
	struct job j = job_of(&ring, 0, rounds);
	uint64_t failed = 0, before = notes;
	uint32_t i, again, wrong = 0;
	double until;

	j.by = by;
	j.per_block = per_block;
	j.span = 2048;
	for (again = 0; again < 2; again++) { /* the second kernel goes on in the same lanes */
		lanes_check(&j, LANES, back, results);
		for (i = 0; i < LANES; i++) {
			failed += results[i].failed;
			wrong += results[i].res == -ETIME ||
				 ring.words[i].ended != (again + 1) * (7 * rounds + 3);
		}
	}
	until = now_s() + 5;
	while (notes - before < 2 * rounds * LANES && now_s() < until)
		usleep(1000);
	printf("check: %u lanes by %s, %u of a block: %llu wrong, %u lanes unended, %llu of %u "
	       "notifications, %u CQEs of failures: %s\n",
	       LANES, by_names[by], per_block, (unsigned long long)failed, wrong,
	       (unsigned long long)(notes - before), 2 * rounds * LANES, urccl_cq_ready(ring.ring),
	       failed || wrong || notes - before != 2 * rounds * LANES ? "FAILED" : "right");
	status |= failed || wrong || notes - before != 2 * rounds * LANES;
	urccl_device_ring_close(&ring);
}

static void check(void)
{
	check_lanes(BY_THREAD, 1);
	check_lanes(BY_WARP, 1);
	check_lanes(BY_WARP, 8);
	check_lanes(BY_EACH, 8);
}

/* ---- push ---- */

static void push_of(uint32_t lanes, uint32_t per_block, uint32_t by)
{
	uint32_t entries = 4096, n = entries;
	std::vector<double> raw, ours;
	struct urccl_device_ring ring, none;
	struct raw_taker *t = raw_taker_start(lanes, entries, 0, &none);
	double until = now_s() + seconds;
	struct job j;

	raw_taker_stop(t);
	none.slots = (struct urccl_sqe *)host_alloc(64ull * lanes * (entries + 1));
	while (now_s() < until || ours.size() < 3) {
		j = job_of(&none, 0, n);
		j.by = by;
		j.per_block = per_block;
		raw_push(&j, lanes, results);
		raw.push_back(rate(&j, lanes, 1));
		ring = ring_open(lanes, entries, 1);
		j.ring = ring;
		lanes_push(&j, lanes, results);
		ours.push_back(rate(&j, lanes, 1));
		urccl_device_ring_close(&ring);
	}
	double r = median(raw), o = median(ours);

	printf("push: %3u lanes by %-12s, %2u blocks: stores alone %6.1f M/s, entries %6.1f M/s (%.2f)\n",
	       lanes, by_names[by], lanes / per_block, r * 1e-6, o * 1e-6,
	       o / r);
	CUDA(cudaFreeHost(none.slots));
}

static void push(void)
{
	for (uint32_t by = BY_THREAD; by <= BY_EACH; by++) {
		push_of(1, 1, by);
		push_of(2, 1, by);
		push_of(8, 1, by);
		push_of(8, 8, by);
		push_of(64, 1, by);
		push_of(256, 8, by);
	}
}

/* ---- rate ---- */

/* n is chosen so that a kernel takes about as long as the option says. */
static double rate_within(struct job *j, uint32_t lanes)
{
	double per_s;

	j->n = std::max(64u, 4096 / lanes);
	lanes_push(j, lanes, results);
	per_s = rate(j, lanes, 0);
	j->n = std::max((uint64_t)(per_s * seconds / lanes), j->n);
	lanes_push(j, lanes, results);
	return rate(j, lanes, 0);
}

static void rate_of(uint32_t kind, uint32_t lanes)
{
	uint32_t entries = lanes > 64 ? 128 : 1024, copy = kind == KIND_NOP ? 0 : 64;
	struct urccl_device_ring ring = ring_open(lanes, entries, 1), floor_ring;
	struct job j = job_of(&ring, kind, 0);

	j.limit_ns = RATE_LIMIT_NS;
	double ours = rate_within(&j, lanes), floor;
	struct raw_taker *t;

	urccl_device_ring_close(&ring);
	printf("rate: %-12s %3u lanes %7.3f M/s", kind_names[kind], lanes, ours * 1e-6);
	if (kind <= KIND_WRITE) {
		t = raw_taker_start(lanes, entries, copy, &floor_ring);
		j.ring = floor_ring;
		floor = rate_within(&j, lanes);
		raw_taker_stop(t);
		printf("   taker alone %7.3f M/s (%.2f)", floor * 1e-6, ours / floor);
	}
	printf("\n");
}

static void rates(void)
{
	for (uint32_t kind = 0; kind <= KIND_WRITE_SIGNAL; kind++) {
		rate_of(kind, 8);
		if (kind > KIND_WRITE)
			continue;
		rate_of(kind, 1);
		rate_of(kind, 64);
		rate_of(kind, 256);
	}
}

/* ---- latency ---- */

static void latency_print(const char *name, const struct job *j)
{
	double khz;

	lane_latency(j, cycles, &khz, results);
	if (results->res) {
		printf("latency: %s FAILED: %d\n", name, results->res);
		status = 1;
		return;
	}
	std::sort(cycles, cycles + j->n);
	printf("latency: %-24s p50 %6.2f us, p99 %6.2f us, most %7.1f us\n", name,
	       KHZ(cycles[j->n / 2], khz), KHZ(cycles[j->n * 99 / 100], khz),
	       KHZ(cycles[j->n - 1], khz));
}

static void latency(void)
{
	struct urccl_device_ring ring = ring_open(1, 256, 1), floor;
	struct raw_taker *t = raw_taker_start(1, 256, 64, &floor);
	struct job j;

	j = job_of(&floor, KIND_WRITE, 20000);
	latency_print("WRITE, taker alone", &j);
	raw_taker_stop(t);
	for (uint32_t kind = 0; kind <= KIND_WRITE_SIGNAL; kind++) {
		j = job_of(&ring, kind, 20000);
		latency_print(kind_names[kind], &j);
	}
	urccl_device_ring_close(&ring);
}

/* ---- idle ---- */

static double cpu_s(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static double idle_cost(double s)
{
	double cpu = cpu_s(), begun = now_s();

	usleep((useconds_t)(s * 1e6));
	return 100 * (cpu_s() - cpu) / (now_s() - begun);
}

static void idle(void)
{
	double without = idle_cost(2), khz, first = 0, worst = 0;
	struct urccl_device_ring ring = ring_open(LANES, 256, 0);
	struct job j = job_of(&ring, KIND_NOP, 1);
	uint32_t i, tries = 8;

	lane_latency(&j, cycles, &khz, results);
	usleep(1500000);
	printf("idle: 256 lanes cost %.2f %% of a core, without a ring it is %.2f %%\n",
	       idle_cost(2), without);
	for (i = 0; i < tries; i++) {
		lane_latency(&j, cycles, &khz, results);
		first += (double)(results->ended - results->begun) * 1e-3;
		worst = std::max(worst, (double)(results->ended - results->begun) * 1e-3);
		usleep(1300000);
	}
	printf("idle: first push behind 1.3 s ends after %.0f us (mean of %u), at most %.0f us\n",
	       first / tries, tries, worst);
	must(urccl_device_ring_busy(&ring, 1), "urccl_device_ring_busy");
	usleep(1300000);
	lane_latency(&j, cycles, &khz, results);
	printf("idle: the same while the ring is busy: %.0f us\n",
	       (double)(results->ended - results->begun) * 1e-3);
	urccl_device_ring_close(&ring);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} parts[] = {{"check", check},
		     {"push", push},
		     {"rate", rates},
		     {"latency", latency},
		     {"idle", idle}};
	const char *transport = "shm";
	std::string only;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--seconds"))
			seconds = atof(argv[i + 1]);
		else if (!strcmp(argv[i], "--only"))
			only += std::string(",") + argv[i + 1] + ",";
		else if (!strcmp(argv[i], "--rounds"))
			rounds = (uint32_t)atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--transport"))
			transport = argv[i + 1];
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	CUDA(cudaSetDevice(0));
	CUDA(cudaFree(0));
	results = (struct lane_result *)host_alloc(LANES * sizeof(*results));
	cycles = (uint64_t *)host_alloc(20000 * sizeof(*cycles));
	open_ends(transport);
	for (const auto &part : parts) {
		if (!only.empty() && only.find(std::string(",") + part.name + ",") == only.npos)
			continue;
		part.run();
		fflush(stdout);
	}
	close_ends();
	return status;
}
