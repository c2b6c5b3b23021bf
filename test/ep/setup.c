/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks in processes map the windows of all others. A rank that does not come, or that has died, is
 * named, and the others set up without it. */
#include "cuda/device.h"

#include <liburccl/ep.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

enum { RANKS = 4, LAST = RANKS - 1, CARD = 1024, BYTES = 3 << 20, TIMEOUT_MS = 60000 };
enum last { COMES, STAYS_AWAY, DIES };

/* Shared by the processes, one for each set-up: what "put" has offered. */
static struct store {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned char data[RANKS][CARD];
	uint32_t there[RANKS], arrived;
	uint32_t await_last; /* ranks that have mapped all others and wait for the last one */
} * store;

struct rank {
	uint32_t rank, ranks;
	enum last last; /* what becomes of the last rank */
	uint64_t window;
	struct store *store;
};

static void store_open(struct store *s)
{
	pthread_mutexattr_t lock;
	pthread_condattr_t changed;

	memset(s, 0, sizeof(*s));
	pthread_mutexattr_init(&lock);
	pthread_mutexattr_setpshared(&lock, PTHREAD_PROCESS_SHARED);
	CHECK_EQ(pthread_mutex_init(&s->lock, &lock), 0);
	pthread_condattr_init(&changed);
	pthread_condattr_setpshared(&changed, PTHREAD_PROCESS_SHARED);
	CHECK_EQ(pthread_cond_init(&s->changed, &changed), 0);
}

/* Adds 1 to a word of the store. */
static void store_add(struct store *s, uint32_t *word)
{
	pthread_mutex_lock(&s->lock);
	++*word;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

/* Waits until the word is n; false: it was not in time. */
static bool store_await(struct store *s, const uint32_t *word, uint32_t n, uint32_t ms)
{
	struct timespec end;
	int error = 0;
	bool there;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_nsec += ms % 1000 * 1000000L;
	end.tv_sec += ms / 1000 + end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	pthread_mutex_lock(&s->lock);
	while (*word != n && !error)
		error = pthread_cond_timedwait(&s->changed, &s->lock, &end);
	there = *word == n;
	pthread_mutex_unlock(&s->lock);
	return there;
}

static int put(void *arg, const void *data, uint32_t bytes)
{
	const struct rank *r = arg;

	CHECK_LE(bytes, CARD);
	memcpy(r->store->data[r->rank], data, bytes);
	if (r->rank == LAST && r->last == DIES)
		raise(SIGKILL); /* the parent says that it is there, once it has ended */
	store_add(r->store, &r->store->there[r->rank]);
	return 0;
}

static int get(void *arg, uint32_t rank, void *data, uint32_t bytes)
{
	const struct rank *r = arg;

	if (rank == LAST) {
		store_add(r->store, &r->store->await_last);
		if (r->last == STAYS_AWAY &&
		    store_await(r->store, &r->store->await_last, LAST, TIMEOUT_MS))
			return -ETIMEDOUT;
	}
	CHECK(store_await(r->store, &r->store->there[rank], 1, TIMEOUT_MS));
	memcpy(data, r->store->data[rank], bytes);
	return 0;
}

static int set_up(struct rank *r, struct urccl_ep_windows **windows)
{
	const struct urccl_ep_windows_attr attr = {
		.size = sizeof(attr),
		.rank = r->rank,
		.ranks = r->ranks,
		.timeout_ms = TIMEOUT_MS,
		.window = (void *)(uintptr_t)r->window,
		.bytes = BYTES,
		.put = put,
		.get = get,
		.arg = r,
	};

	return urccl_ep_windows_open(&attr, windows);
}

static void map_all(struct rank *r)
{
	struct urccl_ep_windows *windows;
	void **address;

	if (set_up(r, &windows)) {
		fprintf(stderr, "rank %u: %s\n", r->rank, urccl_ep_errmsg());
		test_end(1);
	}
	address = urccl_ep_windows_addresses(windows);
	for (uint32_t i = 0; i < r->ranks; i++)
		CHECK(device_check((uintptr_t)address[i], BYTES, 0, i));
	CHECK_EQ((uintptr_t)address[r->rank], r->window);
	store_add(r->store, &r->store->arrived);
	CHECK(store_await(r->store, &r->store->arrived, r->ranks, TIMEOUT_MS));
	CHECK_EQ(urccl_ep_windows_close(windows), 0);
}

static void child(uint32_t rank, enum last last)
{
	struct rank r = {.rank = rank, .ranks = RANKS, .last = last, .store = store};
	struct urccl_ep_windows *windows;
	int res;

	if (rank == LAST && last == STAYS_AWAY)
		test_end(0);
	device_load();
	r.window = device_alloc(BYTES, 0);
	device_fill(r.window, BYTES, 0, rank);
	if (last != COMES) {
		res = set_up(&r, &windows);
		CHECK_EQ(res, last == STAYS_AWAY ? -ETIMEDOUT : -ECONNREFUSED);
		CHECK_SAYS(urccl_ep_errmsg(),
			   last == STAYS_AWAY ? "rank 3 did not come" : "rank 3: ");
		r.ranks--;
		r.store++;
	}
	map_all(&r);
	test_end(0);
}

static void run(enum last last)
{
	pid_t pids[RANKS];
	int status;

	store_open(&store[0]), store_open(&store[1]);
	for (uint32_t r = 0; r < RANKS; r++) {
		pids[r] = fork();
		CHECK_GE(pids[r], 0);
		if (!pids[r])
			child(r, last);
	}
	for (uint32_t i = RANKS; i--;) {
		CHECK_EQ(waitpid(pids[i], &status, 0), pids[i]);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
			test_end(77);
		if (i == LAST && last == DIES) {
			CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
			CHECK(store_await(store, &store->await_last, LAST, TIMEOUT_MS));
			store_add(store, &store->there[LAST]);
		} else {
			CHECK_EQ(status, 0);
		}
	}
}

static void refused(void)
{
	struct urccl_ep_windows *windows;
	struct rank r = {.rank = 1, .ranks = 1, .window = 4096, .store = store};

	CHECK_EQ(set_up(&r, &windows), -EINVAL);
	CHECK_SAYS(urccl_ep_errmsg(), "rank 1 of 1");
	r = (struct rank){.ranks = 1, .store = store};
	CHECK_EQ(set_up(&r, &windows), -EINVAL);
	CHECK_SAYS(urccl_ep_errmsg(), "window, bytes, put or get is 0");
	CHECK_EQ(urccl_ep_windows_close(NULL), 0);
}

int main(void)
{
	store = mmap(NULL, 2 * sizeof(*store), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	CHECK(store != MAP_FAILED);
	refused();
	run(COMES);
	run(STAYS_AWAY);
	run(DIES);
	return 0;
}
