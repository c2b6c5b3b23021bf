/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context is closed while a peer that has a file of the program's mapped is stopped, at any
 * moment of its writing: soon, and the log says that the peer may still have it mapped. When the
 * peer goes on, its entries fail.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include "lateness.h"
#include "meet.h"

#define PIECE  (1u << 20)
#define PIECES 8u
#define LEN    (PIECES * PIECE)
#define RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)
#define ROUNDS 4u

static struct pair p;
static struct side owner;
static struct urccl_advert advert;
static uint8_t *bytes;
static int file;
static uint32_t *writes; /* of the peer, that succeeded: both processes see it */
static uint32_t logged;	 /* lines that say so */

/* ---- the peer ---- */

__attribute__((noreturn)) static void writer(const uint8_t *blob, uint32_t len)
{
	static uint8_t local[PIECE];
	struct side s = {0};
	struct urccl_remote remote;
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	uint32_t i;

	p.params.listen = "";
	side_open(&p, &s);
	cqe = side_dialled(&s, NULL, blob, len, 20000000);
	CHECK_EQ(cqe.res, 0);
	s.peer.id = (uint32_t)cqe.handle;
	CHECK_EQ(urccl_import(s.ctx, s.peer, &advert, 1, &remote), 0);
	side_register(&s, local, PIECE, 0);
	memset(local, 0x33, PIECE);
	for (i = 0;; i++) {
		sqe = side_sqe(&s);
		urccl_prep_write(sqe, remote, local, PIECE, i % PIECES * PIECE);
		urccl_sqe_set_data64(sqe, 5);
		CHECK_EQ(urccl_submit(s.ring), 1);
		cqe = side_end(&s, NULL, 5);
		if (cqe.res < 0)
			_exit(cqe.res != -ECONNRESET);
		__atomic_store_n(writes, i + 1, __ATOMIC_RELEASE);
	}
}

/* Stopped while it writes. */
static pid_t peer_stopped(uint32_t us)
{
	uint8_t blob[URCCL_METADATA_MAX];
	int status, len = urccl_metadata(owner.ctx, blob, sizeof(blob));
	uint64_t end = now_ns() + PAIR_LATE_NS;
	pid_t pid;

	CHECK_GE(len, 1);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		writer(blob, (uint32_t)len);
	}
	side_event(&owner, NULL, URCCL_KIND_PEER, NULL);
	while (__atomic_load_n(writes, __ATOMIC_ACQUIRE) < PIECES) {
		CHECK(!is_late(end));
		side_turn(&owner);
	}
	for (end = now_ns() + us * 1000ull; now_ns() < end;)
		side_turn(&owner);
	CHECK_EQ(kill(pid, SIGSTOP), 0);
	CHECK_EQ(waitpid(pid, &status, WUNTRACED), pid);
	CHECK(WIFSTOPPED(status));
	return pid;
}

/* ---- ours ---- */

static void log_line(void *user, int level, const char *text)
{
	(void)user;
	if (!strstr(text, "may still have memory of this context mapped"))
		return;
	CHECK_EQ(level, URCCL_LOG_WARN);
	logged++;
}

static void owner_open(void)
{
	struct urccl_range range = {.len = LEN};
	struct urccl_region region;

	file = memfd_create("close_frozen", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK_EQ(fallocate(file, 0, 0, LEN), 0);
	CHECK_EQ(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	bytes = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(bytes != MAP_FAILED);
	range.addr = (uint64_t)(uintptr_t)bytes;
	range.fd = file;
	p.params.log = log_line;
	side_open(&p, &owner);
	side_accept(&owner, 1);
	CHECK_EQ(urccl_register(owner.ctx, &range, 1, RIGHTS, &region), 0);
	CHECK_EQ(urccl_advertise(owner.ctx, region, 0, LEN, RIGHTS, 0, &advert), 0);
}

static void goes_on(pid_t pid)
{
	int status;

	CHECK_EQ(kill(pid, SIGCONT), 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
}

static void round_of(uint32_t us)
{
	uint64_t start;
	pid_t pid;

	*writes = 0;
	logged = 0;
	owner_open();
	pid = peer_stopped(us);
	canary_reset();
	start = now_ns();
	side_close(&owner);
	check_within(start, 2000000000ull);
	CHECK_EQ(logged, 1);
	goes_on(pid);
	munmap(bytes, LEN);
	close(file);
}

int main(int argc, char **argv)
{
	uint32_t i;

	if (PAIR_SLOW)
		SKIP("the sanitizer starts no threads in a forked process");
	writes = mmap(NULL, sizeof(*writes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	CHECK(writes != MAP_FAILED);
	pair_options(&p, argc, argv);
	canary_start();
	for (i = 0; i < ROUNDS; i++)
		round_of(i * 137);
	return 0;
}
