/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a transport's name to the domains of a provider; each domain is a device. open.c asks
 * libfabric for the list, pick.c picks from it, and named.c adds the requirements of
 * efa and cxi.
 */
#ifndef BACKEND_FABRIC_PICK_H
#define BACKEND_FABRIC_PICK_H

#include "backend/fabric/fabric.h"

#define FABRIC_RAILS 8u /* domains of a provider: the rail numbers of a peer */
#define EFA_RAILS    4u /* rails with efa: the NICs of one GPU */

/* The request that follows from a transport's name and the settings. */
struct fabric_wish {
	char prov[64];
	char domains[FABRIC_RAILS][64]; /* in this order; a domain may be named twice */
	uint32_t ndomains;		/* 0: all usable ones */
	const struct nic_port *nics;	/* NICs of the machine's plan; NULL: any */
	uint32_t nnics;
	int are_named; /* the settings name them: each is required */
	uint32_t most;	    /* devices, at most */
	enum fi_threading threading;	/* FI_THREAD_UNSPEC: any */
	int is_cxi, is_efa; /* requested as cxi or efa, with their further requirements */
};

struct fabric_picked {
	const struct fi_info *rails[FABRIC_RAILS];
	uint32_t n;
	const char *missing[FABRIC_RAILS]; /* requested names without a domain */
	uint32_t nmissing;
};

/* Reads the text after "fabric:", up to the next transport: PROVIDER or PROVIDER@DOMAIN@DOMAIN... 0
 * or -EINVAL with fail() text. */
int fabric_wish_read(struct fabric_wish *w, const char *text);
/* Picks from the list of fi_getinfo(). 0, or -errno with fail() text if it has no usable domain and
 * none was requested by name. */
int fabric_pick(const struct fi_info *list, const struct fabric_wish *w, struct fabric_picked *p);
/* The device with this number. The rails come first. Then come the requested names without a
 * domain: NULL with fail() text. The transport works without these. */
const struct fi_info *fabric_picked_at(const struct fi_info *list, const struct fabric_wish *w,
				       const struct fabric_picked *p, uint32_t number);
int fabric_is_ip(const struct fi_info *info); /* 1: its names are IP addresses */
/* The number of devices that fabric_find() finds, or -errno with fail() text. */
int fabric_count(const struct fabric_wish *w, const struct device_config *config);
/* Sets info, fabric and domain of device config->number. 0 or -errno with fail() text. */
int fabric_find(struct fabric_device *d, const struct fabric_wish *w,
		const struct device_config *config);

/* The named forms and traffic classes: named.c. */
void fabric_efa_wish(struct fabric_wish *w, const struct device_config *config);
void fabric_cxi_wish(struct fabric_wish *w, const struct device_config *config);
void fabric_cxi_hints(struct fi_info *hints, const struct urccl_params *p);
/* 1: the provider is efa or cxi, by either name. */
int fabric_is_nic(const struct fi_info *info);
/* All below: 0, or -errno with fail() text. */
int fabric_cxi_threading(struct fabric_wish *w, const struct urccl_params *p);
/* Check that exports can be revoked: the first checks the provider's attributes, the second sets
 * options of a domain that was just opened. */
int fabric_nic_check(const struct fi_info *info);
int fabric_nic_domain(struct fabric_device *d);
/* The traffic class of endpoints for entries of this class, if the settings name one. Otherwise
 * *tclass stays. */
int fabric_tclass(const struct fabric_wish *w, const struct urccl_params *p, uint32_t cls,
		  uint32_t *tclass);
/* Checks attributes that only an open endpoint shows. */
int fabric_check_endpoint(const struct fabric_device *d, const struct fabric_wish *w);

#endif
