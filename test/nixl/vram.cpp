/* SPDX-License-Identifier: Apache-2.0 */
/* vram PLUGIN TRANSPORT: memory of a GPU at one agent, of the stand-in for libcuda or of a driver. It
 * is carried where the program has loaded CUDA, to and from memory of the host at the other agent,
 * whichever of the two asks for it. */
#include "agents.h"

#include <unistd.h>

static constexpr size_t SIZE = 4u << 20, ROW = 4096, ROWS = SIZE / ROW;
static void *cuda;

template <class F> static F symbol(const char *name)
{
	void *s = dlsym(cuda, name);

	CHECK(s);
	return (F)s;
}

/* False: there is no GPU. */
static bool start_cuda()
{
	const char *path = getenv("URCCL_TEST_CUDA_SO");
	int n = 0;
	void *context;

	cuda = dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	unsetenv("URCCL_TEST_CUDA_SO"); /* an agent takes it for a misspelt setting */
	if (!cuda || symbol<int (*)(unsigned)>("cuInit")(0) ||
	    symbol<int (*)(int *)>("cuDeviceGetCount")(&n) || !n)
		return false;
	CHECK(!symbol<int (*)(void **, int)>("cuDevicePrimaryCtxRetain")(&context, 0));
	CHECK(!symbol<int (*)(void *)>("cuCtxSetCurrent")(context));
	CHECK(!symbol<int (*)(uint64_t *, size_t)>("cuMemAlloc_v2")(&sides[0].bytes, SIZE));
	sides[0].type = VRAM;
	return true;
}

static std::vector<unsigned char> bytes_of_gpu()
{
	std::vector<unsigned char> v(SIZE);
	auto get = symbol<int (*)(void *, uint64_t, size_t)>("cuMemcpyDtoH_v2");

	CHECK(!get(v.data(), sides[0].bytes, SIZE));
	return v;
}

/* Blocks in a mixed order, from side i. */
static status move(int i, direction way)
{
	transfer_options opt = {"note", true, ""};
	descriptors here, there;
	notifications got;
	request *r;

	for (size_t k = 0; k < ROWS; k++)
		add(i, here, there, k * ROW, k * 7 % ROWS * ROW, ROW);
	CHECK(!sides[i].e->prepare(way, here, there, NAMES[!i], r, nullptr));
	CHECK(sides[i].e->post(way, here, there, NAMES[!i], r, &opt) >= 0);
	status s = finish(i, r);
	CHECK(!sides[i].e->release(r));
	while (!s && got.empty())
		sides[!i].e->take_notifications(got);
	return s;
}

static void moves(std::vector<unsigned char> &host)
{
	auto put = symbol<int (*)(uint64_t, const void *, size_t)>("cuMemcpyHtoD_v2");
	std::vector<unsigned char> was(SIZE);

	for (size_t k = 0; k < SIZE; k++)
		was[k] = (unsigned char)(k * 13 + k / ROW);
	CHECK(!put(sides[0].bytes, was.data(), SIZE));
	CHECK(move(0, WRITE) == SUCCESS);
	for (size_t k = 0; k < ROWS; k++)
		CHECK(!memcmp(&host[k * 7 % ROWS * ROW], &was[k * ROW], ROW));
	CHECK(!put(sides[0].bytes, host.data(), SIZE));
	CHECK(move(0, READ) == SUCCESS);
	CHECK(bytes_of_gpu() == was);
	was = host;
	CHECK(move(1, WRITE) == SUCCESS);
	std::vector<unsigned char> there = bytes_of_gpu();
	for (size_t k = 0; k < ROWS; k++)
		CHECK(!memcmp(&there[k * 7 % ROWS * ROW], &was[k * ROW], ROW));
	std::fill(host.begin(), host.end(), 0);
	CHECK(move(1, READ) == SUCCESS);
	CHECK(host == was);
}

static void refuses_copies_to_oneself()
{
	descriptors here, there;
	request *r;

	add(0, here, there, 0, 0, ROW);
	there = here;
	CHECK(sides[0].e->prepare(WRITE, here, there, "A", r, nullptr) == NOT_SUPPORTED);
}

int main(int argc, char **argv)
{
	std::vector<unsigned char> host(SIZE);

	CHECK(argc == 3);
	const entry_points *plugin = load(argv[1]);
	CHECK(!access("/dev/nvidiactl", F_OK) || plugin->backend_types() == segment_types{DRAM});
	if (!start_cuda()) {
		printf("no GPU\n");
		return 77;
	}
	CHECK((plugin->backend_types() == segment_types{DRAM, VRAM}));
	sides[1].bytes = (uintptr_t)host.data();
	begin(plugin, argv[2], SIZE);
	CHECK((sides[0].e->types() == segment_types{DRAM, VRAM}));
	moves(host);
	refuses_copies_to_oneself();
	end(plugin);
	return 0;
}
