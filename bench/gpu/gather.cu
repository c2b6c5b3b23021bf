/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather [--seconds S] [--idle|--host]: 10,000 scattered blocks from this process's GPU to memory
 * of another process, on a second GPU where there is one: by a raw kernel, by the raw batch call
 * and by one paged entry of liburccl, in turn, so that all see the same machine; on an idle GPU and
 * beside matrix products. Medians. Those in a row follow an entry at once; the others find the
 * library asleep. Then the time to submit a paged entry of 100,000 blocks.
 *
 * --idle: without matrix products. --host: blocks of pinned memory to the peer's GPU and back, by
 * the kernel and the library.
 */
#include "ends.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#define N     10000u
#define MANY  100000u
#define LEN   ((size_t)N * (64u << 10))
#define SPINS 10000000 /* looks for a CQE */
#define RIGHT (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

/* The other process sends it to this one. */
struct owner {
	cudaIpcMemHandle_t raw;
	struct urccl_advert advert;
	uint8_t blob[URCCL_METADATA_MAX];
	int blob_len;
};

static struct end us;
static struct urccl_remote remote;
static struct urccl_region region;
static char *local, *raw_there;
static std::vector<uint32_t> here(N), there(N);
static double seconds = 0.5;
static int is_host, is_back; /* local memory is of the host; blocks come back from the peer */
static int is_idle;

static struct urccl_cqe take(void)
{
	for (int i = 0; i < SPINS && !urccl_peek_cqe(us.ring); i++)
		; /* as cudaStreamSynchronize() does */
	return end_take(&us);
}

/* ---- the other process ---- */

static void serve(int to)
{
	struct owner o = {};
	struct end s;
	int gpus;
	char *m;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	CUDA(cudaGetDeviceCount(&gpus));
	CUDA(cudaSetDevice(gpus > 1));
	CUDA(cudaMalloc((void **)&m, LEN));
	CUDA(cudaIpcGetMemHandle(&o.raw, m));
	CUDA(cudaMalloc((void **)&m, LEN));
	end_open(&s, "shm", 0);
	must(urccl_advertise(s.ctx, end_register(&s, m, LEN, RIGHT), 0, LEN, RIGHT, 0, &o.advert),
	     "urccl_advertise");
	o.blob_len = urccl_metadata(s.ctx, o.blob, sizeof(o.blob));
	must(o.blob_len, "urccl_metadata");
	urccl_prep_accept(urccl_get_sqe(s.ring));
	urccl_submit(s.ring);
	if (write(to, &o, sizeof(o)) != sizeof(o))
		exit(1);
	for (;;)
		pause();
}

static pid_t start(const char *self, struct owner *o)
{
	int fds[2];
	pid_t pid;

	if (pipe(fds))
		exit(1);
	pid = fork();
	if (!pid) {
		std::string to = std::to_string(fds[1]);

		execl(self, self, "--serve", to.c_str(), (char *)NULL);
		_exit(1);
	}
	close(fds[1]);
	if (read(fds[0], o, sizeof(*o)) != sizeof(*o))
		exit(1);
	return pid;
}

static void join(const struct owner *o)
{
	struct urccl_peer peer;

	char *of_gpu;

	end_open(&us, "shm", 0);
	CUDA(cudaMalloc((void **)&of_gpu, 4096)); /* who has none stages what goes to GPUs */
	end_register(&us, of_gpu, 4096, 0);
	region = end_register(&us, local, LEN, 0);
	urccl_prep_connect(urccl_get_sqe(us.ring), o->blob, (uint32_t)o->blob_len);
	urccl_submit(us.ring);
	peer.id = (uint32_t)take().handle;
	must(urccl_import(us.ctx, peer, &o->advert, 1, &remote), "urccl_import");
}

/* ---- ours ---- */

/* Seconds; *call_us: to make and submit the entry. */
static double ours(const struct blocks *b, double *call_us, uint32_t *path)
{
	static struct urccl_paged d;
	struct urccl_sqe *sqe;
	double begun = now_s();
	struct urccl_cqe cqe;
	double took;

	d = {};
	d.size = sizeof(d);
	d.ndims = 1;
	d.block = b->len;
	d.dim[0].count = b->n;
	d.dim[0].local_stride = d.dim[0].remote_stride = b->len;
	d.dim[0].local_index = (uintptr_t)b->here;
	d.dim[0].remote_index = (uintptr_t)b->there;
	sqe = urccl_get_sqe(us.ring);
	if (is_back)
		urccl_prep_read_paged(sqe, remote, region, &d, 1);
	else
		urccl_prep_write_paged(sqe, remote, region, &d, 1);
	urccl_submit(us.ring);
	*call_us = (now_s() - begun) * 1e6;
	cqe = take();
	took = now_s() - begun;
	*path = cqe.path;
	return took;
}

static double median(std::vector<double> &v)
{
	std::sort(v.begin(), v.end());
	return v[v.size() / 2];
}

static void compare(uint32_t len, const char *beside)
{
	struct blocks b = {N, len, here.data(), there.data()};
	const struct blocks back = {N, len, there.data(), here.data()};
	std::vector<double> took[4], calls[4];
	double begun = now_s(), call, gb = (double)N * len * 1e-9;
	uint32_t path, kernels = 0, n = 0;

	for (int i = 0; i < 3; i++)
		ours(&b, &call, &path);
	while (now_s() - begun < seconds || n < 5) {
		for (int i = 0; i < 3; i++) { /* each comes after each */
			int which = n % 2 ? 2 - i : i;

			if (is_host && which == 1)
				continue;
			took[which].push_back(
				which == 0 ? is_back ? raw_kernel(&back, local, raw_there, &call)
						     : raw_kernel(&b, raw_there, local, &call)
				: which == 1 ? raw_batch(&b, raw_there, local, &call)
					     : ours(&b, &call, &path));
			calls[which].push_back(call);
			if (which == 2)
				took[3].push_back(ours(&b, &call, &path));
		}
		kernels += !!(path & URCCL_PATH_KERNEL);
		n++;
	}
	double kernel = gb / median(took[0]), batch = is_host ? 0 : gb / median(took[1]);
	double our = gb / median(took[2]), row = gb / median(took[3]);
	double better = kernel > batch ? kernel : batch;

	printf("%2u KiB %-18s raw kernel %6.1f  raw batch %6.1f  liburccl %6.1f, in a row %6.1f "
	       "GB/s (%.2f, %.2f of the better, %3.0f%% with kernel)  call %.1f us, %u rounds\n",
	       len >> 10, beside, kernel, batch, our, row, our / better, row / better,
	       100. * kernels / n, median(calls[2]), n);
	fflush(stdout);
}

/* The bytes are where they belong. */
static void check(uint32_t len)
{
	struct blocks b = {N, len, here.data(), there.data()};
	std::vector<uint64_t> was((size_t)N * len / 8), got(was.size());
	struct urccl_sqe *sqe;
	double call;
	uint32_t path;

	for (size_t i = 0; i < was.size(); i++)
		was[i] = i * 0x9e3779b97f4a7c15u + len;
	CUDA(cudaMemcpy(local, was.data(), was.size() * 8, cudaMemcpyHostToDevice));
	ours(&b, &call, &path);
	CUDA(cudaMemset(local, 0, LEN));
	CUDA(cudaDeviceSynchronize());
	sqe = urccl_get_sqe(us.ring);
	urccl_prep_read(sqe, remote, local, (uint64_t)N * len, 0);
	urccl_submit(us.ring);
	take();
	CUDA(cudaMemcpy(got.data(), local, got.size() * 8, cudaMemcpyDeviceToHost));
	for (uint32_t i = 0; i < N; i++) {
		const uint64_t *a = &was[(size_t)here[i] * len / 8];

		if (!memcmp(&got[(size_t)there[i] * len / 8], a, len))
			continue;
		printf("block %u of %u bytes is wrong\n", i, len);
		exit(1);
	}
	printf("%2u KiB: all blocks are right\n", len >> 10);
}

static void submit_many(void)
{
	std::vector<uint32_t> places(MANY);
	struct blocks b = {MANY, 4096, places.data(), places.data()};
	std::vector<double> calls, took;
	uint32_t path;
	double call;

	std::iota(places.begin(), places.end(), 0);
	std::shuffle(places.begin(), places.end(), std::mt19937(3));
	for (int i = 0; i < 20; i++) {
		took.push_back(ours(&b, &call, &path));
		calls.push_back(call);
	}
	call = median(calls); /* and sorts them */
	printf("submit of %u blocks: median %.1f us, most %.1f us; to its end %.0f us\n", MANY,
	       call, calls.back(), median(took) * 1e6);
}

static int stop(pid_t pid)
{
	end_close(&us);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return 0;
}

int main(int argc, char **argv)
{
	const uint32_t lens[] = {4u << 10, 16u << 10, 64u << 10};
	struct owner o;
	pid_t pid;

	if (argc > 2 && !strcmp(argv[1], "--serve"))
		serve(atoi(argv[2]));
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--seconds") && i + 1 < argc)
			seconds = atof(argv[++i]);
		is_host |= !strcmp(argv[i], "--host");
		is_idle |= !strcmp(argv[i], "--idle");
	}
	pid = start(argv[0], &o);
	CUDA(cudaSetDevice(0));
	if (is_host)
		CUDA(cudaHostAlloc((void **)&local, LEN, cudaHostAllocDefault));
	else
		CUDA(cudaMalloc((void **)&local, LEN));
	CUDA(cudaIpcOpenMemHandle((void **)&raw_there, o.raw, cudaIpcMemLazyEnablePeerAccess));
	raw_open();
	join(&o);
	std::iota(here.begin(), here.end(), 0);
	there = here;
	std::shuffle(here.begin(), here.end(), std::mt19937(1));
	std::shuffle(there.begin(), there.end(), std::mt19937(2));
	for (uint32_t len : lens)
		check(len);
	for (int back = 0; back <= is_host; back++) {
		is_back = back;
		for (uint32_t len : lens)
			compare(len, !is_host ? "idle" : back ? "to the host" : "from the host");
	}
	if (is_host)
		return stop(pid);
	submit_many();
	if (is_idle)
		return stop(pid);
	double alone, beside;

	load_start();
	usleep(1000000);
	alone = load_stop();
	const char *what = load_start();

	for (uint32_t len : lens)
		compare(len, what);
	beside = load_stop();
	printf("%s: %.1f a second alone, %.1f beside all of the above\n", what, alone, beside);
	return stop(pid);
}
