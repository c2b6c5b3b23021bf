/* SPDX-License-Identifier: Apache-2.0 */
/* A child that was forked holds copies of every descriptor: an end is one for the peer all the
 * same, nobody is let in under the name of an ep that is gone, and what was shared goes to no
 * child. */
#include <sys/epoll.h>
#include <sys/wait.h>
#include <backend/shm/shm.h>
#include "shm_rig.h"
#include "sleeper.h"

#define LEN 4096u

static struct shm_rig r;

static uint32_t mappings(pid_t pid)
{
	char line[512], path[64];
	uint32_t n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	f = fopen(path, "r");
	CHECK(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "memfd:urccl") != NULL;
	fclose(f);
	return n;
}

static int epoll_is_silent(uint32_t side)
{
	struct epoll_event e;

	return epoll_wait(r.dev[side]->fd, &e, 1, 0) == 0;
}

static void use_mapped(struct exposure *x, struct rkey *rkey, struct memory **m,
		       struct allocation **a)
{
	uint8_t local[LEN] = {1};
	struct chunk c = rig_chunk(CHUNK_WRITE, local, LEN, rkey, 0);

	CHECK_EQ(memory_alloc(LEN, a), 0);
	*m = rig_memory(&r, 1, (void *)(uintptr_t)(*a)->addr, LEN, (*a)->fd);
	rig_expose(&r, 1, *m, (*m)->rights, x, rkey);
	CHECK_EQ(rig_do(&r, 0, &c), 0);
	CHECK_EQ(c.path, 0);
}

int case_shm_fork(void)
{
	struct exposure x;
	struct rkey rkey;
	struct memory *m;
	struct allocation *a;
	pid_t pid;

	rig_open(&r, NULL);
	rig_connect(&r);
	use_mapped(&x, &rkey, &m, &a);
	/* Both sides' common pages, the view, and the allocation itself. */
	CHECK_EQ(mappings(getpid()), 4);
	pid = fork_sleeper();
	CHECK_EQ(mappings(pid), 1);
	backend_shm.forget(r.ep[0], &rkey);
	backend_shm.ep_close(r.ep[0]);
	RIG_UNTIL(&r, r.closed[0] && r.down[1]);
	CHECK_EQ(r.down[1], -ECONNRESET);
	CHECK_EQ(backend_shm.unexpose(&x), 0);
	backend_shm.ep_close(r.ep[1]);
	RIG_UNTIL(&r, r.closed[1]);
	CHECK(epoll_is_silent(0) && epoll_is_silent(1));
	backend_shm.ep_free(r.ep[0]);
	backend_shm.ep_free(r.ep[1]);
	rig_memory_free(&r, 1, m);
	memory_free(a);
	backend_shm.close(r.dev[0]);
	backend_shm.close(r.dev[1]);
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	return 0;
}
