/* SPDX-License-Identifier: Apache-2.0 */
/* What the settings libfabric_so, cxi_tx_queue_size, cxi_rx_queue_size, cxi_cq_size, cxi_threading,
 * cxi_device_index and cxi_domain say is what libfabric is told: one that is made up, which the
 * command line names. */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <rdma/fi_domain.h>
#include <liburccl.h>
#include "cxi_double.h"
#include "test.h"

static struct cxi_seen *seen;

static struct urccl_params fresh(const char *so)
{
	struct urccl_params p = {.size = sizeof(p)};

	urccl_params_init(&p);
	p.transport = "cxi";
	p.libfabric_so = so;
	return p;
}

static void refused(const struct urccl_params *p, int res, const char *words)
{
	struct urccl *ctx;
	int err = urccl_open(p, &ctx);

	if (err != res || !strstr(urccl_errmsg(), words))
		fprintf(stderr, "%d: %s\n", err, urccl_errmsg());
	CHECK_EQ(err, res);
	CHECK(strstr(urccl_errmsg(), words));
}

/* It comes as far as the completion queue. */
static void opens(const struct urccl_params *p, const char *domain)
{
	char words[64];

	memset(seen, 0, sizeof(*seen));
	snprintf(words, sizeof(words), "fi_cq_open of %s", domain);
	refused(p, -ENOSYS, words);
	CHECK(!strcmp(seen->domain, domain));
}

static void libraries(const char *so)
{
	struct urccl_params p = fresh("/nowhere/libfabric.so.1");

	refused(&p, -ELIBACC, "/nowhere/libfabric.so.1");
	CHECK(!*seen->domain);
	p = fresh(so);
	opens(&p, "cxi0");
}

static void queues(const char *so)
{
	struct urccl_params p = fresh(so);

	opens(&p, "cxi0");
	CHECK_EQ(seen->tx_size, 4096);
	CHECK_EQ(seen->rx_size, 4096);
	CHECK_EQ(seen->cq_size, 8192);
	p.cxi_tx_queue_size = 1234;
	p.cxi_rx_queue_size = 2345;
	p.cxi_cq_size = 34567;
	opens(&p, "cxi0");
	CHECK_EQ(seen->tx_size, 1234);
	CHECK_EQ(seen->rx_size, 2345);
	CHECK_EQ(seen->cq_size, 34567);
}

static void domains(const char *so)
{
	struct urccl_params p = fresh(so);

	p.cxi_device_index = 2;
	opens(&p, "cxi2");
	p.cxi_domain = "cxi3";
	opens(&p, "cxi3");
	p.cxi_domain = "cxi4";
	refused(&p, -ENODEV, "cxi4");
}

static void threads(const char *so)
{
	struct urccl_params p = fresh(so);

	p.cxi_threading = URCCL_CXI_THREADING_SAFE;
	opens(&p, "cxi0");
	CHECK_EQ(seen->threading, FI_THREAD_SAFE);
	p.cxi_threading = URCCL_CXI_THREADING_DOMAIN;
	opens(&p, "cxi0");
	CHECK_EQ(seen->threading, FI_THREAD_DOMAIN);
}

int main(int argc, char **argv)
{
	void *lib;

	CHECK_EQ(argc, 2);
	lib = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	CHECK(lib);
	seen = dlsym(lib, "cxi_seen");
	CHECK(seen);
	libraries(argv[1]);
	queues(argv[1]);
	domains(argv[1]);
	threads(argv[1]);
	return 0;
}
