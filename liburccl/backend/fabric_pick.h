/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a transport's name to domains of a provider, each of which is a device: fabric_open.c asks
 * libfabric what there is, fabric_pick.c chooses, and fabric_named.c is what efa and cxi, the named
 * forms, ask for besides.
 */
#ifndef BACKEND_FABRIC_PICK_H
#define BACKEND_FABRIC_PICK_H

#include "backend/fabric.h"

#define FABRIC_RAILS 8u /* domains of a provider: as many as a peer's rails have numbers */
#define EFA_RAILS    4u /* of them, with efa: the NICs of a GPU */

/* The devices that a transport's name and the settings ask for. */
struct fabric_wish {
	char prov[64];
	char domains[FABRIC_RAILS][64]; /* in this order; one may be named twice */
	uint32_t ndomains;		/* 0: all that will do */
	const struct nic_port *nics;	/* those that the machine's plan has; NULL: any */
	uint32_t nnics;
	int are_named; /* in the settings: each is wanted */
	uint32_t most;	    /* devices */
	enum fi_threading threading;	/* FI_THREAD_UNSPEC: what can be had */
	int is_cxi, is_efa; /* the named forms, which ask for more */
};

struct fabric_picked {
	const struct fi_info *rails[FABRIC_RAILS];
	uint32_t n;
	const char *missing[FABRIC_RAILS]; /* the wish's names that no domain has */
	uint32_t nmissing;
};

/* The words behind "fabric:", up to the next transport: PROVIDER or PROVIDER@DOMAIN@DOMAIN...
 * 0 or -EINVAL with fail() text. */
int fabric_wish_read(struct fabric_wish *w, const char *text);
/* Of what fi_getinfo() lists. 0, or -errno with fail() text: none will do, and none is named. */
int fabric_pick(const struct fi_info *list, const struct fabric_wish *w, struct fabric_picked *p);
/* The number-th: rails, and behind them those that are missing, for which it is NULL with fail()
 * text: the transport may do without them, and each is told by itself. */
const struct fi_info *fabric_picked_at(const struct fi_info *list, const struct fabric_wish *w,
				       const struct fabric_picked *p, uint32_t number);
int fabric_is_ip(const struct fi_info *info); /* its names are internet addresses */
/* How many devices fabric_find() finds; -errno with fail() text. */
int fabric_count(const struct fabric_wish *w, const struct device_config *config);
/* Sets info, fabric and domain of the config->number-th. 0 or -errno with fail() text. */
int fabric_find(struct fabric_device *d, const struct fabric_wish *w,
		const struct device_config *config);

/* The named forms, and what classes of entries ask for: fabric_named.c. */
void fabric_efa_wish(struct fabric_wish *w, const struct device_config *config);
void fabric_cxi_wish(struct fabric_wish *w, const struct device_config *config);
void fabric_cxi_hints(struct fi_info *hints, const struct urccl_params *p);
/* 1: the provider is efa or cxi, by whichever name it was asked for. */
int fabric_is_nic(const struct fi_info *info);
/* All below: 0, or -errno with fail() text. */
int fabric_cxi_threading(struct fabric_wish *w, const struct urccl_params *p);
/* Of them: what was given could be taken back, as far as they say; and as far as they do what a
 * domain that was just opened is told. */
int fabric_nic_check(const struct fi_info *info);
int fabric_nic_domain(struct fabric_device *d);
/* libfabric's traffic class of endpoints for entries of this class, where the settings ask for one;
 * else it stays the provider's. */
int fabric_tclass(const struct fabric_wish *w, const struct urccl_params *p, uint32_t cls,
		  uint32_t *tclass);
/* What is only known of an endpoint that is open: talk. */
int fabric_check_endpoint(const struct fabric_device *d, const struct fabric_wish *w);

#endif
