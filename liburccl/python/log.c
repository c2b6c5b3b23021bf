/* SPDX-License-Identifier: Apache-2.0 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

#define LINES_MAX 1024 /* queued; more are dropped while the main thread does not look */

struct line {
	struct line *next;
	int level;
	char text[];
};

struct log {
	pthread_mutex_t lock; /* of the next four members */
	struct line *first, *last;
	int nlines;
	int pending;	    /* a pending call has the pointer */
	int draining;	    /* under the GIL */
	int freed;	    /* under the GIL */
	PyObject *callable; /* under the GIL; the owner's */
};

struct log *log_new(void)
{
	struct log *log = calloc(1, sizeof(*log));

	if (log)
		pthread_mutex_init(&log->lock, NULL);
	return log;
}

void log_set_callable(struct log *log, void *callable)
{
	log->callable = callable;
}

static struct line *take_lines(struct log *log)
{
	struct line *line;

	pthread_mutex_lock(&log->lock);
	line = log->first;
	log->first = log->last = NULL;
	log->nlines = 0;
	pthread_mutex_unlock(&log->lock);
	return line;
}

void log_drain(struct log *log, void *callable)
{
	struct line *line = take_lines(log), *next;

	for (; line; line = next) {
		PyObject *done = NULL;

		next = line->next;
		if (callable)
			done = PyObject_CallFunction(callable, "is", line->level, line->text);
		if (callable && !done)
			PyErr_WriteUnraisable(callable);
		Py_XDECREF(done);
		free(line);
	}
}

/* Frees it once its owner has, and no call of it is pending or under way. */
static void log_release(struct log *log)
{
	int pending;

	pthread_mutex_lock(&log->lock);
	pending = log->pending;
	pthread_mutex_unlock(&log->lock);
	if (!log->freed || log->draining || pending)
		return;
	log_drain(log, NULL);
	pthread_mutex_destroy(&log->lock);
	free(log);
}

static int drain_pending(void *arg)
{
	struct log *log = arg;
	PyObject *callable = Py_XNewRef(log->callable);

	pthread_mutex_lock(&log->lock);
	log->pending = 0;
	pthread_mutex_unlock(&log->lock);
	log->draining++; /* the callable may end the context */
	log_drain(log, callable);
	log->draining--;
	Py_XDECREF(callable);
	log_release(log);
	return 0;
}

void log_free(struct log *log)
{
	if (!log)
		return;
	log->callable = NULL;
	log->freed = 1;
	log_release(log);
}

void log_line(void *arg, int level, const char *text)
{
	size_t len = strlen(text) + 1;
	struct line *line = malloc(sizeof(*line) + len);
	struct log *log = arg;
	int call = 0;

	if (!line)
		return;
	line->next = NULL;
	line->level = level;
	memcpy(line->text, text, len);
	pthread_mutex_lock(&log->lock);
	if (log->nlines == LINES_MAX) {
		free(line);
	} else {
		if (log->first)
			log->last->next = line;
		else
			log->first = line;
		log->last = line;
		log->nlines++;
		call = !log->pending;
		log->pending = 1;
	}
	pthread_mutex_unlock(&log->lock);
	/* With too many calls pending, the next line or the end of the context tries again. */
	if (call && Py_AddPendingCall(drain_pending, log)) {
		pthread_mutex_lock(&log->lock);
		log->pending = 0;
		pthread_mutex_unlock(&log->lock);
	}
}
