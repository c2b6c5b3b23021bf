/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Legacy handles and dma-buf. A handle names a descriptor of its process, which /proc opens for
 * another one. Whoever has memory open holds a shared lock on the file, which ends with the
 * process, so that cuMemFree() sees it.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include "control.h"
#include "double.h"

#define HANDLE_MARK 0x6370692d61647563ull

struct legacy { /* in a cu_ipc_handle */
	uint64_t mark, block, len;
	int pid, fd, gpu;
};

EXPORT int cuIpcGetMemHandle(struct cu_ipc_handle *to, uint64_t addr)
{
	struct legacy l = {.mark = HANDLE_MARK, .pid = getpid()};
	struct span *s;
	int res = CUDA_ERROR_NOT_SUPPORTED;

	ENTER(CLASS_IPC, NEEDS_INIT | NEEDS_CONTEXT);
	lock();
	s = span_at(addr);
	if (!s || s->kind == SPAN_FREED || !is_device(s))
		die("cuIpcGetMemHandle: 0x%llx is no device memory, or was freed",
		    (unsigned long long)addr);
	if (s->kind == SPAN_ALLOC && s->addr != addr)
		die("cuIpcGetMemHandle: 0x%llx is not where its memory begins",
		    (unsigned long long)addr);
	if (!double_words.nolegacy)
		res = s->kind == SPAN_ALLOC ? 0 : CUDA_ERROR_INVALID_VALUE;
	if (!res) {
		l.block = s->block->id;
		l.len = s->len;
		l.fd = s->block->fd;
		l.gpu = s->gpu;
	}
	unlock();
	memset(to, 0, sizeof(*to));
	memcpy(to->data, &l, sizeof(l));
	return res;
}

/* The block of another process, locked; NULL: it is gone. */
static struct block *block_open(const struct legacy *l)
{
	struct block *b;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", l->pid, l->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	b = block_of_fd(fd);
	close(fd);
	if (b && b->id != l->block) {
		block_put(b);
		b = NULL;
	}
	if (b && flock(b->fd, LOCK_SH | LOCK_NB)) { /* it is being freed */
		block_put(b);
		b = NULL;
	}
	return b;
}

static int ipc_open(uint64_t *to, const struct legacy *l)
{
	struct context *c = current();
	struct block *b;
	struct span *s;
	uint64_t addr;

	for (s = double_spans; s; s = s->next) {
		if (s->kind == SPAN_OPENED && s->context == c && s->block->id == l->block) {
			s->opens++;
			*to = s->addr;
			return 0;
		}
	}
	if (l->gpu >= double_words.gpus)
		return CUDA_ERROR_INVALID_DEVICE;
	if (l->gpu != c->gpu && double_words.nopeer)
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	b = block_open(l);
	if (!b)
		return CUDA_ERROR_INVALID_VALUE;
	addr = reserve(l->len, GRANULARITY);
	if (!addr)
		die("no addresses for %llu bytes", (unsigned long long)l->len);
	s = span_new(SPAN_OPENED, addr, l->len);
	s->block = b;
	s->view = b->view;
	s->gpu = l->gpu;
	s->reserved = addr;
	s->reserved_len = round_up(l->len, PAGE);
	s->opens = 1;
	*to = addr;
	return 0;
}

EXPORT int cuIpcOpenMemHandle_v2(uint64_t *to, struct cu_ipc_handle handle, unsigned flags)
{
	struct legacy l;
	int res;

	ENTER(CLASS_IPC, NEEDS_INIT | NEEDS_CONTEXT);
	memcpy(&l, handle.data, sizeof(l));
	if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return CUDA_ERROR_INVALID_VALUE;
	if (l.mark != HANDLE_MARK)
		return CUDA_ERROR_INVALID_VALUE;
	if (l.pid == getpid()) /* the driver refuses it so */
		return CUDA_ERROR_INVALID_CONTEXT;
	lock();
	res = ipc_open(to, &l);
	unlock();
	return res;
}

EXPORT int cuIpcCloseMemHandle(uint64_t addr)
{
	struct span *s;

	ENTER(CLASS_IPC, NEEDS_INIT | NEEDS_CONTEXT);
	lock();
	s = span_at(addr);
	if (!s || s->kind != SPAN_OPENED || s->addr != addr)
		die("cuIpcCloseMemHandle: 0x%llx is not open, or was closed",
		    (unsigned long long)addr);
	if (!--s->opens)
		span_free(s);
	unlock();
	return 0;
}

EXPORT unsigned char *cuda_double_view(unsigned long addr, unsigned long len)
{
	const struct span *s;
	uint8_t *view = NULL;

	lock();
	s = span_at(addr);
	if (s && s->kind != SPAN_FREED && is_device(s) && len <= s->len - (addr - s->addr))
		view = s->view + (addr - s->addr);
	unlock();
	return view;
}

/* A file that can be mapped: the double of libibverbs takes it for a dma-buf. It begins where the
 * memory does, so that a part of it has none. */
EXPORT int cuMemGetHandleForAddressRange(void *to, uint64_t addr, size_t len, int type,
					 uint64_t flags)
{
	struct span *s;
	int fd = -1;

	ENTER(CLASS_NONE, NEEDS_INIT);
	if (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags || addr % PAGE || len % PAGE)
		return CUDA_ERROR_INVALID_VALUE;
	lock();
	s = span_at(addr);
	if (s && s->kind == SPAN_FREED)
		die("cuMemGetHandleForAddressRange: 0x%llx was freed", (unsigned long long)addr);
	if (s && is_device(s) && s->addr == addr && !double_words.nodmabuf &&
	    len <= round_up(s->len, PAGE))
		fd = fcntl(s->block->fd, F_DUPFD_CLOEXEC, 0);
	unlock();
	if (fd < 0)
		return CUDA_ERROR_NOT_SUPPORTED;
	*(int *)to = fd;
	return 0;
}
