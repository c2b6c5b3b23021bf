/* SPDX-License-Identifier: Apache-2.0 */
/* A libfabric that has a provider cxi with four domains, as far as a completion queue: it notes
 * what it is asked for, and gives none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include "cxi_double.h"

#define EXPORT	__attribute__((visibility("default")))
#define DOMAINS 4u

EXPORT struct cxi_seen cxi_seen;

/* ---- fi_info ---- */

struct made {
	struct fi_info info;
	struct fi_tx_attr tx;
	struct fi_rx_attr rx;
	struct fi_ep_attr ep;
	struct fi_domain_attr domain;
	struct fi_fabric_attr fabric;
	char name[16];
};

static struct made *made_of(const struct fi_info *info)
{
	return (struct made *)(uintptr_t)info;
}

EXPORT struct fi_info *fi_dupinfo(const struct fi_info *info)
{
	struct made *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	if (info)
		*m = *made_of(info);
	m->info.next = NULL;
	m->info.tx_attr = &m->tx;
	m->info.rx_attr = &m->rx;
	m->info.ep_attr = &m->ep;
	m->info.domain_attr = &m->domain;
	m->info.fabric_attr = &m->fabric;
	m->domain.name = m->name;
	if (m->fabric.prov_name)
		m->fabric.prov_name = strdup(m->fabric.prov_name);
	return &m->info;
}

EXPORT void fi_freeinfo(struct fi_info *info)
{
	struct fi_info *next;

	for (; info; info = next) {
		next = info->next;
		free(info->fabric_attr->prov_name);
		free(info);
	}
}

/* What is wished for can be had. */
static struct fi_info *one(const struct fi_info *hints, unsigned int number)
{
	struct fi_info *info = fi_dupinfo(hints);

	if (!info)
		return NULL;
	info->addr_format = FI_ADDR_STR;
	info->ep_attr->max_msg_size = 1u << 30;
	info->domain_attr->mr_mode = FI_MR_ENDPOINT | FI_MR_PROV_KEY | FI_MR_ALLOCATED;
	info->domain_attr->mr_key_size = 8;
	snprintf(made_of(info)->name, sizeof(made_of(info)->name), "cxi%u", number);
	return info;
}

EXPORT int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		      const struct fi_info *hints, struct fi_info **info)
{
	struct fi_info **end = info;
	unsigned int i;

	(void)version, (void)node, (void)service, (void)flags;
	if (strcmp(hints->fabric_attr->prov_name, "cxi"))
		return -FI_ENODATA;
	cxi_seen.tx_size = hints->tx_attr->size;
	cxi_seen.rx_size = hints->rx_attr->size;
	cxi_seen.threading = hints->domain_attr->threading;
	*info = NULL;
	for (i = 0; i < DOMAINS; i++) {
		*end = one(hints, i);
		if (!*end)
			break;
		end = &(*end)->next;
	}
	return *info ? 0 : -FI_ENOMEM;
}

/* ---- objects ---- */

static int nothing_to_close(struct fid *fid)
{
	(void)fid;
	return 0;
}

static int any_control(struct fid *fid, int command, void *arg)
{
	(void)fid, (void)command, (void)arg;
	return 0;
}

static struct fi_ops ops = {
	.size = sizeof(ops),
	.close = nothing_to_close,
	.control = any_control,
};

static int cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
		   void *context)
{
	(void)domain, (void)cq, (void)context;
	cxi_seen.cq_size = attr->size;
	return -FI_ENOSYS;
}

static struct fi_ops_domain domain_ops = {.size = sizeof(domain_ops), .cq_open = cq_open};
static struct fid_domain domain = {.fid = {.ops = &ops}, .ops = &domain_ops};

static int domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **to,
		       void *context)
{
	(void)fabric, (void)context;
	snprintf(cxi_seen.domain, sizeof(cxi_seen.domain), "%s", info->domain_attr->name);
	*to = &domain;
	return 0;
}

static struct fi_ops_fabric fabric_ops = {.size = sizeof(fabric_ops), .domain = domain_open};
static struct fid_fabric fabric = {.fid = {.ops = &ops}, .ops = &fabric_ops};

EXPORT int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **to, void *context)
{
	(void)attr, (void)context;
	*to = &fabric;
	return 0;
}

EXPORT const char *fi_strerror(int error)
{
	return strerror(error);
}

EXPORT uint32_t fi_version(void)
{
	return FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
}
