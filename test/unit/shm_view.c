/* SPDX-License-Identifier: Apache-2.0 */
/* Mapped memory: chunks are placed without the owner's help, within the range and the rights of
 * the key; adverts of one allocation share a view; what cannot be mapped goes through the ring. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "fds.h"
#include "shm_rig.h"

#define LEN	(1u << 20)
#define BOUNCED (URCCL_PATH_BOUNCE_LOCAL | URCCL_PATH_BOUNCE_REMOTE)

static uint8_t local[LEN];
static uint32_t sent_to_read, sent_to_write;

/* What the peer does with a file to read. */
static void only_to_read(int fd)
{
	void *p = mmap(NULL, LEN, PROT_READ, MAP_SHARED, fd, 0);

	CHECK(p != MAP_FAILED);
	CHECK(mprotect(p, LEN, PROT_READ | PROT_WRITE) && errno == EACCES);
	munmap(p, LEN);
	p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(p == MAP_FAILED && errno == EACCES);
	CHECK(write(fd, "", 1) < 0 && errno == EBADF);
}

static void look_at(int fd)
{
	if ((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY) {
		only_to_read(fd);
		sent_to_read++;
	} else {
		sent_to_write++;
	}
}

/* In place of the system's: the library sends descriptors by it. */
ssize_t sendmsg(int sock, const struct msghdr *m, int flags)
{
	struct cmsghdr *c = m->msg_control ? CMSG_FIRSTHDR(m) : NULL;
	int fd;

	if (c && c->cmsg_type == SCM_RIGHTS) {
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
		look_at(fd);
	}
	return syscall(SYS_sendmsg, sock, m, flags);
}

/* Only the importer is polled: the owner's CPU has no part in it. */
static int alone(struct shm_rig *r, struct chunk *c)
{
	rig_post(r, 0, c);
	while (!c->op)
		rig_poll(r, 0);
	CHECK_EQ(c->path, 0);
	CHECK(c->flags & CHUNK_QUIET);
	return c->res;
}

static void copies(struct shm_rig *r, struct allocation *a, const struct rkey *rkey)
{
	static const uint32_t lens[] = {0, 1, 8, 4096, 300000, LEN};
	uint8_t *far = (uint8_t *)(uintptr_t)a->addr;
	uint32_t i, j;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		uint64_t off = LEN - lens[i];
		struct chunk w = rig_chunk(CHUNK_WRITE, local, lens[i], rkey, off);
		struct chunk g = rig_chunk(CHUNK_READ, local, lens[i], rkey, off);
		struct chunk f = rig_chunk(CHUNK_FLUSH, NULL, 0, rkey, 0);

		for (j = 0; j < LEN; j++)
			local[j] = (uint8_t)(j * 31 + i);
		CHECK_EQ(alone(r, &w), 0);
		CHECK(!memcmp(far + off, local, lens[i]));
		memset(local, 0, LEN);
		CHECK_EQ(alone(r, &g), 0);
		CHECK(!memcmp(far + off, local, lens[i]));
		CHECK_EQ(rig_do(r, 0, &f), 0);
	}
}

static void limits(struct shm_rig *r, const struct rkey *read_only, const struct rkey *rkey)
{
	struct chunk w = rig_chunk(CHUNK_WRITE, local, 8, read_only, 0);
	struct chunk past = rig_chunk(CHUNK_WRITE, local, 8, rkey, LEN - 7);
	struct chunk wrap = rig_chunk(CHUNK_READ, local, 8, rkey, UINT64_MAX - 3);
	struct chunk c = rig_chunk(CHUNK_WRITE, local, LEN, rkey, 0);

	CHECK_EQ(alone(r, &w), -EACCES);
	CHECK_EQ(alone(r, &past), -ERANGE);
	CHECK_EQ(alone(r, &wrap), -ERANGE);
	rig_post(r, 0, &c);
	backend_shm.cancel(&c, CANCEL_ASK);
	while (!c.op)
		rig_poll(r, 0);
	CHECK_EQ(c.res, -ECANCELED);
	CHECK(c.flags & CHUNK_QUIET);
}

/* An advert that expires is the owner's to enforce. */
static void expiring(struct shm_rig *r, struct memory *m)
{
	struct exposure x = {.ep = r->ep[1], .memory = m, .len = LEN, .rights = m->rights};
	struct rkey rkey = {0};
	uint8_t key[KEY_MAX];
	struct chunk w = rig_chunk(CHUNK_WRITE, local, 8, &rkey, 0);
	int n;

	x.expires_ns = clock_ns() + 3600 * NSEC_PER_SEC;
	n = backend_shm.expose(&x, key, sizeof(key));
	CHECK_EQ(backend_shm.import(r->ep[0], key, (uint32_t)n, LEN, &rkey), 0);
	CHECK_EQ(rig_do(r, 0, &w), 0);
	CHECK_EQ(w.path, BOUNCED);
	backend_shm.forget(r->ep[0], &rkey);
	RIG_UNTIL(r, !backend_shm.unexpose(&x));
}

int main(void)
{
	struct exposure x[3];
	struct rkey rkey[3];
	struct allocation *a;
	struct shm_rig r;
	struct memory *m;
	uint32_t before, mapped, i;

	rig_open(&r, NULL);
	rig_connect(&r);
	sent_to_read = sent_to_write = 0; /* the ring */
	CHECK_EQ(memory_alloc(LEN, &a), 0);
	m = rig_memory(&r, 1, (void *)(uintptr_t)a->addr, LEN, a->fd);
	before = fds_open();
	mapped = memfds_mapped();
	for (i = 0; i < 3; i++)
		rig_expose(&r, 1, m, i ? m->rights : URCCL_RIGHT_READ, &x[i], &rkey[i]);
	/* One view to read and one to write. */
	CHECK_EQ(fds_open(), before);
	CHECK_EQ(memfds_mapped(), mapped + 2);
	CHECK_EQ(sent_to_read, 1);
	CHECK_EQ(sent_to_write, 1);
	copies(&r, a, &rkey[1]);
	limits(&r, &rkey[0], &rkey[2]);
	expiring(&r, m);
	for (i = 0; i < 3; i++) {
		backend_shm.forget(r.ep[0], &rkey[i]);
		RIG_UNTIL(&r, !backend_shm.unexpose(&x[i]));
	}
	RIG_UNTIL(&r, memfds_mapped() == mapped);
	/* Once more after all of it was let go. */
	rig_expose(&r, 1, m, m->rights, &x[0], &rkey[0]);
	copies(&r, a, &rkey[0]);
	RIG_UNTIL(&r, !backend_shm.unexpose(&x[0]));
	backend_shm.forget(r.ep[0], &rkey[0]);
	rig_memory_free(&r, 1, m);
	memory_free(a);
	rig_close(&r);
	return 0;
}
