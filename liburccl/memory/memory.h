/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of regions: their ranges as one offset space, lookups by address, shareable memory. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdio.h>
#include <sys/stat.h>
#include "base/base.h"
#include "gpu/gpu.h"

#define DEVICES_MAX 16u			/* per context */

/* Whether the processor can read all of an extent. */
enum extent_read {
	EXTENT_READ_UNKNOWN,
	EXTENT_READ,
	EXTENT_UNREAD,			/* not all: memory of a GPU, or unknown */
};

/* Memory that devices register as one piece: adjacent ranges of a region, in any order. Regions
 * with ranges inside it share it. The control thread creates it and frees it with its last user; in
 * between only users and read change. */
struct extent {
	uint64_t addr, len;
	uint64_t fd_off;		/* as in its spans; DEVICE: of the first byte in fd */
	int	 fd;			/* DEVICE: a dma-buf of it that devices may register; set
					 * by the registering thread; -1: none */
	uint32_t is_dmabuf;		/* as in its spans; fd is the extent's own duplicate */
	uint32_t rights;		/* enum urccl_rights of the region it was made for */
	uint32_t users;			/* control thread: pieces of regions */
	uint32_t known;			/* devices have registered it; set by the registering
					 * thread, then by the control thread */
	uint32_t read;			/* enum extent_read; set by the registering thread, once a
					 * device asks */
	uint32_t kind;			/* enum gpu_memory */
	uint32_t gpu_index;		/* DEVICE: the GPU's number */
	uint64_t gpu_id;		/* likewise, id of its allocation; 0: several */
	struct gpu_dev *gpu;		/* likewise, once the devices register it */
	uint32_t direct;		/* bit per device that accesses it itself; set by the
					 * registering thread */
	uint64_t mapping_end;		/* of the mapping at addr; 0: nothing is known of it, or
					 * fd >= 0 */
	uint32_t major, minor;		/* the file that is mapped at addr; inode 0: none */
	uint64_t inode, file_off;
	void	*mr[DEVICES_MAX];	/* each device's registration, which it owns */
};

struct allocation;

/* One range of a region. */
struct span {
	uint64_t start;			/* offset in the region of its first byte */
	uint64_t len;
	uint64_t addr;
	uint64_t fd_off;		/* its first byte's offset in fd */
	int	 fd;			/* memfd or dma-buf that it is a view of; -1: ordinary
					 * memory */
	uint32_t is_dmabuf;		/* fd is one: devices may access it, processors need not */
	uint32_t kind;			/* enum gpu_memory */
	uint32_t gpu_index;		/* DEVICE: the GPU's number */
	uint64_t gpu_id;		/* likewise, id of the allocation; 0: VMM memory, perhaps
					 * several */
	struct extent *extent;		/* that holds it */
	struct allocation *file;	/* control thread: the program's file that it lies in, or
					 * NULL */
};

/* A region's memory. The control thread creates it and frees it once every engine has released it;
 * in between it never changes, so any thread may read it. */
struct memory {
	uint32_t handle;		/* region it belongs to */
	uint32_t rights;		/* enum urccl_rights: the most an advert may give */
	uint32_t staged;		/* bit per device that cannot access all of it: bytes go
					 * through staging buffers */
	uint32_t pageable;		/* 1: some of it is neither of a GPU nor pinned for GPUs */
	uint32_t gpus;			/* bit per GPU, by its number, that has some of it */
	uint64_t len;			/* bytes of the offset space */
	uint32_t *by_addr;		/* spans by address, then by index; NULL: they are in that
					 * order */
	uint32_t nspans;
	struct span spans[];		/* by start, without gaps */
};

/* 1: its fd is a dma-buf, and its own. */
static inline int extent_has_dmabuf(const struct extent *x)
{
	return x->is_dmabuf || (x->kind == GPU_MEMORY_DEVICE && x->fd >= 0);
}

/* 1: some of it is of a device that the library does not know: a dma-buf, or what the processor
 * cannot read. */
static inline int memory_has_device(const struct memory *m)
{
	uint32_t i;

	for (i = 0; i < m->nspans; i++)
		if (m->spans[i].extent->is_dmabuf || m->spans[i].extent->read == EXTENT_UNREAD)
			return 1;
	return 0;
}

/* 1: some of it is of a GPU. */
static inline int memory_has_gpu(const struct memory *m)
{
	uint32_t i;

	for (i = 0; i < m->nspans; i++)
		if (m->spans[i].kind == GPU_MEMORY_DEVICE)
			return 1;
	return 0;
}

/* 1: some of it is known not to be host memory. */
static inline int memory_is_device(const struct memory *m)
{
	return memory_has_device(m) || memory_has_gpu(m);
}

/* The processor may read and write it, as far as its pages allow. */
static inline int span_is_host(const struct span *s)
{
	return !s->is_dmabuf && s->kind != GPU_MEMORY_DEVICE;
}

/* The span that holds offset off < m->len. O(log n), O(1) for one. */
const struct span *memory_span(const struct memory *m, uint64_t off);

/* The address of offset off < m->len; *run: bytes from there to the end of its span. */
static inline void *memory_at(const struct memory *m, uint64_t off, uint64_t *run)
{
	const struct span *s = m->nspans == 1 ? m->spans : memory_span(m, off);

	*run = s->len - (off - s->start);
	return (void *)(uintptr_t)(s->addr + (off - s->start));
}

/* The offset of the len bytes at addr. They may cross ranges only where these are adjacent in
 * memory and in offset. UINT64_MAX: not all inside. O(log n), unless ranges overlap. */
uint64_t memory_offset(const struct memory *m, uint64_t addr, uint64_t len);

/* The extent that holds the byte at addr, which must be inside; *len is cut to the extent. */
static inline const struct extent *memory_extent(const struct memory *m, uint64_t addr,
						 uint64_t *len)
{
	const struct extent *x = memory_span(m, memory_offset(m, addr, 1))->extent;
	uint64_t left = x->addr + x->len - addr;

	*len = *len < left ? *len : left;
	return x;
}

/* 1: all of the len bytes at addr are inside. */
static inline int memory_holds(const struct memory *m, uint64_t addr, uint64_t len)
{
	uint64_t in = addr - m->spans[0].addr;

	if (in < m->spans[0].len && len <= m->spans[0].len - in)
		return 1; /* most regions are one span */
	return m->nspans > 1 && memory_offset(m, addr, len) != UINT64_MAX;
}

/* Every range of every region by address, to look up "region 0". The control thread makes a new one
 * at each change and swaps it into the engines, which never change it. If ranges overlap, the one
 * registered last wins. */
struct memory_map {
	struct memory_map *old;		/* more ranges, shared with other maps; NULL: none */
	uint32_t users;			/* control thread: holders, and maps with it as old */
	uint32_t n;
	uint64_t age;			/* the newest region's */
	struct memory_range {		/* by addr, then by age */
		uint64_t addr, end;
		uint64_t reach;		/* the highest end of the subtree */
		uint64_t age;		/* its region's: the highest is the newest */
		struct memory *memory;
	} ranges[];
};

/* A new map: now (NULL: empty) with one region added or removed; now stays as it is. NULL: no
 * memory. */
struct memory_map *memory_map_add(struct memory_map *now, struct memory *m);
struct memory_map *memory_map_del(struct memory_map *now, const struct memory *m);
void memory_map_free(struct memory_map *map);
/* The region that holds all of [addr, addr + len), or NULL. */
struct memory *memory_map_find(const struct memory_map *map, uint64_t addr, uint64_t len);

/* ---- how it is mapped ---- */

struct mappings {			/* the process's mappings, by ascending address */
	int	 fd;			/* -1: not open */
	uint32_t reads;			/* 1: reads the text, for lack of the ioctl */
	uint64_t start, end;		/* the mapping found last */
	int	 prot;			/* its PROT_READ, PROT_WRITE */
	int	 shared;		/* MAP_SHARED */
	uint32_t major, minor;		/* device of the file it maps, if any */
	uint64_t inode, offset;		/* its inode; offset of its first byte in it */
	uint32_t at, len;		/* position and length in text */
	char	 text[4096];
};

int mappings_open(struct mappings *m);	/* 0; -errno: nothing to close */
void mappings_close(struct mappings *m);
void mappings_anew(struct mappings *m);	/* drops entries that it has read */
/* Finds the mapping that holds addr, or the first above it. 0: there is none. Fast if addresses
 * ascend from call to call. */
int mappings_find(struct mappings *m, uint64_t addr);
/* 0: all of [addr, addr + len) is mapped with prot; -EACCES, -EFAULT (unmapped) from *where on. */
int mappings_allow(struct mappings *m, uint64_t addr, uint64_t len, int prot, uint64_t *where);
/* 1: [addr, addr + len) maps the file MAP_SHARED from off on; *prot: the rights that all of it has.
 * 0: nothing is mapped there. -EINVAL: something else is, at least in part. */
int mappings_view(struct mappings *m, uint64_t addr, uint64_t len, const struct stat *file,
		  uint64_t off, int *prot);

/* Opens the file of the mapping found last for reading, if it is a regular one. -errno: it is not,
 * or may not be read. */
int mapping_open(const struct mappings *m);
/* 1: touching [off, off + len) of a mapping of the file may fail: the range passes the file's end,
 * or has no pages yet and the file system is of limited size. */
int file_lacks_pages(int fd, uint64_t off, uint64_t len);
/* 1: its file system has no room left. */
int file_system_full(int fd);

/* 1: the mapping found last has its pages in memory or swap: it is of no file, or of a memfd or a
 * file of tmpfs or hugetlbfs. 0: it is of another file, or cannot be told. */
int mapping_in_memory(const struct mappings *m);
/* 1: a part of [addr, addr + len) is registered with userfaultfd(2). Reads /proc/self/smaps, which
 * is slow in a large process. */
int memory_by_userfaultfd(uint64_t addr, uint64_t len);

/* ---- pages ---- */

/* The library asks for huge pages, unless the program disabled them by prctl(PR_SET_THP_DISABLE)
 * or, for one mapping, by MADV_NOHUGEPAGE. They are optional. A mapping's flags are in
 * /proc/self/smaps, which is slow to read in a large process. */
struct large_pages {
	FILE	*smaps;
	uint64_t start, end;		/* the mapping read last */
	int	 unwanted;		/* 1: it has MADV_NOHUGEPAGE */
	int	 userfault;		/* 1: a userfaultfd makes its pages */
};

int large_pages_open(struct large_pages *l);	/* 0; -errno: do not ask */
void large_pages_close(struct large_pages *l);
/* Addresses must ascend from call to call. */
void large_pages_ask(struct large_pages *l, uint64_t addr, uint64_t len);
/* For a mapping that the library has just made. */
void large_pages_ours(uint64_t addr, uint64_t len);

/* Populates every page of [addr, addr + len) for writing, or if that is not allowed, for reading.
 * Blocks. 0, or -errno: -ENOMEM, -EFAULT (no page can be had), -EOPNOTSUPP (the kernel lacks
 * MADV_POPULATE_*). */
int memory_populate(uint64_t addr, uint64_t len);
/* 1: the processor can read all of [addr, addr + len). 0: some of it is device memory, or the
 * kernel cannot tell. Populates missing pages; visits each page even if none is missing. */
int memory_readable(uint64_t addr, uint64_t len);

/* ---- shareable memory: a sealed memfd each, of urccl_alloc() or the program's own ---- */

enum allocation_kind {
	ALLOCATION_OURS,
	ALLOCATION_MAPPED,		/* the program's file, mapped by the library */
	ALLOCATION_VIEW,		/* a file that the program mapped */
};

struct allocation {
	struct list link;
	uint64_t addr, len;		/* len: rounded up to pages */
	uint64_t fd_off;		/* its first byte's offset in fd */
	int fd;				/* sealed (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), fully
					 * allocated; -1: not shareable */
	uint32_t kind;			/* enum allocation_kind */
	uint32_t users;			/* regions that hold part of it */
};

/* Bytes that this process can allocate now; an estimate. Reads files. */
uint64_t memory_room(void);
/* Bytes that devices have pinned for this process; 0: none, or unknown. Reads a file. */
uint64_t memory_pinned(void);
/* Bytes that its control groups still allow, by the files under root ("": the machine's);
 * UINT64_MAX: no limit. */
uint64_t memory_groups_room(const char *root);
/* 0: a memfd of len bytes exceeds RLIMIT_FSIZE, and making it would raise SIGXFSZ.
 * memory_file_check(): 0, or -EFBIG with fail() text. */
int memory_file_fits(uint64_t len);
int memory_file_check(uint64_t len);
/* 0 or -errno with fail() text. */
int memory_alloc(uint64_t len, struct allocation **out);
void memory_free(struct allocation *a);
void memory_leave(struct allocation *a); /* leaves the pages mapped */
int memory_file_is(int fd); /* 1: it is a memfd */
/* 1: peers may map it: its size is sealed and all its pages are allocated. */
int memory_file_shareable(int fd);
/* Records the pages of the program's file that hold len bytes from off on, at addr: mapped there by
 * the program (ALLOCATION_VIEW) or by this call (ALLOCATION_MAPPED). Not shareable if the file is
 * not, or no descriptor is left. 0 or -errno. */
int memory_file(int fd, uint64_t addr, uint64_t len, uint64_t off, enum allocation_kind kind,
		struct allocation **out);
/* The allocation in list (struct allocation.link) that holds all of [addr, addr + len), or NULL. */
struct allocation *memory_allocation(struct list *list, uint64_t addr, uint64_t len);

#endif
