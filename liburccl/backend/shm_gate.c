/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page that stands before what the peer's process reads here. Each of its calls names it first,
 * so once it is gone none comes past it, however long ago it was prepared. What the kernel finds in
 * it goes to the peer's word `inside`: whether a call came past is the kernel's word, not that of a
 * thread which may be stopped before it says it.
 *
 * A call that has hold of the page and has not yet written its word shows as the page's count of
 * users. F_SEAL_WRITE promises that nobody writes to a file again, so the kernel gives it only if
 * nobody has hold of a page: that it gives it is the proof that the word is as it stays.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "backend/shm.h"

static const uint64_t passed = 1;

static size_t page(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static int file_make(void)
{
	int err = memory_file_check(page()), fd;

	if (err)
		return err;
	fd = memfd_open("urccl-gate");
	if (fd < 0)
		return fd;
	if (!ftruncate(fd, (off_t)page()) &&
	    pwrite(fd, &passed, sizeof(passed), 0) == (ssize_t)sizeof(passed))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* What else could come to lie at the place would let everybody past. */
static int take_away(struct shm_gate *g)
{
	void *at = mmap(g->at, page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	return at == MAP_FAILED ? -errno : 0;
}

/* A child that inherited the page would have hold of it for good. */
static int put_up(struct shm_gate *g)
{
	int err;

	if (mmap(g->at, page(), PROT_READ, MAP_SHARED | MAP_FIXED, g->fd, 0) == MAP_FAILED)
		return -errno;
	if (!madvise(g->at, page(), MADV_DONTFORK))
		return 0;
	err = -errno;
	take_away(g);
	return err;
}

static void file_close(struct shm_gate *g)
{
	if (g->fd >= 0)
		close(g->fd);
	g->fd = -1;
}

int shm_gate_open(struct shm_gate *g)
{
	int err;

	file_close(g);
	g->fd = file_make();
	err = g->fd < 0 ? g->fd : put_up(g);
	if (err)
		file_close(g);
	else
		g->closed = 0;
	return err;
}

int shm_gate_close(struct shm_gate *g)
{
	if (!g->closed && take_away(g))
		return 0;
	g->closed = 1;
	if (g->fd >= 0 && fcntl(g->fd, F_ADD_SEALS, F_SEAL_WRITE))
		return 0;
	file_close(g);
	return 1;
}

int shm_gate_make(struct shm_gate *g)
{
	void *at = mmap(NULL, page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err;

	if (at == MAP_FAILED)
		return -errno;
	*g = (struct shm_gate){.at = at, .fd = -1};
	err = shm_gate_open(g);
	if (err)
		shm_gate_drop(g);
	return err;
}

/* Somebody may be stopped before a closed one: its place is left, a page without memory. */
void shm_gate_drop(struct shm_gate *g)
{
	if (!g->at)
		return;
	if (!g->closed)
		munmap(g->at, page());
	file_close(g);
	g->at = NULL;
}
