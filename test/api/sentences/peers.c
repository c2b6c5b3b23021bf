/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that are not met, and peers that are lost. */
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include "../child.h"
#include "sentences.h"

#define SOON_US 20000000u

static void dials(const char *name, struct side *s, const void *to, uint32_t len, uint32_t us,
		  int res)
{
	struct urccl_cqe cqe = side_dialled(s, NULL, to, len, us);

	said_entry(name, s, &cqe, res);
}

static void dials_text(const char *name, const char *to, uint32_t us, int res)
{
	dials(name, &p.a, to, (uint32_t)strlen(to), us, res);
}

static void dials_side(const char *name, struct side *from, struct side *to, uint32_t us, int res)
{
	uint8_t blob[URCCL_METADATA_MAX];
	int len = urccl_metadata(to->ctx, blob, sizeof(blob));

	CHECK_GE(len, 1);
	dials(name, from, blob, (uint32_t)len, us, res);
}

/* A line a field. */
/* clang-format off */
static const char no_liburccl[] = "HTTP/1.1 400 Bad Request\r\n\r\n<html>no</html>\r\n";
static const uint8_t of_tomorrow[] = {
	0x8e, 'u', 'r', 'c', 'c', 'l', '\r', '\n',	/* magic */
	16, 0, 0, 0, 3, 0, 0, 0,			/* length, REFUSE */
	77, 0, 79, 0, 1, 0, 0, 0,			/* versions, NO_VERSION */
	1, 2, 3, 4, 5, 6, 7, 8,				/* incarnation */
};
/* clang-format on */

static const struct stranger {
	const char *name;
	const void *words; /* that it says to whoever connects */
	size_t len;	   /* 0: nothing, and no more */
	int res;
} talkers[] = {
	{"hangs_up", NULL, 0, -ECONNRESET},
	{"other_protocol", no_liburccl, sizeof(no_liburccl), -EPROTO},
	{"other_version", of_tomorrow, sizeof(of_tomorrow), -EPROTONOSUPPORT},
};

struct visit {
	const struct stranger *by;
	int listener;
};

static void *receive(void *arg)
{
	const struct visit *v = arg;
	int fd = accept(v->listener, NULL, NULL);
	char byte;

	CHECK(fd >= 0);
	if (v->by->len)
		CHECK_EQ(write(fd, v->by->words, v->by->len), (int64_t)v->by->len);
	else
		shutdown(fd, SHUT_WR);
	while (read(fd, &byte, 1) > 0)
		;
	close(fd);
	return NULL;
}

static void visits(const struct stranger *s)
{
	struct visit v = {.by = s};
	char place[PLACE_MAX];
	pthread_t thread;
	uint16_t port;

	v.listener = raw_listen(&port);
	place_v4(place, port);
	CHECK_EQ(pthread_create(&thread, NULL, receive, &v), 0);
	dials_text(s->name, place, SOON_US, s->res);
	pthread_join(thread, NULL);
	close(v.listener);
}

static void strangers(void)
{
	char place[PLACE_MAX];
	uint16_t port;
	uint32_t i;
	int fd;

	place_v4(place, free_port());
	dials_text("nobody_listens", place, SOON_US, -ECONNREFUSED);
	fd = raw_listen(&port);
	place_v4(place, port);
	dials_text("silent_stranger", place, 1000000, -ETIMEDOUT);
	close(fd);
	for (i = 0; i < sizeof(talkers) / sizeof(talkers[0]); i++)
		visits(&talkers[i]);
	dials_text("no_address", "nonsense", SOON_US, -EINVAL);
}

/* The same address, another context. */
static void started_anew(struct pair *q)
{
	uint8_t blob[URCCL_METADATA_MAX];
	char place[PLACE_MAX];
	struct side c = {0};
	int len;

	place_v4(place, free_port());
	q->params.listen = place;
	side_open(q, &c);
	len = urccl_metadata(c.ctx, blob, sizeof(blob));
	side_close(&c);
	side_open(q, &c);
	dials("started_anew", &p.a, blob, (uint32_t)len, SOON_US, -ESTALE);
	side_close(&c);
	q->params.listen = NULL;
}

static void other_contexts(void)
{
	struct pair q = p;
	struct side c = {0}, d = {0};
	struct urccl_cqe cqe;

	dials_side("own_address", &p.a, &p.a, SOON_US, -EINVAL);
	started_anew(&q);
	side_open(&q, &c);
	dials_side("no_accept", &p.a, &c, 1000000, -ETIMEDOUT);
	side_close(&c);
	q.params.transport = "shm";
	side_open(&q, &c);
	dials_side("nothing_in_common", &p.a, &c, SOON_US, -EHOSTUNREACH);
	side_close(&c);
	q.params.transport = "shm!,tcp";
	side_open(&q, &c);
	dials_side("required_by_the_peer", &p.a, &c, SOON_US, -EHOSTUNREACH);
	side_close(&c);
	q.params.transport = "tcp";
	q.params.max_peers = 1;
	side_open(&q, &c);
	side_open(&p, &d);
	side_accept(&c, 1);
	side_connect(&d, &c);
	dials_side("peer_is_full", &p.a, &c, SOON_US, -EMFILE);
	dials_side("we_are_full", &c, &p.b, SOON_US, -EMFILE);
	side_close(&c);
	CHECK_EQ(side_tell(&d, NULL, d.peer.id, 1), -ECONNRESET);
	urccl_prep_notify(side_sqe(&d), d.peer, 1, NULL, 0);
	CHECK_EQ(urccl_submit(d.ring), 1);
	cqe = side_end(&d, NULL, 0);
	said_entry("peer_went", &d, &cqe, -ECONNRESET);
	side_close(&d);
}

static void with_secret(struct side *s, const char *secret)
{
	struct pair q = p;

	q.params.secret = secret;
	q.params.secret_len = secret ? (uint32_t)strlen(secret) : 0;
	side_open(&q, s);
}

static void dials_guarded(const char *name, const char *ours, const char *theirs)
{
	struct side c = {0}, d = {0};

	with_secret(&c, ours);
	with_secret(&d, theirs);
	dials_side(name, &c, &d, SOON_US, -EACCES);
	side_close(&c);
	side_close(&d);
}

static int may_have_secrets(void)
{
	struct urccl_params params = p.params;
	struct urccl *ctx;

	params.secret = "one that they know";
	params.secret_len = (uint32_t)strlen(params.secret);
	if (urccl_open(&params, &ctx))
		return 0;
	urccl_close(ctx);
	return 1;
}

static void secrets(void)
{
	static const char one[] = "one that they know", other[] = "one that only one knows";

	if (!may_have_secrets()) {
		printf("not run: secrets: %s\n", urccl_errmsg());
		not_said("no_secret_here");
		not_said("no_secret_there");
		not_said("other_secret");
		return;
	}
	dials_guarded("no_secret_here", NULL, one);
	dials_guarded("no_secret_there", one, NULL);
	dials_guarded("other_secret", one, other);
}

/* Memory that cannot be mapped, by a policy that wants nothing else. */
static void no_bounce(void)
{
	static uint8_t mine[64];
	struct pair q = {.params = p.params, .ring_params = p.ring_params};
	struct target there;
	struct urccl_cqe cqe;
	struct urccl_sqe *sqe;

	q.params.transport = "shm";
	q.params.bounce = URCCL_ALLOW_NO;
	q.transport = URCCL_TRANSPORT_SHM;
	pair_open(&q);
	target_open(&q, &there, 64, 0);
	side_register(&q.a, mine, sizeof(mine), 0);
	sqe = side_sqe(&q.a);
	urccl_prep_write(sqe, there.remote, mine, 64, 0);
	cqe = pair_run(&q, &q.a, sqe);
	said_entry("bounce_forbidden", &q.a, &cqe, cqe.res);
	target_close(&q, &there);
	pair_close(&q);
}

static void nobody_watches(void)
{
	struct side c = {0}, d = {0};
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;

	side_open(&p, &c);
	side_open(&p, &d);
	side_accept(&d, 1);
	side_connect(&c, &d);
	sqe = side_sqe(&c);
	urccl_prep_notify(sqe, c.peer, 1, NULL, 0);
	urccl_sqe_set_deadline_us(sqe, 100000);
	CHECK_EQ(urccl_submit(c.ring), 1);
	cqe = side_end(&c, &d, 0);
	said_entry("nobody_watches", &c, &cqe, -ETIMEDOUT);
	side_close(&c);
	side_close(&d);
}

void meetings(void)
{
	strangers();
	other_contexts();
	nobody_watches();
	secrets();
	no_bounce();
}

/* ---- losses ---- */

static struct child child;
static struct urccl_remote remote;

static uint64_t chunks(void)
{
	struct urccl_stats st = {.size = sizeof(st)};

	CHECK_EQ(urccl_get_stats(p.a.ctx, &st), 0);
	return st.chunks;
}

/* An entry that is taken when its peer is lost already has another sentence. */
static struct urccl_cqe writes(uint32_t us, int then)
{
	uint64_t before = chunks(), late = now_ns() + PAIR_LATE_NS;
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	urccl_prep_write(sqe, remote, local, sizeof(local), 0);
	urccl_sqe_set_deadline_us(sqe, us);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	while (then && chunks() == before) {
		CHECK(!is_late(late));
		CHECK(!side_take_within(&p.a, NULL, 100000, &cqe, NULL));
	}
	if (then)
		kill(child.pid, then);
	return side_end(&p.a, NULL, 0);
}

static void begin(const char *listen)
{
	child_start(&p, &child, sizeof(local), listen);
	child_connect(&p, &child);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &child.advert, 1, &remote), 0);
	CHECK_EQ(writes(SOON_US, 0).res, sizeof(local));
}

static void stop(void)
{
	int status;

	CHECK_EQ(kill(child.pid, SIGSTOP), 0);
	CHECK_EQ(waitpid(child.pid, &status, WUNTRACED), child.pid);
}

/* Another process answers at its address. */
static void restarts(void)
{
	char place[PLACE_MAX];
	struct urccl_cqe cqe;

	place_v4(place, free_port());
	begin(place);
	child_kill(&child);
	child_start(&p, &child, sizeof(local), place);
	CHECK_EQ(side_dialled(&p.a, NULL, place, (uint32_t)strlen(place), SOON_US).res, 0);
	cqe = writes(SOON_US, 0);
	said_entry("peer_restarted", &p.a, &cqe, -ESTALE);
	child_kill(&child);
}

/* It has as long as it takes to be stopped and killed: nobody counts it as silent meanwhile. */
static void killed(void)
{
	struct urccl_cqe cqe;

	side_open(&p, &p.a);
	side_register(&p.a, local, sizeof(local), 0);
	begin(NULL);
	stop();
	cqe = writes(100000, 0);
	said_entry("peer_frozen", &p.a, &cqe, -ETIMEDOUT);
	cqe = writes(SOON_US, SIGKILL);
	said_entry("peer_killed", &p.a, &cqe, -ECONNRESET);
	CHECK_EQ(waitpid(child.pid, NULL, 0), child.pid);
	restarts();
	side_close(&p.a);
}

static void silent(void)
{
	struct urccl_cqe cqe;

	p.params.dead_after_ms = 1000;
	side_open(&p, &p.a);
	side_register(&p.a, local, sizeof(local), 0);
	begin(NULL);
	stop();
	cqe = writes(60000000, 0);
	said_entry("peer_silent", &p.a, &cqe, -ECONNRESET);
	child_kill(&child);
	side_close(&p.a);
}

void losses(void)
{
	killed();
	silent();
}
