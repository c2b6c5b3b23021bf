/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The binary interface between NIXL 1.x and a backend plugin. Names are this plugin's own; values
 * and layouts are NIXL's, and layout_check.cpp compares them with its headers. Strings and
 * containers are those of libstdc++ with the C++11 ABI. The 27 virtual functions are in plugin.h.
 */
#ifndef URCCL_NIXL_BACKEND_H
#define URCCL_NIXL_BACKEND_H

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace nixl
{

constexpr int API_VERSION = 1;

enum segment_type : unsigned int { DRAM, VRAM, BLOCK, OBJECT, FILE_SEGMENT };
enum direction : unsigned int { READ, WRITE };
enum cost_method : int { ANALYTICAL };

enum status : int {
	IN_PROG = 1,
	SUCCESS = 0,
	NOT_POSTED = -1,
	INVALID_PARAM = -2,
	BACKEND = -3,
	NOT_FOUND = -4,
	MISMATCH = -5,
	NOT_ALLOWED = -6,
	REPOST_ACTIVE = -7,
	NOT_SUPPORTED = -9,
	REMOTE_DISCONNECT = -10,
	CANCELED = -11,
};

using options = std::unordered_map<std::string, std::string>;
using segment_types = std::vector<segment_type>;
using notifications = std::vector<std::pair<std::string, std::string>>; /* sender, text */
using answers = std::vector<std::optional<options>>;
using microseconds = std::chrono::microseconds;
struct agent_options;

struct memory { /* what registerMem() and loadRemoteMD() return; NIXL only keeps it */
	virtual ~memory() = default;
};

struct request { /* what prepXfer() returns; NIXL only keeps it */
	virtual ~request() = default;
};

struct range {
	uintptr_t addr;
	size_t len;
	uint64_t device;
};

struct blob_range : range {
	std::string blob; /* the program's text, or the peer's public data */
};

struct descriptor : range {
	memory *owner;
};

template <class T> struct list { /* NIXL makes them */
	virtual ~list() = default;
	segment_type type;
	std::vector<T> items;
};
using descriptors = list<descriptor>;
using blob_ranges = list<blob_range>;

struct transfer_options {
	std::string notification;
	bool has_notification;
	std::string custom;
};

struct engine_params {
	std::string agent, type;
	options *custom;
	bool progress_thread;
	uint64_t progress_delay;
	int sync_mode;
	bool telemetry;
};

struct engine_state { /* of an engine, behind the pointer to its virtual functions */
	std::string type;
	options custom;
	std::vector<uint64_t> telemetry_events; /* NIXL reads none */
	std::mutex telemetry_lock;
	bool failed = false; /* NIXL destroys an engine that sets it when it is made */
	const std::string agent;
	const bool telemetry;

	explicit engine_state(const engine_params &p)
	    : type(p.type), custom(*p.custom), agent(p.agent), telemetry(p.telemetry)
	{
	}
};

} // namespace nixl

#endif
