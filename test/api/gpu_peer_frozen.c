/* SPDX-License-Identifier: Apache-2.0 */
/* Two peers share one run of slots, and the process of one of them, which has no CUDA, is stopped:
 * while it writes and reads, or when it has no entry any more, over shm with the run mapped. The
 * other one goes on, after dead_after_ms at the latest. So it does where the process is killed. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "meet.h"
#include "relay.h"

#define LEN    (4u << 20)
#define ROUNDS 3u /* that succeed before it is stopped */
#define PEERS  3u
#define RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

/* What the two processes both see. */
struct shared {
	struct urccl_advert advert;
	uint8_t blob[URCCL_METADATA_MAX];
	uint32_t blob_len; /* with release, the last */
	uint32_t rounds;   /* of the peer, that succeeded */
};

static struct pair p;
static struct shared *shared;
static uint8_t *host;

static void run(struct side *s, struct side *other, struct urccl_sqe *sqe)
{
	urccl_sqe_set_deadline_us(sqe, 60000000);
	urccl_sqe_set_data64(sqe, 7);
	CHECK_EQ(urccl_submit(s->ring), 1);
	CHECK_EQ(side_end(s, other, 7).res, LEN);
}

/* There and back. All write the same bytes. */
static void round_trip(struct side *s, struct side *other, struct urccl_remote remote)
{
	const struct relay_local m = {.host = host};
	struct urccl_sqe *sqe = side_sqe(s);

	relay_fill(&m, 0, LEN, 3);
	urccl_prep_write(sqe, remote, host, LEN, 0);
	run(s, other, sqe);
	memset(host, 0, LEN);
	sqe = side_sqe(s);
	urccl_prep_read(sqe, remote, host, LEN, 0);
	run(s, other, sqe);
	CHECK(relay_holds(&m, 0, LEN, 3));
}

/* ---- the peer ---- */

__attribute__((noreturn)) static void peer(int goes_on)
{
	struct side *s = &p.a;
	struct urccl_remote remote;
	struct urccl_cqe cqe;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!__atomic_load_n(&shared->blob_len, __ATOMIC_ACQUIRE))
		usleep(1000);
	p.params.flags = 0;
	p.params.listen = "";
	side_open(&p, s);
	side_register(s, host, LEN, 0);
	cqe = side_dialled(s, NULL, shared->blob, shared->blob_len, 20000000);
	CHECK_EQ(cqe.res, 0);
	s->peer.id = (uint32_t)cqe.handle;
	CHECK_EQ(urccl_import(s->ctx, s->peer, &shared->advert, 1, &remote), 0);
	while (goes_on || shared->rounds < ROUNDS) {
		round_trip(s, NULL, remote);
		__atomic_add_fetch(&shared->rounds, 1, __ATOMIC_RELEASE);
	}
	for (;;)
		pause();
}

static pid_t peer_start(int goes_on)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		peer(goes_on);
	return pid;
}

/* ---- ours ---- */

static void begin(uint64_t device)
{
	struct urccl_region r;
	int n;

	r = side_register(&p.b, (void *)(uintptr_t)device, LEN, RIGHTS);
	CHECK_EQ(urccl_advertise(p.b.ctx, r, 0, LEN, RIGHTS, 0, &shared->advert), 0);
	n = urccl_metadata(p.b.ctx, shared->blob, sizeof(shared->blob));
	CHECK_GE(n, 1);
	__atomic_store_n(&shared->blob_len, (uint32_t)n, __ATOMIC_RELEASE);
}

static void stop(pid_t pid, int signal)
{
	uint64_t end = now_ns() + PAIR_LATE_NS;
	int status;

	while (__atomic_load_n(&shared->rounds, __ATOMIC_ACQUIRE) < ROUNDS) {
		CHECK_LE(now_ns(), end);
		side_turn(&p.b);
	}
	CHECK_EQ(kill(pid, signal), 0);
	CHECK_EQ(waitpid(pid, &status, WUNTRACED), pid);
}

static void one_stops(pid_t pid, int signal, uint64_t device)
{
	struct urccl_remote remote;

	pair_open(&p);
	begin(device);
	stop(pid, signal);
	side_register(&p.a, host, LEN, 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &shared->advert, 1, &remote), 0);
	round_trip(&p.a, &p.b, remote);
	pair_close(&p);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
	static const int signals[PEERS] = {SIGSTOP, SIGSTOP, SIGKILL};
	pid_t pids[PEERS];
	struct shared *all;
	uint64_t device;
	uint32_t i;

	all = mmap(NULL, PEERS * sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		   -1, 0);
	CHECK(all != MAP_FAILED);
	host = malloc(LEN);
	CHECK(host);
	pair_options(&p, argc, argv);
	p.params.staging_bytes = 8 << 20; /* one run */
	p.params.dead_after_ms = 1000;
	for (i = 0; i < PEERS; i++) { /* a forked process cannot use CUDA of its parent */
		shared = &all[i];
		pids[i] = peer_start(i != 1);
	}
	device_load();
	device = device_alloc(LEN, 0);
	device_fill(device, LEN, 0, 3);
	for (i = 0; i < PEERS; i++) {
		shared = &all[i];
		one_stops(pids[i], signals[i], device);
	}
	device_free(device);
	free(host);
	return 0;
}
