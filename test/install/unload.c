/* SPDX-License-Identifier: Apache-2.0 */
/* A program that loads the library, closes its context while the system's resolver is stuck with a
 * name, and unloads the library: once the resolver answers, nothing crashes. */
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>

#include "gate.h"
#include "test.h"
#include "liburccl.h"

static int asked, answer, gone;
static pthread_key_t key;

/* In place of the system's: takes its time. */
int getaddrinfo(const char *restrict host, const char *restrict port,
		const struct addrinfo *restrict hints, struct addrinfo **restrict out)
{
	(void)host, (void)port, (void)out;
	if (hints->ai_flags & AI_NUMERICHOST)
		return EAI_NONAME;
	/* When this thread ends, main() hears of it. */
	pthread_setspecific(key, &gone);
	tell(&asked);
	await(&answer);
	return EAI_NONAME;
}

static void ended(void *what)
{
	tell(what);
}

static void *symbol(void *library, const char *name)
{
	void *p = dlsym(library, name);

	CHECK(p);
	return p;
}

/* The calls that liburccl.h makes are of a library that is not there at link time. */
static int (*open_context)(const struct urccl_params *p, struct urccl **ctx);
static void (*close_context)(struct urccl *ctx);
static int (*open_ring)(struct urccl *ctx, const struct urccl_ring_params *p,
			struct urccl_ring **ring);
static void (*ring_wake)(struct urccl_ring *ring);

void __urccl_ring_wake(struct urccl_ring *ring)
{
	ring_wake(ring);
}

void __urccl_ring_drive(struct urccl_ring *ring)
{
	(void)ring;
	CHECK(!"an INLINE context");
}

static void find(void *library)
{
	*(void **)&open_context = symbol(library, "urccl_open");
	*(void **)&close_context = symbol(library, "urccl_close");
	*(void **)&open_ring = symbol(library, "urccl_ring_open");
	*(void **)&ring_wake = symbol(library, "__urccl_ring_wake");
}

int main(int argc, char **argv)
{
	static const char name[] = "nowhere.example:7777";
	struct urccl_ring *ring;
	struct urccl_sqe *sqe;
	struct urccl *ctx;
	void *library;

	CHECK_EQ(argc, 2);
	CHECK_EQ(pthread_key_create(&key, ended), 0);
	library = dlopen(argv[1], RTLD_NOW);
	if (!library)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(library);
	find(library);
	CHECK_EQ(open_context(NULL, &ctx), 0);
	CHECK_EQ(open_ring(ctx, NULL, &ring), 0);
	sqe = urccl_get_sqe(ring);
	CHECK(sqe);
	urccl_prep_connect(sqe, name, sizeof(name) - 1);
	CHECK_EQ(urccl_submit(ring), 1);
	await(&asked);
	close_context(ctx);
	CHECK_EQ(dlclose(library), 0);
	tell(&answer);
	await(&gone);
	return 0;
}
