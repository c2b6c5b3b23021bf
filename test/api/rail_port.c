/* SPDX-License-Identifier: Apache-2.0 */
/* A rail whose port has no link, at the dialler or at the acceptor, is tried ever more seldom; it
 * comes back soon once that port has its link again. Over RDMA devices that are made up. */
#include <dlfcn.h>
#include <stdlib.h>
#include "lateness.h"
#include "pair.h"

#define TRIES 10u	    /* in vain, after which the next one is LATER away */
#define LATER 5000000000ull /* ns */

static struct pair p;
static _Atomic uint32_t lines; /* two for each time that it broke or was tried: one a side */

static void hear(void *arg, int level, const char *text)
{
	(void)arg, (void)level;
	lines += strstr(text, "transport ib: ") != NULL;
}

static void turn(void)
{
	struct urccl_cqe cqe;

	CHECK(!side_take_within(&p.a, &p.b, 1000000, &cqe, NULL));
	CHECK(!side_take_within(&p.b, &p.a, 1000000, &cqe, NULL));
}

static void port(const char *name, int up)
{
	const char *so = getenv("UCCL_IBV_SO");
	void *lib = so ? dlopen(so, RTLD_NOW | RTLD_NOLOAD) : NULL;
	void *found = lib ? dlsym(lib, "double_link") : NULL;
	void (*link)(const char *device, int up);

	CHECK(found);
	memcpy(&link, &found, sizeof(link));
	link(name, up);
}

static void goes_and_returns(const char *name)
{
	uint64_t late = now_ns() + PAIR_LATE_NS, begin;

	lines = 0;
	port(name, 0);
	while (lines < 2 * (1 + TRIES)) {
		CHECK(!is_late(late));
		turn();
	}
	canary_reset();
	begin = now_ns();
	port(name, 1);
	pair_rails(&p, 0);
	check_within(begin, LATER / 2);
}

int main(int argc, char **argv)
{
	pair_options(&p, argc, argv);
	p.params.log = hear;
	p.params.log_level = URCCL_LOG_INFO;
	canary_start();
	pair_open(&p);
	while (!p.a.rails_told || !p.b.rails_told)
		turn(); /* that beside the first is up */
	goes_and_returns("rxe_w0");
	goes_and_returns("rxe_w1");
	pair_close(&p);
	return 0;
}
