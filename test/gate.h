/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of a test that wait for one another's flags. */
#ifndef GATE_H
#define GATE_H

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;

static inline void await(const int *what)
{
	pthread_mutex_lock(&lock);
	while (!*what)
		pthread_cond_wait(&more, &lock);
	pthread_mutex_unlock(&lock);
}

static inline void tell(int *what)
{
	pthread_mutex_lock(&lock);
	*what = 1;
	pthread_cond_broadcast(&more);
	pthread_mutex_unlock(&lock);
}

#endif
