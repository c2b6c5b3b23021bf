/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between two processes of one host: two copies through a shared ring of 16 slots of 16 KiB (both
 * ends spin), one copy by process_vm_readv, made by the destination's owner; and memcpy within one
 * process, the ceiling of memory that both have mapped. --size is a message (1 MiB), --span what is
 * walked before the same bytes come again (the message: hot; 1g: cold).
 */
#include "raw.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 16, SLOT = 16384 };

/* The shared memory: indexes count slots, and stop ends the reader. */
struct pipe_ring {
	_Alignas(128) uint64_t tail; /* writer */
	uint64_t stop_at;	     /* writer: the last index, ~0 until it is known */
	_Alignas(128) uint64_t head; /* reader */
	uint64_t ready;		     /* reader: its memory is there */
	double cpu;		     /* reader, at its end */
	_Alignas(4096) uint8_t slot[SLOTS][SLOT];
};

static struct raw_options options;

static struct pipe_ring *shared_ring(void)
{
	struct pipe_ring *r = mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (r == MAP_FAILED)
		bench_die("cannot map shared memory: %s", strerror(errno));
	r->stop_at = ~0ull;
	return r;
}

/* Bytes of each slot that are used: a message is one slot or a whole number of them. */
static uint64_t slot_bytes(void)
{
	return options.size < SLOT ? options.size : SLOT;
}

static uint64_t next(uint64_t at, uint64_t step)
{
	at += step;
	return at + step > options.span ? 0 : at;
}

/*
 * A message is a whole number of slots, so that the walk over the span is the same on both sides.
 */
static void reader(struct pipe_ring *r)
{
	uint8_t *buf;
	uint64_t at = 0, each = slot_bytes(), i;
	double cpu;

	bench_pin(options.cpu[1]);
	buf = bench_map(options.span, options.pages);
	cpu = bench_cpu_seconds();
	__atomic_store_n(&r->ready, 1, __ATOMIC_RELEASE);
	for (i = 0;; i++) {
		while (__atomic_load_n(&r->tail, __ATOMIC_ACQUIRE) == i) {
			if (__atomic_load_n(&r->stop_at, __ATOMIC_ACQUIRE) == i) {
				r->cpu = bench_cpu_seconds() - cpu;
				_exit(0);
			}
			bench_relax();
		}
		memcpy(buf + at, r->slot[i % SLOTS], each);
		at = next(at, each);
		__atomic_store_n(&r->head, i + 1, __ATOMIC_RELEASE);
	}
}

static void put_slot(struct pipe_ring *r, uint64_t i, const uint8_t *from, uint64_t len)
{
	while (i - __atomic_load_n(&r->head, __ATOMIC_ACQUIRE) >= SLOTS)
		bench_relax();
	memcpy(r->slot[i % SLOTS], from, len);
	__atomic_store_n(&r->tail, i + 1, __ATOMIC_RELEASE);
}

static void two_copy(struct report *report)
{
	struct pipe_ring *r = shared_ring();
	uint64_t at = 0, i = 0, each = slot_bytes(), start, ns;
	double cpu, gb;
	uint8_t *buf;
	pid_t child = fork();

	if (child < 0)
		bench_die("fork: %s", strerror(errno));
	if (!child)
		reader(r);
	bench_pin(options.cpu[0]);
	buf = bench_map(options.span, options.pages);
	while (!__atomic_load_n(&r->ready, __ATOMIC_ACQUIRE))
		bench_relax();
	cpu = bench_cpu_seconds();
	start = bench_now();
	do {
		uint64_t slots = options.size / each;

		for (; slots; slots--, i++, at = next(at, each))
			put_slot(r, i, buf + at, each);
		ns = bench_now() - start;
	} while ((double)ns < options.seconds * 1e9);
	while (__atomic_load_n(&r->head, __ATOMIC_ACQUIRE) != i)
		bench_relax();
	ns = bench_now() - start;
	cpu = bench_cpu_seconds() - cpu;
	__atomic_store_n(&r->stop_at, i, __ATOMIC_RELEASE);
	waitpid(child, NULL, 0);
	gb = (double)(i * each) * 1e-9;
	report_metric(report, gb / (double)ns * 1e9, "GB/s", "shm.two_copy.bandwidth");
	report_metric(report, (cpu + r->cpu) / gb, "s/GB", "shm.two_copy.cpu");
	munmap(r, sizeof(*r));
}

/* The owner of the source: says where it is, and sleeps until the reading end closes its pipe. */
static void source(const int *say, const int *wait_for)
{
	char byte;
	uint8_t *buf;

	close(say[0]);
	close(wait_for[1]);
	bench_pin(options.cpu[1]);
	buf = bench_map(options.span, options.pages);
	if (write(say[1], &buf, sizeof(buf)) != sizeof(buf))
		bench_die("pipe: %s", strerror(errno));
	while (read(wait_for[0], &byte, 1) > 0)
		;
	_exit(0);
}

static void vm_readv(struct report *report)
{
	uint8_t *buf, *remote;
	uint64_t at = 0, start, ns, bytes = 0;
	int say[2], keep[2];
	double cpu;
	pid_t child;

	if (pipe(say) < 0 || pipe(keep) < 0)
		bench_die("pipe: %s", strerror(errno));
	child = fork();
	if (child < 0)
		bench_die("fork: %s", strerror(errno));
	if (!child)
		source(say, keep);
	bench_pin(options.cpu[0]);
	buf = bench_map(options.span, options.pages);
	if (read(say[0], &remote, sizeof(remote)) != sizeof(remote))
		bench_die("the second process said nothing");
	cpu = bench_cpu_seconds();
	start = bench_now();
	do {
		struct iovec to = {buf + at, options.size}, from = {remote + at, options.size};

		if (process_vm_readv(child, &to, 1, &from, 1, 0) != (ssize_t)options.size)
			bench_die("process_vm_readv: %s", strerror(errno));
		bytes += options.size;
		at = next(at, options.size);
		ns = bench_now() - start;
	} while ((double)ns < options.seconds * 1e9);
	cpu = bench_cpu_seconds() - cpu;
	close(keep[1]);
	waitpid(child, NULL, 0);
	report_metric(report, (double)bytes / (double)ns, "GB/s", "shm.vm_readv.bandwidth");
	report_metric(report, cpu / ((double)bytes * 1e-9), "s/GB", "shm.vm_readv.cpu");
	report_metric(report, (double)ns * (double)options.size / (double)bytes, "ns",
		      "shm.vm_readv.call");
}

static void copy(struct report *report)
{
	uint8_t *from, *to;
	uint64_t at = 0, start, ns, bytes = 0;
	int i;

	bench_pin(options.cpu[0]);
	from = bench_map(options.span, options.pages);
	/* The destination is shared memory, as the peer's would be. */
	to = mmap(NULL, options.span, PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (to == MAP_FAILED)
		bench_die("cannot map shared memory: %s", strerror(errno));
	start = bench_now();
	do {
		for (i = 0; i < 16; i++) {
			memcpy(to + at, from + at, options.size);
			__asm__ volatile("" ::: "memory");
			bytes += options.size;
			at = next(at, options.size);
		}
		ns = bench_now() - start;
	} while ((double)ns < options.seconds * 1e9);
	report_metric(report, (double)bytes / (double)ns, "GB/s", "shm.memcpy.bandwidth");
}

int main(int argc, char **argv)
{
	struct report report;

	raw_options(&options, argc, argv,
		    "raw_shm: copies between two processes "
		    "(--mode two_copy|vm_readv|memcpy)");
	options.size = options.size ? options.size : 1u << 20;
	options.span = options.span > options.size ? options.span : options.size;
	report_open(&report, "raw_shm", options.json);
	report_setting(&report, "size", "%lu", options.size);
	report_setting(&report, "span", "%lu", options.span);
	report_setting(&report, "pages", "%s", options.pages == BENCH_PAGES_THP ? "thp" : "4k");
	if (options.mode && !strcmp(options.mode, "two_copy") && options.size % slot_bytes())
		bench_die("a message of two_copy is at most one slot, or whole slots, of %d bytes",
			  SLOT);
	if (raw_wanted(&options, "two_copy") && options.size % slot_bytes() == 0)
		two_copy(&report);
	if (raw_wanted(&options, "vm_readv"))
		vm_readv(&report);
	if (raw_wanted(&options, "memcpy"))
		copy(&report);
	report_close(&report);
	return 0;
}
