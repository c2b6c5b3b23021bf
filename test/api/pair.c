/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "pair.h"

#define RIGHTS_ALL (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE | URCCL_RIGHT_ATOMIC)

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* ---- options ---- */

static int option(const char *arg, const char *name, const char **value)
{
	size_t n = strlen(name);

	if (strncmp(arg, name, n))
		return 0;
	*value = arg + n;
	return 1;
}

static void option_driver(struct pair *p, const char *name)
{
	CHECK(!strcmp(name, "readiness") || !strcmp(name, "io_uring"));
	p->params.tcp_driver = name[0] == 'r' ? URCCL_TCP_READINESS : URCCL_TCP_IO_URING;
}

static void option_secret(struct pair *p, const char *secret)
{
	p->params.secret = secret;
	p->params.secret_len = (uint32_t)strlen(secret);
}

/* A simulated clock goes on while a side that takes no events has no slot left: they have room for
 * all that can be under way. */
static void option_sim(struct pair *p, const char *faults)
{
	p->faults = faults;
	p->ring_params.event_slots = 4096;
}

/* "rxe_v0;rxe_v1" */
static void option_rdma(struct pair *p, const char *both)
{
	static char text[128];

	CHECK(strlen(both) < sizeof(text));
	p->rdma[0] = strtok(strcpy(text, both), ";");
	p->rdma[1] = strtok(NULL, ";");
	CHECK(p->rdma[0] && p->rdma[1]);
}

static uint32_t transport_of(const char *name)
{
	if (!strcmp(name, "sim"))
		return URCCL_TRANSPORT_SIM;
	if (!strcmp(name, "shm"))
		return URCCL_TRANSPORT_SHM;
	if (!strncmp(name, "fabric:", 7))
		return URCCL_TRANSPORT_FABRIC;
	if (!strcmp(name, "efa"))
		return URCCL_TRANSPORT_EFA;
	if (!strcmp(name, "cxi"))
		return URCCL_TRANSPORT_CXI;
	return !strcmp(name, "ib") ? URCCL_TRANSPORT_IB : URCCL_TRANSPORT_TCP;
}

void pair_try_driver(const struct urccl_params *asked)
{
	struct urccl_params params = {.size = sizeof(params)};
	struct urccl *ctx;
	int res;

	urccl_params_init(&params);
	params.transport = "tcp";
	params.tcp_driver = asked->tcp_driver;
	res = urccl_open(&params, &ctx);
	if (res && res != -EMFILE && strstr(urccl_errmsg(), "tcp_driver io_uring"))
		SKIP(urccl_errmsg());
	CHECK_EQ(res, 0);
	urccl_close(ctx);
}

void pair_options(struct pair *p, int argc, char **argv)
{
	const char *v;
	int i;

	memset(p, 0, sizeof(*p));
	p->argc = argc;
	p->argv = argv;
	p->params.size = sizeof(p->params);
	urccl_params_init(&p->params);
	p->ring_params.size = sizeof(p->ring_params);
	p->ring_params.entries = p->ring_params.event_slots = 256;
	p->params.transport = "tcp";
	p->seed = 1;
	for (i = 1; i < argc; i++) {
		if (option(argv[i], "--transport=", &v))
			p->params.transport = v;
		else if (option(argv[i], "--driver=", &v))
			option_driver(p, v);
		else if (option(argv[i], "--inline", &v))
			p->params.flags |= URCCL_OPEN_INLINE;
		else if (option(argv[i], "--spins", &v))
			p->params.spin_us = UINT32_MAX;
		else if (option(argv[i], "--owner", &v))
			p->params.enforce = URCCL_ENFORCE_OWNER;
		else if (option(argv[i], "--shared", &v))
			p->shared = 1;
		else if (option(argv[i], "--secret=", &v))
			option_secret(p, v);
		else if (option(argv[i], "--seed=", &v))
			p->seed = strtoull(v, NULL, 0);
		else if (option(argv[i], "--sim=", &v))
			option_sim(p, v);
		else if (option(argv[i], "--rdma=", &v))
			option_rdma(p, v);
		else if (option(argv[i], "--pull=", &v))
			p->pull = v;
		else if (option(argv[i], "--far=", &v))
			p->far = v;
		else
			CHECK(!"an option that this test knows");
	}
	if (p->params.tcp_driver == URCCL_TCP_IO_URING)
		pair_try_driver(&p->params);
	p->transport = transport_of(p->params.transport);
	snprintf(p->name, sizeof(p->name), "%.*s", (int)strcspn(p->params.transport, ":"),
		 p->params.transport);
	if (p->transport != URCCL_TRANSPORT_IB)
		return;
	if (!p->rdma[0])
		option_rdma(p, "=rxe_v0;=rxe_v1");
	p->params.rdma_dev = p->rdma[0];
	p->params.ibv_so = getenv("UCCL_IBV_SO");
	p->params.rdma_ack_timeout = 18; /* emulated processors answer late */
}

/* ---- sides ---- */

struct urccl_stats side_stats(const struct side *s)
{
	struct urccl_stats stats = {.size = sizeof(stats)};

	CHECK_EQ(urccl_get_stats(s->ctx, &stats), 0);
	CHECK_EQ(stats.size, sizeof(stats));
	return stats;
}

void side_open(const struct pair *p, struct side *s)
{
	struct urccl_params params = p->params;
	int res;

	if (s == &p->b && p->rdma[1])
		params.rdma_dev = p->rdma[1];
	if (s == &p->b && p->far)
		params.transport = p->far;
	res = urccl_open(&params, &s->ctx);
	/* Without libcrypto too, or libfabric, or its provider. */
	if (res == -EOPNOTSUPP || res == -ENOSYS || res == -ENODEV || res == -ELIBACC ||
	    res == -ENODATA)
		SKIP(urccl_errmsg());
	if (res)
		fprintf(stderr, "urccl_open: %s\n", urccl_errmsg());
	CHECK_EQ(res, 0);
	CHECK_EQ(urccl_ring_open(s->ctx, &p->ring_params, &s->ring), 0);
	s->peer.id = 0;
	settle_begin(s);
}

void side_close(struct side *s)
{
	settle_end(s);
	urccl_ring_close(s->ring);
	urccl_close(s->ctx);
	memset(s, 0, sizeof(*s));
}

void side_turn(struct side *s)
{
	if (s && s->ring && s->ring->flags & URCCL_RING_INLINE)
		__urccl_ring_drive(s->ring);
}

struct urccl_sqe *side_sqe(struct side *s)
{
	struct urccl_sqe *sqe = urccl_get_sqe(s->ring);

	CHECK(sqe);
	settle();
	return sqe;
}

/* Lets both sides work: an INLINE one by a turn, a threaded one by waiting a little for its CQE. */
static void side_pause(struct side *s, struct side *other)
{
	struct urccl_wait_args args = {.size = sizeof(args), .min_n = 1, .timeout_ns = 100000};

	side_turn(s);
	side_turn(other);
	if (!(s->ring->flags & URCCL_RING_INLINE))
		urccl_wait(s->ring, NULL, &args);
}

/* Rails come and go as they like: what is told of that is noted. */
static struct urccl_cqe *side_peek(struct side *s)
{
	struct urccl_cqe *c;

	while ((c = urccl_peek_cqe(s->ring)) && urccl_cqe_kind(c) == URCCL_KIND_RAIL) {
		CHECK(c->tag < 8 && c->res <= 0 && c->flags & URCCL_CQE_MORE);
		if (c->res)
			s->rails_down |= 1u << c->tag;
		else
			s->rails_down &= ~(1u << c->tag);
		s->rails_told++;
		urccl_cqe_seen(s->ring, c);
	}
	return c;
}

int side_take_within(struct side *s, struct side *other, uint64_t ns, struct urccl_cqe *cqe,
		     void *note)
{
	uint64_t until = now_ns() + ns;
	struct urccl_cqe *c;

	while (!(c = side_peek(s))) {
		if (now_ns() >= until)
			return 0;
		side_pause(s, other);
	}
	*cqe = *c;
	if (note)
		memcpy(note, urccl_cqe_note(s->ring, c), URCCL_NOTE_MAX);
	urccl_cqe_seen(s->ring, c);
	settle();
	return 1;
}

void side_take(struct side *s, struct side *other, struct urccl_cqe *cqe, void *note)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;

	do {
		if (side_take_within(s, other, PAIR_LATE_NS, cqe, note))
			return;
	} while (!is_late(late));
	fprintf(stderr, "nothing came; this side:\n");
	urccl_dump(s->ctx, 2);
	if (other)
		urccl_dump(other->ctx, 2);
	CHECK(!"a CQE came in time");
}

int side_is_warm(const struct side *s, struct urccl_peer peer)
{
	struct urccl_peer_info info = {.size = sizeof(info)};

	CHECK_EQ(urccl_get_peer_info(s->ctx, peer, &info), 0);
	CHECK_EQ(info.state, URCCL_PEER_UP);
	return (int)info.warm;
}

void side_warm(struct side *s, uint32_t us, uint64_t user_data)
{
	struct urccl_sqe *sqe = side_sqe(s);

	urccl_prep_warm(sqe, s->peer);
	urccl_sqe_set_deadline_us(sqe, us);
	urccl_sqe_set_data64(sqe, user_data);
	CHECK_EQ(urccl_submit(s->ring), 1);
}

void side_rails(struct side *s, struct side *other, uint32_t down)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	struct urccl_cqe cqe;

	while (s->rails_down != down) {
		CHECK(!is_late(late));
		CHECK(!side_take_within(s, other, 1000000, &cqe, NULL));
	}
}

void pair_rails(struct pair *p, uint32_t down)
{
	side_rails(&p->a, &p->b, down);
	side_rails(&p->b, &p->a, down);
}

static void pulled(struct pair *p)
{
	int status;

	if (!p->pulling)
		return;
	CHECK_EQ(waitpid(p->pulling, &status, 0), p->pulling);
	CHECK_EQ(status, 0);
	p->pulling = 0;
}

/* Of devices that are made up; 0: these are not. */
static int pull_double(uint32_t rail, int on)
{
	static const char *const ends[2][2] = {{"rxe_v0", "rxe_v1"}, {"rxe_w0", "rxe_w1"}};
	const char *so = getenv("UCCL_IBV_SO");
	void *lib = so ? dlopen(so, RTLD_NOW | RTLD_NOLOAD) : NULL;
	void *found = lib ? dlsym(lib, "double_link") : NULL;
	void (*link)(const char *device, int up);

	if (!found)
		return 0;
	memcpy(&link, &found, sizeof(link));
	link(ends[rail][0], !on);
	link(ends[rail][1], !on);
	return 1;
}

void pair_pull(struct pair *p, uint32_t rail, int on)
{
	char command[256], *argv[] = {"sh", "-c", command, NULL};

	if (p->sim) {
		urccl_sim_pull(p->sim, rail, on);
		return;
	}
	if (pull_double(rail, on))
		return;
	if (!p->pull)
		SKIP("no --pull= says how a rail is pulled here");
	pulled(p);
	snprintf(command, sizeof(command), "exec %s %u %s", p->pull, rail, on ? "down" : "up");
	CHECK_EQ(posix_spawn(&p->pulling, "/bin/sh", NULL, NULL, argv, environ), 0);
	if (!on)
		pulled(p);
}

int pair_is_nic(const struct pair *p)
{
	return p->transport == URCCL_TRANSPORT_IB || strstr(p->params.transport, ":verbs");
}

int pair_is_fabric(const struct pair *p)
{
	return p->transport == URCCL_TRANSPORT_FABRIC || p->transport == URCCL_TRANSPORT_EFA ||
	       p->transport == URCCL_TRANSPORT_CXI;
}

int pair_is_outcome(const struct pair *p, const struct urccl_cqe *cqe)
{
	if (!pair_is_fabric(p) || !(cqe->flags & URCCL_CQE_MORE) ||
	    urccl_cqe_kind(cqe) != URCCL_KIND_OP)
		return 0;
	CHECK_LE(cqe->res, -1);
	return 1;
}

struct urccl_cqe pair_end(struct pair *p, struct side *s, uint64_t user_data)
{
	struct urccl_cqe cqe;

	do {
		side_take(s, s == &p->a ? &p->b : &p->a, &cqe, NULL);
		CHECK_EQ(cqe.user_data, user_data);
	} while (pair_is_outcome(p, &cqe));
	CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
	return cqe;
}

struct urccl_cqe pair_run(struct pair *p, struct side *s, struct urccl_sqe *sqe)
{
	uint64_t user_data = sqe->user_data;

	CHECK_GE(urccl_submit(s->ring), 1);
	return pair_end(p, s, user_data);
}

void side_connect(struct side *from, struct side *to)
{
	uint8_t blob[URCCL_METADATA_MAX];
	struct urccl_sqe *sqe = side_sqe(from);
	struct urccl_cqe cqe;
	int len = urccl_metadata(to->ctx, blob, sizeof(blob));

	CHECK_GE(len, 1);
	urccl_prep_connect(sqe, blob, (uint32_t)len);
	sqe->user_data = 0xc0de;
	CHECK_EQ(urccl_submit(from->ring), 1);
	side_take(from, to, &cqe, NULL);
	if (cqe.res < 0) {
		char why[512];

		urccl_explain(from->ctx, &cqe, why, sizeof(why));
		fprintf(stderr, "connect: %s\n", why);
	}
	CHECK_EQ(cqe.user_data, 0xc0de);
	CHECK_EQ(cqe.res, 0);
	from->peer.id = (uint32_t)cqe.handle;
	side_take(to, from, &cqe, NULL);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_PEER);
	to->peer.id = cqe.peer;
}

static void pair_watch(struct side *s)
{
	struct urccl_sqe *sqe = side_sqe(s);

	urccl_prep_watch(sqe, s->peer);
	sqe->user_data = 0x3a7c;
	CHECK_EQ(urccl_submit(s->ring), 1);
}

/* ---- the pair ---- */

void pair_sim(struct pair *p)
{
	char faults[256];

	if (p->transport != URCCL_TRANSPORT_SIM || p->params.sim_network)
		return;
	snprintf(faults, sizeof(faults), "seed=%llu,%s", (unsigned long long)p->seed,
		 p->faults ? p->faults : "delay=1us..100us,early=50%,duplicate=12.5%");
	CHECK_EQ(urccl_sim_open(faults, &p->sim), 0);
	p->params.sim_network = p->sim;
}

void pair_open(struct pair *p)
{
	struct urccl_sqe *sqe;

	pair_sim(p);
	if (!p->a.ctx)
		side_open(p, &p->a);
	if (!p->b.ctx)
		side_open(p, &p->b);
	sqe = side_sqe(&p->b);
	urccl_prep_accept(sqe);
	sqe->user_data = 0xacce;
	CHECK_EQ(urccl_submit(p->b.ring), 1);
	side_connect(&p->a, &p->b);
	pair_watch(&p->a);
	pair_watch(&p->b);
}

void pair_begin(struct pair *p, int argc, char **argv)
{
	pair_options(p, argc, argv);
	pair_open(p);
}

void pair_open_idle(struct pair *p)
{
	uint32_t flags = p->params.flags;

	p->params.flags |= URCCL_OPEN_INLINE;
	pair_sim(p);
	side_open(p, &p->b);
	p->params.flags = flags;
	pair_open(p);
}

void pair_begin_idle(struct pair *p, int argc, char **argv)
{
	pair_options(p, argc, argv);
	pair_open_idle(p);
}

void pair_close(struct pair *p)
{
	side_close(&p->a);
	side_close(&p->b);
	if (p->sim)
		CHECK_EQ(urccl_sim_close(p->sim), 0);
}

/* ---- memory ---- */

struct urccl_region side_register(struct side *s, void *addr, uint64_t len, uint32_t rights)
{
	struct urccl_range range = {.addr = (uint64_t)(uintptr_t)addr, .len = len, .fd = -1};
	struct urccl_region region = {0};

	CHECK_EQ(urccl_register(s->ctx, &range, 1, rights, &region), 0);
	CHECK(region.id);
	return region;
}

void target_open(struct pair *p, struct target *t, uint64_t len, int shared)
{
	void *addr;

	memset(t, 0, sizeof(*t));
	t->len = len;
	if (shared) {
		CHECK_EQ(urccl_alloc(p->b.ctx, len, &addr), 0);
	} else {
		addr = mmap(NULL, len, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		CHECK(addr != MAP_FAILED);
	}
	t->bytes = addr;
	t->region = side_register(&p->b, addr, len, RIGHTS_ALL);
	CHECK_EQ(urccl_advertise(p->b.ctx, t->region, 0, len, RIGHTS_ALL, 0, &t->advert), 0);
	CHECK_EQ(urccl_import(p->a.ctx, p->a.peer, &t->advert, 1, &t->remote), 0);
}

struct turner {
	struct side *side;
	uint32_t stop;
};

static void *turn_on(void *arg)
{
	struct turner *t = arg;

	while (!__atomic_load_n(&t->stop, __ATOMIC_ACQUIRE))
		side_turn(t->side);
	return NULL;
}

/* Unregistering waits for a peer that has the memory mapped, and an INLINE one has to be called. */
static void region_close(struct pair *p, struct urccl_region region)
{
	struct turner t = {.side = &p->a};
	int is_inline = p->params.flags & URCCL_OPEN_INLINE;
	pthread_t thread;

	if (is_inline)
		CHECK_EQ(pthread_create(&thread, NULL, turn_on, &t), 0);
	CHECK_EQ(urccl_unregister(p->b.ctx, region), 0);
	__atomic_store_n(&t.stop, 1, __ATOMIC_RELEASE);
	if (!is_inline)
		return;
	pthread_join(thread, NULL);
	side_turn(&p->a); /* ours again */
}

void target_close(struct pair *p, struct target *t)
{
	CHECK_EQ(urccl_unimport(p->a.ctx, t->remote), 0);
	region_close(p, t->region);
	if (urccl_free(p->b.ctx, t->bytes))
		munmap(t->bytes, t->len);
}

/* ---- bytes ---- */

static uint8_t pattern_byte(uint64_t at, uint64_t version)
{
	uint64_t x = (at >> 3) * 0x9e3779b97f4a7c15ull + version * 0xd1b54a32d192ed03ull + 1;

	x ^= x >> 29;
	return (uint8_t)(x >> (8 * (at & 7)));
}

void pattern_fill(void *buf, uint64_t len, uint64_t place, uint64_t version)
{
	uint8_t *b = buf;
	uint64_t i;

	for (i = 0; i < len; i++)
		b[i] = pattern_byte(place + i, version);
}

int pattern_holds(const void *buf, uint64_t len, uint64_t place, uint64_t version)
{
	const uint8_t *b = buf;
	uint64_t i;

	for (i = 0; i < len; i++)
		if (b[i] != pattern_byte(place + i, version))
			return 0;
	return 1;
}

void check_sentence(struct side *s, const struct urccl_cqe *cqe, const char *part)
{
	char why[512];

	CHECK_GE(urccl_explain(s->ctx, cqe, why, sizeof(why)), 10);
	CHECK_SAYS(why, part);
}
