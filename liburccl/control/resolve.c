/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names become addresses on a thread of its own, made with the first name, for the system's
 * resolver blocks. Should it be stuck in there when the context is closed, it is left behind: it
 * then has nothing but its own memory, and frees that.
 */
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "control/private.h"

#define JOIN_NS NSEC_PER_SEC

struct resolver {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct msg *jobs, **jobs_tail; /* under lock */
	struct mailbox *out; /* under lock; NULL: the context is gone, the thread frees this */
	int quit, done;	     /* under lock */
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
	for (ai = all; ai && job->n < METADATA_HOSTS; ai = ai->ai_next) {
		if (ai->ai_family != AF_INET && ai->ai_family != AF_INET6)
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

/* The next job; NULL: quit. Under lock. */
static struct job *resolver_next(struct resolver *r)
{
	struct msg *msg;

	while (!r->jobs && !r->quit)
		pthread_cond_wait(&r->more, &r->lock);
	if (r->quit)
		return NULL;
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
	orphan = !r->out;
	r->done = 1;
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
	/* The control thread has every signal blocked, and so has what it starts. */
	if (pthread_create(&r->thread, NULL, resolver_run, r)) {
		resolver_free(r);
		return NULL;
	}
	(void)pthread_setname_np(r->thread, "urccl-names");
	return r;
}

struct job *resolver_ask(struct control *c, struct dial *d, const char *host, const char *port)
{
	struct resolver *r = c->resolver;
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	if (!r)
		r = c->resolver = resolver_new(c);
	if (!r) {
		free(job);
		return NULL;
	}
	job->dial = d;
	job->msg.type = MSG_RESOLVED;
	memcpy(job->host, host, sizeof(job->host));
	memcpy(job->port, port, sizeof(job->port));
	pthread_mutex_lock(&r->lock);
	*r->jobs_tail = &job->msg;
	r->jobs_tail = &job->msg.next;
	pthread_cond_signal(&r->more);
	pthread_mutex_unlock(&r->lock);
	return job;
}

void resolver_close(struct control *c)
{
	struct resolver *r = c->resolver;
	struct timespec until;
	int done;

	if (!r)
		return;
	c->resolver = NULL;
	pthread_mutex_lock(&r->lock);
	r->quit = 1;
	pthread_cond_signal(&r->more);
	pthread_mutex_unlock(&r->lock);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += JOIN_NS / NSEC_PER_SEC;
	if (!pthread_timedjoin_np(r->thread, NULL, &until)) {
		resolver_free(r);
		return;
	}
	pthread_detach(r->thread);
	pthread_mutex_lock(&r->lock);
	r->out = NULL;
	done = r->done;
	pthread_mutex_unlock(&r->lock);
	if (done)
		resolver_free(r);
}
