/* SPDX-License-Identifier: Apache-2.0 */
/* Who is read: a process that is not the peer any more, or not the same program, is found out, and
 * what it gave does not count. */
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <backend/shm.h>
#include "shm_rig.h"

#define LEN (1u << 18)

static struct shm_rig r;
static uint8_t local[LEN], memory[LEN];

static struct shm_ep *side(uint32_t i)
{
	return container_of(r.ep[i], struct shm_ep, ep);
}

/* A process that has our memory, but not the pages of side 1: what exec() or another pid's luck
 * makes of a peer. It goes when its pipe closes. */
static pid_t stranger(int *keep)
{
	int ready[2], hold[2];
	pid_t pid;
	char c;

	CHECK(!pipe(ready) && !pipe(hold));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		close(hold[1]);
		shm_pages_drop(&side(1)->pages);
		c = 0;
		if (write(ready[1], &c, 1) == 1)
			while (read(hold[0], &c, 1) > 0)
				;
		_exit(0);
	}
	CHECK_EQ(read(ready[0], &c, 1), 1);
	close(ready[0]);
	close(ready[1]);
	close(hold[0]);
	*keep = hold[1];
	return pid;
}

static void read_from(pid_t pid, int pidfd)
{
	struct exposure x;
	struct memory *m;
	struct rkey rkey;
	struct chunk c;

	memset(local, 0, LEN);
	rig_open(&r, NULL);
	rig_connect(&r);
	m = rig_memory(&r, 1, memory, LEN, -1);
	rig_expose(&r, 1, m, URCCL_RIGHT_READ, &x, &rkey);
	if (pid < 0) {
		pid = stranger(&pidfd);
		side(0)->cma.pid = pid;
	} else {
		close(side(0)->cma.pidfd);
		side(0)->cma.pidfd = dup(pidfd);
		pid = 0;
	}
	c = rig_chunk(CHUNK_READ, local, LEN, &rkey, 0);
	CHECK_EQ(rig_do(&r, 0, &c), -ECONNRESET);
	RIG_UNTIL(&r, r.down[0]);
	CHECK_EQ(r.down[0], -ECONNRESET);
	if (pid) {
		close(pidfd);
		CHECK_EQ(waitpid(pid, NULL, 0), pid);
	}
	CHECK_EQ(backend_shm.unexpose(&x), 0);
	rig_memory_free(&r, 1, m);
	rig_close(&r);
}

int main(void)
{
	uint8_t from = 1, to = 0;
	struct iovec there = {&from, 1}, here = {&to, 1};
	int ended[2];

	if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 1)
		SKIP("process_vm_readv is denied here");
	rig_cma = URCCL_ALLOW_YES;
	read_from(-1, -1);
	/* A descriptor that is readable, as that of a process that has ended. */
	CHECK(!pipe(ended));
	close(ended[1]);
	read_from(0, ended[0]);
	close(ended[0]);
	return 0;
}
