/* SPDX-License-Identifier: Apache-2.0 */
/* drive PLUGIN TRANSPORT: two agents of this process through the plugin's table of functions, without
 * NIXL: threads with blocks of random sizes, of which every byte is compared, and the cost of a post:
 * no allocation, and the same time for 100,000 descriptors as for one. */
#include "agents.h"

#include <random>

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

static constexpr size_t SIZE = 8u << 20, THREADS = 4, BLOCKS = 100000, ROUNDS = 8, POSTS = 16;
static unsigned char *const buffers[] = {new unsigned char[SIZE](), new unsigned char[SIZE]()};

/* Each thread has a quarter of both buffers. */
static void work(size_t thread)
{
	std::mt19937 random((unsigned int)thread);
	size_t quarter = SIZE / THREADS, first = thread * quarter;

	for (size_t round = 0; round < ROUNDS; round++) {
		transfer_options opt = {std::string(random() % 600, (char)('a' + thread)), true,
					""};
		direction way = random() % 2 ? READ : WRITE;
		descriptors here, there;
		request *r;

		for (size_t i = 0; i < quarter; i++)
			buffers[way == READ][first + i] = (unsigned char)random();
		for (size_t at = first, len; at < first + quarter; at += len) {
			len = std::min<size_t>(1 + random() % 20000, first + quarter - at);
			add(0, here, there, at, at, len);
		}
		CHECK(!sides[0].e->prepare(way, here, there, "B", r, nullptr));
		CHECK(sides[0].e->post(way, here, there, "B", r, &opt) >= 0);
		CHECK(finish(0, r) == SUCCESS);
		CHECK(!memcmp(buffers[0] + first, buffers[1] + first, quarter));
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
	while (all.size() < THREADS * ROUNDS) {
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
		add(0, here, there, i * 80, i * 7919 % BLOCKS * 80, 64);
	CHECK(!sides[0].e->prepare(WRITE, here, there, "B", r, nullptr));
	for (size_t i = 0; i < POSTS; i++) {
		notifications got;
		uint64_t began = now_ns();
		size_t before = allocations;

		CHECK(sides[0].e->post(WRITE, here, there, "B", r, &opt) >= 0);
		CHECK(allocations == before);
		took.push_back(now_ns() - began);
		CHECK(finish(0, r) == SUCCESS);
		sides[1].e->take_notifications(got);
	}
	std::sort(took.begin(), took.end());
	printf("post of %zu: median %.1f us\n", BLOCKS, (double)took[POSTS / 2] / 1e3);
	CHECK(took[POSTS / 2] < 1000000);
	CHECK(!sides[0].e->release(r));
}

uint64_t now_ns()
{
	return (uint64_t)std::chrono::steady_clock::now().time_since_epoch().count();
}

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	const entry_points *plugin = load(argv[1]);
	for (int i = 0; i < 2; i++)
		sides[i].bytes = (uintptr_t)buffers[i];
	begin(plugin, argv[2], SIZE);
	random_sizes();
	cost_of_a_post();
	end(plugin);
	return 0;
}
