/* SPDX-License-Identifier: Apache-2.0 */
/* A test's program under another locale. */
#ifndef TEST_GERMAN_H
#define TEST_GERMAN_H

#include <locale.h>
#include "test.h"

/* Sets the locale that TEST_LOCALE of the environment names, in which numbers have a comma. */
static inline void german_begin(void)
{
	const char *name = getenv("TEST_LOCALE");
	char number[16];

	if (!name)
		return;
	if (!setlocale(LC_ALL, name))
		SKIP("this machine has no such locale");
	snprintf(number, sizeof(number), "%.1f", 12.5);
	CHECK(!strcmp(number, "12,5"));
}

#endif
