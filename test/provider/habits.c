/* SPDX-License-Identifier: Apache-2.0 */
/* The test provider has the habits that it is told to have, and stops who breaks its rules: or else
 * what passes over it would prove nothing. Each case is a process of its own. */
#include <dlfcn.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "test.h"

#define SHARED_MEMORY_PERMITTED 11 /* FI_OPT_*: since libfabric 1.21 */
/* Of headers that 1.17 lacks. */
#define EFA_EMULATED_READ	(-(0xefa << 16) + 1)
#define CXI_SET_MR_MATCH_EVENTS (-(0xccc << 16) + 3)
#define CXI_SET_OPTIMIZED_MRS	(-(0xccc << 16) + 5)

#define LEN			100000u
#define OPS			64u
#define TURNS			1000000u
#define QUIET_TURNS		10000u /* in which what is not to come has not come */

struct side {
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_av *av;
	fi_addr_t other;
};

static int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
		      const struct fi_info *hints, struct fi_info **info);
static struct fi_info *(*dupinfo)(const struct fi_info *info);
static void (*freeinfo)(struct fi_info *info);
static int (*open_fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct side a, b;
static bool shm; /* permitted */
static uint8_t local[LEN], remote[LEN];
static struct fi_context2 contexts[OPS];

/* ---- beginning ---- */

static void load_one(void *handle, const char *name, void *to)
{
	void *p = dlsym(handle, name);

	CHECK(p);
	memcpy(to, &p, sizeof(p));
}

static void load(void)
{
	const char *path = getenv("UCCL_LIBFABRIC_SO");
	void *handle = dlopen(path ? path : "libfabric.so.1", RTLD_NOW);

	if (!handle)
		SKIP("no libfabric");
	load_one(handle, "fi_getinfo", &getinfo);
	load_one(handle, "fi_dupinfo", &dupinfo);
	load_one(handle, "fi_freeinfo", &freeinfo);
	load_one(handle, "fi_fabric", &open_fabric);
}

/* What the words call it. */
static const char *provider_name(void)
{
	const char *words = getenv("URCCL_TEST_PROVIDER");
	static char name[4];

	if (strncmp(words, "name=", 5))
		return "urccl_test";
	memcpy(name, words + 5, sizeof(name) - 1);
	return name;
}

static struct fi_info *hints_make(void)
{
	struct fi_info *h = dupinfo(NULL);

	CHECK(h);
	h->caps = FI_MSG | FI_RMA;
	h->mode = FI_CONTEXT | FI_CONTEXT2;
	h->fabric_attr->prov_name = strdup(provider_name());
	h->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
				  FI_MR_PROV_KEY | FI_MR_RMA_EVENT | FI_MR_ENDPOINT;
	h->domain_attr->threading = FI_THREAD_DOMAIN;
	return h;
}

static int ask(struct fi_info *hints)
{
	int err;

	if (info)
		freeinfo(info);
	info = NULL;
	err = getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info);
	freeinfo(hints);
	return err;
}

static void side_open(struct side *s)
{
	struct fi_cq_attr cq = {.size = OPS, .format = FI_CQ_FORMAT_MSG};
	struct fi_av_attr av = {.type = FI_AV_TABLE};

	CHECK_EQ(fi_cq_open(domain, &cq, &s->cq, NULL), 0);
	CHECK_EQ(fi_av_open(domain, &av, &s->av, NULL), 0);
	CHECK_EQ(fi_endpoint(domain, info, &s->ep, NULL), 0);
	CHECK_EQ(fi_ep_bind(s->ep, &s->av->fid, 0), 0);
	CHECK_EQ(fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	fi_setopt(&s->ep->fid, FI_OPT_ENDPOINT, SHARED_MEMORY_PERMITTED, &shm, sizeof(shm));
	CHECK_EQ(fi_enable(s->ep), 0);
}

static void meet(struct side *s, struct side *other)
{
	char name[96];
	size_t len = sizeof(name);

	CHECK_EQ(fi_getname(&other->ep->fid, name, &len), 0);
	CHECK_EQ(fi_av_insert(s->av, name, 1, &s->other, 0, NULL), 1);
}

/* Only cxi has something to be told. */
static void tell(void)
{
	bool on = true, off = false, is_cxi = !strcmp(provider_name(), "cxi");

	CHECK_EQ(fi_control(&domain->fid, CXI_SET_MR_MATCH_EVENTS, &on), is_cxi ? 0 : -FI_ENOSYS);
	CHECK_EQ(fi_control(&domain->fid, CXI_SET_OPTIMIZED_MRS, &off), is_cxi ? 0 : -FI_ENOSYS);
}

static void begin(void)
{
	CHECK_EQ(ask(hints_make()), 0);
	CHECK_EQ(open_fabric(info->fabric_attr, &fabric, NULL), 0);
	CHECK_EQ(fi_domain(fabric, info, &domain, NULL), 0);
	tell();
	side_open(&a);
	side_open(&b);
	meet(&a, &b);
}

/* ---- doing ---- */

static struct fid_mr *region(void *buf, size_t len, uint64_t access, uint64_t key)
{
	struct fid_mr *mr;

	CHECK_EQ(fi_mr_reg(domain, buf, len, access, 0, key, 0, &mr, NULL), 0);
	return mr;
}

/* The same range, n times. */
static ssize_t move_many(int is_read, uint32_t off, uint32_t len, uint64_t key, void *desc,
			 void *context, uint64_t flags, uint32_t n)
{
	struct iovec iov[2] = {{local + off, len}, {local + off, len}};
	struct fi_rma_iov rma[2] = {{.addr = off, .len = len, .key = key},
				    {.addr = off, .len = len, .key = key}};
	void *descs[2] = {desc, desc};
	struct fi_msg_rma msg = {.msg_iov = iov,
				 .desc = descs,
				 .iov_count = n,
				 .addr = a.other,
				 .rma_iov = rma,
				 .rma_iov_count = n,
				 .context = context};

	return is_read ? fi_readmsg(a.ep, &msg, flags) : fi_writemsg(a.ep, &msg, flags);
}

static ssize_t move(int is_read, uint32_t off, uint32_t len, uint64_t key, void *desc,
		    void *context, uint64_t flags)
{
	return move_many(is_read, off, len, key, desc, context, flags, 1);
}

/* The target does nothing by itself. */
static void turn_b(void)
{
	struct fi_cq_msg_entry e;

	fi_cq_read(b.cq, &e, 1);
}

static void *next_done(int with_b)
{
	uint32_t i, turns = with_b ? TURNS : QUIET_TURNS;
	struct fi_cq_msg_entry e;

	for (i = 0; i < turns; i++) {
		if (fi_cq_read(a.cq, &e, 1) == 1)
			return e.op_context;
		if (with_b)
			turn_b();
	}
	return NULL;
}

/* ---- habits ---- */

static void manual(void)
{
	struct fid_mr *mr = region(remote, LEN, FI_REMOTE_WRITE, 1);

	memset(local, 1, LEN);
	CHECK_EQ(move(0, 0, 100, fi_mr_key(mr), NULL, contexts, 0), 0);
	CHECK(!next_done(0));
	CHECK_EQ(remote[0], 0);
	CHECK(next_done(1));
	CHECK_EQ(remote[99], 1);
}

/* A write that is complete, and is not there: until a read comes behind it. */
static void early(void)
{
	struct fid_mr *mr = region(remote, LEN, FI_REMOTE_WRITE | FI_REMOTE_READ, 1);
	uint32_t i, late = 0;

	for (i = 0; i < 200; i++) {
		memset(local, (int)i + 1, LEN);
		CHECK_EQ(move(0, 0, 100, fi_mr_key(mr), NULL, contexts, 0), 0);
		CHECK(next_done(1));
		late += remote[0] != (uint8_t)(i + 1);
		CHECK_EQ(move(1, 200, 1, fi_mr_key(mr), NULL, contexts, 0), 0);
		CHECK(next_done(1));
		CHECK_EQ(remote[0], (uint8_t)(i + 1));
		CHECK_EQ(move(0, 0, 100, fi_mr_key(mr), NULL, contexts, FI_DELIVERY_COMPLETE), 0);
		CHECK(next_done(1));
	}
	printf("%u of 200 writes were complete before they were placed\n", late);
	CHECK(late);
}

static void any_order(void)
{
	struct fid_mr *mr = region(remote, LEN, FI_REMOTE_WRITE, 1);
	uint32_t i, turned = 0;

	for (i = 0; i < OPS; i++)
		CHECK_EQ(move(0, i, 1, fi_mr_key(mr), NULL, &contexts[i], 0), 0);
	for (i = 0; i < OPS; i++)
		turned += next_done(1) != &contexts[i];
	CHECK(turned);
}

static void comes_again(void)
{
	struct fid_mr *mr = region(remote, LEN, FI_REMOTE_WRITE, 1);
	uint32_t i, again = 0;

	for (i = 0; i < OPS; i++)
		again += move(0, 0, 1, fi_mr_key(mr), NULL, contexts, 0) == -FI_EAGAIN;
	CHECK(again > OPS / 4 && again < OPS);
}

static void no_room_for_two(void)
{
	struct fid_mr *mr = region(remote, LEN, FI_REMOTE_WRITE, 1);

	CHECK_EQ(move_many(0, 0, 1, fi_mr_key(mr), NULL, &contexts[0], 0, 2), -FI_EAGAIN);
	CHECK_EQ(move_many(0, 0, 1, fi_mr_key(mr), NULL, &contexts[0], 0, 1), 0);
	CHECK(next_done(1) == &contexts[0]);
}

static void errors(void)
{
	struct fid_mr *mr = region(remote, LEN, FI_REMOTE_WRITE, 1);
	struct fi_cq_err_entry e = {0};
	uint32_t i, n = 0;
	ssize_t got;

	for (i = 0; i < TURNS && !n; i++) {
		struct fi_cq_msg_entry entry;

		move(0, 0, 1, fi_mr_key(mr), NULL, contexts, 0);
		turn_b();
		got = fi_cq_read(a.cq, &entry, 1);
		if (got == -FI_EAVAIL)
			n = fi_cq_readerr(a.cq, &e, 0) == 1;
	}
	CHECK_EQ(n, 1);
	CHECK_EQ(e.err, FI_EIO);
	CHECK(e.prov_errno && e.op_context == contexts);
}

/* Of those that are said to be cancelled some have come. */
static void cut(void)
{
	struct fi_cq_err_entry e = {0};
	struct fi_cq_msg_entry entry;
	uint32_t i, n = 0, came = 0;
	uint8_t in[2 * OPS];

	for (i = 0; i < 2 * OPS; i++)
		CHECK_EQ(fi_recv(b.ep, &in[i], 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
	for (i = 0; i < OPS; i++)
		CHECK_EQ(fi_send(a.ep, local, 1, NULL, a.other, &contexts[i]), 0);
	for (i = 0; i < TURNS / 50; i++) {
		came += fi_cq_read(b.cq, &entry, 1) == 1;
		if (fi_cq_read(a.cq, &entry, 1) != -FI_EAVAIL)
			continue;
		CHECK_EQ(fi_cq_readerr(a.cq, &e, 0), 1);
		CHECK_EQ(e.err, FI_ECANCELED);
		n++;
	}
	printf("%u of %u messages cut, %u came\n", n, OPS, came);
	CHECK(n && n < OPS && came > OPS - n && came < OPS);
}

/* All are said to have gone well. */
static void lost(void)
{
	struct fi_cq_msg_entry entry;
	uint32_t i, done = 0, came = 0;
	uint8_t in[OPS];

	for (i = 0; i < OPS; i++)
		CHECK_EQ(fi_recv(b.ep, &in[i], 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
	for (i = 0; i < OPS; i++)
		CHECK_EQ(fi_send(a.ep, local, 1, NULL, a.other, &contexts[i]), 0);
	for (i = 0; i < TURNS / 50; i++) {
		came += fi_cq_read(b.cq, &entry, 1) == 1;
		done += fi_cq_read(a.cq, &entry, 1) == 1;
	}
	printf("%u of %u messages came\n", came, OPS);
	CHECK_EQ(done, OPS);
	CHECK(came && came < OPS);
}

/* How the next completion of a went, which is an error. */
static struct fi_cq_err_entry next_error(void)
{
	struct fi_cq_err_entry e = {0};
	struct fi_cq_msg_entry entry;

	CHECK_EQ(fi_cq_read(a.cq, &entry, 1), -FI_EAVAIL);
	CHECK_EQ(fi_cq_readerr(a.cq, &e, 0), 1);
	return e;
}

static void poison(void)
{
	struct fid_mr *mr = region(remote, LEN, FI_REMOTE_WRITE, 1);

	CHECK_EQ(move(0, 0, 100, fi_mr_key(mr), NULL, &contexts[0], 0), 0);
	CHECK_EQ(move(0, 0, 99, fi_mr_key(mr), NULL, &contexts[1], 0), 0);
	CHECK(next_error().op_context == &contexts[1]);
	CHECK(next_done(1) == &contexts[0]);
}

static void sick(void)
{
	struct fid_mr *mr = region(remote, LEN, FI_REMOTE_WRITE, 1);

	CHECK_EQ(move(0, 0, 1, fi_mr_key(mr), NULL, contexts, 0), 0);
	CHECK(next_done(1));
	CHECK_EQ(move(0, 0, 1, fi_mr_key(mr), NULL, contexts, 0), 0);
	CHECK_EQ(next_error().err, FI_EIO);
}

static void rejected(void)
{
	struct fi_cq_msg_entry entry;
	uint32_t i;

	CHECK_EQ(move(0, 0, 1, 77, NULL, contexts, 0), 0);
	for (i = 0; i < TURNS && fi_cq_read(a.cq, &entry, 1) != -FI_EAVAIL; i++)
		turn_b();
	CHECK_EQ(next_error().err, FI_EINVAL);
}

static void mute(void)
{
	struct fid_mr *mr = region(remote, LEN, FI_REMOTE_WRITE, 1);

	CHECK_EQ(move(0, 0, 99, fi_mr_key(mr), NULL, &contexts[0], 0), 0);
	CHECK_EQ(move(0, 0, 100, fi_mr_key(mr), NULL, &contexts[1], 0), 0);
	CHECK(next_done(1) == &contexts[1]);
	CHECK(!next_done(1));
	CHECK_EQ(fi_close(&a.ep->fid), 0);
}

static void cutter(void)
{
	struct fid_mr *mr = region(remote, LEN, FI_REMOTE_WRITE, 1);

	CHECK_EQ(move(0, 0, 100, fi_mr_key(mr), NULL, &contexts[0], 0), 0);
	CHECK_EQ(move(0, 0, 99, fi_mr_key(mr), NULL, &contexts[1], 0), 0);
	CHECK_EQ(next_error().err, FI_ECANCELED);
	CHECK_EQ(next_error().err, FI_ECANCELED);
	CHECK(!next_done(1));
}

/* One completion, and then errors. */
static void dies(struct fid_cq *cq)
{
	struct fi_cq_msg_entry entry;

	CHECK_EQ(fi_cq_read(cq, &entry, 1), -FI_EIO);
	CHECK_EQ(fi_cq_read(cq, &entry, 1), -FI_EIO);
}

static void dead_queues(void)
{
	struct fi_cq_msg_entry entry;
	char in;

	CHECK_EQ(fi_recv(b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
	CHECK_EQ(fi_recv(b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, NULL), -FI_EIO);
	CHECK_EQ(fi_send(a.ep, local, 1, NULL, a.other, contexts), 0);
	CHECK_EQ(fi_cq_read(b.cq, &entry, 1), 1);
	dies(b.cq);
	CHECK_EQ(fi_cq_read(a.cq, &entry, 1), 1);
	dies(a.cq);
}

static void promised(void)
{
	struct fid_mr *mr = region(remote, LEN, FI_REMOTE_WRITE, 1);
	uint64_t key = fi_mr_key(mr);

	CHECK_EQ(move(0, 0, 1, key, NULL, &contexts[0], FI_MORE), 0);
	CHECK(!next_done(1));
	CHECK_EQ(move(0, 1, 1, key, NULL, &contexts[1], 0), 0);
	CHECK(next_done(1) == &contexts[0]);
	CHECK(next_done(1) == &contexts[1]);
}

static void injected(void)
{
	struct fid_mr *mr = region(remote, LEN, FI_REMOTE_WRITE, 1);
	uint64_t key = fi_mr_key(mr);

	memset(local, 1, LEN);
	CHECK_EQ(move(0, 0, 64, key, NULL, contexts, FI_INJECT | FI_MORE), 0);
	memset(local, 2, LEN);
	CHECK_EQ(move(0, 64, 1, key, NULL, &contexts[1], 0), 0);
	CHECK(next_done(1) == contexts && next_done(1));
	CHECK(remote[0] == 1 && remote[63] == 1 && remote[64] == 2);
	move(0, 0, 65, key, NULL, contexts, FI_INJECT);
}

static void removed_name(void)
{
	struct fid_mr *mr = region(remote, LEN, FI_REMOTE_WRITE, 1);

	CHECK_EQ(move(0, 0, 1, fi_mr_key(mr), NULL, contexts, 0), 0);
	fi_av_remove(a.av, &a.other, 1, 0);
}

static void permitted(void)
{
	shm = true;
	side_open(&a);
}

static void busy_region(void)
{
	struct fid_mr *mr = region(remote, LEN, FI_REMOTE_WRITE, 1);

	CHECK_EQ(fi_close(&mr->fid), -FI_EBUSY);
	CHECK_EQ(fi_close(&mr->fid), 0);
	CHECK_EQ(fi_close(&a.ep->fid), 0);
}

/* It goes on until it is closed. */
static void busy(void)
{
	struct fid_mr *mr = region(remote, LEN, FI_REMOTE_WRITE, 1);
	uint64_t key = fi_mr_key(mr);

	CHECK_EQ(fi_close(&mr->fid), -FI_EBUSY);
	memset(local, 1, LEN);
	CHECK_EQ(move(0, 0, 1, key, NULL, contexts, 0), 0);
	CHECK_EQ(fi_close(&a.ep->fid), -FI_EBUSY);
	CHECK(next_done(1));
	CHECK_EQ(remote[0], 1);
	CHECK_EQ(fi_close(&a.ep->fid), -FI_EBUSY);
	CHECK_EQ(fi_close(&a.ep->fid), 0);
	CHECK_EQ(fi_close(&mr->fid), -FI_EBUSY);
	CHECK_EQ(fi_close(&mr->fid), 0);
}

static void again(void)
{
	struct fid_mr *mr;
	int i;

	for (i = 0; i < 2; i++)
		CHECK_EQ(fi_mr_reg(domain, remote, LEN, FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL),
			 -FI_EAGAIN);
	mr = region(remote, LEN, FI_REMOTE_WRITE, 1);
	CHECK_EQ(move(0, 0, 1, fi_mr_key(mr), NULL, contexts, 0), 0);
	CHECK(next_done(1));
}

static void refuses_modes(void)
{
	struct fi_info *h = hints_make();

	h->domain_attr->mr_mode = FI_MR_LOCAL;
	CHECK_EQ(ask(h), -FI_ENODATA);
	h = hints_make();
	h->domain_attr->threading = FI_THREAD_SAFE;
	CHECK_EQ(ask(h), -FI_ENODATA);
	h = hints_make();
	h->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	CHECK_EQ(ask(h), -FI_ENODATA);
	CHECK_EQ(move(0, 0, 1, 0, NULL, contexts, FI_DELIVERY_COMPLETE), -FI_EBADFLAGS);
}

/* ---- rules ---- */

static void no_descriptor(void)
{
	move(0, 0, 100, 1, NULL, contexts, 0);
}

static void beyond_descriptor(void)
{
	struct fid_mr *mr = region(local, 99, FI_WRITE, 1);

	move(0, 0, 100, 1, fi_mr_desc(mr), contexts, 0);
}

static void other_access(void)
{
	struct fid_mr *mr = region(local, LEN, FI_WRITE, 1);

	move(1, 0, 100, 1, fi_mr_desc(mr), contexts, 0);
}

static void used_region(void)
{
	struct fid_mr *mr = region(local, LEN, FI_WRITE, 1);

	CHECK_EQ(move(0, 0, 100, 1, fi_mr_desc(mr), contexts, 0), 0);
	fi_close(&mr->fid);
}

static void no_bind(void)
{
	fi_mr_enable(region(local, LEN, FI_REMOTE_WRITE, 1));
}

static void bound_region(void)
{
	struct fid_mr *mr = region(local, LEN, FI_REMOTE_WRITE, 1);

	CHECK_EQ(fi_mr_bind(mr, &b.ep->fid, 0), 0);
	CHECK_EQ(fi_mr_enable(mr), 0);
	fi_close(&b.ep->fid);
}

static void same_context(void)
{
	CHECK_EQ(move(0, 0, 100, 1, NULL, contexts, 0), 0);
	move(0, 0, 100, 1, NULL, contexts, 0);
}

static void unmapped_key(void)
{
	move(0, 0, 100, 77, NULL, contexts, 0);
}

static void no_memory(void)
{
	void *p = mmap(NULL, LEN, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED && !munmap(p, LEN));
	region(p, LEN, FI_WRITE, 1);
}

static void stranger(void)
{
	struct fid_mr *mr = region(remote, LEN, FI_REMOTE_WRITE, 1);

	CHECK_EQ(move(0, 0, 1, fi_mr_key(mr), NULL, contexts, 0), 0);
	CHECK(next_done(1));
}

/* What comes from one that was known is dropped. */
static void removed_initiator(void)
{
	struct fid_mr *mr = region(remote, LEN, FI_REMOTE_WRITE, 1);

	meet(&b, &a);
	CHECK_EQ(fi_av_remove(b.av, &b.other, 1, 0), 0);
	CHECK_EQ(move(0, 0, 1, fi_mr_key(mr), NULL, contexts, 0), 0);
	CHECK(!next_done(1));
}

static void untold(void)
{
	CHECK_EQ(fi_domain(fabric, info, &domain, NULL), 0);
	side_open(&a);
}

static void not_emulated(void)
{
	bool emulated = true;
	size_t len = sizeof(emulated);

	CHECK_EQ(fi_getopt(&a.ep->fid, FI_OPT_ENDPOINT, EFA_EMULATED_READ, &emulated, &len), 0);
	CHECK(!emulated);
	manual();
}

static void known(void)
{
	meet(&b, &a);
	stranger();
}

static void open_domain(void)
{
	fi_close(&domain->fid);
}

static void used_queue(void)
{
	fi_close(&a.cq->fid);
}

static void *poll_for_ever(void *arg)
{
	struct fi_cq_msg_entry e;

	(void)arg;
	for (;;)
		fi_cq_read(a.cq, &e, 1);
	return NULL;
}

static void two_threads(void)
{
	pthread_t t;

	CHECK_EQ(pthread_create(&t, NULL, poll_for_ever, NULL), 0);
	poll_for_ever(NULL);
}

/* ---- the cases ---- */

static const struct {
	const char *words;
	void (*run)(void);
	const char *sentence; /* it ends with; NULL: it does not */
} cases[] = {
	{"", manual, NULL},
	{"ack=early,order=random", early, NULL},
	{"order=random", any_order, NULL},
	{"eagain=50", comes_again, NULL},
	{"iov=2,iov_room=1", no_room_for_two, NULL},
	{"cqerr=20", errors, NULL},
	{"cut=4", cut, NULL},
	{"lose=4", lost, NULL},
	{"busy=2", busy, NULL},
	{"mr_busy=1", busy_region, NULL},
	{"mr_again=2,mr_slow=1000", again, NULL},
	{"poison=99", poison, NULL},
	{"cutter=99", cutter, NULL},
	{"mute=99", mute, NULL},
	{"sick=1", sick, NULL},
	{"reject=22", rejected, NULL},
	{"tx_dead=1,rx_dead=1,recv_dead=2", dead_queues, NULL},
	{"shm", manual, NULL},
	{"more", promised, NULL},
	{"more,inject=64", injected, "are not injected"},
	{"shm", permitted, "nobody forbade it"},
	{"", removed_name, "which is removed"},
	{"av_initiator", known, NULL},
	{"av_initiator", stranger, "not in the vector of its target"},
	{"av_initiator", removed_initiator, NULL},
	{"name=cxi,mr=prov_key", manual, NULL},
	{"name=cxi,mr=prov_key", untold, "not told to go when they are closed"},
	{"name=efa", not_emulated, NULL},
	{"mr=endpoint+raw,threading=domain,delivery=none", refuses_modes, NULL},
	{"mr=local", no_descriptor, "is no region's"},
	{"mr=local", beyond_descriptor, "not in the region"},
	{"mr=local", other_access, "is not for access"},
	{"mr=local", used_region, "an operation under way"},
	{"mr=endpoint", no_bind, "without an endpoint"},
	{"mr=endpoint", bound_region, "1 regions are bound"},
	{"mode=context2", same_context, "in flight"},
	{"mr=raw", unmapped_key, "was not mapped"},
	{"mr=allocated", no_memory, "no memory at"},
	{"", open_domain, "6 objects of the domain are open"},
	{"", used_queue, "1 endpoints are bound"},
	{"threading=domain", two_threads, "two threads at once"},
	{"order=sideways", open_domain, "no word that it knows"},
};

/* What it said is in text. */
static int run_child(size_t i, char *text, size_t room)
{
	int fds[2], status;
	ssize_t n, all = 0;
	pid_t pid;

	CHECK_EQ(pipe(fds), 0);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		dup2(fds[1], STDERR_FILENO);
		setenv("URCCL_TEST_PROVIDER", cases[i].words, 1);
		alarm(60);
		load();
		begin();
		cases[i].run();
		exit(0);
	}
	close(fds[1]);
	while ((n = read(fds[0], text + all, room - 1 - (size_t)all)) > 0)
		all += n;
	text[all] = '\0';
	close(fds[0]);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

int main(void)
{
	char text[4096];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *sentence = cases[i].sentence;
		int status = run_child(i, text, sizeof(text));

		printf("%s: %.*s\n", *cases[i].words ? cases[i].words : "easy",
		       (int)strcspn(text, "\n"), text);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
			SKIP("no libfabric");
		if (!sentence) {
			CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
			continue;
		}
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
		CHECK(strstr(text, sentence));
	}
	return 0;
}
