/* SPDX-License-Identifier: Apache-2.0 */
/* Two sides of which the one reads the other's memory: side 0 uses the memory of side 1. They are
 * polled by hand, and who fetches passes by here as it enters the kernel, so each moment can be
 * met. */
#ifndef SHM_CMA_RIG_H
#define SHM_CMA_RIG_H

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <backend/shm.h>
#include "shm_rig.h"

#define LEN    (1u << 18)
#define BOUNCE (URCCL_PATH_BOUNCE_LOCAL | URCCL_PATH_BOUNCE_REMOTE)

static struct shm_rig r;
static uint8_t *local, *memory; /* of side 0, of side 1 */
static struct memory *m;
static struct exposure x;
static struct rkey rkey;
static uint8_t version; /* that the sides speak at most; 0: the last there is */

/* What happens while who fetches is stopped before its call; once, after so many others. */
static void (*meanwhile)(void);
static uint32_t calls_before;

ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long nto,
			 const struct iovec *from, unsigned long nfrom, unsigned long flags)
{
	void (*f)(void) = nfrom > 1 ? meanwhile : NULL;

	if (f && !(calls_before && calls_before--)) {
		meanwhile = NULL;
		f();
	}
	return syscall(SYS_process_vm_readv, pid, to, nto, from, nfrom, flags);
}

/* Gates that cannot be made: from that one on, so many. */
static uint32_t gate_first, gates_denied;

int memfd_create(const char *name, unsigned int flags)
{
	if (!strcmp(name, "urccl-gate") && gates_denied && !(gate_first && gate_first--)) {
		gates_denied--;
		errno = EMFILE;
		return -1;
	}
	return (int)syscall(SYS_memfd_create, name, flags);
}

static inline void need_cma(void)
{
	uint8_t from = 1, to = 0;
	struct iovec there = {&from, 1}, here = {&to, 1};

	if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 1)
		SKIP("process_vm_readv is denied here");
}

static inline uint8_t *map(void)
{
	void *p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

static inline void begin_devices(uint8_t cma0, uint8_t cma1)
{
	local = map();
	memory = map();
	memset(&r, 0, sizeof(r));
	for (uint32_t i = 0; i < 2; i++) {
		rig_cma = i ? cma1 : cma0;
		rig_device(&r.dev[i], NULL);
		CHECK_EQ(backend_shm.ep_open(r.dev[i], &r.ep[i], r.addr[i], &r.addr_len[i]), 0);
		if (version)
			r.addr[i][1] = version;
	}
}

static inline void begin_peers(void)
{
	rig_connect(&r);
	m = rig_memory(&r, 1, memory, LEN, -1);
	rig_expose(&r, 1, m, URCCL_RIGHT_READ | URCCL_RIGHT_WRITE, &x, &rkey);
}

static inline void begin(uint8_t cma0, uint8_t cma1)
{
	begin_devices(cma0, cma1);
	begin_peers();
}

static inline void end_memory(void)
{
	munmap(local, LEN);
	munmap(memory, LEN);
}

static inline void end(void)
{
	CHECK_EQ(backend_shm.unexpose(&x), 0);
	rig_memory_free(&r, 1, m);
	rig_close(&r);
	end_memory();
}

/* Side 0 has closed its ep. */
static inline void end_without_0(void)
{
	CHECK_EQ(backend_shm.unexpose(&x), 0);
	rig_memory_free(&r, 1, m);
	rig_end(&r, 1);
	end_memory();
}

static inline struct shm_ep *side(uint32_t i)
{
	return container_of(r.ep[i], struct shm_ep, ep);
}

static inline int are(const uint8_t *p, uint32_t len, uint8_t value)
{
	uint32_t i;

	for (i = 0; i < len; i++)
		if (p[i] != value)
			return 0;
	return 1;
}

static inline int all(const uint8_t *p, uint8_t value)
{
	return are(p, LEN, value);
}

static inline struct chunk start(enum chunk_kind kind)
{
	return rig_chunk(kind, local, LEN, &rkey, 0);
}

#endif
