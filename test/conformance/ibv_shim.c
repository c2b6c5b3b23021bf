/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libibverbs to be loaded by UCCL_IBV_SO: the real one, with less of a device than there is, and
 * with an end that soft-RoCE cannot have. It passes every call on; what a device can do is masked,
 * what is posted is counted. SHIM_SO names another than the system's as the real one. SHIM, by
 * comma:
 *
 *	inline=N	bytes inline at most; queue pairs that ask for more are refused
 *	mr=N		bytes of a memory region at most
 *	reads=N		READs of a queue pair, either way
 *	cqe=N		completions of a queue, at most
 *	resize=0	a queue of completions keeps its size
 *	gids=0		no table of GIDs in one call (rdma-core before 32)
 *	post=N		the N-th post of a request fails with ENOMEM, and those behind it
 *	remove=N	after N posts the device is gone: DEVICE_FATAL, and posts fail with EIO
 *	unplug=N	after N posts it is pulled out: posts fail with EIO, and its descriptors
 *			are at their end (over test/verbs alone)
 *	swallow=N	what is posted after N posts never completes
 *	mute=N		queue pairs that were made for N requests never complete one
 *	refuse=N	queue pairs for N requests are not to be had
 *	sge_rd=N	pieces of memory that a READ may name
 *	fail=N:STATUS	the N-th completion of a READ or WRITE has this status (enum
 *			ibv_wc_status) and 0x8a as its vendor's code, and its queue pair is in
 *			error
 *	kill=N:DEVICE	every N-th post of this device kills its queue pair, which goes into error
 *	opaque=1	memory that cannot be read is registered all the same, as that of a GPU
 *			is: peers see bytes of 0x5a there
 *	lose=N		the N-th flushed completion behind an error, of the first queue pair that
 *			has one, is never seen
 *	report=1	at the end: doorbells, requests, signalled ones
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#define EXPORT	__attribute__((visibility("default")))
#define QPS_MAX 64u

static struct {
	void *real;
	long inlined, mr, reads, cqe, resize, gids, post, remove, swallow, kill, report;
	long opaque, lose, unplug, mute, refuse, sge_rd, fail;
	char victim[64], status[8];
	/* Of all devices, each of which may have a thread. */
	unsigned long victims, killed, completed;
	struct ibv_qp *qps[QPS_MAX];	   /* NULL: a free place */
	int mutes[QPS_MAX];		   /* that one; before anything is posted there */
	uint32_t failed;		   /* the queue pair that did */
	const struct ibv_context *told[8]; /* of DEVICE_FATAL */
	uint32_t broken;		   /* the queue pair that loses one */
	long flushed;			   /* of it */
	struct {
		struct ibv_mr *mr;
		void *pages;
		size_t len;
	} opaques[8];
	struct ibv_context_ops ops;
} shim;

/* For cases: doorbells; requests, and of these whose bytes went inline, and those that are
 * signalled; and what queue pairs that were led to a peer had as service level and traffic class,
 * in turn. */
EXPORT unsigned long shim_doorbells, shim_requests, shim_inlined, shim_signalled, shim_nroutes;
EXPORT struct {
	uint8_t sl, tclass;
} shim_routes[256];

static void *real(const char *name)
{
	void *f = dlsym(shim.real, name);

	if (!f) {
		fprintf(stderr, "shim: no %s\n", name);
		abort();
	}
	return f;
}

#define REAL(name) ((__typeof__(&name))real(#name))

static long word(const char *text, const char *name, long none)
{
	size_t n = strlen(name);

	for (; text && *text; text += strcspn(text, ","), text += *text == ',')
		if (!strncmp(text, name, n) && text[n] == '=')
			return strtol(text + n + 1, NULL, 0);
	return none;
}

/* The name behind a word's number. */
static void name_of(const char *text, const char *word, char *name, size_t size)
{
	const char *at = text ? strstr(text, word) : NULL;
	size_t len;

	at = at ? strchr(at, ':') : NULL;
	if (!at++)
		return;
	len = strcspn(at, ",");
	memcpy(name, at, len < size ? len : size - 1);
}

__attribute__((constructor)) static void begin(void)
{
	const char *text = getenv("SHIM"), *so = getenv("SHIM_SO");

	shim.real = dlopen(so ? so : "libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!shim.real) {
		fprintf(stderr, "shim: %s\n", dlerror());
		return;
	}
	shim.inlined = word(text, "inline", -1);
	shim.mr = word(text, "mr", -1);
	shim.reads = word(text, "reads", -1);
	shim.cqe = word(text, "cqe", -1);
	shim.resize = word(text, "resize", 1);
	shim.gids = word(text, "gids", 1);
	shim.post = word(text, "post", -1);
	shim.remove = word(text, "remove", -1);
	shim.swallow = word(text, "swallow", -1);
	shim.kill = word(text, "kill", -1);
	name_of(text, "kill=", shim.victim, sizeof(shim.victim));
	shim.opaque = word(text, "opaque", 0);
	shim.lose = word(text, "lose", -1);
	shim.unplug = word(text, "unplug", -1);
	shim.mute = word(text, "mute", -1);
	shim.refuse = word(text, "refuse", -1);
	shim.sge_rd = word(text, "sge_rd", -1);
	shim.fail = word(text, "fail", -1);
	name_of(text, "fail=", shim.status, sizeof(shim.status));
	shim.report = word(text, "report", 0);
}

__attribute__((destructor)) static void end(void)
{
	if (shim.report)
		printf("shim: %lu doorbells, %lu requests, %lu signalled, %lu killed\n",
		       shim_doorbells, shim_requests, shim_signalled, shim.killed);
}

/* ---- what is posted ---- */

static int is_gone(void)
{
	return shim.remove >= 0 && shim_doorbells >= (unsigned long)shim.remove;
}

static int is_unplugged(void)
{
	static int done;
	void (*unplug)(void);

	if (shim.unplug < 0 || shim_doorbells < (unsigned long)shim.unplug)
		return 0;
	if (!done++) {
		void *f = real("double_unplug");

		memcpy(&unplug, &f, sizeof(unplug));
		unplug();
	}
	return 1;
}

static struct ibv_qp *made(unsigned long i)
{
	return __atomic_load_n(&shim.qps[i], __ATOMIC_ACQUIRE);
}

static int is_mute(const struct ibv_qp *qp)
{
	unsigned long i;

	if (shim.mute < 0)
		return 0;
	for (i = 0; i < QPS_MAX; i++)
		if (made(i) == qp)
			return __atomic_load_n(&shim.mutes[i], __ATOMIC_ACQUIRE);
	return 0;
}

static int names_too_much(const struct ibv_send_wr *wr)
{
	for (; wr && shim.sge_rd >= 0; wr = wr->next)
		if (wr->opcode == IBV_WR_RDMA_READ && wr->num_sge > shim.sge_rd)
			return 1;
	return 0;
}

static void kill_some(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (shim.kill <= 0 || strcmp(qp->context->device->name, shim.victim) ||
	    __atomic_add_fetch(&shim.victims, 1, __ATOMIC_RELAXED) % (unsigned long)shim.kill)
		return;
	if (!REAL(ibv_modify_qp)(qp, &attr, IBV_QP_STATE))
		__atomic_add_fetch(&shim.killed, 1, __ATOMIC_RELAXED);
}

/* All queue pairs of the device are in error, whatever they have on their way. */
EXPORT void shim_kill(const char *device);
EXPORT void shim_kill(const char *device)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	unsigned long i;

	for (i = 0; i < QPS_MAX; i++)
		if (made(i) && !strcmp(made(i)->context->device->name, device))
			REAL(ibv_modify_qp)(made(i), &attr, IBV_QP_STATE);
}

static void count(unsigned long *n, int is_so)
{
	__atomic_add_fetch(n, is_so != 0, __ATOMIC_RELAXED);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ibv_send_wr *w;
	int rc;

	*bad = wr;
	__atomic_add_fetch(&shim_doorbells, 1, __ATOMIC_RELAXED);
	if (is_gone() || is_unplugged())
		return EIO;
	if (shim.post >= 0 && shim_doorbells >= (unsigned long)shim.post)
		return ENOMEM;
	if (names_too_much(wr))
		return EINVAL;
	if ((shim.swallow >= 0 && shim_doorbells > (unsigned long)shim.swallow) || is_mute(qp))
		return 0;
	for (w = wr; w; w = w->next) {
		__atomic_add_fetch(&shim_requests, 1, __ATOMIC_RELAXED);
		count(&shim_signalled, w->send_flags & IBV_SEND_SIGNALED);
		count(&shim_inlined, w->send_flags & IBV_SEND_INLINE);
	}
	rc = shim.ops.post_send(qp, wr, bad);
	kill_some(qp);
	return rc;
}

static int is_lost(const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_SUCCESS)
		return 0;
	if (wc->status != IBV_WC_WR_FLUSH_ERR) {
		shim.broken = shim.broken ? shim.broken : wc->qp_num;
		return 0;
	}
	return wc->qp_num == shim.broken && ++shim.flushed == shim.lose;
}

static struct ibv_qp *numbered(uint32_t number)
{
	struct ibv_qp *qp;
	unsigned long i;

	for (i = 0; i < QPS_MAX; i++) {
		qp = made(i);
		if (qp && qp->qp_num == number)
			return qp;
	}
	return NULL;
}

/* What a device had done behind it was not done. */
static void fail_one(struct ibv_wc *wc)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp *qp;

	if (wc->status != IBV_WC_SUCCESS ||
	    (wc->opcode != IBV_WC_RDMA_WRITE && wc->opcode != IBV_WC_RDMA_READ))
		return;
	if (wc->qp_num == shim.failed)
		wc->status = IBV_WC_WR_FLUSH_ERR;
	qp = numbered(wc->qp_num);
	if (!qp ||
	    __atomic_add_fetch(&shim.completed, 1, __ATOMIC_RELAXED) != (unsigned long)shim.fail)
		return;
	shim.failed = wc->qp_num;
	wc->status = (enum ibv_wc_status)strtol(shim.status, NULL, 0);
	wc->vendor_err = 0x8a;
	REAL(ibv_modify_qp)(qp, &attr, IBV_QP_STATE);
}

static int poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
	int n = shim.ops.poll_cq(cq, max, wc), i, out = 0;

	for (i = 0; i < n && shim.fail >= 0; i++)
		fail_one(&wc[i]);
	if (shim.lose < 0 || n <= 0)
		return n;
	for (i = 0; i < n; i++)
		if (!is_lost(&wc[i]))
			wc[out++] = wc[i];
	return out;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *context = REAL(ibv_open_device)(device);

	if (!context)
		return NULL;
	if (context->ops.post_send != post_send)
		shim.ops = context->ops;
	context->ops.post_send = post_send;
	context->ops.poll_cq = poll_cq;
	return context;
}

/* Each of those that are opened first hears it once. */
static int is_news(const struct ibv_context *context)
{
	unsigned int i;

	for (i = 0; i < 8 && shim.told[i]; i++)
		if (shim.told[i] == context)
			return 0;
	if (i < 8)
		shim.told[i] = context;
	return i < 8;
}

EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	if (is_gone() && is_news(context)) {
		*event = (struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL};
		return 0;
	}
	return REAL(ibv_get_async_event)(context, event);
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	if (event->event_type != IBV_EVENT_DEVICE_FATAL)
		REAL(ibv_ack_async_event)(event);
}

/* ---- what a device can do ---- */

EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	int rc = REAL(ibv_query_device)(context, attr);

	if (shim.mr >= 0)
		attr->max_mr_size = (uint64_t)shim.mr;
	if (shim.reads >= 0)
		attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = (int)shim.reads;
	if (shim.cqe >= 0)
		attr->max_cqe = (int)shim.cqe;
	if (shim.sge_rd >= 0)
		attr->max_sge_rd = (int)shim.sge_rd;
	return rc;
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	uint32_t requests = attr->cap.max_send_wr;
	struct ibv_qp *qp, *none = NULL;
	unsigned long i;

	if (requests == (unsigned long)shim.refuse) {
		errno = ENOMEM;
		return NULL;
	}
	if (shim.inlined >= 0 && attr->cap.max_inline_data > (uint32_t)shim.inlined) {
		errno = EINVAL;
		return NULL;
	}
	qp = REAL(ibv_create_qp)(pd, attr);
	if (qp && shim.inlined >= 0)
		attr->cap.max_inline_data = (uint32_t)shim.inlined;
	if (!qp)
		return NULL;
	/* Those that have no place are not known again. */
	for (i = 0; i < QPS_MAX; i++)
		if (__atomic_compare_exchange_n(&shim.qps[i], &none, qp, 0, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED))
			break;
		else
			none = NULL;
	if (i < QPS_MAX)
		__atomic_store_n(&shim.mutes[i], requests == (unsigned long)shim.mute,
				 __ATOMIC_RELEASE);
	return qp;
}

/* Other pages under these addresses. */
static struct ibv_mr *reg_opaque(struct ibv_pd *pd, const void *addr, size_t length, uint64_t iova,
				 unsigned int access)
{
	size_t in = (uintptr_t)addr % (size_t)sysconf(_SC_PAGESIZE), len = in + length;
	unsigned int i;
	char *p;

	for (i = 0; i < 8 && shim.opaques[i].mr; i++)
		;
	if (i == 8)
		return NULL;
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	memset(p, 0x5a, len);
	shim.opaques[i].pages = p;
	shim.opaques[i].len = len;
	shim.opaques[i].mr = REAL(ibv_reg_mr_iova2)(pd, p + in, length, iova, access);
	if (!shim.opaques[i].mr)
		munmap(p, len);
	return shim.opaques[i].mr;
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				       unsigned int access)
{
	struct ibv_mr *mr;

	if (shim.mr >= 0 && length > (size_t)shim.mr) {
		errno = EINVAL;
		return NULL;
	}
	mr = REAL(ibv_reg_mr_iova2)(pd, addr, length, iova, access);
	if (!mr && errno == EFAULT && shim.opaque)
		mr = reg_opaque(pd, addr, length, iova, access);
	return mr;
}

static int cqe_ok(int cqe)
{
	if (shim.cqe < 0 || cqe <= shim.cqe)
		return 1;
	errno = EINVAL;
	return 0;
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *owner,
				    struct ibv_comp_channel *channel, int vector)
{
	return cqe_ok(cqe) ? REAL(ibv_create_cq)(context, cqe, owner, channel, vector) : NULL;
}

EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	if (!shim.resize)
		return EOPNOTSUPP;
	return cqe_ok(cqe) ? REAL(ibv_resize_cq)(cq, cqe) : EINVAL;
}

EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
				    size_t max, uint32_t flags, size_t entry_size)
{
	if (!shim.gids)
		return -EOPNOTSUPP;
	return REAL(_ibv_query_gid_table)(context, entries, max, flags, entry_size);
}

/* ---- what is passed on ---- */

#undef ibv_get_device_list

EXPORT struct ibv_device **ibv_get_device_list(int *n)
{
	return REAL(ibv_get_device_list)(n);
}

EXPORT void ibv_free_device_list(struct ibv_device **list)
{
	REAL(ibv_free_device_list)(list);
}

EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
	return REAL(ibv_get_device_name)(device);
}

EXPORT int ibv_close_device(struct ibv_context *context)
{
	return REAL(ibv_close_device)(context);
}

EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	return REAL(ibv_query_pkey)(context, port, index, pkey);
}

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	return REAL(ibv_alloc_pd)(context);
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return REAL(ibv_dealloc_pd)(pd);
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	int rc = REAL(ibv_dereg_mr)(mr);
	unsigned int i;

	for (i = 0; i < 8 && !rc; i++) {
		if (shim.opaques[i].mr != mr)
			continue;
		munmap(shim.opaques[i].pages, shim.opaques[i].len);
		shim.opaques[i].mr = NULL;
	}
	return rc;
}

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	return REAL(ibv_create_comp_channel)(context);
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	return REAL(ibv_destroy_comp_channel)(channel);
}

EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
	return REAL(ibv_destroy_cq)(cq);
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **owner)
{
	return REAL(ibv_get_cq_event)(channel, cq, owner);
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	REAL(ibv_ack_cq_events)(cq, n);
}

/* Several threads may call it at once, each for a QP of its own. */
EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	int rc = REAL(ibv_modify_qp)(qp, attr, mask);

	pthread_mutex_lock(&lock);
	if (!rc && mask & IBV_QP_AV && shim_nroutes < 256) {
		shim_routes[shim_nroutes].sl = attr->ah_attr.sl;
		shim_routes[shim_nroutes++].tclass = attr->ah_attr.grh.traffic_class;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	unsigned long i;

	for (i = 0; i < QPS_MAX; i++)
		if (made(i) == qp)
			__atomic_store_n(&shim.qps[i], NULL, __ATOMIC_RELEASE);
	return REAL(ibv_destroy_qp)(qp);
}
