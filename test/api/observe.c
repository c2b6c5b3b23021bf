/* SPDX-License-Identifier: Apache-2.0 */
/* What can be seen from outside: the counts add up, a dump is there also while nobody drives the
 * engine and from any thread, failures have sentences, and each thread its own last one. */
#include <pthread.h>
#include <sys/mman.h>
#include "meet.h"

#define LEN (64u << 10)

static struct pair p;
static struct target t;
static uint8_t local[LEN];

static struct urccl_cqe run(struct urccl_sqe *sqe)
{
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	return side_end(&p.a, &p.b, sqe->user_data);
}

static void counts(void)
{
	struct urccl_stats before = side_stats(&p.a), after, other = side_stats(&p.b);
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	uint32_t i;

	for (i = 0; i < 10; i++) {
		sqe = side_sqe(&p.a);
		urccl_prep_write(sqe, t.remote, local, 1000, 0);
		CHECK_EQ(run(sqe).res, 1000);
	}
	sqe = side_sqe(&p.a);
	urccl_prep_read(sqe, t.remote, local, LEN, 0);
	CHECK_EQ(run(sqe).res, LEN);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, t.remote, local, LEN, 1);
	cqe = run(sqe);
	CHECK_EQ(cqe.res, -ERANGE);
	check_sentence(&p.a, &cqe, "write");
	CHECK_EQ(side_tell(&p.a, &p.b, p.a.peer.id, 3), 0);
	/* as soon as its CQE is seen */
	CHECK_EQ(side_stats(&p.a).notes_sent - before.notes_sent, 1);
	CHECK_EQ(side_event(&p.b, &p.a, URCCL_KIND_NOTE, NULL).tag, 3);
	side_accept(&p.a, 50);
	sqe = side_sqe(&p.a);
	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, 50);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	CHECK_EQ(side_end(&p.a, &p.b, 50).res, -ECANCELED);
	CHECK_EQ(side_end(&p.a, &p.b, 0).res, 1);
	after = side_stats(&p.a);
	CHECK_EQ(after.submitted - before.submitted, 15);
	CHECK_EQ(after.completed - before.completed, 13);
	CHECK_EQ(after.failed - before.failed, 1);
	CHECK_EQ(after.cancelled - before.cancelled, 1);
	CHECK_EQ(after.timed_out, before.timed_out);
	CHECK_EQ(after.bytes_written - before.bytes_written, 10000);
	CHECK_EQ(after.bytes_read - before.bytes_read, LEN);
	CHECK_GE(after.chunks - before.chunks, 11);
	CHECK_EQ(after.notes_sent - before.notes_sent, 1);
	CHECK_EQ(side_stats(&p.b).notes_received - other.notes_received, 1);
	CHECK_GE(after.turns, 1);
}

static const char *dump_of(struct side *s)
{
	static char text[16384];
	int fd = memfd_create("dump", MFD_CLOEXEC);
	ssize_t n;

	CHECK(fd >= 0);
	CHECK_EQ(urccl_dump(s->ctx, fd), 0);
	n = pread(fd, text, sizeof(text) - 1, 0);
	CHECK_GE(n, 100);
	text[n] = 0;
	close(fd);
	return text;
}

/* A write that is under way, and (INLINE) will be until somebody drives the engine. */
static void *look(void *arg)
{
	const char *text = dump_of(&p.a);

	(void)arg;
	CHECK(strstr(text, urccl_version()));
	CHECK(strstr(text, p.params.transport));
	CHECK(strstr(text, "submitted"));
	CHECK(strstr(text, "ring "));
	CHECK(strstr(text, "watch"));
	return NULL;
}

static void dumps(void)
{
	pthread_t thread;
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, local, LEN, 0);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	look(NULL);
	CHECK_EQ(pthread_create(&thread, NULL, look, NULL), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(side_end(&p.a, &p.b, 0).res, LEN);
	CHECK_NE(urccl_dump(p.a.ctx, -1), 0);
}

/* Also where the engine sleeps, or nobody drives it. */
static void unsubmitted(void)
{
	urccl_prep_nop(side_sqe(&p.a));
	urccl_prep_nop(side_sqe(&p.a));
	CHECK(strstr(dump_of(&p.a), "; 2 prepared and not submitted, 0 submitted and not taken"));
	CHECK_EQ(urccl_submit(p.a.ring), 2);
	CHECK_EQ(side_end(&p.a, &p.b, 0).res, 0);
	CHECK_EQ(side_end(&p.a, &p.b, 0).res, 0);
	CHECK(strstr(dump_of(&p.a), "; 0 prepared and not submitted"));
}

static void *fresh_thread(void *arg)
{
	(void)arg;
	CHECK(!*urccl_errmsg());
	CHECK_EQ(urccl_unregister(p.a.ctx, (struct urccl_region){NO_REGION}), -ESTALE);
	CHECK(strstr(urccl_errmsg(), "0x80012345"));
	return NULL;
}

static void sentences(void)
{
	struct urccl_cqe cqe = {.res = 5};
	char why[512], less[8];
	pthread_t thread;
	int n;

	CHECK_EQ(urccl_free(p.a.ctx, local), -EINVAL);
	CHECK(strstr(urccl_errmsg(), "urccl_alloc"));
	/* In an INLINE context another thread may not unregister: it would have to drive. */
	if (!(p.params.flags & URCCL_OPEN_INLINE)) {
		CHECK_EQ(pthread_create(&thread, NULL, fresh_thread, NULL), 0);
		CHECK_EQ(pthread_join(thread, NULL), 0);
		CHECK(strstr(urccl_errmsg(), "urccl_alloc"));
	}
	CHECK_GE(urccl_explain(p.a.ctx, &cqe, why, sizeof(why)), 1);
	CHECK(!strcmp(why, "it succeeded"));
	cqe.res = -EIO;
	n = urccl_explain(p.a.ctx, &cqe, why, sizeof(why));
	CHECK_EQ(n, (int)strlen(why));
	CHECK(strstr(why, "EIO"));
	CHECK_EQ(urccl_explain(p.a.ctx, &cqe, less, sizeof(less)), n);
	CHECK_EQ(strlen(less), sizeof(less) - 1);
	CHECK_EQ(urccl_explain(p.a.ctx, &cqe, NULL, 0), n);
	cqe.fail.detail = 0xdeadbeef;
	CHECK_GE(urccl_explain(p.a.ctx, &cqe, why, sizeof(why)), 1);
}

int main(int argc, char **argv)
{
	pair_begin(&p, argc, argv);
	settle_end(&p.a);
	settle_end(&p.b);
	target_open(&p, &t, LEN, 0);
	side_register(&p.a, local, LEN, 0);
	counts();
	dumps();
	unsubmitted();
	sentences();
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
