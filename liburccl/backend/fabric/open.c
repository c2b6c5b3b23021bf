/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and opens the domain of a provider. */
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include "backend/fabric/key.h"
#include "backend/fabric/pick.h"

#define CUDA_PERMITTED		10 /* FI_OPT_*, endpoint, bool: since libfabric 1.18 */
#define SHARED_MEMORY_PERMITTED 11 /* likewise, 1.21 */

#define MR_MODES                                                                        \
	(FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | \
	 FI_MR_MMU_NOTIFY | FI_MR_RMA_EVENT | FI_MR_ENDPOINT | FI_MR_HMEM)

/* The features that this backend supports. A provider answers with those that it needs. */
static struct fi_info *hints_make(const struct fabric_lib *lib, const struct fabric_wish *w,
				  const struct urccl_params *params, uint64_t caps)
{
	struct fi_info *h = lib->dupinfo(NULL);

	if (!h)
		return NULL;
	h->caps = FI_MSG | FI_RMA | caps;
	h->mode = FI_CONTEXT | FI_CONTEXT2;
	h->ep_attr->type = FI_EP_RDM;
	h->domain_attr->mr_mode = MR_MODES;
	/* The engine drives the progress: providers need no threads. */
	h->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	h->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	h->domain_attr->resource_mgmt = FI_RM_ENABLED;
	/* libfabric frees it with the hints. */
	h->fabric_attr->prov_name = strdup(w->prov);
	if (w->is_cxi)
		fabric_cxi_hints(h, params);
	return h;
}

/* The listen address, if it names an interface. NULL otherwise. */
static const char *node_of(const struct device_config *config, char text[INET6_ADDRSTRLEN])
{
	const struct sockaddr_storage *ss = config->listen;
	const void *at;

	if (!config->nlisten || addr_wildcard(ss))
		return NULL;
	at = ss->ss_family == AF_INET6 ? (const void *)&((const struct sockaddr_in6 *)ss)->sin6_addr
				       : (const void *)&((const struct sockaddr_in *)ss)->sin_addr;
	return inet_ntop(ss->ss_family, at, text, INET6_ADDRSTRLEN);
}

/* Lists the provider's domains. Providers over sockets bind to the listen address, which therefore
 * comes first; the others remain for a domain that is named and lies elsewhere. */
static int get_list(const struct fabric_lib *lib, const struct fi_info *hints,
		    const struct fabric_wish *w, const struct device_config *config,
		    struct fi_info **list)
{
	struct fi_info *at = NULL, **end = &at;
	char text[INET6_ADDRSTRLEN];
	const char *node;
	int err;

	err = lib->getinfo(FABRIC_API, NULL, NULL, 0, hints, list);
	if (err)
		return err;
	node = fabric_is_ip(*list) ? node_of(config, text) : NULL;
	if (!node)
		return 0;
	err = lib->getinfo(FABRIC_API, node, NULL, FI_SOURCE, hints, &at);
	if (err && !w->ndomains) {
		lib->freeinfo(*list);
		return err;
	}
	while (!err && *end)
		end = &(*end)->next;
	if (!err) {
		*end = *list;
		*list = at;
	}
	return 0;
}

/* Tries the preferred features first, then weaker ones. efa-direct has no delivery complete. */
static int get_any(const struct fabric_lib *lib, struct fi_info *hints, const struct fabric_wish *w,
		   const struct device_config *config, struct fi_info **list)
{
	int err = -FI_ENODATA;
	uint32_t i;

	for (i = 0; i < 4 && err == -FI_ENODATA; i++) {
		hints->tx_attr->op_flags =
			i & 1 || w->is_efa ? FI_TRANSMIT_COMPLETE : FI_DELIVERY_COMPLETE;
		hints->domain_attr->threading = i & 2 ? FI_THREAD_DOMAIN : FI_THREAD_SAFE;
		if (w->threading != FI_THREAD_UNSPEC)
			hints->domain_attr->threading = w->threading;
		err = get_list(lib, hints, w, config, list);
	}
	return err;
}

/* Checks whether this version supports the provider's requirements. 0, or -errno with fail()
 * text. */
static int check_info(const struct fi_info *info)
{
	const char *prov = info->fabric_attr->prov_name;
	uint64_t mode = (uint64_t)info->domain_attr->mr_mode;
	size_t key_size = info->domain_attr->mr_key_size;

	if (info->mode & ~(FI_CONTEXT | FI_CONTEXT2))
		return fail(-EOPNOTSUPP, "provider %s asks for modes %llx that this version lacks",
			    prov, (unsigned long long)info->mode);
	if (mode & FI_MR_ENDPOINT && mode & (FI_MR_LOCAL | FI_MR_RAW))
		return fail(-EOPNOTSUPP,
			    "provider %s asks for memory modes %llx, and FI_MR_ENDPOINT is not "
			    "carried together with FI_MR_LOCAL or FI_MR_RAW",
			    prov, (unsigned long long)mode);
	if (mode & FI_MR_RAW && (key_size < sizeof(uint64_t) || key_size > FABRIC_RAW))
		return fail(-EOPNOTSUPP,
			    "provider %s has keys of %zu bytes, and 8 to %u are carried", prov,
			    key_size, FABRIC_RAW);
	if (info->ep_attr->max_msg_size < FABRIC_BUF)
		return fail(-EOPNOTSUPP, "provider %s moves %zu bytes at a time", prov,
			    info->ep_attr->max_msg_size);
	return 0;
}

/* Bytes that FI_INJECT may carry, at most a small chunk. ofi_rxm copies such bytes and then sends
 * the copy as usual: nothing is gained. */
static uint32_t inject_of(const struct fi_info *info)
{
	size_t n = info->tx_attr->inject_size;

	if (strstr(info->fabric_attr->prov_name, "ofi_rxm"))
		return 0;
	return n < FABRIC_SMALL ? (uint32_t)n : FABRIC_SMALL;
}

/* Ranges that one operation may have, at both ends. */
static uint32_t ranges_of(const struct fi_info *info)
{
	size_t n = info->tx_attr->iov_limit;

	if (info->tx_attr->rma_iov_limit < n)
		n = info->tx_attr->rma_iov_limit;
	if (!n)
		return 1;
	return n < FABRIC_RANGES ? (uint32_t)n : FABRIC_RANGES;
}

static int is_rxd(const struct fi_info *info)
{
	return !!strstr(info->fabric_attr->prov_name, "ofi_rxd");
}

/* Corrects attributes of providers that do not hold with libfabric 1.17. */
static void set_quirks(struct fabric_device *d)
{
	const char *prov = d->info->fabric_attr->prov_name;
	int is_net = !strcmp(prov, "net");

	/* net crashed when one thread closed an endpoint while another polled. Its wait objects are
	 * ready at once after the first completion. The tcp of libfabric 2 is based on it, and has
	 * neither fault. */
	d->serialized |= (uint32_t)is_net;
	d->restless = is_net;
	/* shm: two endpoints of one process access each other's memory directly, and the one that
	 * is closed first unmaps it under the other. */
	d->apart = !strcmp(prov, "shm");
	/* ofi_rxd: if its window has no room for all packets of an operation, some are not sent,
	 * and a later operation may send first. It then counts packets as acknowledged that are
	 * not, completes a write too early, or never frees the room. So the backend posts only what
	 * fits into the window, with room for the peer's READs. (Lost acknowledgements may still
	 * overfill it.) A READ after the writes is ordered after them, and proves that they are
	 * there. Lost packets are sent again only when it is polled. A poll inserts the names of
	 * new peers without a lock, and an insert of another thread at that moment is refused
	 * (rxd_handle_rts, up to 2.6 at least). */
	if (is_rxd(d->info)) {
		d->serialized = 1;
		d->acks = 1;
		d->narrow = 1;
		d->most = FABRIC_NARROW_OP;
	}
}

/* A peer that accepts nothing must leave room on a shared endpoint. */
static uint32_t ops_most(const struct fabric_device *d)
{
	size_t quarter = d->info->tx_attr->size / 4;

	if (!d->shared || quarter >= FABRIC_OPS)
		return FABRIC_OPS;
	return quarter > 2 * FABRIC_OPS_LEFT ? (uint32_t)quarter : 2 * FABRIC_OPS_LEFT;
}

/* FI_MR_RMA_EVENT needs no code: no region has a counter. */
static int set_modes(struct fabric_device *d)
{
	size_t key_size = d->info->domain_attr->mr_key_size;

	d->mr_mode = (uint64_t)d->info->domain_attr->mr_mode;
	d->key_mask = key_size >= 8 ? UINT64_MAX : (1ull << 8 * key_size) - 1;
	d->raw = d->mr_mode & FI_MR_RAW ? (uint32_t)key_size : 0;
	/* NICs have few endpoints. Memory that was closed cannot be reached through any of them. */
	d->shared = fabric_is_nic(d->info) && !d->raw;
	d->bound = d->mr_mode & FI_MR_ENDPOINT || d->shared;
	d->serialized = d->info->domain_attr->threading != FI_THREAD_SAFE;
	d->acks = !(d->info->tx_attr->op_flags & FI_DELIVERY_COMPLETE);
	d->inject = inject_of(d->info);
	d->ranges = ranges_of(d->info);
	d->most = d->info->ep_attr->max_msg_size;
	set_quirks(d);
	d->ops_most = ops_most(d);
	d->dev.caps = CAP_FAILOVER | (d->bound ? 0 : CAP_PIN | CAP_SLOW_REG) |
		      (d->mr_mode & FI_MR_LOCAL ? CAP_SLOW_REG : 0) |
		      (d->mr_mode & FI_MR_ALLOCATED ? CAP_BY_PAGES : 0);
	if (d->info->nic && d->info->nic->link_attr)
		d->dev.bytes_per_s = d->info->nic->link_attr->speed / 8;
	if (!d->acks || !(d->mr_mode & FI_MR_LOCAL))
		return 0;
	return fabric_region_open(d, NULL, &d->proof[1], sizeof(d->proof[1]), FI_READ,
				  &d->proof_mr);
}

static int is_set(const char *name, const char *value)
{
	const char *has = getenv(name);

	return has && !strcmp(has, value);
}

/* With CMA, a stopped target keeps addresses of our memory, and accesses them when it continues,
 * whatever was closed meanwhile. */
static int check_shm(const struct fi_info *info)
{
	if (!strstr(info->fabric_attr->prov_name, "shm") || is_set("FI_SHM_DISABLE_CMA", "1"))
		return 0;
	return fail(-EOPNOTSUPP,
		    "provider %s copies by CMA, where a peer that is stopped and goes on touches "
		    "memory that is in other use by then; set FI_SHM_DISABLE_CMA=1",
		    info->fabric_attr->prov_name);
}

/* Checks that the window and the packets are as set_quirks() assumes. The provider keeps the size
 * of the window in 16 bits. */
static int check_rxd(const struct fi_info *info)
{
	const char *prov = info->fabric_attr->prov_name, *window = getenv("FI_OFI_RXD_MAX_UNACKED");
	long n = window ? strtol(window, NULL, 0) : FABRIC_NARROW_WINDOW;

	if (!is_rxd(info))
		return 0;
	if (strcmp(prov, "udp;ofi_rxd"))
		return fail(-EOPNOTSUPP, "provider %s: of ofi_rxd, udp alone is carried", prov);
	if (n >= (long)FABRIC_NARROW_WINDOW && n <= UINT16_MAX)
		return 0;
	return fail(
		-EOPNOTSUPP,
		"provider %s has a window of %s packets by FI_OFI_RXD_MAX_UNACKED, which writes "
		"of ours and the peer's reads could fill, and then it loses the order of what it "
		"sends; unset it, or set it to %u, or more, but %u at most",
		prov, window, FABRIC_NARROW_WINDOW, UINT16_MAX);
}

/* The provider's own variable forbids it for all endpoints, also in versions without the option. */
static int efa_has_shm(const struct fi_info *info)
{
	return strstr(info->fabric_attr->prov_name, "efa") &&
	       !is_set("FI_EFA_ENABLE_SHM_TRANSFER", "0");
}

int fabric_shm_forbid(const struct fabric_device *d, struct fid_ep *ep)
{
	bool permitted = false;
	int err = fi_setopt(&ep->fid, FI_OPT_ENDPOINT, SHARED_MEMORY_PERMITTED, &permitted,
			    sizeof(permitted));

	if (!err || !d->has_shm)
		return 0;
	return fail(
		-EOPNOTSUPP,
		"provider efa goes by shared memory to peers of this host, where one that is "
		"stopped and goes on touches memory that is in other use by then, and libfabric "
		"%u.%u has no option against it: set FI_EFA_ENABLE_SHM_TRANSFER=0",
		FI_MAJOR(d->lib.version), FI_MINOR(d->lib.version));
}

/* The provider makes no call of CUDA, which could block its thread, and copies nothing. */
static int hmem_set(struct fid_ep *ep)
{
	int p2p = FI_HMEM_P2P_REQUIRED, err;
	bool permitted = false;

	err = fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &p2p, sizeof(p2p));
	if (err)
		return err;
	return fi_setopt(&ep->fid, FI_OPT_ENDPOINT, CUDA_PERMITTED, &permitted, sizeof(permitted));
}

int fabric_hmem_open(struct fabric_device *d, const struct fabric_endpoint *endpoint)
{
	int err;

	/* Local memory is registered without an endpoint. */
	if (!(d->info->caps & FI_HMEM) || !(d->mr_mode & FI_MR_LOCAL))
		return 0;
	err = hmem_set(endpoint->ep);
	if (endpoint != &d->msg)
		return d->hmem ? err : 0;
	d->hmem = !err;
	d->dev.caps |= err ? 0 : CAP_GPU_DIRECT;
	return 0;
}

static int open_refused(const struct fabric_device *d, const char *what, int err)
{
	return fail(err, "libfabric: %s of %s: %s", what, d->info->domain_attr->name,
		    d->lib.strerror(-err));
}

static int list_with(const struct fabric_lib *lib, const struct fabric_wish *w,
		     const struct device_config *config, uint64_t caps, struct fi_info **list)
{
	struct fi_info *hints = hints_make(lib, w, config->params, caps);
	int err = hints ? get_any(lib, hints, w, config, list) : -ENOMEM;

	if (hints)
		lib->freeinfo(hints);
	return err;
}

/* Devices of these may read and write memory of GPUs. What FI_HMEM makes others do is not asked
 * for. */
static int may_hmem(const struct fabric_wish *w, const struct urccl_params *p)
{
	return (strstr(w->prov, "efa") || strstr(w->prov, "verbs")) && gpu_is_loaded(p->cuda_so);
}

/* Lists the usable domains, which the caller frees, and picks the wanted ones. 0 or -errno with
 * fail() text. */
static int list_rails(const struct fabric_lib *lib, const struct fabric_wish *w,
		      const struct device_config *config, struct fi_info **list,
		      struct fabric_picked *p)
{
	int err = -FI_ENODATA;

	if (may_hmem(w, config->params))
		err = list_with(lib, w, config, FI_HMEM, list);
	if (err)
		err = list_with(lib, w, config, 0, list);
	if (err)
		return fail(err,
			    "libfabric has no provider %s here that gives reliable datagrams with "
			    "remote reads and writes: %s. See fi_info",
			    w->prov, lib->strerror(-err));
	err = fabric_pick(*list, w, p);
	if (err)
		lib->freeinfo(*list);
	return err;
}

int fabric_count(const struct fabric_wish *w, const struct device_config *config)
{
	struct fabric_picked p;
	struct fabric_lib lib;
	struct fi_info *list;
	int err = fabric_load(&lib, config->params->libfabric_so);

	if (!err)
		err = list_rails(&lib, w, config, &list, &p);
	if (err)
		return err;
	lib.freeinfo(list);
	return (int)(p.n + p.nmissing);
}

/* The cache of verbs registers with all rights and keeps closed regions (prov/verbs/src/verbs_mr.c,
 * up to 2.6 at least). It is active if two regions of one address have one key. */
static int check_cache(struct fabric_device *d)
{
	const char *prov = d->info->fabric_attr->prov_name;
	struct fid_mr *one = NULL, *other = NULL;
	size_t len = sizeof(d->proof[0]);
	int err, cached;

	if (!strstr(prov, "verbs"))
		return 0;
	err = fabric_region_open(d, NULL, &d->proof[0], len, FI_REMOTE_READ, &one);
	if (!err)
		err = fabric_region_open(d, NULL, &d->proof[0], len, FI_REMOTE_READ, &other);
	cached = !err && fi_mr_key(one) == fi_mr_key(other);
	if (other)
		fabric_fid_close(&other->fid);
	if (one)
		fabric_fid_close(&one->fid);
	if (err)
		return open_refused(d, "fi_mr_reg", err);
	if (!cached)
		return 0;
	return fail(-EOPNOTSUPP,
		    "provider %s caches registrations, where peers have all rights to memory "
		    "that is registered, and go on having them when it is taken back; set "
		    "FI_MR_CACHE_MONITOR=disabled",
		    prov);
}

static int domain_open(struct fabric_device *d)
{
	int err = check_info(d->info);

	if (!err)
		err = check_shm(d->info);
	if (!err)
		err = check_rxd(d->info);
	if (!err)
		err = fabric_nic_check(d->info);
	if (err)
		return err;
	err = d->lib.fabric(d->info->fabric_attr, &d->fabric, NULL);
	if (err)
		return open_refused(d, "fi_fabric", err);
	err = fi_domain(d->fabric, d->info, &d->domain, NULL);
	if (err)
		return open_refused(d, "fi_domain", err);
	err = fabric_nic_domain(d);
	if (err)
		return err;
	d->has_shm = (uint32_t)efa_has_shm(d->info);
	err = set_modes(d);
	if (err)
		return open_refused(d, "fi_mr_reg", err);
	err = fabric_tcp_open(d);
	if (err)
		return fail_errno(err, "libfabric: the process's descriptors cannot be looked at");
	return check_cache(d);
}

int fabric_find(struct fabric_device *d, const struct fabric_wish *w,
		const struct device_config *config)
{
	const struct fi_info *info;
	struct fabric_picked p;
	struct fi_info *list;
	int err = list_rails(&d->lib, w, config, &list, &p);

	if (err)
		return err;
	info = fabric_picked_at(list, w, &p, config->number);
	err = info ? 0 : -ENODEV;
	if (info) {
		d->info = d->lib.dupinfo(info);
		err = d->info ? domain_open(d) : fail(-ENOMEM, "libfabric: no memory");
	}
	d->lib.freeinfo(list);
	return err;
}
