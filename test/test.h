/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every test stands on. main() returns 0 when all checks held; a check that fails prints
 * where and what and ends the process with 1 (from any thread), SKIP() says why and ends it with
 * 77, which the runner counts as skipped.
 */
#ifndef TEST_H
#define TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* _exit(), not exit(): other threads of the test may still run. */
__attribute__((noreturn)) static inline void test_end(int status)
{
	fflush(stdout);
	fflush(stderr);
	_exit(status);
}

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s: failed: %s\n", __FILE__, __LINE__, __func__,   \
				#cond);                                                            \
			test_end(1);                                                               \
		}                                                                                  \
	} while (0)

/* Compares integers (or pointers) as long long and prints both; each is evaluated once. */
#define CHECK_CMP(a, op, b)                                                                        \
	do {                                                                                       \
		long long check_a = (long long)(a), check_b = (long long)(b);                      \
		if (!(check_a op check_b)) {                                                       \
			fprintf(stderr, "%s:%d: %s: failed: %s " #op " %s: %lld, %lld (%#llx, "    \
				"%#llx)\n", __FILE__, __LINE__, __func__, #a, #b, check_a,         \
				check_b, (unsigned long long)check_a,                              \
				(unsigned long long)check_b);                                      \
			test_end(1);                                                               \
		}                                                                                  \
	} while (0)

#define CHECK_EQ(a, b) CHECK_CMP(a, ==, b)
#define CHECK_NE(a, b) CHECK_CMP(a, !=, b)
#define CHECK_GE(a, b) CHECK_CMP(a, >=, b)
#define CHECK_LE(a, b) CHECK_CMP(a, <=, b)

/* part is in text; both are strings, and evaluated once. */
#define CHECK_SAYS(text, part)                                                                     \
	do {                                                                                       \
		const char *check_text = (text), *check_part = (part);                             \
		if (!strstr(check_text, check_part)) {                                             \
			fprintf(stderr, "%s:%d: %s: failed: \"%s\" does not say \"%s\"\n",         \
				__FILE__, __LINE__, __func__, check_text, check_part);             \
			test_end(1);                                                               \
		}                                                                                  \
	} while (0)

/* reason: what this machine cannot do, a string literal or a char pointer. */
#define SKIP(reason)                                                                               \
	do {                                                                                       \
		printf("skipped: %s\n", (reason));                                                 \
		test_end(77);                                                                      \
	} while (0)

#endif
