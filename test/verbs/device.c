/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, ports, protection domains. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include "double.h"

#undef ibv_get_device_list

static struct ibv_device devices[NICS] = {{.name = "rxe_v0"},
					  {.name = "rxe_v1"},
					  {.name = "rxe_w0"},
					  {.name = "rxe_w1"}};
static struct nic *nics;
static int unlinked[NICS];
static struct channel *channels;

pthread_mutex_t double_lock = PTHREAD_MUTEX_INITIALIZER;

const uint8_t *nic_gid(uint32_t number)
{
	static const uint8_t gids[NICS][16] = {
		{[10] = 255, 255, 10, 78, 0, 1},
		{[10] = 255, 255, 10, 78, 0, 2},
		{[10] = 255, 255, 10, 79, 0, 1},
		{[10] = 255, 255, 10, 79, 0, 2},
	};

	return gids[number];
}

int nic_has_link(uint32_t number)
{
	return !__atomic_load_n(&unlinked[number], __ATOMIC_ACQUIRE);
}

/* What programs are told is a byte: 1 where it is up. */
EXPORT void double_link(const char *name, int up)
{
	const char is_up = (char)!!up;
	struct nic *n;

	pthread_mutex_lock(&double_lock);
	for (n = nics; n; n = n->next) {
		if (strcmp(devices[n->number].name, name))
			continue;
		__atomic_store_n(&unlinked[n->number], !up, __ATOMIC_RELEASE);
		MUST(n->bell < 0 || write(n->bell, &is_up, 1) == 1);
	}
	qps_run();
	pthread_mutex_unlock(&double_lock);
}

struct nic *context_nic(struct ibv_context *context)
{
	return (struct nic *)(void *)verbs_get_ctx(context);
}

/* ---- devices ---- */

EXPORT struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **list = calloc(NICS + 1, sizeof(*list));
	uint32_t i;

	for (i = 0; list && i < NICS; i++)
		list[i] = &devices[i];
	*n = NICS;
	return list;
}

EXPORT void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		      size_t len)
{
	uint32_t number = context_nic(context)->number;

	if (port != 1 || len < sizeof(*attr))
		return EINVAL;
	*attr = (struct ibv_port_attr){
		.state = nic_has_link(number) ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_4096,
		.gid_tbl_len = 1,
		.max_msg_sz = 1u << 30,
		.pkey_tbl_len = 1,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
	};
	return 0;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct nic *n = calloc(1, sizeof(*n));
	struct ibv_context *c;
	int ends[2];

	if (!n || pipe2(ends, O_CLOEXEC)) {
		free(n);
		return NULL;
	}
	n->number = (uint32_t)(device - devices);
	n->bell = ends[1];
	n->verbs.sz = sizeof(n->verbs);
	n->verbs.query_port = query_port;
	c = &n->verbs.context;
	c->device = device;
	c->abi_compat = __VERBS_ABI_IS_EXTENDED;
	c->async_fd = ends[0];
	c->num_comp_vectors = 1;
	c->ops.post_send = post_send;
	c->ops.post_recv = post_recv;
	c->ops.poll_cq = poll_cq;
	c->ops.req_notify_cq = req_notify_cq;
	pthread_mutex_lock(&double_lock);
	n->next = nics;
	nics = n;
	pthread_mutex_unlock(&double_lock);
	return c;
}

static void ring_off(int *bell)
{
	if (*bell >= 0)
		close(*bell);
	*bell = -1;
}

EXPORT int ibv_close_device(struct ibv_context *context)
{
	struct nic **at, *n;

	pthread_mutex_lock(&double_lock);
	for (at = &nics; &(*at)->verbs.context != context; at = &(*at)->next)
		MUST(*at);
	n = *at;
	*at = n->next;
	pthread_mutex_unlock(&double_lock);
	ring_off(&n->bell);
	close(context->async_fd);
	free(n);
	return 0;
}

EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	*attr = (struct ibv_device_attr){
		.max_mr_size = UINT64_MAX,
		.max_qp = QPS,
		.max_qp_wr = QP_WR_MAX,
		.max_sge = SGES_MAX,
		.max_sge_rd = SGES_MAX,
		.max_cq = 1024,
		.max_cqe = CQE_MAX,
		.max_mr = (int)double_regions,
		.max_qp_rd_atom = 16,
		.max_qp_init_rd_atom = 16,
		.phys_port_cnt = 1,
	};
	return 0;
}

EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	(void)context;
	*pkey = 0xffff;
	return port == 1 && !index ? 0 : -1;
}

EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
				    size_t max, uint32_t flags, size_t entry_size)
{
	const struct nic *n = context_nic(context);

	MUST(max && !flags && entry_size == sizeof(*entries));
	*entries = (struct ibv_gid_entry){.port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V2};
	memcpy(entries->gid.raw, nic_gid(n->number), sizeof(entries->gid.raw));
	return 1;
}

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	if (pd)
		pd->context = context;
	return pd;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	return 0;
}

/* ---- what they tell ---- */

/* Of links, and that they are gone. */
EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	char is_up;
	ssize_t n = read(context->async_fd, &is_up, 1);

	if (n != 1) {
		errno = n ? errno : EIO;
		return -1;
	}
	*event = (struct ibv_async_event){
		.event_type = is_up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR,
		.element.port_num = 1,
	};
	return 0;
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
}

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct channel *c = calloc(1, sizeof(*c));
	int ends[2];

	if (!c || pipe2(ends, O_CLOEXEC)) {
		free(c);
		return NULL;
	}
	c->channel.context = context;
	c->channel.fd = ends[0];
	c->bell = ends[1];
	pthread_mutex_lock(&double_lock);
	c->next = channels;
	channels = c;
	pthread_mutex_unlock(&double_lock);
	return &c->channel;
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct channel **at, *c;

	pthread_mutex_lock(&double_lock);
	for (at = &channels; &(*at)->channel != channel; at = &(*at)->next)
		MUST(*at);
	c = *at;
	*at = c->next;
	pthread_mutex_unlock(&double_lock);
	ring_off(&c->bell);
	close(channel->fd);
	free(c);
	return 0;
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **owner)
{
	ssize_t n = read(channel->fd, cq, sizeof(*cq));

	if (!n)
		errno = EIO;
	if (n != (ssize_t)sizeof(*cq))
		return -1;
	*owner = (*cq)->cq_context;
	return 0;
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	(void)cq, (void)n;
}

/* All devices are taken out of the machine: their descriptors say so for ever. */
EXPORT void double_unplug(void);
EXPORT void double_unplug(void)
{
	struct channel *c;
	struct nic *n;

	pthread_mutex_lock(&double_lock);
	for (n = nics; n; n = n->next)
		ring_off(&n->bell);
	for (c = channels; c; c = c->next)
		ring_off(&c->bell);
	pthread_mutex_unlock(&double_lock);
}
