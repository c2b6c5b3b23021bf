/* SPDX-License-Identifier: Apache-2.0 */
/* How fast is it, in the manner of ucx_perftest and ib_write_bw. --help says how to ask. */
#include "client.h"
#include "handshake.h"
#include "idle.h"
#include "register.h"
#include "serve.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char default_listen[] = "127.0.0.1:18515";

/* Of one of several contexts: its options, and where it listens. */
struct context {
	struct options options;
	char where[URCCL_METADATA_MAX];
	int say_fd;
	pthread_t thread;
};

/* HOST:PORT of the context of this number: that of the first, and then the next ports. */
static const char *where_of(const char *first, uint32_t number, char where[URCCL_METADATA_MAX])
{
	const char *port = strrchr(first, ':');
	int host = port ? (int)(port - first) : 0;

	if (!number)
		return first;
	if (!port || snprintf(where, URCCL_METADATA_MAX, "%.*s:%d", host, first,
			      atoi(port + 1) + (int)number) >= (int)URCCL_METADATA_MAX)
		bench_die("'%s' is no HOST:PORT", first);
	return where;
}

/* Each context has the options, with CPUs and a port of its own. */
static struct context *contexts_make(const struct options *o)
{
	struct context *all = calloc(o->contexts, sizeof(*all));
	uint32_t i;

	if (!all)
		bench_die("out of memory");
	for (i = 0; i < o->contexts; i++) {
		struct options *own = &all[i].options;

		*own = *o;
		own->cpu[OURS] = bench_cpu_after(o->cpu[OURS], i * o->rings);
		own->cpu[SERVERS] = bench_cpu_after(o->cpu[SERVERS], i);
		own->engine_cpu[OURS] = bench_cpu_after(o->engine_cpu[OURS], i);
		own->engine_cpu[SERVERS] = bench_cpu_after(o->engine_cpu[SERVERS], i);
		if (o->listen)
			own->listen = where_of(o->listen, i, all[i].where);
	}
	return all;
}

/* whom: one for each context, or NULL. */
static void run_clients(const struct options *o, const struct whom *whom)
{
	struct context *all = contexts_make(o);
	struct client *c = calloc(o->contexts, sizeof(*c));
	uint32_t i;

	if (!c)
		bench_die("out of memory");
	for (i = 0; i < o->contexts; i++)
		client_open(&c[i], &all[i].options, whom ? &whom[i] : NULL);
	bench_pin(o->cpu[OURS]);
	if (o->job == JOB_RANDOM)
		client_random(c);
	else if (o->job == JOB_PING)
		client_ping(c);
	else
		client_measure(c, o->contexts);
	for (i = 0; i < o->contexts; i++)
		client_close(&c[i]);
	free(c);
	free(all);
}

static void *serve_one(void *arg)
{
	struct context *c = arg;

	serve(&c->options, c->say_fd >= 0, c->say_fd);
	return NULL;
}

/* All contexts, each by a thread of its own. */
static void serve_all(const struct options *o, int say_fd)
{
	struct context *all = contexts_make(o);
	uint32_t i;

	for (i = 0; i < o->contexts; i++) {
		all[i].say_fd = say_fd;
		if (i && pthread_create(&all[i].thread, NULL, serve_one, &all[i]))
			bench_die("cannot start a thread");
	}
	serve_one(&all[0]);
	for (i = 1; i < o->contexts; i++)
		pthread_join(all[i].thread, NULL);
	free(all);
}

static void whom_read(int fd, struct whom *whom)
{
	if (read(fd, whom, sizeof(*whom)) != sizeof(*whom))
		bench_die("the server did not start");
}

/*
 * A context does not live through fork(), so both are opened after it; the server says where it is
 * by a pipe.
 */
static void run_self(const struct options *o)
{
	struct whom *whom = calloc(o->contexts, sizeof(*whom));
	int fd[2], status;
	pid_t child;
	uint32_t i;

	if (!whom || pipe(fd) < 0 || (child = fork()) < 0)
		bench_die("cannot start a server: %s", strerror(errno));
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fd[0]);
		serve_all(o, fd[1]);
		_exit(0);
	}
	close(fd[1]);
	for (i = 0; i < o->contexts; i++)
		whom_read(fd[0], &whom[i]);
	close(fd[0]);
	run_clients(o, whom);
	free(whom);
	bench_flush();
	if (waitpid(child, &status, 0) < 0 || status)
		bench_die("the server failed");
}

static void run_against(const struct options *o)
{
	struct whom *whom = calloc(o->contexts, sizeof(*whom));
	char where[URCCL_METADATA_MAX];
	const char *text;
	uint32_t i;

	if (!whom)
		bench_die("out of memory");
	for (i = 0; i < o->contexts; i++) {
		text = where_of(o->address, i, where);
		whom[i].len = (uint32_t)strlen(text);
		if (whom[i].len > sizeof(whom[i].bytes))
			bench_die("'%s' is no HOST:PORT", text);
		memcpy(whom[i].bytes, text, whom[i].len);
	}
	run_clients(o, whom);
	free(whom);
}

static void run_load(struct options *o)
{
	switch (o->role) {
	case ROLE_SERVE:
		o->listen = o->listen ? o->listen : default_listen;
		serve_all(o, -1);
		break;
	case ROLE_SELF:
		run_self(o);
		break;
	case ROLE_NOP:
		run_clients(o, NULL);
		break;
	default:
		run_against(o);
	}
}

int main(int argc, char **argv)
{
	struct options o;

	options_parse(&o, argc, argv);
	switch (o.job) {
	case JOB_IDLE:
		idle_measure(&o);
		break;
	case JOB_HANDSHAKES:
		handshake_measure(&o);
		break;
	case JOB_REGISTER:
		register_measure(&o);
		break;
	default:
		run_load(&o);
	}
	bench_flush();
	return 0;
}
