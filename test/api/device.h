/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a device is a dma-buf; here it is a file, which the made-up libibverbs takes for
 * one. */
#ifndef API_DEVICE_H
#define API_DEVICE_H

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "pair.h"

struct device {
	int fd;
	uint8_t *bytes;
	uint64_t len;
	struct urccl_region region;
};

/* A file whose system has no seals, by which a memfd is known. */
static inline int file_open(void)
{
	static const char *const dirs[] = {".", "/var/tmp", "/tmp"};
	uint32_t i;
	int fd;

	for (i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		fd = open(dirs[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
		if (fd >= 0 && fcntl(fd, F_GET_SEALS) < 0)
			return fd;
		close(fd);
	}
	SKIP("no directory has files that are told from a memfd");
}

/* It has no address of this process's; the region is known by one at which nothing is. */
static inline void device_open(struct device *d, struct side *s, uint64_t addr, uint64_t len)
{
	const uint32_t both = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE;
	struct urccl_range range = {.addr = addr, .len = len};

	d->len = len;
	range.fd = d->fd = file_open();
	CHECK_EQ(ftruncate(d->fd, (off_t)len), 0);
	d->bytes = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, d->fd, 0);
	CHECK(d->bytes != MAP_FAILED);
	CHECK_EQ(urccl_register(s->ctx, &range, 1, both, &d->region), 0);
}

static inline void device_close(struct device *d, struct side *s)
{
	CHECK_EQ(urccl_unregister(s->ctx, d->region), 0);
	munmap(d->bytes, d->len);
	close(d->fd);
}

static inline void device_needs(void)
{
	if (!getenv("UCCL_IBV_SO"))
		SKIP("UCCL_IBV_SO is not set: no device here takes a file for a dma-buf");
}

#endif
