/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's entry points, the settings of an agent, its begin and its end. */
#include "plugin.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <new>

static constexpr uint64_t FLUSH_NS = 1000000000; /* for notifications under way, at the end */
static constexpr uint32_t SPIN_US = 300; /* a transfer waits for fewer wake-ups of both agents */

/* Agents by name, for urccl_nixl_fd(). Never freed: agents may end after static objects. */
static std::mutex &agents_guard = *new std::mutex;
static auto &agents = *new std::map<std::string, urccl_engine *>;

/* What libstdc++'s headers of today name, and libraries of RHEL 8's age lack: a variable of glibc, 0
 * where there are threads, and a function that vectors call. */
extern "C" {
char __libc_single_threaded;
}
void std::__throw_bad_array_new_length() { throw std::bad_alloc(); }

/* ---- messages and results ---- */

void urccl_engine::say(int level, const char *format, ...)
{
	char text[1024];
	va_list args;
	lock l(saying);

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (level > log_level || said == text)
		return;
	said = text;
	fprintf(stderr, "liburccl: agent \"%s\": %s\n", agent.c_str(), text);
}

std::string urccl_engine::explain(const urccl_cqe &cqe)
{
	char why[512];

	urccl_explain(ctx, &cqe, why, sizeof(why));
	return why;
}

status status_of(int64_t res)
{
	switch (res) {
	case -ECONNRESET:
	case -ENETDOWN:
	case -ECONNREFUSED:
	case -EHOSTUNREACH:
	case -ESHUTDOWN:
		return REMOTE_DISCONNECT;
	case -ECANCELED:
		return CANCELED;
	case -EINVAL:
	case -ERANGE:
	case -EFAULT:
	case -E2BIG:
		return INVALID_PARAM;
	case -EOPNOTSUPP:
		return NOT_SUPPORTED;
	case -EBADMSG:
		return MISMATCH;
	case -EACCES:
	case -ESTALE:
		return NOT_ALLOWED;
	default:
		return res < 0 ? BACKEND : SUCCESS;
	}
}

/* ---- settings ---- */

/* NIXL hands back as given what backend_options() has, so that each is empty there: not given. */
static int apply(urccl_engine &e, const options &custom, urccl_params &p)
{
	for (const auto &[name, value] : custom) {
		int res = 0;

		if (name == "release_wait_ms" && !value.empty())
			e.release_wait_ms = (uint32_t)strtoul(value.c_str(), nullptr, 10);
		else if (!value.empty())
			res = urccl_params_set(&p, name.c_str(), value.c_str());
		if (res == -ENOENT)
			e.say(URCCL_LOG_WARN, "option ignored: %s", urccl_errmsg());
		else if (res)
			return res;
	}
	return 0;
}

/* Memory of GPUs where the machine has an NVIDIA driver, or the program has loaded CUDA, as the library
 * looks for it. NIXL asks before a program has to load it. */
static segment_types segments_with(const char *cuda_so)
{
	void *so = dlopen(cuda_so ? cuda_so : "libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

	if (so)
		dlclose(so);
	else if (access("/dev/nvidiactl", F_OK))
		return {DRAM};
	return {DRAM, VRAM};
}

int urccl_engine::open_context(const options &given)
{
	urccl_params &p = params;

	urccl_params_init(&p);
	p.max_segs = ~0u - 1;
	p.spin_us = SPIN_US;
	int res = urccl_params_from_env(&p);
	if (!res)
		res = apply(*this, given, p);
	if (res)
		return res;
	bool is_everywhere = !p.listen && !p.socket_ifname;
	if (is_everywhere)
		p.listen = "[::]:0";
	if (p.log_level != URCCL_LOG_DEFAULT)
		log_level = p.log_level;
	/* Of peers that come and go the plugin says what matters to a transfer. */
	if (log_level <= URCCL_LOG_WARN)
		p.log_level = (uint8_t)std::min<int>(log_level, URCCL_LOG_ERROR);
	p.log = [](void *arg, int level, const char *text) {
		static_cast<urccl_engine *>(arg)->say(level, "%s", text);
	};
	p.log_arg = this;
	p.hello = agent.data();
	p.hello_len = (uint32_t)agent.size();
	segments = segments_with(p.cuda_so);
	res = urccl_open(&p, &ctx);
	if (is_everywhere && (res == -EAFNOSUPPORT || res == -EADDRNOTAVAIL)) {
		p.listen = "0.0.0.0:0"; /* no IPv6 */
		res = urccl_open(&p, &ctx);
	}
	return res;
}

static options backend_options()
{
	struct urccl_setting s = URCCL_INIT(urccl_setting);
	options all = {{"release_wait_ms", ""}};

	for (uint32_t i = 0; !urccl_settings(nullptr, i, &s); i++)
		all[s.name] = "";
	return all;
}

/* ---- begin and end ---- */

urccl_engine::urccl_engine(const engine_params &p) : engine_state(p)
{
	failed = true;
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wake_fd < 0 || open_context(*p.custom) || open_rings()) {
		say(URCCL_LOG_ERROR, "cannot begin: %s", urccl_errmsg());
		return;
	}
	thread = std::thread(&urccl_engine::run, this);
	lock l(agents_guard);
	agents[agent] = this;
	failed = false;
}

/* In a forked child the threads and the context are the parent's: they are left alone. */
urccl_engine::~urccl_engine()
{
	uint64_t until = now_ns() + FLUSH_NS;

	if (is_dead()) {
		thread.detach();
		return;
	}
	while (unsent && now_ns() < until) {
		look();
		std::this_thread::sleep_for(microseconds(100));
	}
	lock l(agents_guard);
	std::erase_if(agents, [this](const auto &a) { return a.second == this; });
	l.unlock();
	stopping = true;
	if (thread.joinable()) {
		eventfd_write(wake_fd, 1);
		thread.join();
	}
	urccl_close(ctx);
	for (int fd : {wake_fd, user_fd.load()})
		if (fd >= 0)
			close(fd);
}

static urccl_engine *create(const engine_params *p)
try {
	return new urccl_engine(*p);
} catch (const std::exception &) {
	return nullptr;
}

static struct {
	int api_version = API_VERSION;
	urccl_engine *(*create)(const engine_params *) = ::create;
	void (*destroy)(urccl_engine *) = [](urccl_engine *e) { delete e; };
	const char *(*name)() = [] { return "URCCL"; };
	const char *(*version)() = urccl_version;
	options (*backend_options)() = ::backend_options;
	segment_types (*backend_types)() = [] { return segments_with(getenv("URCCL_CUDA_SO")); };
} plugin;

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void *nixl_plugin_init() { return &plugin; }

EXPORT void nixl_plugin_fini() {}

/* A descriptor that is readable when completions or notifications have come since its 8 bytes were
 * read; the agent closes it. -ENOENT: no agent of this process has the name. */
EXPORT int urccl_nixl_fd(const char *name)
{
	lock l(agents_guard);
	auto at = agents.find(name);

	if (at == agents.end())
		return -ENOENT;
	if (at->second->user_fd < 0)
		at->second->user_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return at->second->user_fd < 0 ? -errno : at->second->user_fd.load();
}
