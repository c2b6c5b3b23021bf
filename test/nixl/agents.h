/* SPDX-License-Identifier: Apache-2.0 */
/* Two agents of this process through the plugin's table of functions, without NIXL. */
#ifndef NIXL_AGENTS_H
#define NIXL_AGENTS_H

#include "../../liburccl/nixl/plugin.h"

#include <dlfcn.h>
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

struct entry_points {
	int api_version;
	urccl_engine *(*create)(const engine_params *);
	void (*destroy)(urccl_engine *);
	const char *(*name)(), *(*version)();
	options (*backend_options)();
	segment_types (*backend_types)();
};

struct side {
	urccl_engine *e;
	uintptr_t bytes; /* the agent's memory */
	segment_type type;
	memory *own, *theirs; /* theirs: of the other agent */
	std::string text;     /* that the memory is registered with */
};

static const char *const NAMES[] = {"A", "B"};
static side sides[2];
static const char *log_level = "error";

static inline const entry_points *load(const char *path)
{
	void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!plugin)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(plugin);
	auto init = (const entry_points *(*)())dlsym(plugin, "nixl_plugin_init");
	const entry_points *points = init();
	CHECK(points->api_version == API_VERSION);
	return points;
}

static inline void register_bytes(int i, size_t size)
{
	blob_range r = {};

	r.addr = sides[i].bytes;
	r.len = size;
	r.blob = sides[i].text;
	CHECK(!sides[i].e->register_memory(r, sides[i].type, sides[i].own));
}

/* The other agent's memory, at side i. */
static inline void load_bytes(int i)
{
	blob_range r = {};

	CHECK(!sides[!i].e->public_data(sides[!i].own, r.blob));
	CHECK(!sides[i].e->load_remote(r, sides[!i].type, NAMES[!i], sides[i].theirs));
}

/* Of memory that is there already, size bytes each. */
static inline void begin(const entry_points *plugin, const char *transport, size_t size)
{
	options custom = {{"transport", transport}, {"log_level", log_level}};
	std::string info;

	for (int i = 0; i < 2; i++) {
		engine_params p = {NAMES[i], "URCCL", &custom, false, 0, 0, false};

		sides[i].e = plugin->create(&p);
		CHECK(sides[i].e && !sides[i].e->failed);
		register_bytes(i, size);
	}
	for (int i = 0; i < 2; i++) {
		CHECK(!sides[!i].e->connection_info(info));
		CHECK(!sides[i].e->load_connection(NAMES[!i], info));
		load_bytes(i);
	}
	CHECK(!sides[0].e->connect("B"));
}

/* Blocks of side i and of the other. */
static inline void add(int i, descriptors &here, descriptors &there, size_t from, size_t to,
		       size_t len)
{
	here.type = sides[i].type;
	there.type = sides[!i].type;
	here.items.push_back({{sides[i].bytes + from, len, 0}, sides[i].own});
	there.items.push_back({{sides[!i].bytes + to, len, 0}, sides[i].theirs});
}

/* The status that ends it. */
static inline status finish(int i, request *r)
{
	status s;

	while ((s = sides[i].e->check(r)) == IN_PROG)
		std::this_thread::yield();
	return s;
}

static inline void end(const entry_points *plugin)
{
	for (int i = 0; i < 2; i++) {
		CHECK(!sides[i].e->unload(sides[i].theirs));
		CHECK(!sides[i].e->disconnect(NAMES[!i]));
		CHECK(!sides[i].e->deregister_memory(sides[i].own));
	}
	for (side &s : sides)
		plugin->destroy(s.e);
}

#endif
