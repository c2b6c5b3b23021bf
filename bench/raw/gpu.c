/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of GPUs by the CUDA driver alone. read, write: from and to memory of another process, by a
 * legacy handle. local: between two GPUs of this process, or within one. host: pinned memory to the
 * GPU and back. --depth copies (16) are outstanding; a word follows each quarter of them, which the
 * GPU writes into pinned memory and the program waits for. latency: one copy of 4 KiB into the
 * other process's memory and its word, from the call until the word is seen. --span is walked
 * before the same bytes come again. --device A,B: numbers of the GPUs.
 */
#include "pair.h"
#include "../common/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LATENCY_BYTES = 4096, DEPTH = 16, WORD_BYTES = 4096 };

static struct raw_options options;
static int gpu[2] = {-1, -1};

/* A stream, and the word that says how many copies of it have ended. */
struct lane {
	void *stream;
	uint64_t *word;
	uint64_t copies; /* of the runs before */
	uint8_t *to;
	const uint8_t *from;
};

static void choose_gpus(void)
{
	if (options.device && sscanf(options.device, "%d,%d", &gpu[0], &gpu[1]) != 2)
		bench_die("--device wants two numbers of GPUs");
	if (gpu[0] < 0)
		gpu[0] = 0;
	if (gpu[1] < 0)
		gpu[1] = cuda_gpus() > 1;
}

static void *need(void *p)
{
	if (!p)
		bench_die("there is not so much memory: %lu bytes", options.span);
	return p;
}

/* of: FIRST or SECOND, whose bytes they are. */
static void fill(int which, void *to, uint64_t len, uint64_t of)
{
	uint8_t *bytes = need(malloc(len));

	raw_fill(bytes, len, of);
	cuda_copy(which, to, bytes, len);
	free(bytes);
}

static uint8_t is_same(int which, const void *from, uint64_t len, uint64_t of)
{
	uint8_t *bytes = need(malloc(len)), is;

	cuda_copy(which, bytes, from, len);
	is = (uint8_t)raw_same(bytes, len, of);
	free(bytes);
	return is;
}

/* ---- copies ---- */

static struct lane lane_open(void *to, const void *from)
{
	struct lane l = {.to = to, .from = from};

	cuda_use(gpu[0]);
	l.stream = cuda_stream();
	l.word = need(cuda_alloc_host(gpu[0], WORD_BYTES));
	*l.word = 0;
	return l;
}

static void wait_for(const struct lane *l, uint64_t copies)
{
	while (__atomic_load_n(l->word, __ATOMIC_ACQUIRE) < copies)
		bench_relax();
}

/* Copies for so many seconds, and over the whole span at least. Returns how many. */
static uint64_t copy(struct lane *l, double seconds)
{
	uint64_t depth = options.depth ? options.depth : DEPTH, every = depth > 4 ? depth / 4 : 1;
	uint64_t places = options.span / options.size, start = bench_now(), n = 0;

	while (n < places || (double)(bench_now() - start) < seconds * 1e9) {
		uint64_t at = n % places * options.size;

		cuda_copy_async(l->stream, l->to + at, l->from + at, options.size);
		n++;
		if (!(n % every))
			cuda_mark(l->stream, l->word, l->copies + n);
		if (n >= depth)
			wait_for(l, l->copies + n - depth + 1);
	}
	l->copies += n;
	cuda_mark(l->stream, l->word, l->copies);
	wait_for(l, l->copies);
	return n;
}

static void bandwidth(struct report *r, struct lane *l, const char *name)
{
	uint64_t start, n;

	copy(l, options.seconds / 4);
	start = bench_now();
	n = copy(l, options.seconds);
	report_metric(r, (double)(n * options.size) / (double)(bench_now() - start), "GB/s",
		      "gpu.%s.bandwidth", name);
}

static void one(void *end, const void *mode)
{
	struct lane *l = end;

	(void)mode;
	cuda_copy_async(l->stream, l->to, l->from, LATENCY_BYTES);
	cuda_mark(l->stream, l->word, ++l->copies);
	wait_for(l, l->copies);
}

/* ---- two processes ---- */

/* Its memory is there until the first process is done. */
static void second(int fd)
{
	struct cuda_handle handle;
	void *memory;
	uint64_t len;
	uint8_t is;

	choose_gpus();
	memory = need(cuda_alloc(gpu[1], options.span));
	fill(gpu[1], memory, options.span, SECOND);
	cuda_export(memory, &handle);
	pair_send(fd, &handle, sizeof(handle));
	while (recv(fd, &len, sizeof(len), MSG_WAITALL) == sizeof(len)) {
		is = is_same(gpu[1], memory, len, FIRST);
		pair_send(fd, &is, sizeof(is));
	}
	_exit(0);
}

static void write_there(struct report *r, struct lane *l, const struct pair *p)
{
	uint8_t is;

	bandwidth(r, l, "peer.write");
	pair_send(p->fd, &options.span, sizeof(options.span));
	pair_receive(p->fd, &is, sizeof(is));
	if (!is)
		bench_die("the bytes at the other process are not those that were written");
}

static void read_there(struct report *r, struct lane *l)
{
	bandwidth(r, l, "peer.read");
	if (!is_same(gpu[0], l->to, options.span, SECOND))
		bench_die("the bytes that were read are not those of the other process");
}

/* Reads come first, for writes change what is there. */
static void peer(struct report *r, struct pair *p)
{
	void *mine = need(cuda_alloc(gpu[0], options.span)), *theirs;
	struct cuda_handle handle;
	struct lane l;

	pair_receive(p->fd, &handle, sizeof(handle));
	cuda_use(gpu[0]);
	theirs = cuda_import(&handle);
	l = lane_open(mine, theirs);
	if (raw_wanted(&options, "read"))
		read_there(r, &l);
	fill(gpu[0], mine, options.span, FIRST);
	l = lane_open(theirs, mine);
	if (raw_wanted(&options, "latency"))
		pair_latency(r, options.seconds, "gpu.latency", one, &l, NULL);
	if (raw_wanted(&options, "write"))
		write_there(r, &l, p);
	cuda_unmap(theirs);
	cuda_free(gpu[0], mine);
	pair_end(p);
}

/* ---- one process ---- */

static void local(struct report *r)
{
	uint8_t *from = need(cuda_alloc(gpu[0], options.span));
	uint8_t *to = need(cuda_alloc(gpu[1], options.span));
	struct lane l;

	fill(gpu[0], from, options.span, FIRST);
	cuda_use(gpu[0]);
	if (gpu[1] != gpu[0])
		cuda_reach(gpu[1]);
	l = lane_open(to, from);
	bandwidth(r, &l, "local");
	if (!is_same(gpu[1], to, options.span, FIRST))
		bench_die("the bytes at the other GPU are not those that were written");
	cuda_free(gpu[1], to);
	cuda_free(gpu[0], from);
}

static void host(struct report *r)
{
	uint8_t *here = need(cuda_alloc_host(gpu[0], options.span));
	uint8_t *there = need(cuda_alloc(gpu[0], options.span));
	struct lane l;

	raw_fill(here, options.span, FIRST);
	l = lane_open(there, here);
	bandwidth(r, &l, "host.to");
	if (!is_same(gpu[0], there, options.span, FIRST))
		bench_die("the bytes at the GPU are not those that were written");
	fill(gpu[0], there, options.span, SECOND);
	l = lane_open(here, there);
	bandwidth(r, &l, "host.from");
	if (!raw_same(here, options.span, SECOND))
		bench_die("the bytes that were read are not those of the GPU");
	cuda_free(gpu[0], there);
	cuda_free_host(gpu[0], here);
}

int main(int argc, char **argv)
{
	struct report r;
	struct pair p;
	int pairs;

	raw_options(&options, argc, argv,
		    "raw_gpu: copies of GPUs (--mode read|write|latency|local|host)");
	options.size = options.size ? options.size : 1u << 20;
	if (options.span < options.size || options.span < LATENCY_BYTES)
		options.span = options.size < LATENCY_BYTES ? LATENCY_BYTES : options.size;
	options.span -= options.span % options.size;
	pairs = raw_wanted(&options, "read") || raw_wanted(&options, "write") ||
		raw_wanted(&options, "latency");
	if (pairs)
		pair_start(&p, &options, second);
	choose_gpus();
	report_open(&r, "raw_gpu", options.json);
	report_setting(&r, "size", "%lu", options.size);
	report_setting(&r, "span", "%lu", options.span);
	report_setting(&r, "gpus", "%d,%d", gpu[0], gpu[1]);
	if (pairs)
		peer(&r, &p);
	if (raw_wanted(&options, "local"))
		local(&r);
	if (raw_wanted(&options, "host"))
		host(&r);
	report_close(&r);
	return 0;
}
