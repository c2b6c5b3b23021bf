/* SPDX-License-Identifier: Apache-2.0 */
/* urccl_explain(), urccl_dump(), urccl_get_stats() and urccl_errmsg() wait for no thread: here the
 * control thread is in the program's log function, and waits for a lock that their caller holds. */
#include <pthread.h>
#include <sys/mman.h>
#include "meet.h"

#define LEN 4096

static struct pair p;
static struct target t;
static uint8_t local[LEN];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t waits, blocked;

static void line(void *arg, int level, const char *text)
{
	(void)arg, (void)level, (void)text;
	if (!__atomic_load_n(&waits, __ATOMIC_ACQUIRE))
		return;
	__atomic_store_n(&blocked, 1, __ATOMIC_RELEASE);
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
}

static void look(const struct urccl_cqe *cqe)
{
	struct urccl_stats stats = {.size = sizeof(stats)};
	char why[512], text[16384];
	int fd = memfd_create("dump", MFD_CLOEXEC);
	ssize_t n;

	CHECK_GE(urccl_explain(p.a.ctx, cqe, why, sizeof(why)), 1);
	CHECK_SAYS(why, "peer 127.0.0.1:");
	CHECK_SAYS(why, "ERANGE");
	CHECK_EQ(urccl_get_stats(p.a.ctx, &stats), 0);
	CHECK_GE(stats.failed, 1);
	CHECK(fd >= 0);
	CHECK_EQ(urccl_dump(p.a.ctx, fd), 0);
	n = pread(fd, text, sizeof(text) - 1, 0);
	CHECK_GE(n, 1);
	text[n] = 0;
	CHECK_SAYS(text, "peer 0x");
	close(fd);
	CHECK_EQ(urccl_get_stats(p.a.ctx, NULL), -EINVAL);
	CHECK_SAYS(urccl_errmsg(), "NULL");
}

int main(int argc, char **argv)
{
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	uint64_t until;

	pair_options(&p, argc, argv);
	p.params.log = line;
	p.params.log_level = URCCL_LOG_INFO;
	pair_open(&p);
	target_open(&p, &t, LEN, 0);
	side_register(&p.a, local, LEN, 0);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, t.remote, local, LEN, 1);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, -ERANGE);
	CHECK_EQ(pthread_mutex_lock(&lock), 0);
	__atomic_store_n(&waits, 1, __ATOMIC_RELEASE);
	sqe = side_sqe(&p.a); /* the connection to nobody is logged */
	urccl_prep_close(sqe, p.a.peer);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	for (until = now_ns() + PAIR_LATE_NS; !__atomic_load_n(&blocked, __ATOMIC_ACQUIRE);)
		CHECK(!is_late(until));
	alarm(60); /* a thread that waits for itself never ends */
	look(&cqe);
	alarm(0);
	__atomic_store_n(&waits, 0, __ATOMIC_RELEASE);
	CHECK_EQ(pthread_mutex_unlock(&lock), 0);
	pair_close(&p);
	return 0;
}
