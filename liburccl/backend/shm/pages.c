/* SPDX-License-Identifier: Apache-2.0 */
/* The memory two sides share: a sealed memfd with the words of both and four byte rings. Its pages
 * are allocated on first use, so an idle peer costs only the page of its words. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <linux/magic.h>
#include "backend/shm/shm.h"

#define WORDS_BYTES 4096u /* both sides' words */
#define WORDS_EACH  (WORDS_BYTES / 2)
/* A bulk ring of this size stays in the second-level cache while two cores copy through it; a
 * bigger one does not. */
#define BULK_BYTES  (256u << 10)
#define QUICK_BYTES (16u << 10)
#define MAP_BYTES   (WORDS_BYTES + 2 * QUICK_BYTES + 2 * BULK_BYTES)
#define SEALS	    (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

_Static_assert(sizeof(struct shm_side) <= WORDS_EACH, "the words of a side fit their part");

int shm_sealed(int fd, uint64_t len, uint64_t *size)
{
	struct statfs fs;
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & SEALS) != SEALS)
		return -EPROTO;
	/* hugetlbfs may run out of pages at first touch, which would be our SIGBUS. */
	if (fstatfs(fd, &fs) || fs.f_type != TMPFS_MAGIC || fstat(fd, &st))
		return -EPROTO;
	if (st.st_size <= 0 || (len && (uint64_t)st.st_size != len))
		return -EPROTO;
	*size = (uint64_t)st.st_size;
	return 0;
}

int shm_map(int fd, uint64_t len, int prot, void **addr)
{
	int err;

	*addr = mmap(NULL, len, prot, MAP_SHARED, fd, 0);
	if (*addr == MAP_FAILED)
		return -errno;
	if (!madvise(*addr, len, MADV_DONTFORK))
		return 0;
	err = -errno;
	munmap(*addr, len);
	return err;
}

static uint8_t *ring_bytes(const struct shm_pages *p, uint32_t side, uint32_t channel)
{
	uint8_t *at = (uint8_t *)p->map + WORDS_BYTES;

	if (channel == SHM_QUICK)
		return at + side * QUICK_BYTES;
	return at + 2 * QUICK_BYTES + side * BULK_BYTES;
}

static void ring_init(struct shm_ring *r, uint8_t *bytes, uint32_t channel, uint32_t *mine,
		      uint32_t *theirs)
{
	r->bytes = bytes;
	r->mask = (channel == SHM_QUICK ? QUICK_BYTES : BULK_BYTES) - 1;
	r->mine = mine;
	r->theirs = theirs;
	r->at = r->published = r->seen = 0;
}

/* us: 0 is the active side. */
static int pages_map(struct shm_pages *p, int fd, uint32_t us)
{
	struct shm_side *ours, *theirs;
	uint32_t w;
	int err = shm_map(fd, MAP_BYTES, PROT_READ | PROT_WRITE, &p->map);

	if (err)
		return err;
	ours = p->side[0] = (void *)((char *)p->map + us * WORDS_EACH);
	theirs = p->side[1] = (void *)((char *)p->map + !us * WORDS_EACH);
	for (w = 0; w < SHM_CHANNELS; w++) {
		ring_init(&p->out[w], ring_bytes(p, us, w), w, &ours->out[w].head,
			  &theirs->in[w].tail);
		ring_init(&p->in[w], ring_bytes(p, !us, w), w, &ours->in[w].tail,
			  &theirs->out[w].head);
	}
	return 0;
}

int shm_pages_make(struct shm_pages *p)
{
	int fd, err = memory_file_check(MAP_BYTES);

	if (err)
		return err;
	fd = memfd_open("urccl-ring");
	if (fd < 0)
		return fd;
	if (ftruncate(fd, MAP_BYTES) || fcntl(fd, F_ADD_SEALS, SEALS)) {
		err = -errno;
		goto close_fd;
	}
	err = pages_map(p, fd, 0);
	if (!err)
		return fd;
close_fd:
	close(fd);
	return err;
}

int shm_pages_take(struct shm_pages *p, int fd)
{
	uint64_t size;
	int err = shm_sealed(fd, MAP_BYTES, &size);

	return err ? err : pages_map(p, fd, 1);
}

void shm_pages_drop(struct shm_pages *p)
{
	if (p->side[0])
		munmap(p->map, MAP_BYTES);
	p->side[0] = p->side[1] = NULL;
}
