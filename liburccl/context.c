/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes contexts: settings, devices, control thread and engine. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "context.h"
#include "nics.h"
#include "backend/backend.h"
#include "segment/segment.h"

static const struct backend *const backends[] = {
	[URCCL_TRANSPORT_SIM] = &backend_sim,	    [URCCL_TRANSPORT_SHM] = &backend_shm,
	[URCCL_TRANSPORT_TCP] = &backend_tcp,	    [URCCL_TRANSPORT_IB] = &backend_ib,
	[URCCL_TRANSPORT_EFA] = &backend_efa,	    [URCCL_TRANSPORT_CXI] = &backend_cxi,
	[URCCL_TRANSPORT_FABRIC] = &backend_fabric,
};

const char *urccl_version(void)
{
#define TEXT(x)		 #x
#define VERSION(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)
	return VERSION(URCCL_VERSION_MAJOR, URCCL_VERSION_MINOR, URCCL_VERSION_PATCH);
}

const struct backend *context_backend(uint32_t transport)
{
	return transport < ARRAY_SIZE(backends) ? backends[transport] : NULL;
}

/* ---- devices ---- */

static int context_device_open(struct urccl *ctx, const struct backend *b,
			       struct device_config *config)
{
	int err;

	fail(0, "%s", "");
	config->index = ctx->ndevices;
	err = b->open(config, &ctx->devices[ctx->ndevices]);
	if (!err)
		ctx->ndevices++;
	return err;
}

/* Closes the devices from number n on. */
static void devices_close(struct urccl *ctx, uint32_t n)
{
	uint32_t i;

	for (i = n; i < ctx->ndevices; i++)
		if (ctx->devices[i]->ops->end)
			ctx->devices[i]->ops->end(ctx->devices[i]);
	while (ctx->ndevices > n) {
		struct device *dev = ctx->devices[--ctx->ndevices];

		if (dev->ops->close(dev))
			log_text(&ctx->log, URCCL_LOG_ERROR, "%s", urccl_errmsg());
	}
}

/* Keeps the transport's error and fail() text. */
static void context_refuse(struct urccl *ctx, uint32_t transport, int err)
{
	struct refusal *r = &ctx->refused[ctx->nrefused];

	if (!*urccl_errmsg())
		fail(err, "transport %s: %s", transport_name(transport), errno_text(-err));
	if (ctx->nrefused == REFUSALS_MAX)
		return;
	ctx->nrefused++;
	r->transport = transport;
	r->err = err;
	snprintf(r->why, sizeof(r->why), "%s", urccl_errmsg());
}

/* Fails with the reasons of all refusals from number first on. */
static int fail_refused(const struct urccl *ctx, uint32_t first)
{
	char all[512] = "";
	struct text t = {all, sizeof(all), 0};
	uint32_t i;

	for (i = first; i < ctx->nrefused; i++)
		text_add(&t, "%s%s", i > first ? "; " : "", ctx->refused[i].why);
	return first < ctx->nrefused ? fail(ctx->refused[first].err, "%s", all) : -ENODEV;
}

/* shm needs mapped memory, which enforce=owner forbids, or its ring, which bounce=no forbids. */
static int serves(const struct settings *s, uint32_t transport)
{
	return transport != URCCL_TRANSPORT_SHM || s->p.enforce != URCCL_ENFORCE_OWNER ||
	       s->p.bounce != URCCL_ALLOW_NO;
}

/* Opens the transport's devices and keeps the reasons of those that fail. 0, or -errno with fail()
 * text: there is no device to try. */
static int transport_try(struct urccl *ctx, uint32_t transport)
{
	struct device_config config = {
		.params = &ctx->settings.p,
		.incarnation = ctx->incarnation,
		.listen = ctx->settings.listen,
		.nlisten = ctx->settings.nlisten,
	};
	const struct backend *b = context_backend(transport);
	int err, device_err;
	uint32_t n;

	if (!b)
		return fail(-EOPNOTSUPP,
			    "this version does not carry out transport %s: sim, shm, "
			    "tcp, ib, efa, cxi and fabric:NAME are possible",
			    transport_name(transport));
	if (!serves(&ctx->settings, transport))
		return fail(-EINVAL,
			    "transport shm can move nothing: enforce=owner forbids it memory that "
			    "peers map, and bounce=no its ring. Leave one of them out, or name "
			    "another transport, such as tcp");
	err = nics_choose(&ctx->settings.p, transport, &config);
	if (err)
		return err;
	err = -ENODEV;
	fail(0, "%s", "");
	n = b->scan(&config);
	for (; config.number < n && ctx->ndevices < DEVICES_MAX; config.number++) {
		device_err = context_device_open(ctx, b, &config);
		if (device_err)
			context_refuse(ctx, transport, device_err);
		err = 0;
	}
	free(config.nics);
	return err;
}

/* Opens a transport's devices; one that opens is enough. If the settings name them, all must open,
 * unless the transport is optional. */
static int transport_open(struct urccl *ctx, uint32_t transport, enum transport_how how)
{
	uint32_t before = ctx->ndevices, first = ctx->nrefused;
	int err;

	err = transport_try(ctx, transport);
	if (err)
		context_refuse(ctx, transport, err);
	if (ctx->ndevices > before && (ctx->nrefused == first || how == TRANSPORT_MAYBE ||
				       !nics_are_named(&ctx->settings.p, transport)))
		return 0;
	devices_close(ctx, before);
	return fail_refused(ctx, first);
}

/* Logs the refusals from number first on and keeps them for dumps. */
static void leave_out(struct urccl *ctx, uint32_t first, const char *what)
{
	uint32_t i;

	for (i = first; i < ctx->nrefused; i++) {
		const struct refusal *r = &ctx->refused[i];
		const char *name = transport_name(r->transport);
		size_t len = strlen(ctx->left_out);

		snprintf(ctx->left_out + len, sizeof(ctx->left_out) - len, "%s%s: %s",
			 len ? "; " : "", name, r->why);
		log_text(&ctx->log, URCCL_LOG_WARN, "%s %s is left out: %s", what, name, r->why);
	}
}

#define SETTING_TEXT sizeof(((struct segment_head *)0)->settings[0])

/* 0: the setting has its default. */
static int setting_line(const struct urccl *ctx, uint32_t i, char text[SETTING_TEXT])
{
	const struct setting *row = &settings_table[i];
	char value[256];

	if (setting_is_default(row, &ctx->settings.p))
		return 0;
	setting_text(row, &ctx->settings.p, value, sizeof(value));
	snprintf(text, SETTING_TEXT, "%s = \"%s\"", row->name, value);
	return 1;
}

/* One line with the devices, and one for each setting that is not the default. */
static void log_open(const struct urccl *ctx)
{
	char plan[128] = "", text[SETTING_TEXT];
	size_t at = 0;
	uint32_t i;

	for (i = 0; i < ctx->ndevices && at < sizeof(plan); i++)
		at += (size_t)snprintf(plan + at, sizeof(plan) - at, "%s%s", i ? ", " : "",
				       ctx->devices[i]->ops->name);
	log_text(&ctx->log, URCCL_LOG_INFO, "open: liburccl %s, incarnation %016llx%s%s, over %s",
		 urccl_version(), (unsigned long long)ctx->incarnation,
		 ctx->is_inline ? ", inline" : "",
		 ctx->secret.is_set ? ", with a shared secret" : "", plan);
	for (i = 0; i < settings_count && log_wants(&ctx->log, URCCL_LOG_DEBUG); i++)
		if (setting_line(ctx, i, text))
			log_text(&ctx->log, URCCL_LOG_DEBUG, "setting %s", text);
}

/* 1: the transport must open. Without a list, a setting of one transport alone requires it too. */
static int is_asked_for(const struct settings *s, uint32_t i)
{
	uint32_t transport = s->transports.list[i].transport;

	if (s->transports.list[i].how == TRANSPORT_REQUIRED)
		return 1;
	if (!serves(s, transport))
		return 0;
	if (s->transports.list[i].how == TRANSPORT_NAMED)
		return 1;
	return !s->p.transport && settings_ask_for(&s->p, transport);
}

/* Named transports must open if the settings let them work. Others, or with "?", are left out if
 * they fail. */
static int devices_open(struct urccl *ctx)
{
	const struct settings *s = &ctx->settings;
	int err = -EINVAL;
	uint32_t i, first;

	for (i = 0; i < s->transports.n; i++) {
		first = ctx->nrefused;
		err = transport_open(ctx, s->transports.list[i].transport,
				     s->transports.list[i].how);
		if (err && is_asked_for(s, i))
			goto close_devices;
		leave_out(ctx, first, err ? "transport" : "a device of transport");
	}
	if (ctx->ndevices)
		return 0;
	return fail(err, "no transport opened: %s", ctx->left_out);

close_devices:
	devices_close(ctx, 0);
	return err;
}

/* Idle times are measured on the machine's clock, not on the simulated one. */
static int check_simulated(const struct urccl_params *p)
{
	const struct {
		const char *name;
		uint32_t value;
	} asks[] = {{"max_warm", p->max_warm},
		    {"max_qps", p->max_qps},
		    {"idle_after_ms", p->idle_after_ms}};
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(asks); i++)
		if (asks[i].value)
			return fail(-EINVAL,
				    "%s is %u, and with clock=simulated no peer lets its data path "
				    "go: 0 is possible",
				    asks[i].name, asks[i].value);
	return 0;
}

static struct clock *device_clock(struct device *dev)
{
	uint64_t next_ns;

	return dev->ops->clock ? dev->ops->clock(dev, &next_ns) : NULL;
}

/* A simulated clock advances when no context has work, which only a single thread can see. */
static int clock_choose(struct urccl *ctx)
{
	uint32_t i;

	for (i = 0; i < ctx->ndevices && !ctx->clock; i++)
		ctx->clock = device_clock(ctx->devices[i]);
	if (!ctx->clock)
		return 0;
	if (!ctx->is_inline)
		return fail(-EINVAL, "clock=simulated is for contexts with URCCL_OPEN_INLINE");
	for (i = 0; i < ctx->ndevices; i++)
		if (device_clock(ctx->devices[i]) != ctx->clock)
			return fail(-EINVAL, "clock=simulated is for transport sim alone");
	return check_simulated(&ctx->settings.p);
}

static int incarnation_new(uint64_t *incarnation)
{
	int err;

	do {
		err = random_bytes(incarnation, sizeof(*incarnation));
	} while (!err && !*incarnation);
	return err ? fail(err, "no random numbers: %s", errno_text(-err)) : 0;
}

static struct urccl *context_map(int *err)
{
	struct urccl *ctx = mmap(NULL, sizeof(*ctx), PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (ctx == MAP_FAILED) {
		*err = fail(-errno, "no memory for a context: %s", errno_text(errno));
		return NULL;
	}
	*err = wipe_on_fork(ctx, sizeof(*ctx), "a context");
	if (*err) {
		munmap(ctx, sizeof(*ctx));
		return NULL;
	}
	pthread_mutex_init(&ctx->lock, NULL);
	pthread_mutex_init(&ctx->allocating, NULL);
	pthread_mutex_init(&ctx->driving, NULL);
	list_init(&ctx->rings);
	return ctx;
}

static void context_unmap(struct urccl *ctx)
{
	explicit_bzero(&ctx->secret, sizeof(ctx->secret));
	pthread_mutex_destroy(&ctx->driving);
	pthread_mutex_destroy(&ctx->allocating);
	pthread_mutex_destroy(&ctx->lock);
	munmap(ctx, sizeof(*ctx));
}

static uint64_t required_of(const struct transports *t)
{
	uint64_t bits = 0;
	uint32_t i;

	for (i = 0; i < t->n; i++)
		if (t->list[i].how == TRANSPORT_REQUIRED)
			bits |= 1ull << t->list[i].transport;
	return bits;
}

/* GPU copies run on threads of their own, except with a simulated clock. */
static int gpu_make(struct urccl *ctx)
{
	const struct urccl_params *p = &ctx->settings.p;
	struct gpu_config config = {
		.so = p->cuda_so,
		.sms = p->gpu_sms,
		.by_hand = ctx->clock != NULL,
		.spin_ns = p->spin_us * NSEC_PER_USEC,
		.thread_name = p->thread_name,
		.cpus = p->control_cpus,
		.nice = p->control_nice,
		.log = &ctx->log,
	};

	uint32_t i;

	if (gpu_open(&config, &ctx->gpu))
		return fail(-ENOMEM, "no memory for the GPUs of a context");
	for (i = 0; i < ctx->ndevices; i++)
		ctx->devices[i]->gpu = ctx->gpu;
	return 0;
}

/* Takes over ctx->gpu, also on failure. */
static int control_make(struct urccl *ctx)
{
	struct control_config config = {
		.params = &ctx->settings.p,
		.incarnation = ctx->incarnation,
		.listen = ctx->settings.listen,
		.nlisten = ctx->settings.nlisten,
		.devices = ctx->devices,
		.ndevices = ctx->ndevices,
		.secret = &ctx->secret,
		.required = required_of(&ctx->settings.transports),
		.gpu = ctx->gpu,
		.clock = ctx->clock,
	};

	return control_open(&config, &ctx->control);
}

_Static_assert(SETTINGS_MAX <= SEGMENT_SETTINGS, "each can be told");

/* Exports settings to tools. They never change. */
static void settings_export(struct urccl *ctx)
{
	char text[SETTING_TEXT];
	uint32_t i, n = 0;

	for (i = 0; i < settings_count; i++)
		if (setting_line(ctx, i, text))
			engine_export_setting(ctx->engine, n++, text);
}

static int engine_make(struct urccl *ctx)
{
	struct engine_config config = {
		.params = &ctx->settings.p,
		.control = control_mailbox(ctx->control),
		.devices = ctx->devices,
		.ndevices = ctx->ndevices,
		.is_inline = ctx->is_inline,
		.incarnation = ctx->incarnation,
		.left_out = ctx->left_out,
		.gpu = ctx->gpu,
		.clock = ctx->clock,
	};
	int err = engine_open(&config, &ctx->engine);

	if (!err)
		settings_export(ctx);
	return err;
}

/* Ends peers, regions and the engine's thread. An INLINE engine runs on this thread. */
static void shut_down(struct urccl *ctx)
{
	store_relaxed(&ctx->driver, 0);
	ctx->shutdown.msg.type = CALL_SHUTDOWN;
	context_call(ctx, &ctx->shutdown, 1);
}

/* Starts both threads. */
static int threads_start(struct urccl *ctx)
{
	int err, is_inline = ctx->is_inline;

	err = control_start(ctx->control, ctx->engine);
	if (err)
		return err;
	err = engine_start(ctx->engine);
	if (err) {
		ctx->is_inline = 1;
		shut_down(ctx);
		ctx->is_inline = is_inline;
	}
	return err;
}

int urccl_open(const struct urccl_params *p, struct urccl **out)
{
	struct urccl *ctx;
	int err;

	if (!out)
		return fail(-EINVAL, "nowhere to put the context: the pointer for it is NULL");
	ctx = context_map(&err);
	if (!ctx)
		return err;
	err = settings_read(&ctx->settings, p);
	if (err)
		goto unmap;
	ctx->is_inline = !!(ctx->settings.p.flags & URCCL_OPEN_INLINE);
	log_init(&ctx->log, &ctx->settings.p);
	err = secret_open(&ctx->secret, &ctx->settings.p);
	if (err)
		goto free_settings;
	ctx->settings.p.secret = NULL; /* the program's; not read again */
	err = incarnation_new(&ctx->incarnation);
	if (err)
		goto free_settings;
	err = devices_open(ctx);
	if (err)
		goto free_settings;
	err = clock_choose(ctx);
	if (err)
		goto close_devices;
	err = gpu_make(ctx);
	if (err)
		goto close_devices;
	err = control_make(ctx);
	if (err)
		goto close_devices;
	err = engine_make(ctx);
	if (err)
		goto close_control;
	ctx->live = 1;
	err = threads_start(ctx);
	if (err)
		goto close_engine;
	log_open(ctx);
	*out = ctx;
	return 0;

close_engine:
	engine_close(ctx->engine);
close_control:
	control_close(ctx->control);
close_devices:
	devices_close(ctx, 0);
free_settings:
	settings_free(&ctx->settings);
unmap:
	context_unmap(ctx);
	return err;
}

/* A driver or GPU does not return: keeps the context and all memory that it may use. */
static void context_leave(struct urccl *ctx)
{
	uint32_t i;

	fail(-EBUSY,
	     "close: %s: the context, what is registered with it and memory of urccl_alloc() stay "
	     "until the process ends, and none of that memory must be used again",
	     ctx->stuck);
	log_text(&ctx->log, URCCL_LOG_ERROR, "%s", urccl_errmsg());
	for (i = 0; i < ctx->ndevices; i++)
		store_release(&ctx->devices[i]->left, 1);
	ctx->live = 0;
	engine_leave(ctx->engine);
	control_leave(ctx->control);
}

void urccl_close(struct urccl *ctx)
{
	if (!ctx || !ctx->live)
		return;
	ctx->closing_ns = clock_ns();
	context_rings_end(ctx);
	if (!ctx->stuck[0])
		shut_down(ctx);
	if (ctx->stuck[0]) {
		context_leave(ctx);
		return;
	}
	engine_close(ctx->engine);
	control_close(ctx->control);
	devices_close(ctx, 0);
	log_text(&ctx->log, URCCL_LOG_INFO, "closed: incarnation %016llx",
		 (unsigned long long)ctx->incarnation);
	settings_free(&ctx->settings);
	context_unmap(ctx);
}

int urccl_dump(struct urccl *ctx, int fd)
{
	int err = context_check(ctx);

	if (err)
		return err;
	context_rings_export(ctx);
	err = engine_dump(ctx->engine, fd);
	if (err)
		return fail(err, "fd %d does not take the whole dump: %s", fd, errno_text(-err));
	return 0;
}
