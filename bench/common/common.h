/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every measuring program needs: time, CPU, memory, words and numbers on the command line. A
 * measuring program that cannot go on says so and exits: bench_die().
 */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <stddef.h>
#include <stdint.h>

enum bench_pages { BENCH_PAGES_4K = 0, BENCH_PAGES_THP };

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t bench_now(void);

/* User and system CPU seconds of this process, all threads. */
double bench_cpu_seconds(void);

/* Binds the calling thread (and threads it makes later) to one CPU; below 0: to all those that the
 * program was started with. */
void bench_pin(int cpu);

/* The n-th CPU, from 0, of those that the program was started with; -1: there are fewer. */
int bench_cpu(int n);

/* The n-th of them after this one; the first follows the last. Below 0 stays below 0. */
int bench_cpu_after(int cpu, uint32_t n);

/* Resident and proportional set size of this process in bytes. */
uint64_t bench_rss(void);
uint64_t bench_pss(void);

/* 1: the system can give so many bytes without taking them from others. */
int bench_has_memory(uint64_t len);

/*
 * Private anonymous memory, every page present, filled with one byte; never shared with a forked
 * child.
 */
void *bench_map(size_t len, enum bench_pages pages);

/* The same, or NULL with errno where it is not to be had. */
void *bench_try_map(size_t len, enum bench_pages pages);

/* "4096", "64k", "1m", "1g" (powers of two), "0x10"; -1 if it is something else. */
int bench_parse_size(const char *text, uint64_t *value);
int bench_parse_double(const char *text, double *value);

/* What was printed so far is written; exits where it cannot be, as on a full disk. */
void bench_flush(void);

/* Prints "program: sentence" to stderr and exits with 1. */
void bench_die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* A step of a spin loop: tells the core that it waits. */
static inline void bench_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* The next number of a small generator (xorshift64*); *state must not be 0. */
static inline uint64_t bench_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dull;
}

#endif
