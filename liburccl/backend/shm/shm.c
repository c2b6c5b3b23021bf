/* SPDX-License-Identifier: Apache-2.0 */
/* Same host: the device and its eps. ring.c and mapping.c move bytes, listener.c and link.c
 * connect. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "backend/shm/shm.h"

#define GRANTS	   (1u << HANDLE_SLOT_BITS)
#define LAST_WORDS (1u << 20) /* bytes read per channel after a hang-up */

static struct shm_dev *shm_dev(struct device *dev)
{
	return container_of(dev, struct shm_dev, dev);
}

static struct shm_ep *shm_ep(struct ep *ep)
{
	return container_of(ep, struct shm_ep, ep);
}

/* ---- device ---- */

static int params_check(const struct urccl_params *p)
{
	if (p->socket_dir && !shm_listener_dir_fits(p->socket_dir))
		return fail(-ENAMETOOLONG, "socket_dir: \"%s\" is too long for a unix socket in it",
			    p->socket_dir);
	if (p->socket_dir && access(p->socket_dir, W_OK | X_OK))
		return fail(-errno,
			    "socket_dir: no socket can be made in \"%s\": %s; make it, and let "
			    "this user write to it",
			    p->socket_dir, errno_text(errno));
	return 0;
}

/* Tries once to make the pages that every ep needs, so that open fails with the reason. */
static int memory_check(void)
{
	struct shm_pages pages = {0};
	int fd = shm_pages_make(&pages);

	if (fd == -EFBIG)
		return fd; /* its fail() text is set */
	if (fd < 0)
		return fail(fd, "shm: no sealed memfd can be made and mapped: %s", errno_text(-fd));
	shm_pages_drop(&pages);
	close(fd);
	return 0;
}

static int fds_open(struct shm_dev *d)
{
	/* No ep is at address 0. */
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = 0};
	int err;

	d->dev.fd = epoll_create1(EPOLL_CLOEXEC);
	if (d->dev.fd < 0)
		return fail_errno(-errno, "shm: no epoll descriptor");
	d->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (d->timer >= 0 && !epoll_ctl(d->dev.fd, EPOLL_CTL_ADD, d->timer, &ev))
		return 0;
	err = fail_errno(-errno, "shm: no timer descriptor");
	fd_close(d->timer);
	close(d->dev.fd);
	return err;
}

static int shm_device_open(const struct device_config *config, struct device **dev)
{
	const char *dir = config->params->socket_dir;
	struct shm_dev *d;
	int err = params_check(config->params);

	if (!err)
		err = memory_check();
	if (err)
		return err;
	d = calloc(1, sizeof(*d));
	if (!d)
		return fail(-ENOMEM, "no memory for the shm device");
	d->socket_dir = dir ? strdup(dir) : NULL;
	err = handles_init(&d->grants, GRANTS, HANDLE_INTERNAL);
	if (err || (dir && !d->socket_dir)) {
		err = fail(-ENOMEM, "no memory for the shm device's tables");
		goto free_tables;
	}
	if (shm_gpu_open(d)) {
		err = fail(-ENOMEM, "no memory for the shm device's tables");
		goto free_tables;
	}
	err = fds_open(d);
	if (err)
		goto free_tables;
	d->no_bounce = config->params->bounce == URCCL_ALLOW_NO;
	d->by_owner = config->params->enforce == URCCL_ENFORCE_OWNER;
	d->dev.ops = &backend_shm;
	d->dev.about = "peers of this host: memory of urccl_alloc() is mapped, other memory "
		       "copied through a ring";
	d->dev.index = config->index;
	d->started = shm_process_started();
	d->dev.caps = CAP_ACCESS_OUTLIVES_KEY | (d->by_owner ? 0 : CAP_GPU);
	list_init(&d->waiting);
	list_init(&d->hot);
	list_init(&d->notices);
	list_init(&d->reaping);
	stream_cq_init(&d->cq);
	*dev = &d->dev;
	return 0;
free_tables:
	free(d->job_pool);
	handles_fini(&d->grants);
	free(d->socket_dir);
	free(d);
	return err;
}

static int device_close(struct device *dev)
{
	struct shm_dev *d = shm_dev(dev);

	close(d->timer);
	close(d->dev.fd);
	handles_fini(&d->grants);
	free(d->job_pool);
	free(d->socket_dir);
	free(d);
	return 0;
}

/* ---- ep ---- */

static int ep_open(struct device *dev, struct ep **ep, void *addr, uint32_t *addr_len)
{
	struct shm_dev *d = shm_dev(dev);
	struct shm_ep *e =
		mmap(NULL, sizeof(*e), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err;

	if (e == MAP_FAILED)
		return fail(-ENOMEM, "no memory for an ep of shm");
	e->ep.dev = dev;
	e->dev = d;
	e->importer = e->bye = e->process = -1;
	list_init(&e->hot);
	list_init(&e->notice);
	list_init(&e->reap);
	list_init(&e->remotes);
	for (uint32_t w = 0; w < SHM_CHANNELS; w++) {
		chunk_queue_init(&e->copies[w].q);
		stream_init(&e->streams[w], &e->ep, &d->grants, &d->cq);
	}
	err = shm_link_open(e);
	if (err) {
		munmap(e, sizeof(*e));
		return fail(err, "shm: no rendezvous socket in %s: %s",
			    d->socket_dir ? d->socket_dir : "the abstract namespace",
			    errno_text(-err));
	}
	memcpy(addr, &e->addr, sizeof(e->addr));
	*addr_len = sizeof(e->addr);
	*ep = &e->ep;
	return 0;
}

static void ep_free(struct ep *ep)
{
	struct shm_ep *e = shm_ep(ep);

	shm_link_end(e);
	fd_close(e->importer);
	fd_close(e->process);
	shm_pages_drop(&e->pages);
	shm_mappings_drop(e);
	munmap(e, sizeof(*e));
}

static void event_later(struct shm_ep *e, enum event_type type)
{
	e->events_due |= (uint8_t)(1u << type);
	if (list_empty(&e->notice))
		list_add_tail(&e->notice, &e->dev->notices);
}

void shm_ep_active(struct shm_ep *e)
{
	shm_rings_awake(e);
	e->idle = 0;
	if (!list_empty(&e->hot) || e->state != SHM_UP)
		return;
	list_add_tail(&e->hot, &e->dev->hot);
	e->dev->nhot++;
}

void shm_ep_inactive(struct shm_ep *e)
{
	if (list_empty(&e->hot))
		return;
	list_del(&e->hot);
	e->dev->nhot--;
}

void shm_ep_up(struct shm_ep *e)
{
	e->state = SHM_UP;
	event_later(e, EVENT_UP);
	shm_ep_active(e);
}

/* Reads the bytes that the peer had put into the rings before it hung up. */
static void last_words(struct shm_ep *e)
{
	uint32_t w, n, sum;

	for (w = 0; w < SHM_CHANNELS; w++) {
		for (sum = 0; sum < LAST_WORDS && e->why == -ECONNRESET; sum += n) {
			n = shm_ring_in(e, w, UINT32_MAX);
			if (!n)
				break;
		}
	}
}

void shm_ep_lost(struct shm_ep *e, int why)
{
	enum shm_state was = e->state;

	if (why == -ECONNRESET)
		e->hung_up = 1;
	if (was == SHM_CLOSED && e->leaving) {
		shm_link_close(e);
		if (e->bye < 0)
			shm_ep_left(e);
	}
	e->why = why;
	if (was != SHM_CONNECTING && was != SHM_UP)
		return;
	e->state = SHM_DOWN;
	shm_link_close(e);
	shm_ep_inactive(e);
	if (was == SHM_UP && why == -ECONNRESET)
		last_words(e);
	shm_chunks_fail(e, e->why);
	event_later(e, EVENT_DOWN);
}

void shm_ep_refuse(struct shm_ep *e, int why)
{
	if (e->state != SHM_CONNECTING)
		return;
	e->why = why;
	e->state = SHM_DOWN;
	event_later(e, EVENT_DOWN);
	shm_wait_tick(e);
}

/* Keys both cookies with bond, which only the two sides of the peer's handshake have. */
static void bind_cookies(struct shm_ep *e)
{
	uint8_t ours[SHM_COOKIE], theirs[SHM_COOKIE];

	siphash128(e->ep.bond, e->addr.cookie, SHM_COOKIE, ours);
	siphash128(e->ep.bond, e->peer.cookie, SHM_COOKIE, theirs);
	memcpy(e->addr.cookie, ours, SHM_COOKIE);
	memcpy(e->peer.cookie, theirs, SHM_COOKIE);
}

static int ep_connect(struct ep *ep, const void *addr, uint32_t addr_len, int active,
		      const struct sockaddr_storage *via)
{
	struct shm_ep *e = shm_ep(ep);
	int err = shm_listener_addr_check(addr, addr_len, &e->peer);

	(void)via;
	if (err)
		return err;
	/* The dialling side then tries another transport, if any. */
	if (active && (e->addr.policy | e->peer.policy) == (SHM_NO_MAPPINGS | SHM_NO_BOUNCE))
		return -EACCES;
	if (ep->bonded)
		bind_cookies(e);
	e->active = active != 0;
	e->state = SHM_CONNECTING;
	err = active ? shm_link_dial(e) : shm_listener_await(e);
	if (err)
		shm_ep_lost(e, err);
	return 0;
}

/* Reports EVENT_CLOSED, but not before all chunks have ended. */
static void event_closed_later(struct shm_ep *e)
{
	if (!e->njobs)
		event_later(e, EVENT_CLOSED);
}

void shm_ep_left(struct shm_ep *e)
{
	e->leaving = 0;
	shm_link_end(e);
	event_closed_later(e);
}

void shm_ep_idle(struct shm_ep *e)
{
	if (e->state != SHM_CLOSED)
		return;
	if (!e->leaving) {
		event_closed_later(e);
		return;
	}
	e->leaving = 1; /* restarts the wait, for unmapping */
	if (!shm_gpu_close(e) && !shm_files_shown(e))
		shm_ep_left(e);
}

static int shm_process(struct ep *ep)
{
	struct shm_ep *e = shm_ep(ep);
	int fd = e->process;

	e->process = -1;
	return fd;
}

static int shm_importer(struct ep *ep)
{
	struct shm_ep *e = shm_ep(ep);
	int fd = e->importer;

	e->importer = -1;
	if (fd < 0 && shm_gpu_left(e)) /* a descriptor that never hangs up */
		fd = fcntl(e->dev->timer, F_DUPFD_CLOEXEC, 0);
	return fd;
}

static void ep_close(struct ep *ep)
{
	struct shm_ep *e = shm_ep(ep);
	int waits = e->bye >= 0 ||
		    (e->sock >= 0 && e->state == SHM_UP && (shm_files_shown(e) || e->gpu_seen));

	e->state = SHM_CLOSED;
	e->events_due = 0;
	e->leaving = waits != 0;
	if (waits)
		shm_wait_tick(e);
	else
		shm_link_close(e);
	shm_ep_inactive(e);
	stream_cq_forget(&e->dev->cq, ep);
	shm_chunks_fail(e, -ECANCELED);
	list_del(&e->reap);
	if (!waits)
		event_closed_later(e);
	else if (!shm_gpu_close(e) && !shm_files_shown(e))
		shm_ep_left(e);
}

const struct backend backend_shm = {
	.name = "shm",
	.transport = URCCL_TRANSPORT_SHM,
	.chunk_bytes = 1u << 20,
	.scan = scan_one,
	.open = shm_device_open,
	.close = device_close,
	.reg = shm_reg,
	.unreg = shm_unreg,
	.ep_open = ep_open,
	.ep_free = ep_free,
	.process = shm_process,
	.importer = shm_importer,
	.importer_left = shm_link_left,
	.ep_connect = ep_connect,
	.ep_close = ep_close,
	.expose = shm_expose,
	.unexpose = shm_unexpose,
	.import = shm_import,
	.forget = shm_forget,
	.warm = shm_warm,
	.map = shm_map_remote,
	.post = shm_post,
	.copy = shm_copy,
	.cancel = shm_cancel,
	.poll = shm_poll,
	.arm = shm_arm,
};
