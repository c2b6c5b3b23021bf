/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include "pusher.h"

int problem(struct problem *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p->text, sizeof(p->text), fmt, ap);
	va_end(ap);
	return -1;
}
