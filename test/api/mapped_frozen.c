/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that a peer has mapped, of urccl_alloc() or views of a memfd of ours, is taken back
 * although the peer is stopped, at any moment of its writing: revoked, unregistered, and
 * unregistered when the peer was counted as lost meanwhile. From then on nothing of the peer lands,
 * and when it goes on its entries fail. Our own threads, and other peers that may go on, lose no
 * store by it.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include "lateness.h"
#include "meet.h"

#define LEN    (8u << 20)
#define PIECE  (1u << 20)
#define OURS   4096u /* behind what is advertised: our own thread's */
#define ALL    (LEN + PIECE + OURS)
#define RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

enum how { REVOKE, UNREGISTER, LOST, WAYS };

/* What the two processes both see. */
struct shared {
	struct urccl_advert advert[2]; /* of two regions: LEN bytes, and PIECE behind them */
	uint8_t blob[URCCL_METADATA_MAX];
	uint32_t blob_len;
	uint32_t writes; /* of the child, that succeeded */
	int64_t failed;	 /* the first that did not: its res */
};

static struct pair p;
static struct shared *shared;
static struct urccl_region region[2];
static uint8_t *bytes;
static int file = -1; /* that bytes is a view of; -1: memory of urccl_alloc() */
static uint64_t failures, rounds = 2;

static uint64_t load(const void *word)
{
	return __atomic_load_n((const uint32_t *)word, __ATOMIC_ACQUIRE);
}

/* ---- the peer ---- */

__attribute__((noreturn)) static void writer(struct pair its)
{
	struct side *s = &its.a;
	static uint8_t local[PIECE];
	struct urccl_remote remote;
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	uint32_t i;

	its.params.flags = 0;
	its.params.listen = "";
	side_open(&its, s);
	side_register(s, local, PIECE, 0);
	cqe = side_dialled(s, NULL, shared->blob, shared->blob_len, 20000000);
	CHECK_EQ(cqe.res, 0);
	s->peer.id = (uint32_t)cqe.handle;
	CHECK_EQ(urccl_import(s->ctx, s->peer, &shared->advert[0], 1, &remote), 0);
	memset(local, 0x33, PIECE);
	for (i = 0;; i++) {
		sqe = side_sqe(s);
		urccl_prep_write(sqe, remote, local, PIECE, i % (LEN / PIECE) * PIECE);
		urccl_sqe_set_deadline_us(sqe, 60000000);
		urccl_sqe_set_data64(sqe, 5);
		CHECK_EQ(urccl_submit(s->ring), 1);
		cqe = side_end(s, NULL, 5);
		if (cqe.res < 0)
			break;
		__atomic_store_n(&shared->writes, i + 1, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&shared->failed, cqe.res, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

static pid_t peer_start(void)
{
	pid_t pid;

	shared->writes = 0;
	shared->failed = 0;
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		writer(p);
	}
	return pid;
}

/* Stops it while it writes. */
static void peer_stop(pid_t pid, uint32_t us)
{
	uint64_t end = now_ns() + PAIR_LATE_NS;
	int status;

	while (load(&shared->writes) < 3) {
		CHECK_LE(now_ns(), end);
		side_turn(&p.b);
	}
	for (end = now_ns() + us * 1000ull; now_ns() < end;)
		side_turn(&p.b);
	CHECK_EQ(kill(pid, SIGSTOP), 0);
	CHECK_EQ(waitpid(pid, &status, WUNTRACED), pid);
	CHECK(WIFSTOPPED(status));
}

/* ---- ours ---- */

struct counter {
	pthread_t thread;
	uint32_t stop;
	uint64_t counts[OURS / 8];
};

/* Counts in memory beside what is taken back, in the same pages for a part of it. */
static void *count(void *arg)
{
	struct counter *c = arg;
	uint64_t *words = (uint64_t *)(void *)(bytes + LEN + PIECE);
	uint32_t i;

	for (i = 0; !load(&c->stop); i = (i + 1) % (OURS / 8)) {
		__atomic_store_n(&words[i], words[i] + 1, __ATOMIC_RELAXED);
		c->counts[i]++;
	}
	return NULL;
}

static void count_end(struct counter *c)
{
	const uint64_t *words = (const uint64_t *)(const void *)(bytes + LEN + PIECE);
	uint32_t i;

	__atomic_store_n(&c->stop, 1, __ATOMIC_RELEASE);
	pthread_join(c->thread, NULL);
	for (i = 0; i < OURS / 8; i++)
		CHECK_EQ(words[i], c->counts[i]);
}

static void file_open(void)
{
	file = memfd_create("frozen", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK_EQ(fallocate(file, 0, 0, ALL), 0);
	CHECK_EQ(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	bytes = mmap(NULL, ALL, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(bytes != MAP_FAILED);
}

static void memory_open(int of_file)
{
	void *at;
	uint32_t i;

	if (of_file) {
		file_open();
	} else {
		CHECK_EQ(urccl_alloc(p.b.ctx, ALL, &at), 0);
		bytes = at;
	}
	memset(bytes, 0, ALL);
	for (i = 0; i < 2; i++) {
		uint64_t len = i ? PIECE : LEN;
		struct urccl_range range = {.addr = (uint64_t)(uintptr_t)bytes + i * LEN,
					    .len = len,
					    .fd = file,
					    .fd_off = of_file ? i * LEN : 0};

		CHECK_EQ(urccl_register(p.b.ctx, &range, 1, RIGHTS, &region[i]), 0);
		CHECK_EQ(urccl_advertise(p.b.ctx, region[i], 0, len, RIGHTS, 0, &shared->advert[i]),
			 0);
	}
}

static void memory_close(void)
{
	if (file < 0) {
		CHECK_EQ(urccl_free(p.b.ctx, bytes), 0);
		return;
	}
	munmap(bytes, ALL);
	close(file);
	file = -1;
}

static void pause_ms(uint32_t ms)
{
	struct urccl_cqe cqe;
	uint64_t end = now_ns() + ms * 1000000ull;

	while (now_ns() < end)
		side_take_within(&p.b, NULL, 1000000, &cqe, NULL);
}

/* Until the peer counts as lost. */
static void await_lost(void)
{
	struct urccl_cqe cqe;

	do
		side_take(&p.b, &p.a, &cqe, NULL);
	while (urccl_cqe_kind(&cqe) != URCCL_KIND_LOST);
}

/* An entry that the peer is awaited for, so that it is asked for a sign of life. */
static void speak_to(uint32_t peer)
{
	struct urccl_sqe *sqe = side_sqe(&p.b);

	urccl_prep_notify(sqe, (struct urccl_peer){peer}, 1, NULL, 0);
	urccl_sqe_set_deadline_us(sqe, 60000000);
	CHECK_EQ(urccl_submit(p.b.ring), 1);
}

static uint32_t peer_comes(void)
{
	struct urccl_cqe cqe;

	do
		side_take(&p.b, NULL, &cqe, NULL);
	while (urccl_cqe_kind(&cqe) != URCCL_KIND_PEER);
	return cqe.peer;
}

static void still(uint8_t value)
{
	uint32_t i;

	for (i = 0; i < LEN; i++)
		CHECK_EQ(bytes[i], value);
}

/* ---- another peer, a of this process, that has the other region mapped ---- */

static uint8_t others[PIECE];
static struct urccl_remote other;

static void side_writes(struct side *s, struct urccl_remote to, uint8_t value, const uint8_t *at)
{
	struct urccl_sqe *sqe = side_sqe(s);

	memset(others, value, PIECE);
	urccl_prep_write(sqe, to, others, PIECE, 0);
	urccl_sqe_set_data64(sqe, 7);
	CHECK_EQ(urccl_submit(s->ring), 1);
	CHECK_EQ(side_end(s, &p.b, 7).res, PIECE);
	CHECK_EQ(at[0], value);
	CHECK_EQ(at[PIECE - 1], value);
}

static void other_writes(uint8_t value)
{
	side_writes(&p.a, other, value, bytes + LEN);
}

/* One that comes later may have both, and what it writes is seen: that of the region that was not
 * taken back is in the file still. */
static void new_one_writes(void)
{
	struct urccl_remote remote[2];
	struct side s = {0};
	struct urccl_cqe cqe;
	uint32_t i;

	CHECK_EQ(urccl_advertise(p.b.ctx, region[0], 0, LEN, RIGHTS, 0, &shared->advert[0]), 0);
	side_open(&p, &s);
	cqe = side_dialled(&s, &p.b, shared->blob, shared->blob_len, 20000000);
	CHECK_EQ(cqe.res, 0);
	s.peer.id = (uint32_t)cqe.handle;
	CHECK(peer_comes());
	side_register(&s, others, PIECE, 0);
	for (i = 2; i-- > 0;) {
		CHECK_EQ(urccl_import(s.ctx, s.peer, &shared->advert[i], 1, &remote[i]), 0);
		side_writes(&s, remote[i], (uint8_t)(0x44 + i), bytes + i * LEN);
	}
	side_close(&s);
}

static void goes_on(pid_t pid)
{
	uint64_t end = now_ns() + PAIR_LATE_NS;

	CHECK_EQ(kill(pid, SIGCONT), 0);
	while (!__atomic_load_n(&shared->failed, __ATOMIC_ACQUIRE)) {
		CHECK_LE(now_ns(), end);
		pause_ms(1);
	}
	pause_ms(20);
}

/* It was under way, or begun when the region was no more. */
static int taken(enum how how)
{
	return shared->failed == -EACCES || (how != REVOKE && shared->failed == -ESTALE);
}

static void round_of(enum how how, uint32_t us, int of_file)
{
	static struct counter c;
	uint32_t peer;
	pid_t pid;

	memory_open(of_file);
	pid = peer_start();
	peer = peer_comes();
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &shared->advert[1], 1, &other), 0);
	other_writes(0x11);
	peer_stop(pid, us);
	memset(&c, 0, sizeof(c));
	CHECK_EQ(pthread_create(&c.thread, NULL, count, &c), 0);
	if (how == LOST) {
		speak_to(peer);
		await_lost();
	}
	check_taken_back(how == REVOKE ? urccl_revoke : urccl_unregister, p.b.ctx, region[0]);
	count_end(&c);
	memset(bytes, 0x77, LEN);
	goes_on(pid);
	failures += taken(how);
	CHECK(taken(how) || (how == LOST && shared->failed == -ECONNRESET));
	still(0x77);
	other_writes(0x22);
	kill(pid, SIGKILL);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	CHECK_EQ(urccl_unimport(p.a.ctx, other), 0);
	if (how == REVOKE) {
		new_one_writes();
		CHECK_EQ(urccl_unregister(p.b.ctx, region[0]), 0);
	}
	CHECK_EQ(urccl_unregister(p.b.ctx, region[1]), 0);
	memory_close();
}

int main(int argc, char **argv)
{
	int set = argc > 1 && sscanf(argv[1], "--rounds=%lu", &rounds) == 1;
	uint32_t i, how;
	int len;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	CHECK(shared != MAP_FAILED);
	pair_options(&p, argc - set, argv + set);
	p.params.dead_after_ms = 1000;
	canary_start();
	pair_open(&p);
	side_register(&p.a, others, PIECE, 0);
	side_accept(&p.b, 1);
	side_watch(&p.b, (struct urccl_peer){0}, 2);
	len = urccl_metadata(p.b.ctx, shared->blob, sizeof(shared->blob));
	CHECK_GE(len, 1);
	shared->blob_len = (uint32_t)len;
	for (how = 0; how < WAYS; how++)
		for (i = 0; i < rounds; i++)
			round_of(how, i * 137 + how * 61, i % 2);
	printf("%llu of %llu found their advert revoked\n", (unsigned long long)failures,
	       (unsigned long long)(WAYS * rounds));
	pair_close(&p);
	return 0;
}
