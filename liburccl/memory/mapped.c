/* SPDX-License-Identifier: Apache-2.0 */
/* The mappings of this process, from /proc/self/maps: one entry by ioctl if the kernel has it
 * (since Linux 6.11), else the text, read from its beginning. */
#include <fcntl.h>
#include <sys/ioctl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "memory/memory.h"

/* struct procmap_query of linux/fs.h, which is newer than most headers. */
struct query {
	uint64_t size, flags, addr;
	uint64_t start, end, how, page, offset, inode;
	uint32_t major, minor, name_size, id_size;
	uint64_t name, id;
};

#define QUERY	       _IOWR('f', 17, struct query)
#define QUERY_READABLE 0x01u
#define QUERY_WRITABLE 0x02u
#define QUERY_SHARED   0x08u
#define QUERY_OR_NEXT  0x10u

_Static_assert(sizeof(struct query) == 104, "as the kernel has it");

static int list_open(void)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int mappings_open(struct mappings *m)
{
	memset(m, 0, offsetof(struct mappings, text));
	m->fd = list_open();
	return m->fd < 0 ? m->fd : 0;
}

void mappings_close(struct mappings *m)
{
	fd_close(m->fd);
	m->fd = -1;
}

/* The kernel writes the list at each read; an emulator (qemu-user) writes it to a file of its own
 * at open(). */
static int is_kernels(int fd)
{
	struct statfs s;

	return !fstatfs(fd, &s) && s.f_type == PROC_SUPER_MAGIC;
}

/* Rewinds, or opens an emulator's list again. */
static void text_begin(struct mappings *m)
{
	int fd = is_kernels(m->fd) ? -1 : list_open();

	if (fd < 0) {
		(void)lseek(m->fd, 0, SEEK_SET);
		return;
	}
	close(m->fd);
	m->fd = fd;
}

void mappings_anew(struct mappings *m)
{
	if (m->reads)
		text_begin(m);
	m->at = m->len = 0;
	m->start = m->end = 0;
}

/* ---- one entry ---- */

static int mapping_query(struct mappings *m, uint64_t addr)
{
	struct query q = {.size = sizeof(q), .flags = QUERY_OR_NEXT, .addr = addr};

	if (ioctl(m->fd, QUERY, &q))
		return errno == ENOENT ? 0 : -errno;
	m->start = q.start;
	m->end = q.end;
	m->prot = (q.how & QUERY_READABLE ? PROT_READ : 0) |
		  (q.how & QUERY_WRITABLE ? PROT_WRITE : 0);
	m->shared = (q.how & QUERY_SHARED) != 0;
	m->major = q.major;
	m->minor = q.minor;
	m->inode = q.inode;
	m->offset = q.offset;
	return 1;
}

/* ---- the list: lines of "start-end rwxp offset major:minor inode ..." ---- */

/* The next byte, or -1 at the end. */
static int text_byte(struct mappings *m)
{
	ssize_t n;

	if (m->at == m->len) {
		do
			n = read(m->fd, m->text, sizeof(m->text));
		while (n < 0 && errno == EINTR);
		if (n <= 0)
			return -1;
		m->len = (uint32_t)n;
		m->at = 0;
	}
	return (uint8_t)m->text[m->at++];
}

/* Reads a number; *c: the byte after it. */
static uint64_t text_number(struct mappings *m, uint32_t base, int *c)
{
	uint64_t n = 0;

	while ((*c = text_byte(m)) >= '0' && *c != ':')
		n = n * base + (uint64_t)(*c <= '9' ? *c - '0' : *c - 'a' + 10);
	return n;
}

static int text_line(struct mappings *m)
{
	int c;

	m->start = text_number(m, 16, &c);
	m->end = text_number(m, 16, &c);
	m->prot = text_byte(m) == 'r' ? PROT_READ : 0;
	m->prot |= text_byte(m) == 'w' ? PROT_WRITE : 0;
	text_byte(m);
	m->shared = text_byte(m) == 's';
	text_byte(m);
	m->offset = text_number(m, 16, &c);
	m->major = (uint32_t)text_number(m, 16, &c);
	m->minor = (uint32_t)text_number(m, 16, &c);
	m->inode = text_number(m, 10, &c);
	while (c >= 0 && c != '\n')
		c = text_byte(m);
	return c == '\n';
}

/* ---- both ---- */

int mappings_find(struct mappings *m, uint64_t addr)
{
	int rc;

	if (m->start <= addr && addr < m->end)
		return 1;
	if (!m->reads) {
		rc = mapping_query(m, addr);
		if (rc >= 0)
			return rc;
		m->reads = 1;
	}
	if (addr < m->start)
		mappings_anew(m);
	do
		rc = text_line(m);
	while (rc && m->end <= addr);
	if (!rc) /* the next lookup starts from the beginning */
		m->start = m->end = UINT64_MAX;
	return rc;
}

int mappings_allow(struct mappings *m, uint64_t addr, uint64_t len, int prot, uint64_t *where)
{
	uint64_t end = addr + len;

	for (*where = addr; *where < end; *where = m->end) {
		if (!mappings_find(m, *where) || m->start > *where)
			return -EFAULT;
		if ((m->prot & prot) != prot)
			return -EACCES;
	}
	return 0;
}

int mapping_open(const struct mappings *m)
{
	char link[64], path[4096];
	struct stat st;
	ssize_t n;
	int at, fd;

	/* The link can be followed with CAP_CHECKPOINT_RESTORE alone, and read always. O_PATH: to
	 * open a device may have effects. */
	snprintf(link, sizeof(link), "/proc/self/map_files/%llx-%llx", (unsigned long long)m->start,
		 (unsigned long long)m->end);
	at = open(link, O_PATH | O_CLOEXEC);
	n = at < 0 ? readlink(link, path, sizeof(path) - 1) : 0;
	if (n > 0) {
		path[n] = 0;
		at = open(path, O_PATH | O_CLOEXEC);
	}
	if (at < 0)
		return -errno;
	fd = -ESTALE;
	if (!fstat(at, &st) && S_ISREG(st.st_mode) && st.st_ino == m->inode &&
	    major(st.st_dev) == m->major && minor(st.st_dev) == m->minor) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", at);
		fd = open(link, O_RDONLY | O_CLOEXEC);
		fd = fd < 0 ? -errno : fd;
	}
	close(at);
	return fd;
}

int mapping_in_memory(const struct mappings *m)
{
	static const char *const kernels[] = {"/memfd:", "/dev/zero", "/SYSV", "/anon_hugepage"};
	char link[64], path[4096];
	struct statfs fs;
	int fd, is = 0;
	ssize_t n;
	size_t i;

	if (!m->inode)
		return 1;
	snprintf(link, sizeof(link), "/proc/self/map_files/%llx-%llx", (unsigned long long)m->start,
		 (unsigned long long)m->end);
	n = readlink(link, path, sizeof(path) - 1);
	path[n < 0 ? 0 : n] = 0;
	for (i = 0; i < ARRAY_SIZE(kernels); i++)
		if (!strncmp(path, kernels[i], strlen(kernels[i])))
			return 1;
	fd = mapping_open(m);
	if (fd < 0)
		return 0;
	is = !fstatfs(fd, &fs) && (fs.f_type == TMPFS_MAGIC || fs.f_type == HUGETLBFS_MAGIC);
	close(fd);
	return is;
}

/* The kernel's own tmpfs of memfds has no limit, and 0 blocks. */
int file_lacks_pages(int fd, uint64_t off, uint64_t len)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct statfs fs;
	struct stat st;
	off_t hole;

	if (fstat(fd, &st) || fstatfs(fd, &fs))
		return 0;
	if (off + len > ((uint64_t)st.st_size + page - 1) / page * page)
		return 1;
	if (!fs.f_blocks || (uint64_t)st.st_blocks * 512 >= (uint64_t)st.st_size)
		return 0;
	hole = lseek(fd, (off_t)off, SEEK_HOLE);
	return hole >= 0 && (uint64_t)hole < off + len && hole < st.st_size;
}

int file_system_full(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && fs.f_blocks && !fs.f_bavail;
}

static int is_view(const struct mappings *m, uint64_t at, const struct stat *file, uint64_t off)
{
	return m->shared && m->inode == file->st_ino && m->major == major(file->st_dev) &&
	       m->minor == minor(file->st_dev) && m->offset + (at - m->start) == off;
}

int mappings_view(struct mappings *m, uint64_t addr, uint64_t len, const struct stat *file,
		  uint64_t off, int *prot)
{
	uint64_t at, end = addr + len;

	if (!mappings_find(m, addr) || m->start >= end)
		return 0;
	*prot = PROT_READ | PROT_WRITE;
	for (at = addr; at < end; at = m->end) {
		if (!mappings_find(m, at) || m->start > at ||
		    !is_view(m, at, file, off + (at - addr)))
			return -EINVAL;
		*prot &= m->prot;
	}
	return 1;
}
