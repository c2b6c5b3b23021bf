/* SPDX-License-Identifier: Apache-2.0 */
/* The fabric and its domains. */
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include "prov.h"

/* ---- helpers of all objects ---- */

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

int no_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	(void)fid, (void)other, (void)flags;
	return -FI_ENOSYS;
}

int no_control(struct fid *fid, int command, void *arg)
{
	(void)fid, (void)command, (void)arg;
	return -FI_ENOSYS;
}

/* In the order in which they come: one that polls without a pause would leave nothing to others. */
void domain_enter(struct prov_domain *d)
{
	uint32_t mine = __atomic_fetch_add(&d->tickets, 1, __ATOMIC_SEQ_CST), now;

	while ((now = __atomic_load_n(&d->turn, __ATOMIC_SEQ_CST)) != mine) {
		if (words()->threading == FI_THREAD_DOMAIN)
			DIE("two threads at once in a domain of FI_THREAD_DOMAIN");
		futex_wait(&d->turn, now, NEVER_NS);
	}
}

void domain_leave(struct prov_domain *d)
{
	uint32_t next = __atomic_add_fetch(&d->turn, 1, __ATOMIC_SEQ_CST);

	if (__atomic_load_n(&d->tickets, __ATOMIC_SEQ_CST) != next)
		futex_wake(&d->turn);
}

/* A linear congruential step, its high half (Knuth's constants for 64 bits). */
uint64_t domain_random(struct prov_domain *d, uint64_t below)
{
	d->random = d->random * 6364136223846793005ull + 1442695040888963407ull;
	return (d->random >> 24) % below;
}

/* ---- domain ---- */

static int domain_close(struct fid *fid)
{
	struct prov_domain *d = container_of(fid, struct prov_domain, fid.fid);

	domain_enter(d);
	if (d->objects && words()->mr_busy) {
		domain_leave(d);
		return -FI_EBUSY;
	}
	if (d->objects)
		DIE("%u objects of the domain are open", d->objects);
	domain_leave(d);
	free(d);
	return 0;
}

/* Of rdma/fi_cxi_ext.h, which 1.17 lacks. */
#define CXI_SET_MR_MATCH_EVENTS (-(0xccc << 16) + 3) /* bool */
#define CXI_SET_OPTIMIZED_MRS	(-(0xccc << 16) + 5)

void domain_makes(struct prov_domain *d, const char *what)
{
	if (!strcmp(words()->name, "cxi") && (!d->matches || d->optimizes))
		DIE("%s of a domain whose regions are not told to go when they are closed", what);
}

static int cxi_control(struct prov_domain *d, int command, const bool *on)
{
	if (strcmp(words()->name, "cxi") != 0)
		return -FI_ENOSYS;
	if (command == CXI_SET_MR_MATCH_EVENTS)
		d->matches = *on;
	else
		d->optimizes = *on;
	return 0;
}

static int domain_control(struct fid *fid, int command, void *arg)
{
	struct prov_domain *d = container_of(fid, struct prov_domain, fid.fid);
	int res = -FI_ENOSYS;

	domain_enter(d);
	if (command == FI_MAP_RAW_MR)
		res = memory_map(d, arg);
	else if (command == FI_UNMAP_KEY)
		res = memory_unmap(d, *(uint64_t *)arg);
	else if (command == CXI_SET_MR_MATCH_EVENTS || command == CXI_SET_OPTIMIZED_MRS)
		res = cxi_control(d, command, arg);
	domain_leave(d);
	return res;
}

static struct fi_ops domain_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = domain_close,
	.bind = no_bind,
	.control = domain_control,
};

static struct fi_ops_domain domain_ops = {
	.size = sizeof(struct fi_ops_domain),
	.av_open = av_open,
	.cq_open = cq_open,
	.endpoint = ep_open,
};

static int domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		       void *context)
{
	unsigned long number = strtoul(info->domain_attr->name + strlen(words()->name), NULL, 10);
	struct prov_domain *d;
	uint32_t i;

	if (words()->broken >> number & 1)
		return -FI_EACCES;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -FI_ENOMEM;
	d->fid = (struct fid_domain){
		.fid = {.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &domain_fid_ops},
		.ops = &domain_ops,
		.mr = &memory_ops,
	};
	d->fabric = fabric;
	d->optimizes = 1;
	d->random = words()->seed;
	d->contexts = !!(words()->mode & (FI_CONTEXT | FI_CONTEXT2));
	list_init(&d->eps);
	list_init(&d->mapped);
	for (i = 0; i < KEY_LISTS; i++)
		list_init(&d->keys[i]);
	*domain = &d->fid;
	return 0;
}

/* ---- fabric ---- */

static int fabric_close(struct fid *fid)
{
	free(container_of(fid, struct fid_fabric, fid));
	return 0;
}

static struct fi_ops fabric_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = fabric_close,
	.bind = no_bind,
	.control = no_control,
};

static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(struct fi_ops_fabric),
	.domain = domain_open,
	.trywait = cq_trywait,
};

int fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	struct fid_fabric *f = calloc(1, sizeof(*f));

	if (!f)
		return -FI_ENOMEM;
	f->fid =
		(struct fid){.fclass = FI_CLASS_FABRIC, .context = context, .ops = &fabric_fid_ops};
	f->ops = &fabric_ops;
	f->api_version = attr->api_version;
	*fabric = f;
	return 0;
}
