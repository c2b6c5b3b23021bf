/* SPDX-License-Identifier: Apache-2.0 */
/* A range that is a dma-buf comes to the devices as one, under addresses where nothing is mapped,
 * with a descriptor of the library's own that goes with it; it is refused where a device of the
 * context cannot take one, or where a processor would have to reach it. The descriptor here is of
 * some file that is no memfd: what is behind it only a device would know. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pins_rig.h"

#define PLACE 0x1000u /* nothing is mapped there */
#define OFF   0x3000u

static struct pins_rig r;
static struct stat file;
static uint32_t regs, pins;
static int own; /* the descriptor that devices saw last */

static void is_it(const struct extent *x)
{
	struct stat st;

	CHECK(x->is_dmabuf);
	CHECK_EQ(x->addr, PLACE);
	CHECK_EQ(x->len, LEN);
	CHECK_EQ(x->fd_off, OFF);
	CHECK_EQ(fstat(x->fd, &st), 0);
	CHECK_EQ(st.st_ino, file.st_ino);
	store_release(&own, x->fd);
}

static int sees_reg(struct device *dev, struct extent *extent)
{
	if (extent->fd >= 0) {
		is_it(extent);
		count(&regs);
	}
	return __real_backend_sim.reg(dev, extent);
}

static int sees_pin(struct device *dev, struct pin *pin)
{
	is_it(pin->memory->spans[0].extent);
	count(&pins);
	return rig_pin(dev, pin);
}

static int takes_dmabufs(const struct device_config *config, struct device **dev)
{
	int rc = rig_dev_open(config, dev);

	if (!rc)
		(*dev)->caps |= CAP_DMABUF;
	return rc;
}

static int tries(struct side *s, struct urccl_range range, uint32_t rights, const char *part)
{
	struct urccl_region region;
	int rc = urccl_register(s->ctx, &range, 1, rights, &region);

	CHECK(strstr(urccl_errmsg(), part));
	return rc;
}

static void is_refused(struct urccl_range range)
{
	struct urccl_params p = rig_params();
	struct side tcp;

	side_open(&tcp, &p);
	CHECK_EQ(tries(&tcp, range, RIGHTS, "which tcp cannot reach"), -EOPNOTSUPP);
	side_close(&tcp);
	CHECK_EQ(tries(&r.b, range, URCCL_RIGHT_ATOMIC, "URCCL_RIGHT_ATOMIC"), -EINVAL);
	CHECK_EQ(tries(&r.b, range, URCCL_REG_PREFAULT, "URCCL_REG_PREFAULT"), -EINVAL);
	range.fd_off += 8;
	CHECK_EQ(tries(&r.b, range, RIGHTS, "modulo 4096"), -EINVAL);
	range.fd_off = OFF;
	range.fd = 1 << 20;
	CHECK_EQ(tries(&r.b, range, RIGHTS, "cannot be duplicated"), -EBADF);
}

/* This side's threads look at no word in it. */
static void has_no_word(void)
{
	struct urccl_sqe *sqe = urccl_get_sqe(r.b.ring);

	urccl_prep_write(sqe, (struct urccl_remote){1}, NULL, 0, 0);
	urccl_sqe_set_data64(sqe, 77);
	urccl_sqe_set_wait(r.b.ring, sqe, (const uint64_t *)PLACE, 1);
	CHECK_EQ(urccl_submit(r.b.ring), 1);
	CHECK_EQ(side_end_of(&r.b, 77), -EACCES);
}

int case_dmabuf(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct urccl_range range = {.addr = PLACE, .len = LEN, .fd = fd, .fd_off = OFF};
	struct urccl_region_info info = {.size = sizeof(info)};
	struct target t;

	CHECK(fd >= 0);
	CHECK_EQ(fstat(fd, &file), 0);
	rig_open(&r);
	__wrap_backend_sim.open = takes_dmabufs;
	__wrap_backend_sim.reg = sees_reg;
	__wrap_backend_sim.pin = sees_pin;
	rig_connect(&r);
	is_refused(range);
	CHECK_EQ(urccl_register(r.b.ctx, &range, 1, RIGHTS, &t.region), 0);
	CHECK_EQ(regs, RAILS);
	CHECK(own != fd);
	CHECK_EQ(close(fd), 0);
	has_no_word();
	CHECK_EQ(urccl_get_region_info(r.b.ctx, t.region, &info), 0);
	CHECK(!info.mappable);
	CHECK_EQ(urccl_advertise(r.b.ctx, t.region, 0, LEN, RIGHTS, 0, &t.advert), 0);
	imports(&r.a, r.ab, &t);
	warms(&r.a, r.ab);
	CHECK_EQ(pins, RAILS);
	CHECK_EQ(urccl_unregister(r.b.ctx, t.region), 0);
	CHECK_EQ(fcntl(own, F_GETFD), -1);
	rig_close(&r);
	return 0;
}
