/* SPDX-License-Identifier: Apache-2.0 */
/* The two devices, their eps, and the events that come out of them. */
#include <dlfcn.h>
#include <netinet/in.h>
#include "rig.h"

#define GROW_PIECES 64u

/* What libfabric leaves of a connection that ends while it is made is its own. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libfabric.so";
}

static const struct backend *find_backend(const char *name)
{
	static const struct backend *const all[] = {&backend_sim, &backend_shm, &backend_tcp,
						    &backend_ib, &backend_fabric};
	size_t i, len = strcspn(name, ":");

	for (i = 0; i < ARRAY_SIZE(all); i++)
		if (strlen(all[i]->name) == len && !memcmp(all[i]->name, name, len))
			return all[i];
	fprintf(stderr, "no transport is called %s\n", name);
	test_end(2);
}

/* A linear congruential step, its high half (Knuth's constants for 64 bits). */
uint64_t rig_random(struct rig *rig, uint64_t below)
{
	rig->random = rig->random * 6364136223846793005ull + 1442695040888963407ull;
	return (rig->random >> 24) % below;
}

uint32_t rig_rounds(const struct rig *rig, uint32_t n)
{
	if (rig->settings->is_long)
		return n;
	return rig->backend == &backend_fabric ? (n + 7) / 8 : (n + 3) / 4;
}

static struct sockaddr_storage loopback(void)
{
	struct sockaddr_storage ss;
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	memset(&ss, 0, sizeof(ss));
	memcpy(&ss, &in, sizeof(in));
	return ss;
}

static uint8_t driver_of(const char *driver)
{
	if (!driver)
		return URCCL_TCP_AUTO;
	return !strcmp(driver, "io_uring") ? URCCL_TCP_IO_URING : URCCL_TCP_READINESS;
}

/* In place of the control thread's listener. */
static void node_listen(struct node *node)
{
	socklen_t len = sizeof(struct sockaddr_in);

	node->at = loopback();
	node->listener = -1;
	if (!node->dev->ops->accept)
		return;
	node->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	CHECK(node->listener >= 0);
	CHECK_EQ(bind(node->listener, (struct sockaddr *)&node->at, len), 0);
	CHECK_EQ(listen(node->listener, SOMAXCONN), 0);
	CHECK_EQ(getsockname(node->listener, (struct sockaddr *)&node->at, &len), 0);
}

static void node_open(struct rig *rig, struct node *node)
{
	const struct settings *s = rig->settings;
	struct sockaddr_storage listen = loopback();
	struct device_config config = {.params = &node->params, .listen = &listen, .nlisten = 1};
	int err;

	node->rig = rig;
	node->params = (struct urccl_params){
		.size = sizeof(struct urccl_params),
		.transport = s->transport,
		.deadline_ms = 30000,
		.dead_after_ms = s->dead_after_ms,
		.max_peers = 4096,
		.tcp_driver = driver_of(s->driver),
		.tcp_streams = 1,
		.sim_network = rig->sim,
		.rdma_dev = s->rdma[node - rig->node],
		.rdma_gid_index = URCCL_AUTO,
		.ibv_so = getenv("UCCL_IBV_SO"),
		.rdma_retry_count = URCCL_AUTO,
		.rdma_ack_timeout = 18, /* emulated processors answer late */
		.rdma_max_rd_atomic = 16,
		.rdma_max_dest_rd_atomic = 16,
		.rdma_sl = {URCCL_AUTO, URCCL_AUTO, URCCL_AUTO},
		.rdma_tc = {URCCL_AUTO, URCCL_AUTO, URCCL_AUTO},
	};
	if (s->device)
		gpu_node_open(node);
	config.incarnation = 1 + rig_random(rig, UINT32_MAX);
	err = rig->backend->open(&config, &node->dev);
	if (err && node->params.tcp_driver == URCCL_TCP_IO_URING)
		SKIP(urccl_errmsg());
	if (rig->backend == &backend_ib && (err == -ENODEV || err == -EOPNOTSUPP))
		SKIP(urccl_errmsg());
	/* No libfabric, not built with it, or without that provider. */
	if (rig->backend == &backend_fabric &&
	    (err == -ELIBACC || err == -EOPNOTSUPP || err == -ENODATA))
		SKIP(urccl_errmsg());
	if (err)
		fprintf(stderr, "open: %d, %s\n", err, urccl_errmsg());
	CHECK_EQ(err, 0);
	CHECK(node->dev->ops == rig->backend);
	node->dev->gpu = node->gpu;
	node_listen(node);
}

void rig_open(struct rig *rig, const struct settings *settings)
{
	*rig = (struct rig){.settings = settings, .random = settings->seed};
	rig->backend = find_backend(settings->transport);
	if (rig->backend == &backend_sim)
		CHECK_EQ(urccl_sim_open(settings->sim, &rig->sim), 0);
	node_open(rig, &rig->node[0]);
	node_open(rig, &rig->node[1]);
}

void rig_close(struct rig *rig)
{
	uint32_t i;

	for (i = 0; i < 2; i++)
		rig->backend->close(rig->node[i].dev);
	for (i = 0; i < 2; i++) {
		gpu_node_close(&rig->node[i]);
		if (rig->node[i].listener >= 0)
			close(rig->node[i].listener);
	}
	if (rig->sim)
		CHECK_EQ(urccl_sim_close(rig->sim), 0);
}

void *provider_symbol(const char *name)
{
	char path[512];
	void *provider, *symbol;

	snprintf(path, sizeof(path), "%s/liburccltest-fi.so", getenv("FI_PROVIDER_PATH"));
	provider = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	CHECK(provider);
	symbol = dlsym(provider, name);
	CHECK(symbol);
	dlclose(provider);
	return symbol;
}

uint32_t provider_count(const char *name)
{
	return load_acquire((uint32_t *)provider_symbol(name));
}

/* ---- events ---- */

static void chunk_came_out(const struct node *node, struct chunk *chunk)
{
	struct piece *p = chunk->op;
	struct end *end = chunk->ep->owner;

	CHECK(p->taken && !p->out);
	CHECK(end->node == node);
	CHECK(!end->closed);
	CHECK_LE(chunk->res, 0);
	end->out++;
	p->out = 1;
}

void end_grow(struct end *end)
{
	const struct backend *ops = end->node->dev->ops;

	end->asks = 0;
	ops->ep_qps_added(end->ep, ops->ep_add_qps(end->ep));
}

static void event(const struct node *node, const struct event *e)
{
	struct end *end;

	if (e->type == EVENT_CHUNK) {
		chunk_came_out(node, e->chunk);
		return;
	}
	end = e->ep->owner;
	CHECK(end->node == node);
	CHECK(!end->closed);
	switch (e->type) {
	case EVENT_MESSAGE:
		CHECK(end->up);
		CHECK_LE(e->len, MESSAGE_MAX);
		end->messages++;
		if (end->on_message)
			end->on_message(end, e->data, e->len);
		break;
	case EVENT_UP:
		CHECK(!end->up && !end->down);
		end->up = 1;
		break;
	case EVENT_DOWN:
		CHECK(!end->down);
		CHECK(e->res < 0);
		end->down = 1;
		end->down_res = e->res;
		break;
	case EVENT_ADD_QPS:
		CHECK(end->up);
		end->grown++;
		end->asks = 1;
		if (!end->grows_later)
			end_grow(end);
		break;
	case EVENT_CLOSED:
		CHECK_EQ(end->out, end->taken);
		end->closed = 1;
		break;
	default:
		CHECK(!"known event");
	}
}

uint32_t node_poll(struct node *node)
{
	struct event events[16];
	uint32_t i, n;
	int fd;

	while ((fd = accept4(node->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
		CHECK(node->dev->ops->accept(node->dev, fd));
	n = node->dev->ops->poll(node->dev, events, ARRAY_SIZE(events));
	CHECK_LE(n, ARRAY_SIZE(events));
	for (i = 0; i < n; i++)
		event(node, &events[i]);
	return n;
}

uint32_t rig_step(struct rig *rig)
{
	uint32_t n = node_poll(&rig->node[0]);

	return n + node_poll(&rig->node[1]);
}

/* ---- pairs ---- */

void end_open(struct node *node, struct end *end)
{
	*end = (struct end){.node = node};
	CHECK_EQ(node->dev->ops->ep_open(node->dev, &end->ep, end->addr, &end->addr_len), 0);
	CHECK(end->ep->dev == node->dev);
	CHECK_LE(end->addr_len, EP_ADDR_MAX);
	end->ep->owner = end;
}

int end_connect(struct end *end, const void *addr, uint32_t len, int active,
		const struct sockaddr_storage *via)
{
	const struct backend *b = end->node->rig->backend;
	int rc = b->ep_prepare ? b->ep_prepare(end->ep, addr, len) : 0;

	return rc ? rc : b->ep_connect(end->ep, addr, len, active, via);
}

void pair_start(struct rig *rig, struct pair *pair)
{
	const struct sockaddr_storage *to_a = &rig->node[0].at, *to_b = &rig->node[1].at;
	struct end *a = &pair->end[0], *b = &pair->end[1];
	int active = (int)rig_random(rig, 2), first = (int)rig_random(rig, 2);

	end_open(&rig->node[0], a);
	end_open(&rig->node[1], b);
	if (rig->backend->ep_prepare) {
		CHECK_EQ(rig->backend->ep_prepare(a->ep, b->addr, b->addr_len), 0);
		CHECK_EQ(rig->backend->ep_prepare(b->ep, a->addr, a->addr_len), 0);
	}
	if (first)
		CHECK_EQ(rig->backend->ep_connect(a->ep, b->addr, b->addr_len, active, to_b), 0);
	CHECK_EQ(rig->backend->ep_connect(b->ep, a->addr, a->addr_len, !active, to_a), 0);
	if (!first)
		CHECK_EQ(rig->backend->ep_connect(a->ep, b->addr, b->addr_len, active, to_b), 0);
}

static void pair_begin(struct rig *rig, struct pair *pair)
{
	const struct end *a = &pair->end[0], *b = &pair->end[1];

	pair_start(rig, pair);
	WAIT(rig, (a->up && b->up) || a->down || b->down);
}

/* A backend gives the other side's first word its time, which an emulated processor may be away
 * for. What the other end makes of that is not looked at. */
static int came_late(const struct end *end)
{
	return end->down && !end->up && end->down_res == -ETIMEDOUT;
}

/* A way more is asked for twice by the end that has use for it, and once by the other. What each
 * says then stands before a message. */
static void pair_wait(struct rig *rig, struct pair *pair, uint32_t ways)
{
	struct piece piece;
	uint32_t i;

	WAIT(rig, pair->end[0].grown == 2 * ways && pair->end[1].grown == ways);
	rig_step(rig);
	for (i = 0; i < 2; i++) {
		piece_fill_send(&piece, &pair->end[i], "", 1);
		CHECK_EQ(piece_run(rig, &piece), 0);
		WAIT(rig, pair->end[!i].messages == ways);
	}
}

/* Small things, more than are taken at once, then a large WRITE and a large READ. */
static void pair_grow(struct rig *rig, struct pair *pair)
{
	struct piece pieces[GROW_PIECES];
	struct area local, remote;
	struct grant g;
	uint32_t i, n = 0;

	area_open(&rig->node[0], &local, 1);
	area_open(&rig->node[1], &remote, 1);
	grant_open(&g, &pair->end[1], &pair->end[0], &remote, 0, 1,
		   URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	do {
		CHECK(n < GROW_PIECES);
		piece_fill(&pieces[n], CHUNK_READ, &pair->end[0], &local, 0, &g, 0, 1);
		pieces[n].chunk.cls = URCCL_CLASS_LATENCY;
	} while (piece_try(&pieces[n++]));
	for (i = 0; i < n - 1; i++)
		WAIT(rig, pieces[i].out);
	pair_wait(rig, pair, 1);
	for (i = 0; i < 2; i++) {
		piece_fill(&pieces[i], i ? CHUNK_READ : CHUNK_WRITE, &pair->end[0], &local, 0, &g,
			   0, 1);
		pieces[i].chunk.cls = URCCL_CLASS_BULK;
		CHECK_EQ(piece_run(rig, &pieces[i]), 0);
		pair_wait(rig, pair, i + 2);
	}
	grant_close(rig, &g);
	area_close(&local);
	area_close(&remote);
	for (i = 0; i < 2; i++)
		pair->end[i].taken = pair->end[i].out = pair->end[i].messages = 0;
}

void pair_open_small(struct rig *rig, struct pair *pair)
{
	uint64_t until = clock_ns() + RIG_PATIENCE_NS;
	const struct end *a = &pair->end[0], *b = &pair->end[1];

	pair_begin(rig, pair);
	while (a->down || b->down) {
		CHECK(came_late(a) || came_late(b));
		CHECK(!is_late(until));
		pair_close(rig, pair);
		pair_begin(rig, pair);
	}
}

void pair_open(struct rig *rig, struct pair *pair)
{
	pair_open_small(rig, pair);
	if (rig->backend->ep_add_qps)
		pair_grow(rig, pair);
}

void pair_mend(struct rig *rig, struct pair *pair)
{
	if (!rig_error_kills_ep(rig) && !pair->end[0].down && !pair->end[1].down)
		return;
	pair_close(rig, pair);
	pair_open(rig, pair);
}

void pair_close(struct rig *rig, struct pair *pair)
{
	int i;

	for (i = 0; i < 2; i++)
		if (pair->end[i].ep && !pair->end[i].closed)
			rig->backend->ep_close(pair->end[i].ep);
	WAIT(rig, pair->end[0].closed && pair->end[1].closed);
	for (i = 0; i < 2; i++) {
		if (pair->end[i].asks)
			end_grow(&pair->end[i]);
		rig->backend->ep_free(pair->end[i].ep);
	}
}
