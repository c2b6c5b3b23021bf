/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints, and the helper thread that opens and closes them while the engine runs. */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/poll.h>
#include <time.h>
#include <unistd.h>
#include "backend/fabric/key.h"

#define BUSY_NS	     (2 * NSEC_PER_MSEC) /* until a busy object is closed again */
#define BUSY_MAX_NS  (2 * NSEC_PER_SEC)	 /* longest time that the control thread waits for that */
#define NAMES_TAKEN  1024u		 /* names in use that are skipped, at most */
#define SETTLE_READS 8u			 /* polls that complete a connection that has arrived */

/* ---- endpoints ---- */

static int queue_open(struct fabric_device *d, struct fabric_endpoint *endpoint, uint32_t size)
{
	struct fi_cq_attr attr = {.size = size > d->cq_size ? size : d->cq_size,
				  .format = FI_CQ_FORMAT_MSG,
				  .wait_obj = d->waits ? FI_WAIT_FD : FI_WAIT_NONE};
	int err = fi_cq_open(d->domain, &attr, &endpoint->cq, NULL);

	if (!err && d->waits)
		err = fi_control(&endpoint->cq->fid, FI_GETWAIT, &endpoint->fd);
	return err;
}

static int addresses_open(struct fabric_device *d, struct fabric_endpoint *endpoint)
{
	struct fi_av_attr attr = {.type = FI_AV_TABLE};

	if (d->info->domain_attr->av_type != FI_AV_UNSPEC)
		attr.type = d->info->domain_attr->av_type;
	return fi_av_open(d->domain, &attr, &endpoint->av, NULL);
}

static int endpoint_enable(struct fabric_endpoint *endpoint)
{
	size_t len = FABRIC_NAME;
	int err;

	err = fi_ep_bind(endpoint->ep, &endpoint->av->fid, 0);
	if (!err)
		err = fi_ep_bind(endpoint->ep, &endpoint->cq->fid, FI_TRANSMIT | FI_RECV);
	if (!err)
		err = fi_enable(endpoint->ep);
	if (!err)
		err = fi_getname(&endpoint->ep->fid, endpoint->address, &len);
	if (!err)
		endpoint->name_len = endpoint->address_len = (uint32_t)len;
	return err;
}

/* 1: peers read and write by this endpoint. */
static int is_target(const struct fabric_device *d, const struct fabric_endpoint *endpoint)
{
	return d->shared ? endpoint == &d->target : endpoint != &d->msg;
}

/* The word that the peer READs as proof. */
static int proof_open(struct fabric_device *d, struct fabric_endpoint *endpoint)
{
	uint64_t len = sizeof(d->proof[0]);
	int err;

	if (!d->acks || !is_target(d, endpoint))
		return 0;
	err = fabric_region_open(d, endpoint, &d->proof[0], len, FI_REMOTE_READ, &endpoint->proof);
	if (!err)
		err = fabric_part_put(d, endpoint->proof, &d->proof[0], len,
				      endpoint->address + endpoint->name_len);
	endpoint->address_len += fabric_part_bytes(d);
	return err;
}

/* 1: the error of an endpoint for a peer may mean that there are too many peers. */
static int is_one_too_many(const struct fabric_device *d, const struct fabric_endpoint *endpoint,
			   const char *what, int err)
{
	if (endpoint == &d->msg || d->shared ||
	    (strcmp(what, "fi_endpoint") && strcmp(what, "fi_enable")))
		return 0;
	return err == -FI_ENOSPC || err == -FI_ENOMEM;
}

static int endpoint_refused(const struct fabric_device *d, const struct fabric_endpoint *endpoint,
			    const char *what, int err)
{
	const struct fi_domain_attr *a = d->info->domain_attr;

	if (is_one_too_many(d, endpoint, what, err))
		return fail(err,
			    "libfabric: %s of %s: %s; each peer takes an endpoint, of which it "
			    "says to have %zu: set max_warm so that idle ones give theirs back",
			    what, a->name, d->lib.strerror(-err), a->ep_cnt);
	return fail(err, "libfabric: %s of %s: %s", what, a->name, d->lib.strerror(-err));
}

static int endpoint_try(struct fabric_device *d, struct fabric_endpoint *endpoint, uint32_t queue)
{
	const char *what = "fi_cq_open";
	int err;

	memset(endpoint, 0, sizeof(*endpoint));
	endpoint->d = d;
	endpoint->peer = FI_ADDR_UNSPEC;
	list_init(&endpoint->names);
	err = queue_open(d, endpoint, queue);
	if (!err) {
		what = "fi_av_open";
		err = addresses_open(d, endpoint);
	}
	if (!err) {
		what = "fi_endpoint";
		err = fi_endpoint(d->domain, d->info, &endpoint->ep, NULL);
	}
	if (!err) {
		what = NULL;
		err = fabric_shm_forbid(d, endpoint->ep);
	}
	if (!err) {
		what = "fi_setopt";
		err = fabric_hmem_open(d, endpoint);
	}
	if (!err) {
		what = "fi_enable";
		err = endpoint_enable(endpoint);
	}
	if (!err) {
		what = "fi_mr_reg";
		err = proof_open(d, endpoint);
	}
	if (!err)
		return 0;
	/* Busy objects are closed later, with their owner. */
	fabric_endpoint_close(endpoint);
	return what ? endpoint_refused(d, endpoint, what, err) : err;
}

/* Provider shm names an endpoint in /dev/shm by process number and a counter. Files that a killed
 * process left may have the name of a later process. */
int fabric_endpoint_open(struct fabric_device *d, struct fabric_endpoint *endpoint, uint32_t queue)
{
	uint32_t tries = d->apart ? NAMES_TAKEN : 1;
	int err;

	do
		err = endpoint_try(d, endpoint, queue);
	while (err == -FI_EBUSY && !endpoint->cq && --tries);
	return err;
}

/* With shared endpoints it has only a name and a proof part, the target's. */
int fabric_endpoint_make(struct fabric_device *d, struct fabric_endpoint *endpoint)
{
	if (!d->shared)
		return fabric_endpoint_open(d, endpoint, FABRIC_OPS);
	*endpoint = (struct fabric_endpoint){.d = d,
					     .name_len = d->target.name_len,
					     .address_len = d->target.address_len};
	memcpy(endpoint->address, d->target.address, sizeof(endpoint->address));
	return 0;
}

/* tcp of libfabric 2 closes an endpoint under incoming connections, and uses its memory when they
 * go on (prov/tcp/src/xnet_pep.c says so). Polls let connections under way arrive first. */
static void settle(struct fabric_endpoint *endpoint)
{
	uint32_t i;

	for (i = 0; i < SETTLE_READS; i++)
		fi_cq_read(endpoint->cq, NULL, 0);
	endpoint->settled = 1;
}

int fabric_fid_close(struct fid *fid)
{
	int err = fi_close(fid);

	return err == -FI_EBUSY || err == -FI_EAGAIN ? -FI_EBUSY : 0;
}

int fabric_endpoint_close(struct fabric_endpoint *endpoint)
{
	if (endpoint->has_theirs)
		fabric_part_free(endpoint->d, &endpoint->theirs);
	endpoint->has_theirs = 0;
	if (endpoint->proof && fabric_fid_close(&endpoint->proof->fid))
		return -FI_EBUSY;
	endpoint->proof = NULL;
	if (endpoint->ep && endpoint->name_len &&
	    !endpoint->settled) /* without a name nobody can connect */
		settle(endpoint);
	if (endpoint->ep && fabric_fid_close(&endpoint->ep->fid))
		return -FI_EBUSY;
	endpoint->ep = NULL;
	if (endpoint->av && fabric_fid_close(&endpoint->av->fid))
		return -FI_EBUSY;
	if (endpoint->av)
		fabric_shared_forget(endpoint);
	endpoint->av = NULL;
	if (endpoint->cq && fabric_fid_close(&endpoint->cq->fid))
		return -FI_EBUSY;
	endpoint->cq = NULL;
	return 0;
}

/* ---- for threads that may wait ---- */

/* 1: try again, after a pause without the domain lock. */
static int is_tried_again(struct fabric_device *d, uint64_t until)
{
	struct timespec moment = {.tv_nsec = (long)BUSY_NS};

	if (clock_ns() >= until)
		return 0;
	fabric_domain_unlock(d);
	nanosleep(&moment, NULL);
	fabric_domain_lock(d);
	return 1;
}

int fabric_fid_end(struct fabric_device *d, struct fid *fid)
{
	uint64_t until = clock_ns() + BUSY_MAX_NS;
	int err;

	do
		err = fabric_fid_close(fid);
	while (err && is_tried_again(d, until));
	return err;
}

int fabric_endpoint_end(struct fabric_device *d, struct fabric_endpoint *endpoint)
{
	uint64_t until = clock_ns() + BUSY_MAX_NS;
	int err;

	do
		err = fabric_endpoint_close(endpoint);
	while (err && is_tried_again(d, until));
	return err;
}

int fabric_peer_add(struct fid_av *av, const void *name, fi_addr_t *peer)
{
	int n = fi_av_insert(av, name, 1, peer, 0, NULL);

	return n == 1 ? 0 : n < 0 ? n : -EINVAL;
}

int fabric_name_fits(const struct fabric_device *d, const uint8_t *name, uint32_t len)
{
	switch (d->info->addr_format) {
	case FI_ADDR_STR:
		return len && len < FABRIC_NAME && !name[len - 1];
	case FI_SOCKADDR:
	case FI_SOCKADDR_IN:
	case FI_SOCKADDR_IN6:
	case FI_SOCKADDR_IB:
		return len == d->msg.name_len && !memcmp(name, d->msg.address, sizeof(sa_family_t));
	default:
		return len == d->msg.name_len;
	}
}

/* Names of provider shm begin with the process number: fi_shm://PID:USER:ENDPOINT. */
static int is_of_this_process(const struct fabric_device *d, const uint8_t *name, uint32_t len)
{
	const char *ours = (const char *)d->msg.address, *pid = strstr(ours, "://");
	size_t head = pid ? (size_t)(pid - ours) + 3 + strcspn(pid + 3, ":") + 1 : SIZE_MAX;

	return head <= len && head <= d->msg.name_len && !memcmp(name, ours, head);
}

int fabric_name_error(const struct fabric_device *d, const uint8_t *name, uint32_t len)
{
	sa_family_t ours, theirs;

	if (fabric_name_fits(d, name, len))
		return d->apart && is_of_this_process(d, name, len) ? -EOPNOTSUPP : 0;
	memcpy(&ours, d->msg.address, sizeof(ours));
	memcpy(&theirs, name, sizeof(theirs));
	if ((ours == AF_INET && theirs == AF_INET6) || (ours == AF_INET6 && theirs == AF_INET))
		return -EAFNOSUPPORT;
	return -EINVAL;
}

static uint32_t proof_bytes(const struct fabric_device *d)
{
	return d->acks ? fabric_part_bytes(d) : 0;
}

int fabric_address_fits(const struct fabric_device *d, const uint8_t *address, uint32_t len)
{
	uint32_t more = proof_bytes(d);

	return len > more && len <= FABRIC_ADDRESS && fabric_name_fits(d, address, len - more);
}

/* ---- helper thread ---- */

static int job_join(struct fabric_device *d, struct fabric_ep *e)
{
	uint32_t more = proof_bytes(d);
	int err = e->joined ? 0 : fabric_av_insert(d, e->av_entry);

	if (!err && more) {
		const uint8_t *part = e->join_address + e->join_len - more;

		fabric_part_read(part, &e->endpoint.theirs);
		err = fabric_part_map(d, fabric_part_raw(part), &e->endpoint.theirs);
		e->endpoint.has_theirs = !err;
	}
	return err || d->shared
		       ? err
		       : fabric_peer_add(e->endpoint.av, e->join_address, &e->endpoint.peer);
}

static int close_joined(struct fabric_device *d, struct fabric_ep *e)
{
	if (d->tcp && e->reads && e->endpoint.ep)
		fabric_tcp_settle(e);
	return fabric_endpoint_close(&e->endpoint);
}

static int job_end(struct fabric_device *d, struct fabric_ep *e)
{
	struct fabric_grant *g;
	int err = 0;

	/* Regions that belong to the endpoint are closed first; pins stay. */
	list_for_each_entry(g, &e->grants, link) {
		if (!g->pin && fabric_grant_close(g))
			err = -FI_EBUSY;
	}
	if (!err && d->shared)
		fabric_shared_part(d, e);
	return err ? err : close_joined(d, e);
}

static int job_close(struct fabric_device *d, struct fabric_ep *e)
{
	int err = fabric_bound_close(e);

	return err ? err : close_joined(d, e);
}

int fabric_helper_work(struct fabric_device *d, struct msg *m)
{
	switch (m->type) {
	case JOB_JOIN:
		return job_join(d, container_of(m, struct fabric_ep, job));
	case JOB_CLOSE:
		return job_close(d, container_of(m, struct fabric_ep, job));
	case JOB_OPEN:
		return fabric_endpoint_make(d, &container_of(m, struct fabric_ep, job)->endpoint);
	case JOB_END:
		return job_end(d, container_of(m, struct fabric_ep, job));
	case JOB_INSERT:
		return fabric_shared_insert(d, container_of(m, struct fabric_ep, job));
	case JOB_SPARE:
		return fabric_shared_spare(d, container_of(m, struct fabric_initiator, job));
	case JOB_RETIRE:
		return fabric_shared_retire(container_of(m, struct fabric_initiator, job));
	case JOB_FILL:
		return fabric_grant_fill(d, container_of(m, struct fabric_grant, fill));
	case JOB_FORGET:
		fabric_av_remove(d, container_of(m, struct fabric_av_entry, job));
		return 0;
	default:
		return fabric_grant_close(container_of(m, struct fabric_grant, job));
	}
}

static void helper_sleep(struct mailbox *m, int ms)
{
	struct pollfd pfd = {.fd = m->fd, .events = POLLIN};

	if (mailbox_arm(m))
		return;
	poll(&pfd, 1, ms);
	wake_drain(m->fd);
}

static int closes(uint32_t job)
{
	return job != JOB_JOIN && job != JOB_OPEN && job != JOB_FILL && job != JOB_INSERT &&
	       job != JOB_SPARE;
}

/* 1: urccl_close() may leave the thread in this job, which only uses memory of its own and of the
 * provider. Not in JOB_FILL: it pins the program's memory, which may take long. */
static int can_be_left(uint32_t job)
{
	return job != JOB_FILL;
}

int fabric_helper_is_stuck(struct fabric_device *d, uint64_t since)
{
	uint64_t began = load_acquire(&d->in_job);

	since = began > since ? began : since;
	return began && clock_ns() - since >= LEAVE_NS;
}

static int is_left(const struct fabric_device *d)
{
	return (int)load_acquire(&d->dev.left);
}

/* 1: done and answered. 0: an object is busy, or more is to be filled; nothing is answered yet. */
static int job_run(struct fabric_device *d, struct msg *m)
{
	uint64_t since;
	int res;

	fabric_domain_lock(d);
	/* The time of waiting for the lock does not count: a registration may have it. */
	since = d->busy_since ? d->busy_since : clock_ns();
	store_release(&d->in_job, can_be_left(m->type) ? since : 0);
	res = fabric_helper_work(d, m);
	store_release(&d->in_job, d->busy_since);
	fabric_domain_unlock(d);
	if ((res == -FI_EBUSY && closes(m->type)) || res > 0)
		return 0;
	msg_reply(m, res);
	return 1;
}

/* Runs the busy jobs again, and removes those that are done. */
static void jobs_again(struct fabric_device *d, struct msg **list)
{
	struct msg *m, *next;

	for (m = *list; m; m = next) {
		next = m->next;
		if (!job_run(d, m)) {
			list = &m->next;
			continue;
		}
		*list = next;
		d->busy_since = clock_ns(); /* there is progress */
	}
}

/* ---- JOB_FILL: one region at a time, since each may take long and others must not wait ---- */

static void fill_add(struct msg **list, struct msg *m)
{
	while (*list)
		list = &(*list)->next;
	m->next = NULL;
	*list = m;
}

static void fill_on(struct fabric_device *d, struct msg **list)
{
	struct msg *m = *list, *next = m ? m->next : NULL;

	if (!m)
		return;
	*list = next;
	if (!job_run(d, m))
		fill_add(list, m);
}

/* Ends the fills of objects that the job closes; the importer asks again. */
static void fills_stop(struct msg **list, const struct msg *job)
{
	const struct fabric_ep *e;

	if (job->type == JOB_KEY)
		e = container_of(job, struct fabric_grant, job)->ep;
	else if (job->type == JOB_CLOSE || job->type == JOB_END)
		e = container_of(job, struct fabric_ep, job);
	else
		return;
	while (*list) {
		struct msg *m = *list;

		if (container_of(m, struct fabric_grant, fill)->ep != e) {
			list = &m->next;
			continue;
		}
		*list = m->next;
		msg_reply(m, -FI_EAGAIN);
	}
}

static void *helper_ends(struct fabric_device *d)
{
	fabric_domain_close(d);
	store_release(&d->stopped, 1);
	futex_wake(&d->stopped);
	return NULL;
}

static void *helper_run(void *arg)
{
	struct fabric_device *d = arg;
	struct msg *m, *next, *busy = NULL, *fills = NULL;

	for (;;) {
		m = mailbox_take(&d->to_helper);
		if (!m && !fills)
			helper_sleep(&d->to_helper, busy ? (int)(BUSY_NS / NSEC_PER_MSEC) : -1);
		jobs_again(d, &busy);
		for (; m && !is_left(d); m = next) {
			next = m->next;
			if (m->type == JOB_STOP)
				return helper_ends(d);
			if (m->type == JOB_FILL) {
				fill_add(&fills, m);
				continue;
			}
			fills_stop(&fills, m);
			if (job_run(d, m))
				continue;
			m->next = busy;
			busy = m;
		}
		fill_on(d, &fills);
		if (!busy)
			d->busy_since = 0;
		else if (!d->busy_since)
			d->busy_since = clock_ns();
		store_release(&d->in_job, d->busy_since);
		if (is_left(d))
			return NULL;
	}
}

int fabric_helper_start(struct fabric_device *d, const struct urccl_params *p)
{
	struct thread_how how = {.prefix = p->thread_name,
				 .part = "fabric",
				 .setting = "control",
				 .cpus = p->control_cpus,
				 .nice = p->control_nice};
	struct epoll_event ev = {.events = EPOLLIN};
	int fd = wake_open(), err;

	if (fd < 0)
		return fail_errno(fd, "libfabric: no descriptor for a helper thread");
	mailbox_init(&d->to_helper, fd);
	fd = wake_open();
	if (fd < 0)
		return fail_errno(fd, "libfabric: no descriptor for a helper thread");
	mailbox_init(&d->from_helper, fd);
	if (epoll_ctl(d->dev.fd, EPOLL_CTL_ADD, fd, &ev))
		return fail_errno(-errno, "libfabric: no room in epoll");
	err = thread_start(&d->thread, &how, helper_run, d);
	d->has_thread = !err;
	return err;
}

void fabric_helper_end(struct fabric_device *d)
{
	if (!d->has_thread || d->stop_ns)
		return;
	d->stop_ns = clock_ns() + LEAVE_NS;
	d->stop.type = JOB_STOP;
	mailbox_post(&d->to_helper, &d->stop);
}

/* 1: the helper thread has stopped in time. */
static int helper_stops(struct fabric_device *d)
{
	uint64_t now;

	fabric_helper_end(d);
	while (!load_acquire(&d->stopped)) {
		now = clock_ns();
		if (now >= d->stop_ns)
			return 0;
		futex_wait(&d->stopped, 0, d->stop_ns - now);
	}
	return 1;
}

int fabric_helper_stop(struct fabric_device *d)
{
	if (!d->has_thread) {
		fabric_domain_close(d);
	} else if (helper_stops(d)) {
		pthread_join(d->thread, NULL);
	} else {
		pthread_detach(d->thread);
		return -EBUSY;
	}
	fd_close(d->to_helper.fd);
	fd_close(d->from_helper.fd);
	return 0;
}
