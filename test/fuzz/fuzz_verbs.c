/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer over RDMA can send: its ep's address, keys, messages. The first byte says which; what
 * is posted in answer goes to a device that does nothing. */
#include <backend/verbs/verbs.h>
#include <test.h>

#define LEN 8192u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct ibv_context context;
static struct ibv_qp qp;
static struct ibv_mr mr;

static int post_send(struct ibv_qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)q, (void)wr, (void)bad;
	return 0;
}

static int post_recv(struct ibv_qp *q, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)q, (void)wr, (void)bad;
	return 0;
}

static int modify_qp(struct ibv_qp *q, struct ibv_qp_attr *attr, int mask)
{
	(void)q, (void)attr, (void)mask;
	return 0;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	(void)pd, (void)attr;
	return &qp;
}

static int destroy_qp(struct ibv_qp *q)
{
	CHECK(q == &qp);
	return 0;
}

static void make_device(struct verbs_device *d)
{
	static const struct urccl_params params = {.rdma_max_rd_atomic = 16,
						   .rdma_max_dest_rd_atomic = 16};
	const struct device_config config = {.params = &params};

	memset(d, 0, sizeof(*d));
	verbs_device_init(d, &config);
	d->lib.modify_qp = modify_qp;
	d->lib.create_qp = create_qp;
	d->lib.destroy_qp = destroy_qp;
	d->ncqes = VERBS_CQES_MOST;
	CHECK_EQ(handles_init(&d->qps, QPS, HANDLE_INTERNAL), 0);
	d->port.attr.max_qp_rd_atom = d->port.attr.max_qp_init_rd_atom = 16;
}

static void make_ep(struct verbs_device *d, struct verbs_ep *e, uint8_t *pages)
{
	static const uint32_t depths[QPS] = {VERBS_FIRST_DEPTH, VERBS_SMALL_DEPTH,
					     VERBS_WRITES_DEPTH, VERBS_READS_DEPTH};
	uint32_t i;

	memset(e, 0, sizeof(*e));
	e->ep.dev = &d->dev;
	e->state = EP_CONNECTING;
	e->pages = pages;
	e->mr = &mr;
	e->deadline_ns = NEVER_NS;
	e->nends = 1;
	e->ends[0] = (struct gid_end){.gid = {[10] = 255, 255, 10, 0, 0, 1}, .kind = GID_V2_IPV4};
	e->mtu = IBV_MTU_4096;
	list_init(&e->all);
	list_init(&e->reporting);
	list_init(&e->kicked);
	list_init(&e->keys);
	for (i = 0; i < VERBS_SLOTS; i++)
		list_init(&e->receive[i].link);
	for (i = 0; i < QPS; i++)
		e->qps[i] = (struct verbs_qp){.ep = e, .depth = depths[i]};
	e->qps[QP_FIRST].qp = &qp;
	e->qps[QP_FIRST].slots = e->slots;
	CHECK_EQ(verbs_message_start(&e->qps[QP_FIRST]), 0);
}

static void import(struct verbs_ep *e, const uint8_t *data, size_t size)
{
	static uint8_t key[KEY_MAX];
	static const uint8_t zero[4];
	struct chunk c = {.kind = CHUNK_WRITE, .len = 8};
	struct rkey rkey;
	uint32_t sum;

	if (size > sizeof(key))
		return;
	memcpy(key, data, size);
	/* Its sum is right more often than by chance. */
	if (size > 8 && key[7] != 1) {
		key[0] = VERBS_VERSION;
		sum = crc32c(crc32c(crc32c(0, key, 4), zero, 4), key + 8, (uint32_t)size - 8);
		memcpy(key + 4, &sum, sizeof(sum));
	}
	if (verbs_import(&e->ep, key, (uint32_t)size, LEN, &rkey))
		return;
	c.off = size > 40 ? data[40] * 64ull : 0;
	(void)verbs_allowed((const struct verbs_key *)(uintptr_t)rkey.v[0], &c);
	verbs_forget(&e->ep, &rkey);
}

/* Each: two bytes of its length, then its bytes. Given out and posted again at times. */
static void messages(struct verbs_device *d, struct verbs_ep *e, const uint8_t *data, size_t size)
{
	uint32_t i = 0, n;

	while (size > 2 && e->state <= EP_UP) {
		n = (data[0] | (uint32_t)data[1] << 8) % (VERBS_SLOT + 1);
		data += 2;
		size -= 2;
		n = n < size ? n : (uint32_t)size;
		if (!list_empty(&e->receive[i].link))
			break; /* there is no receive for it */
		memcpy(e->pages + i * VERBS_SLOT, data, n);
		if (verbs_message_came(e, i, n))
			break;
		if (e->growing)
			verbs_ep_qps_added(&e->ep, verbs_ep_add_qps(&e->ep));
		CHECK_LE(e->credits, VERBS_CREDITS);
		data += n;
		size -= n;
		i = (i + 1) % VERBS_SLOTS;
		if (!i)
			while (!list_empty(&d->messages)) {
				struct list *l = d->messages.next;

				list_del(l);
				list_add_tail(l, &d->given);
			}
		verbs_message_recycle(d);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct verbs_device d;
	static struct verbs_ep e;
	static uint8_t pages[2 * VERBS_SLOTS * VERBS_SLOT + 8];

	if (!size)
		return 0;
	context.ops.post_send = post_send;
	context.ops.post_recv = post_recv;
	qp.context = &context;
	make_device(&d);
	make_ep(&d, &e, pages);
	if (data[0] % 3 == 0) {
		(void)verbs_ep_prepare(&e.ep, data + 1, (uint32_t)size - 1);
	} else if (data[0] % 3 == 1) {
		import(&e, data + 1, size - 1);
	} else {
		e.heard = data[0] & 4;
		messages(&d, &e, data + 1, size - 1);
	}
	verbs_grow_free(&e);
	handles_fini(&d.qps);
	return 0;
}
