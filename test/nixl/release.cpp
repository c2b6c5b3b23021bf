/* SPDX-License-Identifier: Apache-2.0 */
/* release PLUGIN TRANSPORT [ROUNDS [MIB]]: a transfer in flight is released, or its memory is
 * deregistered at one side. Both buffers are the program's afterwards: what it writes there stays, and
 * does not reach the other side. TRANSPORT may be "file": memory files, which the agents map. */
#include "agents.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <random>

enum method : unsigned int { RELEASE, DEREGISTER_HERE, DEREGISTER_THERE, METHODS };

static constexpr unsigned int LATE_S = 60;

static size_t size;
static const char *doing; /* these two: for who looks for the cause of a stall */
static const transfer *running;
static std::mt19937 source;
static size_t changed, refused, counts[METHODS];

static void map_bytes(int i, bool is_file)
{
	int fd = is_file ? memfd_create("test", MFD_ALLOW_SEALING | MFD_CLOEXEC) : -1;

	if (is_file) {
		CHECK(!posix_fallocate(fd, 0, (off_t)size));
		CHECK(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
		sides[i].text = "fd=" + std::to_string(fd);
	}
	void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE,
		       is_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
	CHECK(p != MAP_FAILED);
	sides[i].bytes = (uintptr_t)p;
	memset(p, 0, size);
}

static void report_stall(int)
{
	fprintf(stderr, "%u s: %s; %zu and %zu entries wait for room\n", LATE_S, doing,
		sides[0].e->waiting.size(), sides[1].e->waiting.size());
	if (running)
		fprintf(stderr,
			"status %d, quiet %d, cancelled %d, entries %u, begun %u, done %u\n",
			running->at.load().s, running->at.load().quiet, (int)running->cancelled,
			running->steps, running->asked, running->done);
	abort();
}

/* NIXL's: a first refusal may be. */
static void release(request *r)
{
	status s = sides[0].e->release(r);

	CHECK(!s || s == REPOST_ACTIVE);
	refused += s == REPOST_ACTIVE;
	CHECK(!s || !sides[0].e->release(r));
	running = nullptr;
}

/* What was on its way from A to B has come afterwards. */
static void await_notification()
{
	notifications got;

	CHECK(!sides[0].e->notify("B", "behind"));
	for (; got.empty(); std::this_thread::yield())
		CHECK(!sides[1].e->take_notifications(got));
	CHECK(got.size() == 1 && got[0].second == "behind");
}

static bool holds(int i, int byte)
{
	auto p = (const unsigned char *)sides[i].bytes;

	return p[0] == byte && !memcmp(p, p + 1, size - 1);
}

/* False: it was done before. span_us: a transfer's time. */
static bool one_round(method how, direction way, uint64_t span_us)
{
	uint64_t until = now_ns() + source() % (span_us + 1) * 1000;
	int i = how == DEREGISTER_THERE, byte = (int)(source() % 127);
	descriptors here, there;
	request *r;

	add(0, here, there, 0, 0, size);
	CHECK(!sides[0].e->prepare(way, here, there, "B", r, nullptr));
	running = static_cast<transfer *>(r);
	doing = way == READ ? "running a read" : "running a write";
	alarm(LATE_S);
	CHECK(sides[0].e->post(way, here, there, "B", r, nullptr) >= 0);
	while (now_ns() < until)
		sides[0].e->check(r);
	bool was_running = sides[0].e->check(r) == IN_PROG;
	doing = how == RELEASE ? "releasing" : "deregistering";
	if (how == RELEASE)
		release(r);
	else
		CHECK(!sides[i].e->deregister_memory(sides[i].own));
	memset((void *)sides[0].bytes, 2 * byte, size);
	memset((void *)sides[1].bytes, 2 * byte + 1, size);
	doing = "awaiting the notification behind it";
	await_notification();
	if (how != RELEASE) {
		doing = "awaiting the end";
		finish(0, r);
		release(r);
		register_bytes(i, size);
	}
	if (how == DEREGISTER_THERE) {
		CHECK(!sides[0].e->unload(sides[0].theirs));
		load_bytes(0);
	}
	counts[how] += was_running;
	changed += !holds(0, 2 * byte) + !holds(1, 2 * byte + 1);
	return was_running;
}

/* The time of a transfer, us. */
static uint64_t whole_transfer()
{
	descriptors here, there;
	request *r;

	add(0, here, there, 0, 0, size);
	CHECK(!sides[0].e->prepare(WRITE, here, there, "B", r, nullptr));
	uint64_t began = now_ns();
	CHECK(sides[0].e->post(WRITE, here, there, "B", r, nullptr) >= 0);
	CHECK(finish(0, r) == SUCCESS);
	CHECK(!sides[0].e->release(r));
	return (now_ns() - began) / 1000;
}

uint64_t now_ns()
{
	return (uint64_t)std::chrono::steady_clock::now().time_since_epoch().count();
}

int main(int argc, char **argv)
{
	CHECK(argc >= 3 && argc <= 5);
	const entry_points *plugin = load(argv[1]);
	bool is_file = !strcmp(argv[2], "file");
	size_t rounds = argc > 3 ? strtoul(argv[3], nullptr, 10) : 60, done = 0;
	size = (argc > 4 ? strtoul(argv[4], nullptr, 10) : 2) << 20;
	for (int i = 0; i < 2; i++)
		map_bytes(i, is_file);
	log_level = "none";
	begin(plugin, is_file ? "shm" : argv[2], size);
	uint64_t span_us = std::min(whole_transfer(), whole_transfer());
	signal(SIGALRM, report_stall);
	while (done < rounds) {
		unsigned int how = source() % 16;

		done += one_round(how < METHODS ? (method)how : RELEASE,
				  source() % 2 ? READ : WRITE, span_us);
	}
	alarm(0);
	printf("%zu released in flight (%zu refused once), deregistered here %zu, there %zu: "
	       "%zu buffers changed\n",
	       counts[RELEASE], refused, counts[DEREGISTER_HERE], counts[DEREGISTER_THERE],
	       changed);
	end(plugin);
	return changed != 0;
}
