/* SPDX-License-Identifier: Apache-2.0 */
/* Devices of RDMA read and write memory of GPUs themselves: by a dma-buf of CUDA, by the address
 * with nvidia_peermem, or by FI_HMEM of libfabric. No byte passes through memory of the library, so
 * that bounce=no forbids nothing. Of what they do not register the bytes are staged and relayed.
 * UNREGISTER gives the memory back while the peer still has its key. Before a notification is
 * delivered, CUDA is told to let GPUs see what devices wrote; where that fails the notification
 * says so. */
#include <string.h>
#include "relay.h"

#define LEN   (3u << 20)
#define SMALL 5000u /* begins in the middle of a page: CUDA gives no dma-buf of it */

static const uint32_t bounces = URCCL_PATH_BOUNCE_LOCAL | URCCL_PATH_BOUNCE_REMOTE;

static struct pair p;
static int has_all, has_dmabuf; /* what the devices register */

static int is_direct(uint64_t len)
{
	return has_all || (has_dmabuf && len >= 1u << 20);
}

static void check_region(struct side *s, struct urccl_region region, uint64_t len)
{
	struct urccl_region_info info = {.size = sizeof(info)};

	CHECK_EQ(urccl_get_region_info(s->ctx, region, &info), 0);
	CHECK_EQ(info.device, s == &p.a && device_cuda.gpus > 1 ? 2 : 1);
	CHECK_EQ(!(info.staged >> p.transport & 1), is_direct(len));
}

/* flagged: the bytes go to memory of a GPU, and nobody tells the GPU. */
static void move(struct urccl_sqe *sqe, uint64_t len, int flagged)
{
	struct urccl_cqe cqe = pair_run(&p, &p.a, sqe);

	CHECK_EQ(cqe.res, (int64_t)len);
	CHECK_EQ(cqe.path & URCCL_PATH_TRANSPORT, p.transport);
	CHECK_EQ(!!(cqe.flags & URCCL_CQE_NOT_FLUSHED), flagged && is_direct(len));
	CHECK_EQ(!(cqe.path & bounces), is_direct(len));
}

/* There and back, in one piece that nothing else is around. */
static void round_trip(const struct device_target *t, const struct relay_local *m, uint64_t len)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	relay_fill(m, 0, len, len);
	urccl_prep_write(sqe, t->remote, relay_at(m, 0), len, 0);
	move(sqe, len, 1);
	CHECK(device_check(t->device, len, 0, len));
	relay_fill(m, 0, len, 1);
	sqe = side_sqe(&p.a);
	urccl_prep_read(sqe, t->remote, relay_at(m, 0), len, 0);
	move(sqe, len, !m->host);
	CHECK(relay_holds(m, 0, len, len));
}

static void in_parts(const struct device_target *t, const struct relay_local *m)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	device_fill(t->device, LEN, 0, 4);
	relay_fill(m, 0, LEN, 5);
	urccl_prep_write(sqe, t->remote, relay_at(m, 4099), 8191, 65537);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, 8191);
	CHECK(device_check(t->device, 65537, 0, 4));
	CHECK(device_check(t->device + 65537, 8191, 4099, 5));
	CHECK(device_check(t->device + 65537 + 8191, LEN - 65537 - 8191, 65537 + 8191, 4));
}

/* Memory of the host at this side, which every device reaches. */
static void from_host(const struct device_target *t, uint64_t len)
{
	struct relay_local host = relay_ordinary(len);
	struct urccl_region region = side_register(&p.a, host.host, len, 0);

	if (is_direct(len) || p.params.bounce != URCCL_ALLOW_NO)
		round_trip(t, &host, len);
	CHECK_EQ(urccl_unregister(p.a.ctx, region), 0);
	free(host.host);
}

static unsigned long flushes(void)
{
	return device_calls("urccl-gpu", "cuFlushGPUDirectRDMAWrites");
}

static void notified(const struct device_target *t, const struct relay_local *m, uint32_t flags)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	unsigned long before = flushes();
	struct urccl_cqe cqe;

	urccl_prep_write(sqe, t->remote, relay_at(m, 0), LEN, 0);
	urccl_sqe_set_notify(p.a.ring, sqe, 7, NULL, 0);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	side_take(&p.b, &p.a, &cqe, NULL);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_NOTE);
	CHECK_EQ(cqe.tag, 7);
	CHECK_EQ(cqe.flags & URCCL_CQE_NOT_FLUSHED, flags);
	CHECK_EQ(flushes() > before, is_direct(LEN));
	side_take(&p.a, &p.b, &cqe, NULL);
	CHECK_EQ(cqe.res, LEN);
}

static void taken_back(const struct device_target *t, const struct relay_local *m)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	CHECK_EQ(urccl_unregister(p.b.ctx, t->region), 0);
	device_fill(t->device, LEN, 0, 6);
	urccl_prep_write(sqe, t->remote, relay_at(m, 0), LEN, 0);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK(cqe.res < 0);
	CHECK(device_check(t->device, LEN, 0, 6));
	device_free(t->device);
}

static void lengths(uint64_t len)
{
	struct relay_local m = relay_device(len);
	struct device_target t;
	struct urccl_region region;

	device_target_open(&p, &t, len);
	region = side_register(&p.a, relay_at(&m, 0), len, 0);
	check_region(&p.a, region, len);
	check_region(&p.b, t.region, len);
	round_trip(&t, &m, len);
	from_host(&t, len);
	if (len == LEN) {
		in_parts(&t, &m);
		notified(&t, &m, 0);
		device_set("refuse=cuFlushGPUDirectRDMAWrites:801");
		notified(&t, &m, is_direct(LEN) ? URCCL_CQE_NOT_FLUSHED : 0);
		device_set("refuse=none");
		notified(&t, &m, 0);
		taken_back(&t, &m);
	}
}

static int has_word(const char *variable, const char *word)
{
	const char *words = getenv(variable);

	return words && strstr(words, word);
}

int main(int argc, char **argv)
{
	device_load();
	device_set("reuse=0"); /* the doubles reach no other memory than the stand-in's */
	pair_options(&p, argc, argv);
	if (p.transport == URCCL_TRANSPORT_IB) {
		has_dmabuf = !has_word("URCCL_TEST_CUDA", "nodmabuf");
		has_all = has_word("SHIM", "peermem=1");
	} else {
		has_all = has_word("URCCL_TEST_PROVIDER", "hmem");
	}
	if (is_direct(LEN))
		p.params.bounce = is_direct(SMALL) ? URCCL_ALLOW_NO : p.params.bounce;
	pair_open(&p);
	lengths(SMALL);
	lengths(LEN);
	pair_close(&p);
	return 0;
}
