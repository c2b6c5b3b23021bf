/* SPDX-License-Identifier: Apache-2.0 */
/* drive PLUGIN TRANSPORT: two agents of this process through the plugin's table of functions, without
 * NIXL: threads with blocks of random sizes, of which every byte is compared, and the cost of a post:
 * no allocation, and the same time for 100,000 descriptors as for one. */
#include "../../liburccl/nixl/plugin.h"

#include <dlfcn.h>
#include <random>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(x)                                                                        \
	do {                                                                            \
		if (!(x)) {                                                             \
			fprintf(stderr, "failed: %s:%d: %s\n", __FILE__, __LINE__, #x); \
			exit(1);                                                        \
		}                                                                       \
	} while (0)

static thread_local size_t allocations;

void *operator new(size_t n)
{
	void *p = malloc(n);

	allocations++;
	if (!p)
		abort();
	return p;
}
void operator delete(void *p) noexcept
{
	free(p);
}
void operator delete(void *p, size_t) noexcept
{
	free(p);
}

struct entry_points {
	int api_version;
	urccl_engine *(*create)(const engine_params *);
	void (*destroy)(urccl_engine *);
};

struct side {
	urccl_engine *e;
	std::vector<unsigned char> bytes;
	memory *own = nullptr, *theirs = nullptr; /* theirs: of the other agent */
};

static constexpr size_t SIZE = 8u << 20, THREADS = 4, BLOCKS = 100000;
static const char *const NAMES[] = {"A", "B"};
static side sides[2];

static void begin(const entry_points &plugin, const char *transport)
{
	options custom = {{"transport", transport}};
	std::string info;

	for (int i = 0; i < 2; i++) {
		engine_params p = {NAMES[i], "URCCL", &custom, false, 0, 0, false};
		blob_range r = {};

		sides[i].e = plugin.create(&p);
		CHECK(sides[i].e && !sides[i].e->failed);
		sides[i].bytes.resize(SIZE);
		r.addr = (uintptr_t)sides[i].bytes.data();
		r.len = SIZE;
		CHECK(!sides[i].e->register_memory(r, DRAM, sides[i].own));
	}
	for (int i = 0; i < 2; i++) {
		blob_range r = {};

		CHECK(!sides[!i].e->connection_info(info));
		CHECK(!sides[i].e->load_connection(NAMES[!i], info));
		CHECK(!sides[!i].e->public_data(sides[!i].own, r.blob));
		CHECK(!sides[i].e->load_remote(r, DRAM, NAMES[!i], sides[i].theirs));
	}
	CHECK(!sides[0].e->connect("B"));
}

static void add(descriptors &here, descriptors &there, size_t from, size_t to, size_t len)
{
	here.items.push_back({{(uintptr_t)sides[0].bytes.data() + from, len, 0}, sides[0].own});
	there.items.push_back({{(uintptr_t)sides[1].bytes.data() + to, len, 0}, sides[0].theirs});
}

static void finish(request *r)
{
	status s;

	while ((s = sides[0].e->check(r)) == IN_PROG)
		std::this_thread::yield();
	CHECK(s == SUCCESS);
}

/* Each thread has a quarter of both buffers. */
static void work(size_t thread)
{
	std::mt19937 random((unsigned int)thread);
	size_t quarter = SIZE / THREADS, first = thread * quarter;

	for (int round = 0; round < 30; round++) {
		transfer_options opt = {std::string(random() % 600, (char)('a' + thread)), true,
					""};
		direction way = random() % 2 ? READ : WRITE;
		descriptors here, there;
		request *r;

		for (size_t i = 0; i < quarter; i++)
			sides[way == READ].bytes[first + i] = (unsigned char)random();
		for (size_t at = first, len; at < first + quarter; at += len) {
			len = std::min<size_t>(1 + random() % 20000, first + quarter - at);
			add(here, there, at, at, len);
		}
		CHECK(!sides[0].e->prepare(way, here, there, "B", r, nullptr));
		CHECK(sides[0].e->post(way, here, there, "B", r, &opt) >= 0);
		finish(r);
		CHECK(!memcmp(&sides[0].bytes[first], &sides[1].bytes[first], quarter));
		CHECK(!sides[0].e->release(r));
	}
}

static void random_sizes()
{
	std::vector<std::thread> threads;
	notifications got, all;

	for (size_t i = 0; i < THREADS; i++)
		threads.emplace_back(work, i);
	for (std::thread &t : threads)
		t.join();
	while (all.size() < THREADS * 30) {
		got.clear();
		CHECK(!sides[1].e->take_notifications(got));
		all.insert(all.end(), got.begin(), got.end());
	}
	for (const auto &[from, text] : all)
		CHECK(from == "A" &&
		      text.find_first_not_of(text.empty() ? 'a' : text[0]) == std::string::npos);
}

static void cost_of_a_post()
{
	std::vector<uint64_t> took;
	transfer_options opt = {std::string(200, 'x'), true, ""};
	descriptors here, there;
	request *r;

	for (size_t i = 0; i < BLOCKS; i++)
		add(here, there, i * 80, i * 7919 % BLOCKS * 80, 64);
	CHECK(!sides[0].e->prepare(WRITE, here, there, "B", r, nullptr));
	for (int i = 0; i < 100; i++) {
		notifications got;
		uint64_t began = now_ns();
		size_t before = allocations;

		CHECK(sides[0].e->post(WRITE, here, there, "B", r, &opt) >= 0);
		CHECK(allocations == before);
		took.push_back(now_ns() - began);
		finish(r);
		sides[1].e->take_notifications(got);
	}
	std::sort(took.begin(), took.end());
	printf("post of %zu: median %.1f us, p99 %.1f us\n", BLOCKS, (double)took[50] / 1e3,
	       (double)took[98] / 1e3);
	CHECK(took[50] < 1000000);
	CHECK(!sides[0].e->release(r));
}

uint64_t now_ns()
{
	return (uint64_t)std::chrono::steady_clock::now().time_since_epoch().count();
}

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!plugin)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(plugin);
	auto init = (const entry_points *(*)())dlsym(plugin, "nixl_plugin_init");
	const entry_points *points = init();
	CHECK(points->api_version == API_VERSION);
	begin(*points, argv[2]);
	random_sizes();
	cost_of_a_post();
	for (int i = 0; i < 2; i++) {
		CHECK(!sides[i].e->unload(sides[i].theirs));
		CHECK(!sides[i].e->disconnect(NAMES[!i]));
		CHECK(!sides[i].e->deregister_memory(sides[i].own));
	}
	for (side &s : sides)
		points->destroy(s.e);
	return 0;
}
