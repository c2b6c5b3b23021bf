/* SPDX-License-Identifier: Apache-2.0 */
/* The requirements of efa and cxi beyond those of any provider. Written according to fi_efa(7) and
 * fi_cxi(7); never run on such a device. */
#include <stdbool.h>
#include <stdio.h>
#include "backend/fabric/pick.h"

/* Options that the headers of 1.17 lack: from rdma/fi_ext.h and rdma/fi_cxi_ext.h. */
#define EFA_EMULATED_READ	(-(0xefa << 16) + 1) /* bool, endpoint */
#define EFA_EMULATED_WRITE	(-(0xefa << 16) + 2)
#define CXI_SET_MR_MATCH_EVENTS (-(0xccc << 16) + 3) /* bool, domain */
#define CXI_SET_OPTIMIZED_MRS	(-(0xccc << 16) + 5)

/* ---- traffic classes ---- */

/* EFA has service levels 0 and 8. The provider uses 8 for FI_TC_LOW_LATENCY. */
#define EFA_LOW_LATENCY 8

static int efa_tclass(int16_t sl, int16_t tc, uint32_t *tclass)
{
	if (tc != URCCL_AUTO && tc)
		return fail(-EOPNOTSUPP,
			    "efa: rdma_tc is %d, but EFA has no traffic classes: set it to auto",
			    tc);
	if (sl != URCCL_AUTO && sl && sl != EFA_LOW_LATENCY)
		return fail(-EOPNOTSUPP,
			    "efa: rdma_sl is %d, but EFA has only service levels 0 and %d: set it "
			    "to one of them, or to auto",
			    sl, EFA_LOW_LATENCY);
	*tclass = sl ? FI_TC_LOW_LATENCY : FI_TC_UNSPEC;
	return 0;
}

int fabric_tclass(const struct fabric_wish *w, const struct urccl_params *p, uint32_t cls,
		  uint32_t *tclass)
{
	int16_t tc = p->rdma_tc[cls];

	if (w->is_efa)
		return efa_tclass(p->rdma_sl[cls], tc, tclass);
	if (tc != URCCL_AUTO)
		*tclass = fi_tc_dscp_set((uint8_t)(tc >> 2));
	return 0;
}

/* ---- efa ---- */

void fabric_efa_wish(struct fabric_wish *w, const struct device_config *config)
{
	*w = (struct fabric_wish){.prov = "efa",
				  .nics = config->nics,
				  .nnics = config->nnics,
				  .are_named = nic_names(config->params->rdma_dev),
				  .most = EFA_RAILS,
				  .is_efa = 1};
}

/* Emulated operations are copied, and only progress while the peer's process runs. */
static int refuse_emulated(const struct fabric_device *d, int option, const char *what)
{
	const char *domain = d->info->domain_attr->name;
	bool emulated = true;
	size_t len = sizeof(emulated);
	int err = fi_getopt(&d->msg.ep->fid, FI_OPT_ENDPOINT, option, &emulated, &len);

	if (err)
		return fail(-EOPNOTSUPP,
			    "efa: libfabric does not say whether %s emulates remote %s (%s): "
			    "install a newer libfabric, or set transport to fabric:efa, which "
			    "accepts emulation",
			    domain, what, d->lib.strerror(err < 0 ? -err : err));
	if (!emulated)
		return 0;
	return fail(-EOPNOTSUPP,
		    "efa: %s emulates remote %s by messages, which the peer's CPU copies: use an "
		    "instance type whose EFA has RDMA, or set transport to fabric:efa, which "
		    "accepts emulation",
		    domain, what);
}

int fabric_check_endpoint(const struct fabric_device *d, const struct fabric_wish *w)
{
	int rc;

	if (!w->is_efa)
		return 0;
	rc = refuse_emulated(d, EFA_EMULATED_READ, "reads");
	return rc ? rc : refuse_emulated(d, EFA_EMULATED_WRITE, "writes");
}

/* ---- cxi ---- */

void fabric_cxi_wish(struct fabric_wish *w, const struct device_config *config)
{
	const struct urccl_params *p = config->params;

	*w = (struct fabric_wish){.prov = "cxi", .most = 1, .is_cxi = 1};
	if (p->cxi_domain)
		snprintf(w->domains[w->ndomains++], sizeof(w->domains[0]), "%s", p->cxi_domain);
	else if (p->cxi_device_index >= 0)
		snprintf(w->domains[w->ndomains++], sizeof(w->domains[0]), "cxi%d",
			 p->cxi_device_index);
	else if (config->nnics)
		snprintf(w->domains[w->ndomains++], sizeof(w->domains[0]), "%s",
			 config->nics[0].name);
}

int fabric_cxi_threading(struct fabric_wish *w, const struct urccl_params *p)
{
	switch (p->cxi_threading) {
	case URCCL_CXI_THREADING_AUTO:
		return 0;
	case URCCL_CXI_THREADING_SAFE:
		w->threading = FI_THREAD_SAFE;
		return 0;
	case URCCL_CXI_THREADING_DOMAIN:
		w->threading = FI_THREAD_DOMAIN;
		return 0;
	case URCCL_CXI_THREADING_COMPLETION:
		w->threading = FI_THREAD_COMPLETION;
		return 0;
	default:
		return fail(
			-EOPNOTSUPP,
			"cxi: libfabric 2 does not support this value of cxi_threading for "
			"programs with two threads: set it to auto, safe, domain or completion");
	}
}

void fabric_cxi_hints(struct fi_info *hints, const struct urccl_params *p)
{
	hints->tx_attr->size = p->cxi_tx_queue_size;
	hints->rx_attr->size = p->cxi_rx_queue_size;
}

/* ---- both, by either name: efa and fabric:efa, cxi and fabric:cxi ---- */

static int is_cxi(const struct fi_info *info)
{
	return !strcmp(info->fabric_attr->prov_name, "cxi");
}

static int is_efa(const struct fi_info *info)
{
	return !strcmp(info->fabric_attr->prov_name, "efa");
}

int fabric_is_nic(const struct fi_info *info)
{
	return is_cxi(info) || is_efa(info);
}

/* Refuses providers that could not revoke. Without FI_MR_PROV_KEY the program chooses keys, and an
 * old key could open a later region. A cache keeps regions open after their close; efa has one
 * unless it has FI_MR_LOCAL. */
int fabric_nic_check(const struct fi_info *info)
{
	int mode = info->domain_attr->mr_mode;

	if (is_cxi(info) && !(mode & FI_MR_PROV_KEY))
		return fail(-EOPNOTSUPP,
			    "cxi: %s does not choose the keys of memory itself (it lacks "
			    "FI_MR_PROV_KEY), so a revoked key could open other memory later: "
			    "install a newer libfabric, or take cxi out of transport",
			    info->domain_attr->name);
	if (is_efa(info) && !(mode & FI_MR_LOCAL))
		return fail(
			-EOPNOTSUPP,
			"efa: %s caches memory regions that were closed (it lacks FI_MR_LOCAL), so "
			"peers could still access revoked memory: install a newer libfabric, or "
			"take efa out of transport",
			info->domain_attr->name);
	return 0;
}

/* Sets options of the domain. Called before any endpoint or region of the domain is made. */
int fabric_nic_domain(struct fabric_device *d)
{
	bool on = true, off = false;
	int err;

	if (!is_cxi(d->info))
		return 0;
	err = fi_control(&d->domain->fid, CXI_SET_MR_MATCH_EVENTS, &on);
	if (!err)
		err = fi_control(&d->domain->fid, CXI_SET_OPTIMIZED_MRS, &off);
	if (!err)
		return 0;
	return fail(-EOPNOTSUPP,
		    "cxi: %s cannot turn on match events, or cannot turn off optimized memory "
		    "regions (%s), so peers could still write to revoked memory: install a newer "
		    "libfabric, or take cxi out of transport",
		    d->info->domain_attr->name, d->lib.strerror(err < 0 ? -err : err));
}
