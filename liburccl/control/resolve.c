/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolves names on threads of their own, since the system's resolver blocks. A thread is added
 * when there are more names than idle threads: a name server that does not answer delays no other
 * name. Threads that hang there when the context is closed are left behind. They then use only
 * their own memory, and the last one frees it.
 */
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "control/private.h"

#define JOIN_NS	    NSEC_PER_SEC
#define THREADS_MAX 8u

struct resolver {
	pthread_t threads[THREADS_MAX]; /* these two are the control thread's */
	uint32_t nthreads;
	pthread_mutex_t lock; /* protects all members below */
	pthread_cond_t more;
	struct msg *jobs, **jobs_tail;
	uint32_t njobs, idle;
	uint32_t running; /* threads; read without the lock, and waited for, by resolver_close() */
	struct mailbox *out; /* NULL: the context is closed, and the last thread frees this */
	int quit;
	const char *prefix; /* written by the control thread: prefix of the threads' names */
};

static int resolver_errno(int gai)
{
	switch (gai) {
	case EAI_MEMORY:
		return -ENOMEM;
	case EAI_SYSTEM:
		return errno ? -errno : -EHOSTUNREACH;
	default:
		return -EHOSTUNREACH;
	}
}

static void resolver_look_up(struct job *job)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	struct addrinfo *all = NULL, *ai;
	int rc = getaddrinfo(job->host, job->port, &hints, &all);

	job->error = rc ? resolver_errno(rc) : -EHOSTUNREACH;
	job->gai = rc ? rc : EAI_NONAME;
	for (ai = all; ai; ai = ai->ai_next) {
		if (ai->ai_family != AF_INET && ai->ai_family != AF_INET6)
			continue;
		if (job->found++ >= METADATA_HOSTS)
			continue;
		memset(&job->addr[job->n], 0, sizeof(job->addr[job->n]));
		memcpy(&job->addr[job->n++], ai->ai_addr, ai->ai_addrlen);
	}
	if (all)
		freeaddrinfo(all);
}

static void resolver_free(struct resolver *r)
{
	while (r->jobs) {
		struct job *job = container_of(r->jobs, struct job, msg);

		r->jobs = job->msg.next;
		free(job);
	}
	pthread_mutex_destroy(&r->lock);
	pthread_cond_destroy(&r->more);
	free(r);
}

/* Waits for the next job. NULL: quit. Called with the lock held. */
static struct job *resolver_next(struct resolver *r)
{
	struct msg *msg;

	r->idle++;
	while (!r->jobs && !r->quit)
		pthread_cond_wait(&r->more, &r->lock);
	r->idle--;
	if (r->quit)
		return NULL;
	r->njobs--;
	msg = r->jobs;
	r->jobs = msg->next;
	if (!r->jobs)
		r->jobs_tail = &r->jobs;
	return container_of(msg, struct job, msg);
}

static void *resolver_run(void *arg)
{
	struct resolver *r = arg;
	struct job *job;
	int orphan;

	pthread_mutex_lock(&r->lock);
	while ((job = resolver_next(r))) {
		pthread_mutex_unlock(&r->lock);
		resolver_look_up(job);
		pthread_mutex_lock(&r->lock);
		if (r->out)
			mailbox_post(r->out, &job->msg);
		else
			free(job);
	}
	orphan = r->running == 1 && !r->out;
	store_release(&r->running, r->running - 1);
	futex_wake(&r->running);
	pthread_mutex_unlock(&r->lock);
	if (orphan)
		resolver_free(r);
	return NULL;
}

static struct resolver *resolver_new(struct control *c)
{
	struct resolver *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->more, NULL);
	r->jobs_tail = &r->jobs;
	r->out = &c->back;
	r->prefix = c->config.params->thread_name;
	return r;
}

/* Adds a thread if all are busy. If none can be started the job waits for one of the others;
 * -EAGAIN if there is none. Called with the lock held. */
static int resolver_staff(struct resolver *r)
{
	pthread_t *t = &r->threads[r->nthreads];

	if (r->njobs < r->idle || r->nthreads == THREADS_MAX)
		return 0;
	/* All signals are blocked in the control thread, and so in the threads that it starts. */
	if (helper_start(t, r->prefix, "names", NULL, resolver_run, r))
		return r->nthreads ? 0 : -EAGAIN;
	r->nthreads++;
	r->running++;
	return 0;
}

static int resolver_add(struct resolver *r, struct job *job)
{
	int rc;

	pthread_mutex_lock(&r->lock);
	rc = resolver_staff(r);
	if (!rc) {
		*r->jobs_tail = &job->msg;
		r->jobs_tail = &job->msg.next;
		r->njobs++;
		pthread_cond_signal(&r->more);
	}
	pthread_mutex_unlock(&r->lock);
	return rc;
}

struct job *resolver_ask(struct control *c, struct dial *d, const char *host, const char *port)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	if (!c->resolver)
		c->resolver = resolver_new(c);
	job->dial = d;
	job->msg.type = MSG_RESOLVED;
	memcpy(job->host, host, sizeof(job->host));
	memcpy(job->port, port, sizeof(job->port));
	if (c->resolver && !resolver_add(c->resolver, job))
		return job;
	free(job);
	return NULL;
}

/* Waits until all threads end, for JOIN_NS. 1: they have. */
static int resolver_ends(struct resolver *r)
{
	uint64_t now = clock_ns(), until = now + JOIN_NS;
	uint32_t n;

	while ((n = load_acquire(&r->running)) && now < until) {
		futex_wait(&r->running, n, until - now);
		now = clock_ns();
	}
	return !n;
}

void resolver_close(struct control *c)
{
	struct resolver *r = c->resolver;
	uint32_t i, left;

	if (!r)
		return;
	c->resolver = NULL;
	pthread_mutex_lock(&r->lock);
	r->quit = 1;
	pthread_cond_broadcast(&r->more);
	pthread_mutex_unlock(&r->lock);
	if (resolver_ends(r)) {
		for (i = 0; i < r->nthreads; i++)
			pthread_join(r->threads[i], NULL);
		resolver_free(r);
		return;
	}
	for (i = 0; i < r->nthreads; i++)
		pthread_detach(r->threads[i]);
	pthread_mutex_lock(&r->lock);
	r->out = NULL;
	left = r->running;
	pthread_mutex_unlock(&r->lock);
	if (!left)
		resolver_free(r);
}
