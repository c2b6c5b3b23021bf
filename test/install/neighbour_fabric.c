/* SPDX-License-Identifier: Apache-2.0 */
/* libfabric: an endpoint of provider tcp that sends messages to itself. */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <stdlib.h>
#include <string.h>

#include "neighbours.h"
#include "test.h"

struct fabric {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep;
	fi_addr_t self;
};

static void endpoint(struct fabric *f)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT, .size = 64};
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	char address[256];
	size_t len = sizeof(address);

	CHECK_EQ(fi_cq_open(f->domain, &cq, &f->cq, NULL), 0);
	CHECK_EQ(fi_av_open(f->domain, &av, &f->av, NULL), 0);
	CHECK_EQ(fi_endpoint(f->domain, f->info, &f->ep, NULL), 0);
	CHECK_EQ(fi_ep_bind(f->ep, &f->av->fid, 0), 0);
	CHECK_EQ(fi_ep_bind(f->ep, &f->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	CHECK_EQ(fi_enable(f->ep), 0);
	CHECK_EQ(fi_getname(&f->ep->fid, address, &len), 0);
	CHECK_EQ(fi_av_insert(f->av, address, 1, &f->self, 0, NULL), 1);
}

static void *fabric_open(void)
{
	struct fi_info *hints = fi_allocinfo();
	struct fabric *f = calloc(1, sizeof(*f));

	CHECK(hints && f);
	hints->caps = FI_MSG;
	hints->ep_attr->type = FI_EP_RDM;
	hints->fabric_attr->prov_name = strdup("tcp");
	CHECK_EQ(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", NULL, FI_SOURCE, hints, &f->info), 0);
	fi_freeinfo(hints);
	CHECK_EQ(fi_fabric(f->info->fabric_attr, &f->fabric, NULL), 0);
	CHECK_EQ(fi_domain(f->fabric, f->info, &f->domain, NULL), 0);
	endpoint(f);
	return f;
}

static void fabric_use(void *self)
{
	char text[] = "a message of libfabric", got[sizeof(text)] = "";
	struct fi_cq_entry entry;
	struct fabric *f = self;
	int left = 2;
	ssize_t rc;

	CHECK_EQ(fi_recv(f->ep, got, sizeof(got), NULL, FI_ADDR_UNSPEC, NULL), 0);
	while ((rc = fi_send(f->ep, text, sizeof(text), NULL, f->self, NULL)) == -FI_EAGAIN)
		fi_cq_read(f->cq, &entry, 0);
	CHECK_EQ(rc, 0);
	while (left) {
		rc = fi_cq_read(f->cq, &entry, 1);
		CHECK(rc == 1 || rc == -FI_EAGAIN);
		left -= rc == 1;
	}
	CHECK_EQ(memcmp(got, text, sizeof(text)), 0);
}

static void fabric_close(void *self)
{
	struct fabric *f = self;

	CHECK_EQ(fi_close(&f->ep->fid), 0);
	CHECK_EQ(fi_close(&f->av->fid), 0);
	CHECK_EQ(fi_close(&f->cq->fid), 0);
	CHECK_EQ(fi_close(&f->domain->fid), 0);
	CHECK_EQ(fi_close(&f->fabric->fid), 0);
	fi_freeinfo(f->info);
	free(f);
}

const struct neighbour neighbour_fabric = {"libfabric", fabric_open, fabric_use, fabric_close};
