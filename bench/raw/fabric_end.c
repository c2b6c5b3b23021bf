/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#define API	      FI_VERSION(1, 17)
#define BATCH	      32
#define NAMES_TAKEN   64
#define MESSAGES_PART 4
#define LATER	      1000000000ull /* ns */
#define RIGHTS	      (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

static void check(long err, const char *what)
{
	if (err)
		bench_die("%s: %s", what, fi_strerror((int)-err));
}

/* As the library asks; but for locks, where one thread is all there is. */
static struct fi_info *hints_make(const struct raw_options *o, uint64_t flags)
{
	struct fi_info *h = fi_allocinfo();

	if (!h)
		bench_die("out of memory");
	h->caps = FI_MSG | FI_RMA;
	h->mode = FI_CONTEXT | FI_CONTEXT2;
	h->ep_attr->type = FI_EP_RDM;
	h->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	h->domain_attr->threading = o->threads ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
	h->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	h->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	h->domain_attr->resource_mgmt = FI_RM_ENABLED;
	h->tx_attr->op_flags = flags;
	h->fabric_attr->prov_name = strdup(o->provider);
	return h;
}

/* On loopback, where addresses are those of the internet. */
static struct fi_info *info_find(const struct raw_options *o, uint64_t flags)
{
	struct fi_info *hints = hints_make(o, flags), *info = NULL, *local;

	check(fi_getinfo(API, NULL, NULL, 0, hints, &info), o->provider);
	if (info->addr_format == FI_SOCKADDR_IN || info->addr_format == FI_SOCKADDR_IN6) {
		check(fi_getinfo(API, "127.0.0.1", NULL, FI_SOURCE, hints, &local), o->provider);
		fi_freeinfo(info);
		info = local;
	}
	fi_freeinfo(hints);
	info->tx_attr->op_flags = flags;
	return info;
}

/* Who sleeps does so on several queues. */
static void queue_watch(struct end *e)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int fd;

	check(fi_control(&e->cq->fid, FI_GETWAIT, &fd), "FI_GETWAIT");
	e->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (e->epoll < 0 || epoll_ctl(e->epoll, EPOLL_CTL_ADD, fd, &ev))
		bench_die("epoll: %s", strerror(errno));
}

static int endpoint_try(struct end *e, struct fid_cq *cq, struct fid_av *av, struct fid_ep **ep)
{
	check(fi_endpoint(e->domain, e->info, ep, NULL), "fi_endpoint");
	check(fi_ep_bind(*ep, &av->fid, 0), "fi_ep_bind");
	check(fi_ep_bind(*ep, &cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
	return fi_enable(*ep);
}

/* With a queue and a vector of its own. */
static void endpoint_open(struct end *e, int sleeps, struct fid_cq **cq, struct fid_av **av,
			  struct fid_ep **ep)
{
	struct fi_cq_attr cq_attr = {.size = DEPTH_MAX,
				     .format = FI_CQ_FORMAT_CONTEXT,
				     .wait_obj = sleeps ? FI_WAIT_FD : FI_WAIT_NONE};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	int err, tries = 0;

	check(fi_cq_open(e->domain, &cq_attr, cq, NULL), "fi_cq_open");
	check(fi_av_open(e->domain, &av_attr, av, NULL), "fi_av_open");
	/* Provider shm's names are by the process's number and one that counts up; what a killed
	 * process left in /dev/shm has some. */
	while ((err = endpoint_try(e, *cq, *av, ep)) == -FI_EBUSY && ++tries < NAMES_TAKEN)
		fi_close(&(*ep)->fid);
	check(err, "fi_enable");
}

static void endpoints_open(struct end *e, const struct raw_options *o)
{
	size_t len = sizeof(e->ours.name), other = sizeof(e->ours.messages);

	check(fi_fabric(e->info->fabric_attr, &e->fabric, NULL), "fi_fabric");
	check(fi_domain(e->fabric, e->info, &e->domain, NULL), "fi_domain");
	if (o->messages)
		endpoint_open(e, o->sleeps, &e->messages, &e->messages_av, &e->messages_ep);
	endpoint_open(e, o->sleeps, &e->cq, &e->av, &e->ep);
	if (o->sleeps)
		queue_watch(e);
	check(fi_getname(&e->ep->fid, e->ours.name, &len), "fi_getname");
	if (o->messages)
		check(fi_getname(&e->messages_ep->fid, e->ours.messages, &other), "fi_getname");
}

static void memory_open(struct end *e, const struct raw_options *o, int which)
{
	int with_addresses = !!(e->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR);

	e->span = o->span;
	e->buf = bench_map(e->span, o->pages);
	raw_fill(e->buf, e->span, (uint64_t)which);
	check(fi_mr_reg(e->domain, e->buf, e->span, RIGHTS, 0, 1, 0, &e->mr, NULL), "fi_mr_reg");
	e->ours.addr = with_addresses ? (uintptr_t)e->buf : 0;
	e->ours.key = fi_mr_key(e->mr);
	e->desc = fi_mr_desc(e->mr);
}

/* The sockets' buffers hold a card. */
static void meet(struct end *e, int fd)
{
	char byte = 0;

	pair_send(fd, &e->ours, sizeof(e->ours));
	pair_receive(fd, &e->theirs, sizeof(e->theirs));
	if (fi_av_insert(e->av, e->theirs.name, 1, &e->peer, 0, NULL) != 1)
		bench_die("fi_av_insert: the other's address is refused");
	pair_send(fd, &byte, sizeof(byte));
	pair_receive(fd, &byte, sizeof(byte));
}

/* A message each way: what a connection costs who looks at it shows where there is one. */
static void greet(struct end *e)
{
	struct fi_context2 sends, receives;
	struct fi_cq_entry entry;
	uint64_t said = 1, heard;
	uint32_t left = 2;
	fi_addr_t peer;

	if (fi_av_insert(e->messages_av, e->theirs.messages, 1, &peer, 0, NULL) != 1)
		bench_die("fi_av_insert: the other's address is refused");
	check(fi_recv(e->messages_ep, &heard, sizeof(heard), NULL, peer, &receives), "fi_recv");
	while (fi_send(e->messages_ep, &said, sizeof(said), NULL, peer, &sends) == -FI_EAGAIN)
		fi_cq_read(e->messages, &entry, 0);
	while (left)
		if (fi_cq_read(e->messages, &entry, 1) == 1)
			left--;
}

static void *do_nothing(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/* Then locks, and the calls that may be cancelled, cost what they do in a program that has some. */
static void thread_open(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, do_nothing, NULL))
		bench_die("cannot start a thread");
}

void end_open(struct end *e, const struct raw_options *o, int which, uint64_t flags, int fd)
{
	memset(e, 0, sizeof(*e));
	e->epoll = -1;
	if (o->threads)
		thread_open();
	e->info = info_find(o, flags);
	endpoints_open(e, o);
	memory_open(e, o, which);
	meet(e, fd);
	if (o->messages)
		greet(e);
}

void end_close(struct end *e)
{
	if (e->epoll >= 0)
		close(e->epoll);
	if (e->messages) {
		fi_close(&e->messages_ep->fid);
		fi_close(&e->messages_av->fid);
		fi_close(&e->messages->fid);
	}
	fi_close(&e->ep->fid);
	fi_close(&e->mr->fid);
	fi_close(&e->av->fid);
	fi_close(&e->cq->fid);
	fi_close(&e->domain->fid);
	fi_close(&e->fabric->fid);
	fi_freeinfo(e->info);
	munmap(e->buf, e->span);
}

int end_post(struct end *e, struct post *p, int reads, uint64_t off, uint64_t len)
{
	uint64_t addr = e->theirs.addr + off, key = e->theirs.key;
	ssize_t err;

	if (reads)
		err = fi_read(e->ep, e->buf + off, len, e->desc, e->peer, addr, key, &p->context);
	else
		err = fi_write(e->ep, e->buf + off, len, e->desc, e->peer, addr, key, &p->context);
	if (err == -FI_EAGAIN)
		return 0;
	check(err, reads ? "fi_read" : "fi_write");
	return 1;
}

/* What a program that takes messages, and ends what takes too long, does in each turn. */
static void turn(struct end *e)
{
	struct fi_cq_entry entry;

	if (bench_now() > e->deadline)
		e->deadline = bench_now() + LATER;
	if (e->looks++ % MESSAGES_PART == 0 && fi_cq_read(e->messages, &entry, 1) != -FI_EAGAIN)
		bench_die("a message from nobody");
}

uint32_t end_poll(struct end *e, struct post **out, uint32_t n)
{
	struct fi_cq_entry entries[BATCH];
	struct fi_cq_err_entry err = {0};
	ssize_t k, i;

	if (e->messages)
		turn(e);
	k = fi_cq_read(e->cq, n ? entries : NULL, n < BATCH ? n : BATCH);
	if (k == -FI_EAGAIN || !k)
		return 0;
	if (k < 0) {
		fi_cq_readerr(e->cq, &err, 0);
		bench_die("an operation failed: %s", fi_strerror(err.err));
	}
	for (i = 0; i < k; i++)
		out[i] = (struct post *)entries[i].op_context;
	return (uint32_t)k;
}
