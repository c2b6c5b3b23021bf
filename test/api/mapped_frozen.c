/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that a peer has mapped, of urccl_alloc() or views of a memfd of ours, while that peer is
 * stopped, at any moment of its writing: REVOKE and UNREGISTER end with -ETIMEDOUT, also when the
 * peer was lost meanwhile. They succeed once the peer has gone on, or is dead; from then on nothing
 * of it lands. Other peers that have the memory mapped notice nothing.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include "meet.h"

#define LEN	(8u << 20)
#define PIECE	(1u << 20)
#define ALL	(LEN + PIECE)
#define RIGHTS	(URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)
#define WAIT_US 300000u /* of entries while the peer is stopped: more than it has to let go */

enum how { REVOKE, UNREGISTER, LOST, KILLED, WAYS };

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
static uint64_t rounds = 2;

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
		CHECK(!is_late(end));
		side_turn(&p.b);
	}
	for (end = now_ns() + us * 1000ull; now_ns() < end;)
		side_turn(&p.b);
	CHECK_EQ(kill(pid, SIGSTOP), 0);
	CHECK_EQ(waitpid(pid, &status, WUNTRACED), pid);
	CHECK(WIFSTOPPED(status));
}

/* ---- ours ---- */

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

static void goes_on(pid_t pid)
{
	uint64_t end = now_ns() + PAIR_LATE_NS;

	CHECK_EQ(kill(pid, SIGCONT), 0);
	while (!__atomic_load_n(&shared->failed, __ATOMIC_ACQUIRE)) {
		CHECK(!is_late(end));
		pause_ms(1);
	}
	pause_ms(20);
}

/* Takes the first region back by an entry that waits so long; its result. */
static int taken_back(enum how how, uint64_t us)
{
	struct urccl_sqe *sqe = side_sqe(&p.b);

	if (how == REVOKE)
		urccl_prep_revoke(sqe, region[0]);
	else
		urccl_prep_unregister(sqe, region[0]);
	urccl_sqe_set_deadline_us(sqe, us);
	urccl_sqe_set_data64(sqe, 9);
	CHECK_EQ(urccl_submit(p.b.ring), 1);
	return (int)side_end(&p.b, NULL, 9).res;
}

/* The write was under way, or begun when the region was no more, or the connection is gone. */
static void check_failed(enum how how)
{
	int64_t res = shared->failed;

	CHECK(res == -EACCES || (how != REVOKE && res == -ESTALE) ||
	      (how == LOST && res == -ECONNRESET));
}

static void peer_ends(enum how how, pid_t pid)
{
	if (how != KILLED)
		goes_on(pid);
	else
		CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(taken_back(how, 20000000), 0);
	memset(bytes, 0x77, LEN);
	pause_ms(20);
	still(0x77);
	if (how != KILLED)
		check_failed(how);
	kill(pid, SIGKILL);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

static void round_of(enum how how, uint32_t us, int of_file)
{
	uint32_t peer;
	pid_t pid;

	memory_open(of_file);
	pid = peer_start();
	peer = peer_comes();
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &shared->advert[1], 1, &other), 0);
	other_writes(0x11);
	peer_stop(pid, us);
	if (how >= LOST) {
		speak_to(peer);
		await_lost();
	}
	CHECK_EQ(taken_back(how, WAIT_US), -ETIMEDOUT);
	other_writes(0x22);
	peer_ends(how, pid);
	other_writes(0x33);
	CHECK_EQ(urccl_unimport(p.a.ctx, other), 0);
	if (how == REVOKE)
		CHECK_EQ(urccl_unregister(p.b.ctx, region[0]), 0);
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
	p.params.dead_after_ms = 500;
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
	pair_close(&p);
	return 0;
}
