/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codec beside memcpy on one core: encode and decode of N(0, 1), payload alone and with CRC32C.
 * The jobs take turns in each of nine rounds; a figure is the median of its rounds, in bytes of
 * data that are not coded per second of the thread's CPU time, so that other programs disturb it
 * less.
 */
#include "common.h"
#include "report.h"

#include <liburccl/codec.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS	 9
#define JOBS_MAX 16

struct job {
	const char *name;
	int codec; /* -1: memcpy */
	int back;  /* decode */
	double rates[ROUNDS];
};

static struct job jobs[JOBS_MAX] = {
	{"memcpy", -1, 0, {0}},
	{"n23.encode", URCCL_CODEC_N23 | URCCL_CODEC_NO_CRC, 0, {0}},
	{"n23.decode", URCCL_CODEC_N23 | URCCL_CODEC_NO_CRC, 1, {0}},
	{"fw4.encode", URCCL_CODEC_FW4 | URCCL_CODEC_NO_CRC, 0, {0}},
	{"fw4.decode", URCCL_CODEC_FW4 | URCCL_CODEC_NO_CRC, 1, {0}},
	{"n23.crc.encode", URCCL_CODEC_N23, 0, {0}},
	{"n23.crc.decode", URCCL_CODEC_N23, 1, {0}},
	{"fw4.crc.encode", URCCL_CODEC_FW4, 0, {0}},
	{"fw4.crc.decode", URCCL_CODEC_FW4, 1, {0}},
};

static const struct {
	const char *name;
	int dtype, exp_bits, mantissa_bits;
} types[] = {
	{"bf16", URCCL_DTYPE_BF16, 8, 7},     {"fp16", URCCL_DTYPE_FP16, 5, 10},
	{"fp32", URCCL_DTYPE_FP32, 8, 23},    {"e4m3", URCCL_DTYPE_FP8_E4M3, 4, 3},
	{"e5m2", URCCL_DTYPE_FP8_E5M2, 5, 2},
};

static uint64_t size = 1 << 20;
static double seconds = 0.02;
static int type, json;
static uint8_t *data, *copy, *chunk;
static uint64_t bound;

static double uniform(uint64_t *state)
{
	return ((double)(bench_random(state) >> 11) + 0.5) / (double)(1ull << 53);
}

/* By Box and Muller. */
static float normal(uint64_t *state)
{
	double r = sqrt(-2 * log(uniform(state)));

	return (float)(r * cos(6.283185307179586 * uniform(state)));
}

/* A value of the type's normal range to its bits, to the nearest; smaller ones to 0. */
static uint32_t to_bits(float value)
{
	uint32_t v, exp_bits = (uint32_t)types[type].exp_bits;
	uint32_t mantissa = (uint32_t)types[type].mantissa_bits, drop = 23 - mantissa, sign;
	uint32_t bias = 127 - ((1u << (exp_bits - 1)) - 1);

	memcpy(&v, &value, 4);
	sign = v >> 31 << (exp_bits + mantissa);
	v &= 0x7fffffff;
	v += drop ? 1u << (drop - 1) : 0;
	return v >> 23 <= bias ? sign : (v - (bias << 23)) >> drop | sign;
}

static void fill(void)
{
	uint64_t state = 1, i;
	uint32_t v, bytes = (uint32_t)(1 + types[type].exp_bits + types[type].mantissa_bits) / 8;

	for (i = 0; i + bytes <= size; i += bytes) {
		v = to_bits(normal(&state));
		memcpy(data + i, &v, bytes);
	}
}

static void once(const struct job *j, uint64_t coded)
{
	int64_t res = (int64_t)size;

	if (j->codec < 0)
		memcpy(copy, data, size);
	else if (j->back)
		res = urccl_codec_decode(chunk, coded, copy, size);
	else
		res = urccl_codec_encode(j->codec, types[type].dtype, data, size, chunk, bound);
	/* The compiler must not find that a copy is for nothing. */
	__asm__ volatile("" ::: "memory");
	if (res < 0)
		bench_die("%s: %s", j->name, strerror((int)-res));
}

static double cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double rate(const struct job *j)
{
	uint64_t times = 0, coded = 0;
	double begin, now;

	if (j->back)
		coded = (uint64_t)urccl_codec_encode(j->codec, types[type].dtype, data, size, chunk,
						     bound);
	once(j, coded);
	begin = cpu_time();
	do {
		once(j, coded);
		times++;
		now = cpu_time();
	} while (now - begin < seconds);
	if (memcmp(copy, data, size) && (j->back || j->codec < 0))
		bench_die("%s: the data is not what it was", j->name);
	return (double)(size * times) / (now - begin) / 1e9;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double ratio(int codec)
{
	int64_t coded = urccl_codec_encode(codec, types[type].dtype, data, size, chunk, bound);

	return (double)size / (double)coded;
}

static void measure(void)
{
	struct report r;
	uint32_t round, i;

	for (round = 0; round < ROUNDS; round++)
		for (i = 0; jobs[i].name; i++)
			jobs[i].rates[round] = rate(&jobs[i]);
	report_open(&r, "codec", json);
	report_setting(&r, "size", "%llu", (unsigned long long)size);
	report_setting(&r, "dtype", "%s", types[type].name);
	for (i = 0; jobs[i].name; i++) {
		qsort(jobs[i].rates, ROUNDS, sizeof(double), compare);
		report_metric(&r, jobs[i].rates[ROUNDS / 2], "GB/s", "%s", jobs[i].name);
		if (i)
			report_metric(&r, jobs[i].rates[ROUNDS / 2] / jobs[0].rates[ROUNDS / 2],
				      "of memcpy", "%s.share", jobs[i].name);
	}
	report_metric(&r, ratio(URCCL_CODEC_N23), "to 1", "n23.ratio");
	report_metric(&r, ratio(URCCL_CODEC_FW4), "to 1", "fw4.ratio");
	report_close(&r);
}

static void parse(int argc, char **argv)
{
	double number;
	int i, cpu = bench_cpu(0);
	uint32_t k;

	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json")) {
			json = 1;
		} else if (i + 1 < argc && !strcmp(argv[i], "--size") &&
			   !bench_parse_size(argv[i + 1], &size) && size) {
			i++;
		} else if (i + 1 < argc && !strcmp(argv[i], "--duration") &&
			   !bench_parse_double(argv[i + 1], &seconds)) {
			i++;
		} else if (i + 1 < argc && !strcmp(argv[i], "--cpu") &&
			   !bench_parse_double(argv[i + 1], &number)) {
			cpu = (int)number;
			i++;
		} else if (i + 1 < argc && !strcmp(argv[i], "--dtype")) {
			for (type = -1, k = 0; k < sizeof(types) / sizeof(types[0]); k++)
				if (!strcmp(argv[i + 1], types[k].name))
					type = (int)k;
			if (type < 0)
				bench_die("--dtype is one of bf16, fp16, fp32, e4m3, e5m2");
			i++;
		} else {
			bench_die(
				"usage: codec [--size 1m] [--dtype bf16] [--duration SECONDS] [--cpu N] [--json]");
		}
	}
	bench_pin(cpu);
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	bound = urccl_codec_bound(types[type].dtype, size);
	data = bench_map(size, BENCH_PAGES_THP);
	copy = bench_map(size, BENCH_PAGES_THP);
	chunk = bench_map(bound, BENCH_PAGES_THP);
	fill();
	measure();
	return 0;
}
