/* SPDX-License-Identifier: Apache-2.0 */
/* The linker sends the program's and the library's calls of malloc and its kin here (--wrap). */
#include "rig.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void __wrap_free(void *p);

static uint64_t made, freed; /* any thread adds */

static void *count(void *p)
{
	if (p)
		__atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
	return p;
}

void *__wrap_malloc(size_t size)
{
	return count(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
	return count(__real_calloc(n, size));
}

void *__wrap_realloc(void *p, size_t size)
{
	if (p)
		__atomic_fetch_add(&freed, 1, __ATOMIC_RELAXED);
	return count(__real_realloc(p, size));
}

void __wrap_free(void *p)
{
	if (p)
		__atomic_fetch_add(&freed, 1, __ATOMIC_RELAXED);
	__real_free(p);
}

uint64_t allocations(void)
{
	return load_relaxed(&made);
}

int64_t allocations_held(void)
{
	return (int64_t)(load_relaxed(&made) - load_relaxed(&freed));
}
