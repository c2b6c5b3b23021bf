/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints, and the thread that opens and closes them while the engine goes on. */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/poll.h>
#include <unistd.h>
#include "backend/fabric_key.h"

#define SETTLE_READS 8u /* of what a connection that has come needs to be made */

/* ---- endpoints ---- */

static int queue_open(struct fabric_device *d, struct fabric_way *way, uint32_t size)
{
	struct fi_cq_attr attr = {.size = size > d->cq_size ? size : d->cq_size,
				  .format = FI_CQ_FORMAT_MSG,
				  .wait_obj = d->waits ? FI_WAIT_FD : FI_WAIT_NONE};

	return fi_cq_open(d->domain, &attr, &way->cq, NULL);
}

/* epoll forgets the descriptor when the queue is closed. */
static int queue_watch(struct fabric_device *d, struct fabric_way *way)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int fd, err;

	if (!d->waits)
		return 0;
	err = fi_control(&way->cq->fid, FI_GETWAIT, &fd);
	if (err)
		return err;
	if (!epoll_ctl(d->dev.fd, EPOLL_CTL_ADD, fd, &ev))
		return 0;
	/* The kernel bounds by how many epolls one thing can be watched, and providers have things
	 * that all their queues watch. */
	if (errno != EINVAL)
		return -errno;
	store_release(&d->unwatched, 1);
	return 0;
}

static int addresses_open(struct fabric_device *d, struct fabric_way *way)
{
	struct fi_av_attr attr = {.type = FI_AV_TABLE};

	if (d->info->domain_attr->av_type != FI_AV_UNSPEC)
		attr.type = d->info->domain_attr->av_type;
	return fi_av_open(d->domain, &attr, &way->av, NULL);
}

static int endpoint_enable(struct fabric_way *way)
{
	size_t len = FABRIC_NAME;
	int err;

	err = fi_ep_bind(way->ep, &way->av->fid, 0);
	if (!err)
		err = fi_ep_bind(way->ep, &way->cq->fid, FI_TRANSMIT | FI_RECV);
	if (!err)
		err = fi_enable(way->ep);
	if (!err)
		err = fi_getname(&way->ep->fid, way->word, &len);
	if (!err)
		way->name_len = way->word_len = (uint32_t)len;
	return err;
}

/* What the peer READs for a proof. Its own messages need none. */
static int proof_open(struct fabric_device *d, struct fabric_way *way)
{
	uint64_t len = sizeof(d->proof[0]);
	int err;

	if (!d->acks || way == &d->talk)
		return 0;
	err = fabric_region_open(d, way, &d->proof[0], len, FI_REMOTE_READ, &way->proof);
	if (!err)
		err = fabric_part_put(d, way->proof, &d->proof[0], len, way->word + way->name_len);
	way->word_len += fabric_part_bytes(d);
	return err;
}

int fabric_way_open(struct fabric_device *d, struct fabric_way *way, uint32_t queue)
{
	const char *what = "fi_cq_open";
	int err;

	memset(way, 0, sizeof(*way));
	way->d = d;
	way->peer = FI_ADDR_UNSPEC;
	err = queue_open(d, way, queue);
	if (!err) {
		what = "fi_av_open";
		err = addresses_open(d, way);
	}
	if (!err) {
		what = "fi_endpoint";
		err = fi_endpoint(d->domain, d->info, &way->ep, NULL);
	}
	if (!err) {
		what = NULL;
		err = fabric_shm_forbid(d, way->ep);
	}
	if (!err) {
		what = "fi_enable";
		err = endpoint_enable(way);
	}
	if (!err) {
		what = "fi_mr_reg";
		err = proof_open(d, way);
	}
	if (!err) {
		what = "epoll_ctl";
		err = queue_watch(d, way);
	}
	if (!err)
		return 0;
	fabric_way_close(way);
	return !what ? err : fail(err, "libfabric: %s of %s: %s", what, d->info->domain_attr->name,
		    d->lib.strerror(-err));
}

/* tcp of libfabric 2 closes an endpoint under connections that are just being made to it, and reads
 * its memory when they go on (prov/tcp/src/xnet_pep.c says so): those that are on their way here
 * arrive first. */
static void settle(struct fabric_way *way)
{
	uint32_t i;

	for (i = 0; i < SETTLE_READS; i++)
		fi_cq_read(way->cq, NULL, 0);
}

void fabric_way_close(struct fabric_way *way)
{
	if (way->has_theirs)
		fabric_part_free(way->d, &way->theirs);
	if (way->proof)
		fi_close(&way->proof->fid);
	if (way->ep && way->name_len) /* else it was not enabled, and nobody could connect */
		settle(way);
	if (way->ep)
		fi_close(&way->ep->fid);
	if (way->av)
		fi_close(&way->av->fid);
	if (way->cq)
		fi_close(&way->cq->fid);
	way->has_theirs = 0;
	way->proof = NULL;
	way->ep = NULL;
	way->av = NULL;
	way->cq = NULL;
}

static int peer_add(struct fid_av *av, const void *name, fi_addr_t *peer)
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
		return len == d->talk.name_len && !memcmp(name, d->talk.word, sizeof(sa_family_t));
	default:
		return len == d->talk.name_len;
	}
}

int fabric_name_error(const struct fabric_device *d, const uint8_t *name, uint32_t len)
{
	sa_family_t ours, theirs;

	if (fabric_name_fits(d, name, len))
		return 0;
	memcpy(&ours, d->talk.word, sizeof(ours));
	memcpy(&theirs, name, sizeof(theirs));
	if ((ours == AF_INET && theirs == AF_INET6) || (ours == AF_INET6 && theirs == AF_INET))
		return -EAFNOSUPPORT;
	return -EINVAL;
}

static uint32_t proof_bytes(const struct fabric_device *d)
{
	return d->acks ? fabric_part_bytes(d) : 0;
}

int fabric_word_fits(const struct fabric_device *d, const uint8_t *word, uint32_t len)
{
	uint32_t more = proof_bytes(d);

	return len > more && len <= FABRIC_WORD && fabric_name_fits(d, word, len - more);
}

/* ---- the helper ---- */

static int join(struct fabric_device *d, struct fabric_ep *e)
{
	uint32_t more = proof_bytes(d);
	int err = e->joined ? 0 : peer_add(d->talk.av, e->talk_name, &e->peer);

	if (!err && more) {
		const uint8_t *part = e->join_word + e->join_len - more;

		err = fabric_part_read(d, part, &e->way.theirs);
		e->way.has_theirs = !err;
	}
	return err ? err : peer_add(e->way.av, e->join_word, &e->way.peer);
}

static void end(struct fabric_ep *e)
{
	struct list *pos;

	/* Regions that are of the way go first. */
	if (!e->way.d->bound)
		fabric_way_close(&e->way);
	list_for_each(pos, &e->grants)
		fabric_grant_close(list_entry(pos, struct fabric_grant, link));
	fabric_way_close(&e->way);
}

int fabric_helper_work(struct fabric_device *d, struct msg *m)
{
	switch (m->type) {
	case JOB_JOIN:
		return join(d, container_of(m, struct fabric_ep, job));
	case JOB_CLOSE:
		fabric_bound_close(container_of(m, struct fabric_ep, job));
		fabric_way_close(&container_of(m, struct fabric_ep, job)->way);
		return 0;
	case JOB_OPEN:
		return fabric_way_open(d, &container_of(m, struct fabric_ep, job)->way, FABRIC_OPS);
	case JOB_END:
		end(container_of(m, struct fabric_ep, job));
		return 0;
	default:
		fabric_grant_close(container_of(m, struct fabric_grant, job));
		return 0;
	}
}

static void helper_sleep(struct mailbox *m)
{
	struct pollfd pfd = {.fd = m->fd, .events = POLLIN};

	if (mailbox_arm(m))
		return;
	poll(&pfd, 1, -1);
	wake_drain(m->fd);
}

static void *helper_run(void *arg)
{
	struct fabric_device *d = arg;
	struct msg *m, *next;
	int res;

	for (;;) {
		m = mailbox_take(&d->to_helper);
		if (!m)
			helper_sleep(&d->to_helper);
		for (; m; m = next) {
			next = m->next;
			if (m->type == JOB_STOP)
				return NULL;
			fabric_turn_take(d);
			res = fabric_helper_work(d, m);
			fabric_turn_end(d);
			msg_reply(m, res);
		}
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

void fabric_helper_stop(struct fabric_device *d)
{
	if (d->has_thread) {
		d->stop.type = JOB_STOP;
		mailbox_post(&d->to_helper, &d->stop);
		pthread_join(d->thread, NULL);
	}
	if (d->to_helper.fd >= 0)
		close(d->to_helper.fd);
	if (d->from_helper.fd >= 0)
		close(d->from_helper.fd);
}
