/* SPDX-License-Identifier: Apache-2.0 */
/* Who is read: a process that is not the peer any more, or not the same program, is found out, and
 * what it gave does not count. Where nothing can be read it is asked whether the process is still
 * there. */
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <backend/shm.h>
#include "shm_rig.h"

#define LEN (1u << 18)

static struct shm_rig r;
static uint8_t local[LEN];

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

/* One read from side 1, after before() has changed something; what it ends with. */
static int64_t read_after(void (*before)(uint8_t *memory), int lost)
{
	uint8_t *memory = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);
	struct exposure x;
	struct memory *m;
	struct rkey rkey;
	struct chunk c;
	int64_t res;

	CHECK(memory != MAP_FAILED);
	rig_open(&r, NULL);
	rig_connect(&r);
	m = rig_memory(&r, 1, memory, LEN, -1);
	rig_expose(&r, 1, m, URCCL_RIGHT_READ, &x, &rkey);
	before(memory);
	c = rig_chunk(CHUNK_READ, local, LEN, &rkey, 0);
	res = rig_do(&r, 0, &c);
	if (lost) {
		RIG_UNTIL(&r, r.down[0]);
		CHECK_EQ(r.down[0], -ECONNRESET);
	}
	CHECK_EQ(backend_shm.unexpose(&x), 0);
	rig_memory_free(&r, 1, m);
	rig_close(&r);
	munmap(memory, LEN);
	return res;
}

static pid_t other;
static int keep;

static void is_stranger(uint8_t *memory)
{
	(void)memory;
	other = side(0)->cma.pid = stranger(&keep);
}

static void is_unmapped(uint8_t *memory)
{
	CHECK(!mprotect(memory, LEN, PROT_NONE));
}

/* A descriptor that is readable, as that of a process that has ended. */
static void has_ended(uint8_t *memory)
{
	int ended[2];

	is_unmapped(memory);
	CHECK(!pipe(ended));
	close(ended[1]);
	close(side(0)->cma.pidfd);
	side(0)->cma.pidfd = ended[0];
}

int main(void)
{
	uint8_t from = 1, to = 0;
	struct iovec there = {&from, 1}, here = {&to, 1};

	if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 1)
		SKIP("process_vm_readv is denied here");
	rig_cma = URCCL_ALLOW_YES;
	CHECK_EQ(read_after(is_stranger, 1), -ECONNRESET);
	close(keep);
	CHECK_EQ(waitpid(other, NULL, 0), other);
	CHECK_EQ(read_after(is_unmapped, 0), -EFAULT);
	CHECK_EQ(read_after(has_ended, 1), -ECONNRESET);
	return 0;
}
