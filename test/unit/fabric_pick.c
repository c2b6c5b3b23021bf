/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a provider's domains are rails. The lists are made up, by the manuals of the providers:
 * EFA's has each device twice, as efa and as efa-direct, and calls the domain NAME-rdm. */
#include <string.h>
#include "backend/fabric/pick.h"
#include "test.h"

#define INFOS 10u

struct row {
	const char *fabric, *domain, *nic; /* NULL: the provider does not tell */
};

struct made {
	struct fi_info info[INFOS];
	struct fi_fabric_attr fabric[INFOS];
	struct fi_domain_attr domain[INFOS];
	struct fi_device_attr device[INFOS];
	struct fid_nic nic[INFOS];
};

static const struct row efa[INFOS] = {
	{"efa", "rdmap0s31-rdm", "rdmap0s31"},	 {"efa-direct", "rdmap0s31-rdm", "rdmap0s31"},
	{"efa", "rdmap0s2-rdm", "rdmap0s2"},	 {"efa-direct", "rdmap0s2-rdm", "rdmap0s2"},
	{"efa", "rdmap16s27-rdm", "rdmap16s27"}, {"efa-direct", "rdmap16s27-rdm", "rdmap16s27"},
	{"efa", "rdmap16s28-rdm", "rdmap16s28"}, {"efa-direct", "rdmap16s28-rdm", "rdmap16s28"},
	{"efa", "rdmap32s1-rdm", "rdmap32s1"},
};
static const struct row cxi[INFOS] = {
	{"cxi", "cxi0", NULL},
	{"cxi", "cxi1", NULL},
	{"cxi", "cxi2", NULL},
	{"cxi", "cxi3", NULL},
};
static const struct row ip[INFOS] = {
	{"127.0.0.0/8", "lo", NULL},
	{"10.0.0.0/24", "eth0", NULL},
	{"10.0.1.0/24", "eth1", NULL},
	{"fe80::/64", "eth0", NULL},
};

/* Keeps the rows' order. */
static const struct fi_info *make(struct made *m, const struct row *rows, uint32_t format)
{
	uint32_t i;

	memset(m, 0, sizeof(*m));
	for (i = 0; rows[i].fabric; i++) {
		m->fabric[i].name = (char *)(uintptr_t)rows[i].fabric;
		m->domain[i].name = (char *)(uintptr_t)rows[i].domain;
		m->device[i].name = (char *)(uintptr_t)rows[i].nic;
		m->nic[i].device_attr = &m->device[i];
		m->info[i].fabric_attr = &m->fabric[i];
		m->info[i].domain_attr = &m->domain[i];
		m->info[i].nic = rows[i].nic ? &m->nic[i] : NULL;
		m->info[i].addr_format = format;
		m->info[i].next = rows[i + 1].fabric ? &m->info[i + 1] : NULL;
	}
	return m->info;
}

/* expected: "fabric/domain" and blanks. */
static void picks(const struct fi_info *list, const struct fabric_wish *w, const char *expected)
{
	char text[400] = "";
	struct fabric_picked p;
	size_t at = 0;
	uint32_t i;

	CHECK_EQ(fabric_pick(list, w, &p), 0);
	for (i = 0; i < p.n; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s/%s", i ? " " : "",
				       p.rails[i]->fabric_attr->name,
				       p.rails[i]->domain_attr->name);
	if (strcmp(text, expected))
		fprintf(stderr, "picked \"%s\", not \"%s\"\n", text, expected);
	CHECK(!strcmp(text, expected));
}

/* n are picked, and behind them comes one that is said to be missing. */
static void misses(const struct fi_info *list, const struct fabric_wish *w, uint32_t n,
		   const char *word)
{
	struct fabric_picked p;
	uint32_t i;

	CHECK_EQ(fabric_pick(list, w, &p), 0);
	CHECK_EQ(p.n, n);
	CHECK_EQ(p.nmissing, 1);
	for (i = 0; i < n; i++)
		CHECK(fabric_picked_at(list, w, &p, i) == p.rails[i]);
	CHECK(!fabric_picked_at(list, w, &p, n));
	CHECK(strstr(urccl_errmsg(), word));
	CHECK(!fabric_picked_at(list, w, &p, n + 1));
	CHECK(!strstr(urccl_errmsg(), word));
}

static void refuses(const struct fi_info *list, const struct fabric_wish *w, const char *word)
{
	struct fabric_picked p;

	CHECK_EQ(fabric_pick(list, w, &p), -ENODEV);
	CHECK(strstr(urccl_errmsg(), word));
}

static struct fabric_wish named(const char *text)
{
	struct fabric_wish w;

	CHECK_EQ(fabric_wish_read(&w, text), 0);
	return w;
}

static void refused(const char *text)
{
	struct fabric_wish w;

	CHECK_EQ(fabric_wish_read(&w, text), -EINVAL);
	CHECK(strlen(urccl_errmsg()) > 10);
}

static void names(void)
{
	struct fabric_wish w = named("tcp;ofi_rxm@eth0@eth1?,shm");

	CHECK(!strcmp(w.prov, "tcp;ofi_rxm"));
	CHECK_EQ(w.ndomains, 2);
	CHECK(!strcmp(w.domains[0], "eth0") && !strcmp(w.domains[1], "eth1"));
	w = named("verbs;ofi_rxm!");
	CHECK(!strcmp(w.prov, "verbs;ofi_rxm"));
	CHECK_EQ(w.ndomains, 0);
	CHECK_EQ(named("a@1@2@3@4@5@6@7@8").ndomains, 8);
	refused("@lo");
	refused("tcp@");
	refused("tcp@a@@b");
	refused("a@1@2@3@4@5@6@7@8@9");
	refused("a-name-that-is-longer-than-any-of-a-provider-of-libfabric-that-there-ever-was");
}

static void any_provider(void)
{
	struct made m;
	const struct fi_info *list = make(&m, ip, FI_SOCKADDR_IN);
	struct fabric_wish w = named("tcp;ofi_rxm");

	picks(list, &w, "127.0.0.0/8/lo");
	w = named("tcp;ofi_rxm@eth1@eth0");
	picks(list, &w, "10.0.1.0/24/eth1 10.0.0.0/24/eth0");
	w = named("tcp;ofi_rxm@lo@lo");
	picks(list, &w, "127.0.0.0/8/lo 127.0.0.0/8/lo");
	w = named("tcp;ofi_rxm@eth7@eth0");
	misses(list, &w, 1, "no domain eth7 here");
	w = named("tcp;ofi_rxm@eth7");
	misses(list, &w, 0, "no domain eth7 here");
	list = make(&m, cxi, FI_ADDR_CXI);
	w = named("cxi");
	picks(list, &w, "cxi/cxi0 cxi/cxi1 cxi/cxi2 cxi/cxi3");
}

static void efa_form(void)
{
	struct nic_port nics[] = {{"rdmap16s28", 1}, {"rdmap0s31", 1}, {"mlx5_0", 1}};
	struct urccl_params p = {.size = sizeof(p)};
	struct device_config config = {.params = &p, .nics = nics, .nnics = 2};
	struct fabric_wish w;
	struct made m;
	const struct fi_info *list = make(&m, efa, FI_ADDR_EFA);

	fabric_efa_wish(&w, &config);
	picks(list, &w, "efa-direct/rdmap16s28-rdm efa-direct/rdmap0s31-rdm");
	config.nics = nics + 2;
	config.nnics = 1;
	fabric_efa_wish(&w, &config);
	refuses(list, &w, "rdmap0s31");
	/* One of several is passed over, unless it was named. */
	config.nics = nics + 1;
	config.nnics = 2;
	fabric_efa_wish(&w, &config);
	picks(list, &w, "efa-direct/rdmap0s31-rdm");
	p.rdma_dev = "rdmap0s31,mlx5_0";
	fabric_efa_wish(&w, &config);
	misses(list, &w, 1, "no domain on mlx5_0, which rdma_dev names");
	p.rdma_dev = NULL;
	config.nnics = 0;
	fabric_efa_wish(&w, &config);
	picks(list, &w,
	      "efa-direct/rdmap0s31-rdm efa-direct/rdmap0s2-rdm efa-direct/rdmap16s27-rdm "
	      "efa-direct/rdmap16s28-rdm");
	w = named("efa@rdmap32s1");
	picks(list, &w, "efa/rdmap32s1-rdm");
}

static void cxi_form(void)
{
	struct urccl_params p = {.cxi_device_index = URCCL_AUTO};
	struct nic_port nic = {"cxi3", 0};
	struct device_config config = {.params = &p};
	struct fabric_wish w;
	struct made m;
	const struct fi_info *list = make(&m, cxi, FI_ADDR_CXI);

	fabric_cxi_wish(&w, &config);
	picks(list, &w, "cxi/cxi0");
	config.nics = &nic;
	config.nnics = 1;
	fabric_cxi_wish(&w, &config);
	picks(list, &w, "cxi/cxi3");
	p.cxi_device_index = 2;
	fabric_cxi_wish(&w, &config);
	picks(list, &w, "cxi/cxi2");
	p.cxi_domain = "cxi1";
	fabric_cxi_wish(&w, &config);
	picks(list, &w, "cxi/cxi1");
	p.cxi_domain = "cxi9";
	fabric_cxi_wish(&w, &config);
	misses(list, &w, 0, "cxi9");
	CHECK_EQ(fabric_cxi_threading(&w, &p), 0);
	CHECK_EQ(w.threading, FI_THREAD_UNSPEC);
	p.cxi_threading = URCCL_CXI_THREADING_DOMAIN;
	CHECK_EQ(fabric_cxi_threading(&w, &p), 0);
	CHECK_EQ(w.threading, FI_THREAD_DOMAIN);
	p.cxi_threading = URCCL_CXI_THREADING_ENDPOINT;
	CHECK_EQ(fabric_cxi_threading(&w, &p), -EOPNOTSUPP);
}

static int is_refused(const char *prov, int mr_mode, const char *word)
{
	struct fi_fabric_attr fabric = {.prov_name = (char *)(uintptr_t)prov};
	struct fi_domain_attr domain = {.name = (char *)(uintptr_t) "d0", .mr_mode = mr_mode};
	struct fi_info info = {.fabric_attr = &fabric, .domain_attr = &domain};
	int err = fabric_nic_check(&info);

	CHECK(!err || err == -EOPNOTSUPP);
	return err && strstr(urccl_errmsg(), word);
}

/* What must be so that something can be taken back. */
static void taken_back(void)
{
	CHECK(is_refused("cxi", FI_MR_ENDPOINT, "FI_MR_PROV_KEY"));
	CHECK(!is_refused("cxi", FI_MR_ENDPOINT | FI_MR_PROV_KEY, ""));
	CHECK(is_refused("efa", FI_MR_PROV_KEY, "FI_MR_LOCAL"));
	CHECK(!is_refused("efa", FI_MR_LOCAL | FI_MR_PROV_KEY, ""));
	CHECK(!is_refused("tcp;ofi_rxm", 0, ""));
}

static uint32_t class_of(const struct fabric_wish *w, int16_t sl, int16_t tc)
{
	struct urccl_params p = {.rdma_sl = {9, 9, 9}, .rdma_tc = {9, 9, 9}};
	uint32_t tclass = 77; /* the provider's */

	p.rdma_sl[URCCL_CLASS_LATENCY] = sl;
	p.rdma_tc[URCCL_CLASS_LATENCY] = tc;
	return fabric_tclass(w, &p, URCCL_CLASS_LATENCY, &tclass) ? UINT32_MAX : tclass;
}

/* EFA has two service levels and no traffic classes, the others code points and no levels. */
static void classes(void)
{
	struct fabric_wish any = {.prov = "tcp"}, efa_wish = {.is_efa = 1};

	CHECK_EQ(class_of(&any, URCCL_AUTO, URCCL_AUTO), 77);
	CHECK_EQ(class_of(&any, 5, URCCL_AUTO), 77);
	CHECK_EQ(class_of(&any, URCCL_AUTO, 0), FI_TC_DSCP);
	CHECK_EQ(class_of(&any, URCCL_AUTO, 184), FI_TC_DSCP | 46);
	CHECK_EQ(class_of(&any, URCCL_AUTO, 255), FI_TC_DSCP | 63);
	CHECK_EQ(class_of(&efa_wish, URCCL_AUTO, URCCL_AUTO), FI_TC_LOW_LATENCY);
	CHECK_EQ(class_of(&efa_wish, 8, 0), FI_TC_LOW_LATENCY);
	CHECK_EQ(class_of(&efa_wish, 0, URCCL_AUTO), FI_TC_UNSPEC);
	CHECK_EQ(class_of(&efa_wish, 3, URCCL_AUTO), UINT32_MAX);
	CHECK(strstr(urccl_errmsg(), "rdma_sl is 3"));
	CHECK_EQ(class_of(&efa_wish, URCCL_AUTO, 104), UINT32_MAX);
	CHECK(strstr(urccl_errmsg(), "rdma_tc is 104"));
}

int case_fabric_pick(void)
{
	names();
	any_provider();
	efa_form();
	cxi_form();
	taken_back();
	classes();
	return 0;
}
