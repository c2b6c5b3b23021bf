/* SPDX-License-Identifier: Apache-2.0 */
/* lost PLUGIN TRANSPORT: memory of an agent that is lost, while nobody takes the event that says so.
 * Its transfers end with REMOTE_DISCONNECT, as those do that come later. An agent may end while it
 * connects, and may be lost before this one takes the completion of its CONNECT. */
#include "agents.h"

static constexpr size_t SIZE = 4096;
static constexpr int TRANSFERS = 300; /* more than the plugin takes at once */
static unsigned char buffers[2][SIZE];

static void end_of_other(const entry_points *plugin)
{
	CHECK(!sides[1].e->unload(sides[1].theirs));
	CHECK(!sides[1].e->disconnect("A"));
	CHECK(!sides[1].e->deregister_memory(sides[1].own));
	plugin->destroy(sides[1].e);
}

/* A transfer to memory that is loaded for it. */
static request *prepare(const std::string &blob, std::vector<memory *> &loaded)
{
	descriptors here, there;
	blob_range range = {};
	request *r;

	range.blob = blob;
	CHECK(!sides[0].e->load_remote(range, DRAM, "B", sides[0].theirs));
	loaded.push_back(sides[0].theirs);
	add(0, here, there, 0, 0, SIZE);
	CHECK(!sides[0].e->prepare(WRITE, here, there, "B", r, nullptr));
	return r;
}

static void end_early(const entry_points *plugin, const char *transport)
{
	options custom = {{"transport", transport}};
	engine_params p = {"C", "URCCL", &custom, false, 0, 0, false};
	urccl_engine *e = plugin->create(&p);
	std::string info;

	CHECK(e && !e->failed);
	CHECK(!sides[0].e->connection_info(info));
	CHECK(!e->load_connection("A", info));
	plugin->destroy(e);
}

/* After it took what has come. */
static size_t senders_of(urccl_engine *e)
{
	notifications none;

	CHECK(!e->take_notifications(none));
	lock l(e->state);
	return e->senders.size();
}

/* Completions ahead of the CONNECT's keep it from being taken at once. */
static void lost_behind_completions(const entry_points *plugin, const char *transport)
{
	options custom = {{"transport", transport}};
	engine_params p = {"C", "URCCL", &custom, false, 0, 0, false};
	urccl_engine *a = sides[0].e, *c = plugin->create(&p);
	std::vector<request *> requests;
	descriptors here, there;
	std::string info;
	size_t before;

	CHECK(c && !c->failed && !c->connection_info(info));
	add(0, here, there, 0, 0, 8);
	a->consumer.lock();
	before = a->senders.size();
	for (int i = 0; i < TRANSFERS; i++) {
		requests.push_back(nullptr);
		CHECK(!a->prepare(WRITE, here, there, "B", requests.back(), nullptr));
		CHECK(a->post(WRITE, here, there, "B", requests.back(), nullptr) == IN_PROG);
	}
	CHECK(!a->load_connection("C", info));
	while (!senders_of(c))
		std::this_thread::yield();
	plugin->destroy(c);
	a->consumer.unlock();
	for (request *r : requests) {
		CHECK(finish(0, r) == SUCCESS);
		CHECK(!a->release(r));
	}
	while (a->connect("C") != REMOTE_DISCONNECT || senders_of(a) != before)
		std::this_thread::yield();
	CHECK(!a->disconnect("C"));
}

int main(int argc, char **argv)
{
	std::vector<request *> requests;
	std::vector<memory *> loaded;
	descriptors none;
	std::string blob;
	status s;

	CHECK(argc == 3);
	const entry_points *plugin = load(argv[1]);
	for (int i = 0; i < 2; i++)
		sides[i].bytes = (uintptr_t)buffers[i];
	begin(plugin, argv[2], SIZE);
	loaded.push_back(sides[0].theirs);
	CHECK(!sides[1].e->public_data(sides[1].own, blob));
	lost_behind_completions(plugin, argv[2]);
	sides[0].e->consumer.lock();
	end_of_other(plugin);
	do {
		requests.push_back(prepare(blob, loaded));
		s = sides[0].e->post(WRITE, none, none, "B", requests.back(), nullptr);
	} while (s == IN_PROG);
	CHECK(s == REMOTE_DISCONNECT);
	sides[0].e->consumer.unlock();
	for (request *r : requests) {
		CHECK(finish(0, r) == REMOTE_DISCONNECT);
		CHECK(!sides[0].e->release(r));
	}
	for (memory *m : loaded)
		CHECK(!sides[0].e->unload(m));
	CHECK(!sides[0].e->disconnect("B"));
	CHECK(!sides[0].e->deregister_memory(sides[0].own));
	end_early(plugin, argv[2]);
	plugin->destroy(sides[0].e);
	return 0;
}
