/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines of a context on their way to a Python callable. The control thread queues them and
 * never waits for the GIL; the main thread passes them on between two bytecodes. */
#ifndef LOG_H
#define LOG_H

struct log;

struct log *log_new(void);
/* For urccl_params: any thread. arg is the struct log. */
void log_line(void *arg, int level, const char *text);
/* Calls callable(level, text) for each queued line; NULL: drops them. With the GIL. */
void log_drain(struct log *log, void *callable);
/* A pending call finds the callable here: a PyObject * that the owner holds. */
void log_set_callable(struct log *log, void *callable);
/* No line comes any more. With the GIL. NULL is fine. */
void log_free(struct log *log);

#endif
