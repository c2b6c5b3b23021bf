/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that fail. */
#include <sys/mman.h>
#include <sys/resource.h>
#include "sentences.h"

static void opens(const char *name, const struct urccl_params *params, int res)
{
	struct urccl *ctx;

	said_call(name, urccl_open(params, &ctx), res);
}

static struct urccl_params with_transport(const char *transport)
{
	struct urccl_params params = p.params;

	params.transport = transport;
	return params;
}

static void limited(const char *name, int what, uint64_t limit, const char *transport, int res)
{
	struct urccl_params params = with_transport(transport);
	struct rlimit old, less;

	CHECK_EQ(getrlimit((__rlimit_resource_t)what, &old), 0);
	less = old;
	less.rlim_cur = limit;
	CHECK_EQ(setrlimit((__rlimit_resource_t)what, &less), 0);
	opens(name, &params, res);
	CHECK_EQ(setrlimit((__rlimit_resource_t)what, &old), 0);
}

static void opening(void)
{
	struct urccl_params params;
	char place[PLACE_MAX];
	uint16_t port;
	int fd = raw_listen(&port);

	params = p.params;
	place_v4(place, port);
	params.listen = place;
	opens("listen_taken", &params, -EADDRINUSE);
	close(fd);
	params.listen = "192.0.2.1:0";
	opens("listen_elsewhere", &params, -EADDRNOTAVAIL);
	params.listen = "nonsense";
	opens("listen_nonsense", &params, -EINVAL);
	params.listen = "127.0.0.1:1,127.0.0.2:2";
	opens("listen_two_ports", &params, -EINVAL);
	params = p.params;
	params.progress_cpus = "8191";
	opens("no_such_cpu", &params, -EINVAL);
	params = p.params;
	params.tcp_congestion = "nosuch";
	opens("no_such_congestion", &params, -ENOENT);
	params = with_transport("nccl");
	opens("transport_not_carried", &params, -EOPNOTSUPP);
	params = with_transport("sim");
	opens("sim_without_network", &params, -EINVAL);
	params = with_transport("shm");
	params.socket_dir = "/nonexistent";
	opens("socket_dir_missing", &params, -ENOENT);
	limited("file_limit", RLIMIT_FSIZE, 4096, "shm", -EFBIG);
	limited("descriptor_limit", RLIMIT_NOFILE, 3, "tcp", -EMFILE);
}

static void memory(void)
{
	struct urccl_region r;
	struct urccl_advert ad;
	void *m, *ro;
	struct urccl_range range = {.len = 4096, .fd = -1};

	said_call("alloc_too_much", urccl_alloc(p.a.ctx, 1ull << 60, &m), -ENOMEM);
	CHECK_EQ(urccl_alloc(p.a.ctx, 4096, &m), 0);
	r = side_register(&p.a, m, 4096, URCCL_RIGHT_READ);
	said_call("free_in_use", urccl_free(p.a.ctx, m), -EBUSY);
	said_call("free_of_no_alloc", urccl_free(p.a.ctx, local), -EINVAL);
	said_call("advert_outside",
		  urccl_advertise(p.a.ctx, r, 4000, 100, URCCL_RIGHT_READ, 0, &ad), -ERANGE);
	said_call("advert_rights", urccl_advertise(p.a.ctx, r, 0, 1, URCCL_RIGHT_WRITE, 0, &ad),
		  -EACCES);
	CHECK_EQ(urccl_unregister(p.a.ctx, r), 0);
	said_call("unregister_again", urccl_unregister(p.a.ctx, r), -ESTALE);
	CHECK_EQ(urccl_free(p.a.ctx, m), 0);
	ro = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(ro != MAP_FAILED);
	range.addr = (uintptr_t)ro;
	said_call("register_read_only", urccl_register(p.a.ctx, &range, 1, URCCL_RIGHT_WRITE, &r),
		  -EACCES);
	munmap(ro, 4096);
	said_call("register_unmapped", urccl_register(p.a.ctx, &range, 1, 0, &r), -EFAULT);
}

void calls(void)
{
	struct urccl_wait_args wait = {.size = sizeof(wait), .min_n = 100000};
	struct urccl_ring_params ring = {.size = sizeof(ring), .entries = 3};
	struct urccl_ring *r;

	opening();
	memory();
	said_call("ring_of_three", urccl_ring_open(p.a.ctx, &ring, &r), -EINVAL);
	said_call("wait_for_too_many", urccl_wait(p.a.ring, NULL, &wait), -EINVAL);
}
