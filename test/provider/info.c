/* SPDX-License-Identifier: Apache-2.0 */
/* What it says of itself, and the way in: libfabric calls fi_prov_ini() of every library *-fi.so in
 * FI_PROVIDER_PATH. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <rdma/providers/fi_prov.h>
#include "prov.h"

#define CAPS                                                                         \
	(FI_MSG | FI_RMA | FI_READ | FI_WRITE | FI_SEND | FI_RECV | FI_REMOTE_READ | \
	 FI_REMOTE_WRITE | FI_LOCAL_COMM | FI_REMOTE_COMM)

/* Of the libfabric that has us, whichever: its structs grow from version to version. */
static struct fi_info *(*dupinfo)(const struct fi_info *info);

/* ---- fi_getinfo ---- */

static uint64_t delivery(void)
{
	return words()->no_delivery ? 0 : FI_DELIVERY_COMPLETE;
}

/* 1: the user can live with us. */
static int suits(const struct fi_info *hints)
{
	const struct words *w = words();

	if (!hints)
		return 1;
	if (hints->caps & ~(CAPS | (w->hmem ? FI_HMEM : 0)) || w->mode & ~hints->mode)
		return 0;
	if (hints->addr_format != FI_FORMAT_UNSPEC && hints->addr_format != FI_ADDR_STR)
		return 0;
	if (hints->ep_attr && hints->ep_attr->type != FI_EP_UNSPEC &&
	    hints->ep_attr->type != FI_EP_RDM)
		return 0;
	if (hints->tx_attr && hints->tx_attr->op_flags & FI_DELIVERY_COMPLETE & ~delivery())
		return 0;
	if (!hints->domain_attr)
		return 1;
	if (w->threading == FI_THREAD_DOMAIN && hints->domain_attr->threading == FI_THREAD_SAFE)
		return 0;
	return !(w->mr_mode & ~(uint64_t)hints->domain_attr->mr_mode);
}

static void describe(struct fi_info *i, uint32_t number, uint64_t asked)
{
	const struct words *w = words();
	char name[32];

	snprintf(name, sizeof(name), "%s%u", w->name, number);
	i->caps = CAPS | (asked & FI_HMEM);
	i->mode = w->mode;
	i->addr_format = FI_ADDR_STR;
	i->tx_attr->caps = CAPS;
	i->tx_attr->mode = w->mode;
	i->tx_attr->op_flags = FI_TRANSMIT_COMPLETE | delivery();
	i->tx_attr->size = TX_SIZE;
	i->tx_attr->inject_size = w->inject;
	i->tx_attr->iov_limit = i->tx_attr->rma_iov_limit = w->iov;
	i->rx_attr->caps = CAPS;
	i->rx_attr->mode = w->mode;
	i->rx_attr->size = 1024;
	i->rx_attr->iov_limit = 1;
	i->ep_attr->type = FI_EP_RDM;
	i->ep_attr->max_msg_size = w->max_msg;
	i->ep_attr->tx_ctx_cnt = i->ep_attr->rx_ctx_cnt = 1;
	i->domain_attr->name = strdup(name);
	i->domain_attr->threading = w->threading;
	i->domain_attr->control_progress = i->domain_attr->data_progress = w->progress;
	i->domain_attr->resource_mgmt = FI_RM_ENABLED;
	i->domain_attr->av_type = FI_AV_TABLE;
	i->domain_attr->mr_mode = (int)w->mr_mode;
	i->domain_attr->mr_key_size = w->mr_mode & FI_MR_RAW ? RAW_BYTES : w->key_bytes;
	i->domain_attr->cq_cnt = 65536;
	i->domain_attr->ep_cnt = w->eps ? w->eps : 65536;
	i->domain_attr->mr_cnt = 65536;
	i->domain_attr->mr_iov_limit = 1;
	i->fabric_attr->name = strdup(PROV_NAME);
	i->fabric_attr->prov_version = FI_VERSION(1, 0);
}

static int wants_domain(const struct fi_info *hints, const char *name)
{
	const char *asked = hints && hints->domain_attr ? hints->domain_attr->name : NULL;

	return !asked || !strcmp(asked, name);
}

static int prov_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
			const struct fi_info *hints, struct fi_info **info)
{
	struct fi_info **at = info;
	uint32_t i;

	(void)version, (void)service, (void)flags;
	*info = NULL;
	if (node || !suits(hints))
		return -FI_ENODATA;
	for (i = 0; i < words()->domains; i++) {
		struct fi_info *one = dupinfo(NULL);

		if (!one)
			return -FI_ENOMEM;
		describe(one, i, hints ? hints->caps : 0);
		*at = one;
		if (wants_domain(hints, one->domain_attr->name))
			at = &one->next;
	}
	*at = NULL;
	return *info ? 0 : -FI_ENODATA;
}

/* ---- the way in ---- */

static struct fi_provider provider = {
	.version = FI_VERSION(9999, 0), /* goes before one that libfabric has by that name itself */
	.name = PROV_NAME,
	.getinfo = prov_getinfo,
	.fabric = fabric_open,
};

/* libfabric may have been loaded where its names are not seen by who it loads. */
static void *libfabric(const char *name)
{
	void *handle = dlopen("libfabric.so.1", RTLD_LAZY | RTLD_NOLOAD);
	void *p = handle ? dlsym(handle, name) : NULL;

	if (!p)
		DIE("no %s in the libfabric that loaded it", name);
	dlclose(handle);
	return p;
}

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void);

struct fi_provider *fi_prov_ini(void)
{
	uint32_t (*version)(void);
	void *p = libfabric("fi_version");

	memcpy(&version, &p, sizeof(p));
	p = libfabric("fi_dupinfo");
	memcpy(&dupinfo, &p, sizeof(p));
	provider.fi_version = version();
	provider.name = words()->name;
	return &provider;
}
