/* SPDX-License-Identifier: Apache-2.0 */
/* rounds PLUGIN TRANSPORT [KILLED [FROZEN]]: a peer is killed, or frozen and then killed, while transfers
 * run, and another begins under its name. Each transfer ends with REMOTE_DISCONNECT in time, the next
 * peer is reached, and neither descriptors nor threads nor memory grow. */
#include "agents.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

static constexpr size_t SIZE = 8u << 20;
static constexpr uint64_t DEAD_MS = 1000, LATE_MS = 1000;
static constexpr size_t GROWTH_KIB = 4096, SETTLED = 10;
static unsigned char *const bytes = new unsigned char[SIZE](), *const copy =
								       new unsigned char[SIZE];

struct introduction { /* of the peer, through a pipe */
	char info[URCCL_METADATA_MAX], blob[88];
	size_t info_len;
	uintptr_t bytes;
};

struct sizes {
	size_t descriptors, threads, resident_kib;
};

static urccl_engine *create(const entry_points *plugin, const char *name, const char *transport)
{
	options custom = {{"transport", transport},
			  {"dead_after_ms", std::to_string(DEAD_MS)},
			  {"log_level", "none"}};
	engine_params p = {name, "URCCL", &custom, false, 0, 0, false};
	urccl_engine *e = plugin->create(&p);

	CHECK(e && !e->failed);
	return e;
}

/* ---- the peer ---- */

static int be_peer(const entry_points *plugin, const char *transport)
{
	introduction me = {};
	std::string info, blob;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sides[0] = {create(plugin, "B", transport), (uintptr_t)bytes, DRAM, nullptr, nullptr, ""};
	register_bytes(0, SIZE);
	CHECK(!sides[0].e->connection_info(info) && !sides[0].e->public_data(sides[0].own, blob));
	CHECK(blob.size() == sizeof(me.blob));
	memcpy(me.info, info.data(), me.info_len = info.size());
	memcpy(me.blob, blob.data(), blob.size());
	me.bytes = sides[0].bytes;
	CHECK(write(1, &me, sizeof(me)) == sizeof(me));
	for (;;)
		pause();
}

static pid_t start_peer(char **argv, introduction &it)
{
	char word[] = "peer", *args[] = {argv[0], argv[1], argv[2], word, nullptr};
	posix_spawn_file_actions_t actions;
	size_t got = 0;
	int fds[2];
	pid_t pid;

	CHECK(!pipe2(fds, O_CLOEXEC) && !posix_spawn_file_actions_init(&actions));
	posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
	CHECK(!posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, args, environ));
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	for (ssize_t n; got < sizeof(it); got += (size_t)n)
		CHECK((n = read(fds[0], (char *)&it + got, sizeof(it) - got)) > 0);
	close(fds[0]);
	return pid;
}

/* ---- this process ---- */

static size_t entries(const char *folder)
{
	DIR *d = opendir(folder);
	size_t n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static sizes now()
{
	size_t pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	CHECK(f && fscanf(f, "%*u %zu", &pages) == 1);
	fclose(f);
	return {entries("/proc/self/fd"), entries("/proc/self/task"),
		pages * (size_t)sysconf(_SC_PAGESIZE) / 1024};
}

/* The time that this thread was ready to run and had no processor. */
static uint64_t waited_ns()
{
	unsigned long long ns = 0;
	FILE *f = fopen("/proc/thread-self/schedstat", "r");

	if (!f)
		return 0;
	CHECK(fscanf(f, "%*u %llu", &ns) == 1);
	fclose(f);
	return ns;
}

static status move(direction way, const descriptors &here, const descriptors &there)
{
	request *r;

	CHECK(!sides[0].e->prepare(way, here, there, "B", r, nullptr));
	status s = sides[0].e->post(way, here, there, "B", r, nullptr);
	if (s == IN_PROG)
		s = finish(0, r);
	CHECK(!sides[0].e->release(r));
	return s;
}

/* Every byte goes there and comes back. False: the peer was silent for DEAD_MS, on a busy machine. */
static bool check_bytes(unsigned int seed)
{
	descriptors here, there;

	add(0, here, there, 0, 0, SIZE);
	for (size_t i = 0; i < SIZE; i += sizeof(seed))
		memcpy(bytes + i, &(seed += 2654435761u), sizeof(seed));
	memcpy(copy, bytes, SIZE);
	status s = move(WRITE, here, there);
	memset(bytes, 0, SIZE);
	if (!s)
		s = move(READ, here, there);
	CHECK(s == REMOTE_DISCONNECT || (!s && !memcmp(bytes, copy, SIZE)));
	return !s;
}

/* The time from the signal to the status, ns. 0: the status came first, on a busy machine. */
static uint64_t end_in_flight(pid_t pid, int how, uint64_t delay_ns)
{
	descriptors here, there;
	request *r;

	add(0, here, there, 0, 0, SIZE);
	CHECK(!sides[0].e->prepare(WRITE, here, there, "B", r, nullptr));
	uint64_t at = now_ns() + delay_ns, waited = 0;
	bool is_sent = false;
	status s = SUCCESS;
	while (s >= 0) { /* until a post or a transfer fails */
		if (!is_sent && now_ns() >= at) {
			CHECK(!kill(pid, how));
			is_sent = true;
			at = now_ns();
			waited = waited_ns();
		}
		s = s == IN_PROG ? sides[0].e->check(r)
				 : sides[0].e->post(WRITE, here, there, "B", r, nullptr);
	}
	uint64_t took = is_sent ? now_ns() - at : 0;
	CHECK(s == REMOTE_DISCONNECT);
	CHECK(took < (DEAD_MS + LATE_MS) * 1000000 + waited_ns() - waited);
	s = sides[0].e->release(r);
	CHECK(!s || !sides[0].e->release(r));
	return took;
}

static uint64_t one_round(char **argv, int how, std::mt19937 &random)
{
	blob_range range = {};
	introduction it;
	pid_t pid = start_peer(argv, it);

	CHECK(!sides[0].e->load_connection("B", std::string(it.info, it.info_len)));
	range.blob.assign(it.blob, sizeof(it.blob));
	CHECK(!sides[0].e->load_remote(range, DRAM, "B", sides[0].theirs));
	sides[1].bytes = it.bytes;
	uint64_t took = check_bytes(random()) ? end_in_flight(pid, how, random() % 4000000) : 0;
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, nullptr, 0) == pid);
	CHECK(!sides[0].e->unload(sides[0].theirs));
	CHECK(!sides[0].e->disconnect("B"));
	return took;
}

uint64_t now_ns()
{
	return (uint64_t)std::chrono::steady_clock::now().time_since_epoch().count();
}

int main(int argc, char **argv)
{
	CHECK(argc >= 3 && argc <= 5);
	const entry_points *plugin = load(argv[1]);
	if (argc == 4 && !strcmp(argv[3], "peer"))
		return be_peer(plugin, argv[2]);
	size_t killed = argc > 3 ? strtoul(argv[3], nullptr, 10) : 20,
	       frozen = argc > 4 ? strtoul(argv[4], nullptr, 10) : 1;
	uint64_t slowest[2] = {};
	std::mt19937 random;
	sizes before = {};

	sides[0] = {create(plugin, "A", argv[2]), (uintptr_t)bytes, DRAM, nullptr, nullptr, ""};
	register_bytes(0, SIZE);
	for (size_t i = 0; i < killed + frozen; i++) {
		uint64_t took = 0;

		while (!took)
			took = one_round(argv, i < killed ? SIGKILL : SIGSTOP, random);
		slowest[i >= killed] = std::max(slowest[i >= killed], took);
		if (i == SETTLED)
			before = now();
	}
	sizes after = now();
	for (uint64_t until = now_ns() + 5000000000; now_ns() < until; after = now())
		if (after.descriptors <= before.descriptors && after.threads <= before.threads)
			break;
	printf("%zu killed, at most %.1f ms; %zu frozen, at most %.1f ms; descriptors %zu to %zu, "
	       "threads %zu to %zu, resident %zu to %zu KiB\n",
	       killed, (double)slowest[0] / 1e6, frozen, (double)slowest[1] / 1e6,
	       before.descriptors, after.descriptors, before.threads, after.threads,
	       before.resident_kib, after.resident_kib);
	if (killed + frozen > SETTLED) {
		CHECK(after.descriptors <= before.descriptors && after.threads <= before.threads);
		CHECK(after.resident_kib < before.resident_kib + GROWTH_KIB);
	}
	CHECK(!sides[0].e->deregister_memory(sides[0].own));
	plugin->destroy(sides[0].e);
	return 0;
}
