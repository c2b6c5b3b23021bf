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
	int fd, err;

	if (!memory_file_fits(page()))
		return -EFBIG;
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

/* By a descriptor that only reads: a mapping by one that may write would count as somebody who does
 * so, also that which a child inherits. */
static int file_map(int fd, void *at)
{
	int err = 0, reader = memfd_reader(fd);

	if (reader < 0)
		return reader;
	if (mmap(at, page(), PROT_READ, MAP_SHARED | MAP_FIXED, reader, 0) == MAP_FAILED)
		err = -errno;
	close(reader);
	return err;
}

static void file_close(struct shm_gate *g)
{
	if (g->fd >= 0)
		close(g->fd);
	g->fd = -1;
}

int shm_gate_close(struct shm_gate *g)
{
	/* What else could come to lie at the place would let everybody past. */
	if (!g->closed && mmap(g->at, page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
			       -1, 0) == MAP_FAILED)
		return 0;
	g->closed = 1;
	if (!g->empty && fcntl(g->fd, F_ADD_SEALS, F_SEAL_WRITE))
		return 0;
	g->empty = 1;
	return 1;
}

/* The old file kept the place of its descriptor. */
int shm_gate_open(struct shm_gate *g)
{
	int err;

	file_close(g);
	g->closed = g->empty = 1;
	g->fd = file_make();
	if (g->fd < 0)
		return g->fd;
	err = file_map(g->fd, g->at);
	if (!err)
		g->closed = g->empty = 0;
	return err;
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

void shm_gate_drop(struct shm_gate *g)
{
	if (g->at)
		munmap(g->at, page());
	shm_gate_leave(g);
}

void shm_gate_leave(struct shm_gate *g)
{
	if (g->at)
		file_close(g);
	g->at = NULL;
}

int shm_gate_works(void)
{
	struct shm_gate g;
	int works;

	if (shm_gate_make(&g))
		return 0;
	works = shm_gate_close(&g);
	shm_gate_drop(&g);
	return works;
}
