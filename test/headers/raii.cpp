// SPDX-License-Identifier: Apache-2.0
// A client in C++17 with RAII wrappers: it compiles with -Wall -Wextra -Wconversion and no cast.
#include <liburccl/inspect.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <vector>

static void check(long long res)
{
	if (res < 0)
		throw std::runtime_error(urccl_errmsg());
}

struct Context {
	urccl *ctx = nullptr;
	urccl_ring *ring = nullptr;

	Context()
	{
		urccl_params params;

		urccl_params_init(&params);
		check(urccl_params_set(&params, "transport", "tcp"));
		check(urccl_open(&params, &ctx));
		check(urccl_ring_open(ctx, nullptr, &ring));
	}
	~Context() { urccl_close(ctx); }
	Context(const Context &) = delete;
	Context &operator=(const Context &) = delete;

	urccl_cqe run()
	{
		urccl_cqe *cqe;

		check(urccl_submit(ring));
		check(urccl_wait_cqe(ring, &cqe));
		urccl_cqe copy = *cqe;
		urccl_cqe_seen(ring, cqe);
		check(copy.res);
		return copy;
	}
};

int main()
{
	Context here, there;
	std::vector<char> from(4096, 'x'), to(4096), blob(URCCL_METADATA_MAX);
	urccl_region region;
	urccl_advert advert;
	urccl_range range = URCCL_RANGE(from.data(), from.size());

	check(urccl_register(here.ctx, &range, 1, 0, &region));
	range = URCCL_RANGE(to.data(), to.size());
	check(urccl_register(there.ctx, &range, 1, URCCL_RIGHT_WRITE, &region));
	check(urccl_advertise(there.ctx, region, 0, to.size(), URCCL_RIGHT_WRITE, 0, &advert));
	urccl_prep_accept(urccl_get_sqe(there.ring));
	check(urccl_submit(there.ring));
	int len = urccl_metadata(there.ctx, blob.data(), URCCL_METADATA_MAX);
	check(len);
	urccl_prep_connect(urccl_get_sqe(here.ring), blob.data(), len);
	urccl_cqe cqe = here.run();
	urccl_prep_import(urccl_get_sqe(here.ring), urccl_cqe_peer(&cqe), &advert, 1);
	cqe = here.run();
	urccl_prep_write(urccl_get_sqe(here.ring), urccl_cqe_remote(&cqe), from.data(), from.size(), 0);
	here.run();
	urccl_stats stats = URCCL_INIT(urccl_stats);
	check(urccl_get_stats(here.ctx, &stats));
	std::printf("%llu bytes\n", 0ull + stats.bytes_written);
	return from == to ? 0 : 1;
}
