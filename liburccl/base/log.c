/* SPDX-License-Identifier: Apache-2.0 */
/* Log messages for the program's log function. An engine's thread never calls it. */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/base.h"

#define LINE 512u

void log_init(struct log *l, const struct urccl_params *p)
{
	l->callback = p->log;
	l->arg = p->log_arg;
	l->level = p->log_level == URCCL_LOG_DEFAULT ? URCCL_LOG_WARN : p->log_level;
}

void log_end(struct log *l)
{
	store_relaxed(&l->level, URCCL_LOG_NONE);
}

int log_wants(const struct log *l, enum urccl_log_level level)
{
	return l->callback && (uint32_t)level <= load_relaxed(&l->level);
}

void log_text(const struct log *l, enum urccl_log_level level, const char *fmt, ...)
{
	char line[LINE];
	va_list ap;

	if (!log_wants(l, level))
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	l->callback(l->arg, (int)level, line);
}

void log_stderr(void *arg, int level, const char *text)
{
	static const char *const names[] = {
		[URCCL_LOG_ERROR] = "error",
		[URCCL_LOG_WARN] = "warning",
		[URCCL_LOG_INFO] = "info",
		[URCCL_LOG_DEBUG] = "debug",
	};

	char line[LINE + 32];
	int n = snprintf(line, sizeof(line), "liburccl: %s: %s\n", names[level], text);

	(void)arg;
	/* Nobody can be told that the log does not take the line. */
	(void)write_whole(STDERR_FILENO, line, (size_t)n);
}
