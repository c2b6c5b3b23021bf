/* SPDX-License-Identifier: Apache-2.0 */
/* What a pointer is: the ranges of a region as one offset space, lookups by address, and shareable
 * memory. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdio.h>
#include <sys/stat.h>
#include "base/base.h"
#include "gpu/gpu.h"

#define DEVICES_MAX 16u			/* of a context */

/* Whether the processor can read all of an extent. */
enum extent_read {
	EXTENT_READ_UNKNOWN,
	EXTENT_READ,
	EXTENT_UNREAD,			/* not all: memory of a GPU, or nobody can tell */
};

/* Memory that the devices know as one piece: ranges of a region that touch in memory, in any order.
 * Regions whose ranges lie inside it share it. The control thread makes it and frees it with its
 * last user; in between nobody changes it but for users and read. */
struct extent {
	uint64_t addr, len;
	uint64_t fd_off;		/* as in its spans */
	int	 fd;
	uint32_t is_dmabuf;		/* likewise; fd is a duplicate, the extent's own */
	uint32_t rights;		/* enum urccl_rights: of the region it was made for */
	uint32_t users;			/* control thread: pieces of regions */
	uint32_t known;			/* the devices have it; whoever told them, then the control
					 * thread */
	uint32_t read;			/* enum extent_read; whoever tells the devices, once one of
					 * them asks */
	uint32_t kind;			/* enum gpu_memory */
	uint32_t gpu_index;		/* DEVICE: the GPU's number */
	uint64_t gpu_id;		/* likewise, of its allocation; 0: of several */
	struct gpu_dev *gpu;		/* likewise, once the devices are told of the extent */
	uint32_t direct;		/* bit per device that reads and writes it itself; whoever
					 * told them */
	void	*mr[DEVICES_MAX];	/* what each device made of it; the device's */
};

struct allocation;

/* One range of a region. */
struct span {
	uint64_t start;			/* offset in the region of its first byte */
	uint64_t len;
	uint64_t addr;
	uint64_t fd_off;		/* of its first byte in fd */
	int	 fd;			/* memfd or dma-buf that it is a view of; -1: ordinary
					 * memory */
	uint32_t is_dmabuf;		/* it is one: devices may reach it, processors need not */
	uint32_t kind;			/* enum gpu_memory */
	uint32_t gpu_index;		/* DEVICE: the GPU's number */
	uint64_t gpu_id;		/* likewise, of the allocation; 0: VMM memory, which may be
					 * of several */
	struct extent *extent;		/* that it lies in */
	struct allocation *file;	/* control thread: that it lies in, where that is a file of
					 * the program's; or NULL */
};

/* A region's memory. The control thread makes it and frees it once every engine has let go; in
 * between it is never changed, so that any thread may read it. */
struct memory {
	uint32_t handle;		/* region it belongs to */
	uint32_t rights;		/* enum urccl_rights: the most an advert may give */
	uint32_t staged;		/* bit per device that does not reach all of it: bytes go
					 * through memory of the library */
	uint32_t pageable;		/* 1: some of it is neither of a GPU nor pinned for them */
	uint32_t gpus;			/* bit per GPU that some of it is of, by its number */
	uint64_t len;			/* bytes of the offset space */
	uint32_t *by_addr;		/* spans by address, then by place; NULL: that is their
					 * order */
	uint32_t nspans;
	struct span spans[];		/* by start, without gaps */
};

/* Some of it is not the host's, as far as devices that know it found out. */
static inline int memory_is_device(const struct memory *m)
{
	uint32_t i;

	for (i = 0; i < m->nspans; i++)
		if (m->spans[i].extent->is_dmabuf || m->spans[i].extent->read == EXTENT_UNREAD ||
		    m->spans[i].kind == GPU_MEMORY_DEVICE)
			return 1;
	return 0;
}

/* Some of it is of a GPU. */
static inline int memory_has_gpu(const struct memory *m)
{
	uint32_t i;

	for (i = 0; i < m->nspans; i++)
		if (m->spans[i].kind == GPU_MEMORY_DEVICE)
			return 1;
	return 0;
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

/* The offset of the len bytes at addr, crossing from one range to the next only where they touch in
 * memory and in offset; UINT64_MAX: not all inside. O(log n), but where ranges overlap. */
uint64_t memory_offset(const struct memory *m, uint64_t addr, uint64_t len);

/* The extent that holds the byte at addr, which is inside; *len is cut to what is in it. */
static inline const struct extent *memory_extent(const struct memory *m, uint64_t addr,
						 uint64_t *len)
{
	const struct extent *x = memory_span(m, memory_offset(m, addr, 1))->extent;
	uint64_t left = x->addr + x->len - addr;

	*len = *len < left ? *len : left;
	return x;
}

/* All of the len bytes at addr are inside. */
static inline int memory_holds(const struct memory *m, uint64_t addr, uint64_t len)
{
	uint64_t in = addr - m->spans[0].addr;

	if (in < m->spans[0].len && len <= m->spans[0].len - in)
		return 1; /* most regions are one span */
	return m->nspans > 1 && memory_offset(m, addr, len) != UINT64_MAX;
}

/* Every range of every region by address: what "region 0" looks up. Made by the control thread at
 * each change and swapped into the engines, which never change it. Overlapping ranges: the one
 * registered last wins. */
struct memory_map {
	struct memory_map *old;		/* more ranges, shared with other maps; NULL: none */
	uint32_t users;			/* control thread: whoever has it, and maps whose old it
					 * is */
	uint32_t n;
	uint64_t age;			/* of the newest region */
	struct memory_range {		/* by addr, then by age */
		uint64_t addr, end;
		uint64_t reach;		/* the highest end of the subtree */
		uint64_t age;		/* of its region: the highest is the newest */
		struct memory *memory;
	} ranges[];
};

/* What now (NULL: nothing) becomes with a region more, or less; now stays as it is. NULL: no
 * memory. */
struct memory_map *memory_map_add(struct memory_map *now, struct memory *m);
struct memory_map *memory_map_del(struct memory_map *now, const struct memory *m);
void memory_map_free(struct memory_map *map);
/* The region that holds all of [addr, addr + len), or NULL. */
struct memory *memory_map_find(const struct memory_map *map, uint64_t addr, uint64_t len);

/* ---- how it is mapped ---- */

struct mappings {			/* the system's list of them, from low addresses to high */
	int	 fd;			/* -1: not open */
	uint32_t reads;			/* the list: it cannot be asked for one */
	uint64_t start, end;		/* of the one that was found last */
	int	 prot;			/* of it: PROT_READ, PROT_WRITE */
	int	 shared;		/* MAP_SHARED */
	uint32_t major, minor;		/* of the file that it is a view of, if any */
	uint64_t inode, offset;		/* likewise; offset: of its first byte in the file */
	uint32_t at, len;		/* of text */
	char	 text[4096];
};

int mappings_open(struct mappings *m);	/* 0 or -errno: there is none, to close neither */
void mappings_close(struct mappings *m);
void mappings_anew(struct mappings *m);	/* as they are now, not when it was asked last */
/* To the one that holds addr, or the first above it. 0: there is none. Quick where addresses
 * ascend from call to call. */
int mappings_find(struct mappings *m, uint64_t addr);
/* 0: all of [addr, addr + len) is mapped with prot; -EACCES, -EFAULT (unmapped) from *where on. */
int mappings_allow(struct mappings *m, uint64_t addr, uint64_t len, int prot, uint64_t *where);
/* 1: [addr, addr + len) is a shared view of the file from off on, and *prot what all of it may be
 * used for. 0: nothing is mapped there. -EINVAL: something else is, at least in part. */
int mappings_view(struct mappings *m, uint64_t addr, uint64_t len, const struct stat *file,
		  uint64_t off, int *prot);

/* ---- pages ---- */

/* Large pages are asked for where the machine gives them to who asks, and not where the program
 * wants none: by prctl(PR_SET_THP_DISABLE), or, of one mapping, by MADV_NOHUGEPAGE. Nothing depends
 * on them. What was said of a mapping is in /proc/self/smaps, which takes a while to read where
 * there is much memory. */
struct large_pages {
	FILE	*smaps;
	uint64_t start, end;		/* of the mapping that was read last */
	int	 unwanted;		/* there */
};

int large_pages_open(struct large_pages *l);	/* 0 or -errno: not to be asked for */
void large_pages_close(struct large_pages *l);
/* Addresses ascend from call to call. */
void large_pages_ask(struct large_pages *l, uint64_t addr, uint64_t len);
/* A mapping that the library has just made. */
void large_pages_ours(uint64_t addr, uint64_t len);

/* Makes every page of [addr, addr + len) be there: to be written, or where that is not allowed, to
 * be read. Takes as long as the kernel needs. 0, or -errno: -ENOMEM, -EFAULT (no page can be had),
 * -EOPNOTSUPP (this kernel cannot be asked). */
int memory_populate(uint64_t addr, uint64_t len);
/* 1: the processor can read all of [addr, addr + len). 0: some of it it cannot, as it is memory of
 * a device, or this kernel cannot be asked. What pages are missing come to be there; where none is,
 * it costs a look at each. */
int memory_readable(uint64_t addr, uint64_t len);

/* ---- shareable memory: a sealed memfd each, of urccl_alloc() or the program's own ---- */

enum allocation_kind {
	ALLOCATION_OURS,
	ALLOCATION_MAPPED,		/* a file of the program's, which the library mapped */
	ALLOCATION_VIEW,		/* one that the program mapped */
};

struct allocation {
	struct list link;
	uint64_t addr, len;		/* len: rounded up to pages */
	uint64_t fd_off;		/* of its first byte in fd */
	int fd;				/* F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, where it is
					 * ours allocated in full; -1: not shareable */
	uint32_t kind;			/* enum allocation_kind */
	uint32_t users;			/* regions that hold part of it */
};

/* Bytes that this process could take now; an estimate. Reads files. */
uint64_t memory_room(void);
/* Bytes that devices have pinned for this process; 0: none, or not to be known. Reads a file. */
uint64_t memory_pinned(void);
/* What its control groups let it have of that, by the files under root ("": the machine's);
 * UINT64_MAX: all. */
uint64_t memory_groups_room(const char *root);
/* 0: a memfd of so many bytes is above the process's limit for files, and making it would not fail
 * but raise SIGXFSZ. memory_file_check(): 0, or -EFBIG with fail() text then. */
int memory_file_fits(uint64_t len);
int memory_file_check(uint64_t len);
/* 0 or -errno with fail() text. */
int memory_alloc(uint64_t len, struct allocation **out);
void memory_free(struct allocation *a);
void memory_leave(struct allocation *a); /* but the pages stay where they are */
int memory_file_is(int fd); /* 1: it is a memfd */
/* 1: peers may map it, for it can neither shrink nor grow, and all its pages are there, now and
 * later. */
int memory_file_shareable(int fd);
/* The pages of a file of the program's that hold len bytes from off on: at addr, where they are
 * mapped (ALLOCATION_VIEW), or where they come to be (ALLOCATION_MAPPED). It is shareable where
 * the file is and there are descriptors left. 0 or -errno. */
int memory_file(int fd, uint64_t addr, uint64_t len, uint64_t off, enum allocation_kind kind,
		struct allocation **out);
/* The one of list (of struct allocation.link) that holds all of [addr, addr + len), or NULL. */
struct allocation *memory_allocation(struct list *list, uint64_t addr, uint64_t len);

#endif
