/* SPDX-License-Identifier: Apache-2.0 */
/* A context's calls: each asks the control thread and waits for its answer. */
#include <stdio.h>

#include "context.h"

#define DRIVE_PAUSE_NS_MAX NSEC_PER_MSEC
#define STUCK_LOOK_NS	   (20 * NSEC_PER_MSEC)

int context_check(const struct urccl *ctx)
{
	if (!ctx)
		return fail(-EINVAL, "no context");
	if (!ctx->live)
		return fail(-EPERM, "this process was forked off the context's: open one here");
	return 0;
}

int context_check_out(const struct urccl *ctx, const void *out)
{
	int err = context_check(ctx);

	if (!err && !out)
		err = fail(-EINVAL, "nowhere to put the answer: the pointer for it is NULL");
	return err;
}

static int driven_elsewhere(const struct urccl *ctx)
{
	uintptr_t driver = load_relaxed(&ctx->driver);

	return driver && driver != this_thread();
}

int context_drive_begin(struct urccl *ctx)
{
	int busy = driven_elsewhere(ctx);

	if (!busy) {
		pthread_mutex_lock(&ctx->driving);
		busy = driven_elsewhere(ctx); /* another thread may have taken the ring */
		if (!busy)
			return 0;
		pthread_mutex_unlock(&ctx->driving);
	}
	return fail(-EBUSY, "another thread drives this INLINE context: call from there");
}

void context_drive_end(struct urccl *ctx)
{
	pthread_mutex_unlock(&ctx->driving);
}

/* 1: the context closes, and a device's driver or a GPU has held it up for a second. */
static int is_held_up(struct urccl *ctx)
{
	uint32_t i;

	if (!ctx->closing_ns || ctx->stuck[0])
		return ctx->stuck[0];
	for (i = 0; i < ctx->ndevices; i++) {
		struct device *dev = ctx->devices[i];

		if (dev->ops->is_stuck && dev->ops->is_stuck(dev, ctx->closing_ns))
			snprintf(ctx->stuck, sizeof(ctx->stuck),
				 "the driver of transport %s (%s) has not returned from a call "
				 "that closes",
				 transport_name(dev->ops->transport), dev->about);
	}
	if (gpu_is_stuck(ctx->gpu, ctx->closing_ns))
		snprintf(ctx->stuck, sizeof(ctx->stuck),
			 "a GPU has not ended a copy of this context in a second");
	return ctx->stuck[0];
}

/* The control thread cannot wake this thread when it has work for the engine, so pauses are short
 * at first. */
static void drive_until_done(struct urccl *ctx, struct control_call *call)
{
	uint64_t pause = 20 * NSEC_PER_USEC;

	for (;;) {
		engine_drive(ctx->engine);
		if (load_acquire(&call->done) || is_held_up(ctx))
			return;
		futex_wait(&call->done, 0, pause);
		engine_pass(ctx->engine);
		if (pause < DRIVE_PAUSE_NS_MAX)
			pause *= 2;
	}
}

static void sleep_until_done(struct urccl *ctx, struct control_call *call)
{
	uint64_t look = ctx->closing_ns ? STUCK_LOOK_NS : NEVER_NS;

	while (!load_acquire(&call->done) && !is_held_up(ctx))
		futex_wait(&call->done, 0, look);
}

void context_ask(struct urccl *ctx, struct control_call *call)
{
	call->done = 0;
	call->error[0] = 0;
	control_call(ctx->control, call);
}

int context_answer(struct urccl *ctx, struct control_call *call, int drives)
{
	if (drives && ctx->clock)
		clock_hold(ctx->clock);
	if (drives)
		drive_until_done(ctx, call);
	else
		sleep_until_done(ctx, call);
	if (drives && ctx->clock)
		clock_release(ctx->clock);
	if (ctx->stuck[0])
		return -EBUSY;
	if (call->msg.res >= 0)
		return call->msg.res;
	return fail(call->msg.res, "%s", *call->error ? call->error : errno_text(-call->msg.res));
}

int context_call(struct urccl *ctx, struct control_call *call, int needs_engine)
{
	int drives = ctx->is_inline && needs_engine, res;

	if (drives) {
		res = context_drive_begin(ctx);
		if (res)
			return res;
	}
	context_ask(ctx, call);
	res = context_answer(ctx, call, drives);
	if (drives)
		context_drive_end(ctx);
	return res;
}

int context_request(struct urccl *ctx, struct control_req req, uint32_t *out)
{
	struct control_call call = {.msg.type = CALL_REQUEST, .req = req};
	int err = context_call(ctx, &call, 1);

	if (!err && out)
		*out = call.req.handle;
	return err;
}

int urccl_register(struct urccl *ctx, const struct urccl_range *ranges, uint32_t n, uint32_t rights,
		   struct urccl_region *region)
{
	struct control_req req = {.msg.type = CONTROL_REGISTER,
				  .data = ranges,
				  .len = n,
				  .rights = rights};
	int err = context_check_out(ctx, region);

	if (!err && (!ranges || !n))
		err = fail(-EINVAL, "a region needs a range");
	return err ? err : context_request(ctx, req, &region->id);
}

int urccl_unregister(struct urccl *ctx, struct urccl_region region)
{
	struct control_req req = {.msg.type = CONTROL_UNREGISTER, .handle = region.id};
	int err = context_check(ctx);

	return err ? err : context_request(ctx, req, NULL);
}

int urccl_revoke(struct urccl *ctx, struct urccl_region region)
{
	struct control_req req = {.msg.type = CONTROL_REVOKE, .handle = region.id};
	int err = context_check(ctx);

	return err ? err : context_request(ctx, req, NULL);
}

int urccl_alloc(struct urccl *ctx, uint64_t len, void **addr)
{
	struct control_call call = {.msg.type = CALL_ALLOC};
	int err = context_check_out(ctx, addr);

	if (err)
		return err;
	/* Filling much memory takes seconds: done on this thread, so that the control thread keeps
	 * answering peers. */
	pthread_mutex_lock(&ctx->allocating);
	err = memory_alloc(len, &call.allocation);
	pthread_mutex_unlock(&ctx->allocating);
	if (err)
		return err;
	err = context_call(ctx, &call, 0);
	if (err)
		memory_free(call.allocation);
	else
		*addr = (void *)(uintptr_t)call.allocation->addr;
	return err;
}

int urccl_free(struct urccl *ctx, void *addr)
{
	struct control_call call = {.msg.type = CALL_FREE, .addr = (uint64_t)(uintptr_t)addr};
	int err = context_check(ctx);

	if (!err)
		err = context_call(ctx, &call, 0);
	if (!err)
		memory_free(call.allocation);
	return err;
}

int urccl_advertise(struct urccl *ctx, struct urccl_region region, uint64_t off, uint64_t len,
		    uint32_t rights, uint64_t ttl_ms, struct urccl_advert *advert)
{
	struct control_call call = {
		.msg.type = CALL_ADVERTISE,
		.handle = region.id,
		.off = off,
		.len = len,
		.rights = rights,
		.ttl_ms = ttl_ms,
		.advert = advert,
	};
	int err = context_check_out(ctx, advert);

	return err ? err : context_call(ctx, &call, 0);
}

int urccl_import(struct urccl *ctx, struct urccl_peer peer, const struct urccl_advert *adverts,
		 uint32_t n, struct urccl_remote *remote)
{
	struct control_req req = {.msg.type = CONTROL_IMPORT,
				  .handle = peer.id,
				  .data = adverts,
				  .len = n};
	int err = context_check_out(ctx, remote);

	if (!err && (!adverts || !n))
		err = fail(-EINVAL, "a remote needs an advert");
	return err ? err : context_request(ctx, req, &remote->id);
}

int urccl_unimport(struct urccl *ctx, struct urccl_remote remote)
{
	struct control_req req = {.msg.type = CONTROL_FORGET, .handle = remote.id};
	int err = context_check(ctx);

	return err ? err : context_request(ctx, req, NULL);
}

int urccl_metadata(struct urccl *ctx, void *buf, uint32_t len)
{
	struct control_call call = {.msg.type = CALL_METADATA, .data = buf, .n = len};
	int err = context_check_out(ctx, buf);

	return err ? err : context_call(ctx, &call, 0);
}

int urccl_listening(struct urccl *ctx, uint32_t i, char *buf, uint32_t len)
{
	struct control_call call = {.msg.type = CALL_LISTENING, .off = i, .data = buf, .n = len};
	int err = context_check_out(ctx, buf);

	return err ? err : context_call(ctx, &call, 0);
}

int urccl_get_peer_info(struct urccl *ctx, struct urccl_peer peer, struct urccl_peer_info *info)
{
	struct urccl_peer_info all = {.size = sizeof(all)};
	struct control_call call = {.msg.type = CALL_PEER_INFO, .handle = peer.id, .info = &all};
	int err = context_check_out(ctx, info);

	if (!err)
		err = context_call(ctx, &call, 0);
	return err ? err : fill_sized(info, &all, sizeof(all), "struct urccl_peer_info");
}

int urccl_get_region_info(struct urccl *ctx, struct urccl_region region,
			  struct urccl_region_info *info)
{
	struct urccl_region_info all = {.size = sizeof(all)};
	struct control_call call = {.msg.type = CALL_REGION_INFO,
				    .handle = region.id,
				    .info = &all};
	int err = context_check_out(ctx, info);

	if (!err)
		err = context_call(ctx, &call, 0);
	return err ? err : fill_sized(info, &all, sizeof(all), "struct urccl_region_info");
}

int urccl_remote_map(struct urccl *ctx, struct urccl_remote remote, uint64_t *addr)
{
	struct control_call call = {.msg.type = CALL_REMOTE_MAP, .handle = remote.id};
	int err = context_check_out(ctx, addr);

	if (!err)
		err = context_call(ctx, &call, 1);
	if (!err)
		*addr = call.addr;
	return err;
}

int urccl_remote_unmap(struct urccl *ctx, struct urccl_remote remote)
{
	struct control_call call = {.msg.type = CALL_REMOTE_UNMAP, .handle = remote.id};
	int err = context_check(ctx);

	return err ? err : context_call(ctx, &call, 1);
}

int urccl_get_remote_info(struct urccl *ctx, struct urccl_remote remote,
			  struct urccl_remote_info *info)
{
	struct urccl_remote_info all = {.size = sizeof(all)};
	struct control_call call = {.msg.type = CALL_REMOTE_INFO,
				    .handle = remote.id,
				    .info = &all};
	int err = context_check_out(ctx, info);

	if (!err)
		err = context_call(ctx, &call, 0);
	return err ? err : fill_sized(info, &all, sizeof(all), "struct urccl_remote_info");
}

int urccl_get_stats(struct urccl *ctx, struct urccl_stats *stats)
{
	struct urccl_stats all = {.size = sizeof(all)};
	int err = context_check_out(ctx, stats);

	if (err)
		return err;
	engine_stats(ctx->engine, &all);
	return fill_sized(stats, &all, sizeof(all), "struct urccl_stats");
}

/* The error record of the CQE, or 0: only ends of entries and LOST events have one. */
static uint32_t cqe_detail(const struct urccl_cqe *cqe)
{
	uint32_t kind = urccl_cqe_kind(cqe);

	if (cqe->res >= 0 || (kind != URCCL_KIND_OP && kind != URCCL_KIND_LOST))
		return 0;
	return cqe->fail.detail;
}

/* CANCEL and TIMEOUT end with an errno that is no failure and has no record. */
static const char *answer_text(int err)
{
	switch (err) {
	case ENOENT:
		return "no unfinished entry matched";
	case EALREADY:
		return "all that matched had ended of themselves";
	case ETIME:
		return "the time passed";
	default:
		return errno_text(err);
	}
}

/* Explains a CQE without an error record. */
static int explain_plainly(const struct urccl_cqe *cqe, char *buf, uint32_t len)
{
	int err = cqe->res < 0 && cqe->res > -4096 ? (int)-cqe->res : 0;
	uint32_t detail = cqe_detail(cqe);
	const char *text = detail ? errno_text(err) : answer_text(err);

	if (cqe->res >= 0)
		return snprintf(buf, len, "it succeeded");
	if (!err || !text)
		return snprintf(buf, len, "error %lld", (long long)cqe->res);
	if (detail)
		return snprintf(buf, len,
				"%s (%s); its record is gone: those of a context's last %u "
				"failures are kept, so explain sooner",
				text, errno_name(err), FAILURES);
	return snprintf(buf, len, "%s (%s)", text, errno_name(err));
}

/* 1: a notification will not come; its CQE holds all that *f needs. */
static int note_failed(const struct urccl_cqe *cqe, struct failure *f)
{
	if (urccl_cqe_kind(cqe) != URCCL_KIND_NOTE || cqe->res >= 0)
		return 0;
	*f = (struct failure){.reason = REASON_NOTE_FAILED,
			      .res = (int32_t)cqe->res,
			      .peer = cqe->peer,
			      .segment = UINT32_MAX,
			      .opcode = URCCL_OP_WATCH,
			      .arg = {cqe->tag, (uint64_t)-cqe->res}};
	return 1;
}

#define GOODBYE_TRIES 50u /* of a millisecond */

/* The peer's address, and whether it closed in order. Waits for no thread: the control thread may
 * be in the program's log function, which may wait for a lock of the caller's. The peer's BYE comes
 * by another connection than the end of its data (is_reset), and may be a moment behind it. */
static int explain_peer(struct urccl *ctx, uint32_t peer, int is_reset, char name[URCCL_NOTE_MAX])
{
	const struct timespec ms = {.tv_nsec = (long)NSEC_PER_MSEC};
	int lost = 0, res = -ENOENT;
	uint32_t i;

	for (i = 0; peer && i < GOODBYE_TRIES; i++) {
		res = engine_peer_name(ctx->engine, peer, name, URCCL_NOTE_MAX, &lost);
		if (res || lost || !is_reset)
			break;
		nanosleep(&ms, NULL);
	}
	return res;
}

int urccl_explain(struct urccl *ctx, const struct urccl_cqe *cqe, char *buf, uint32_t len)
{
	char name[URCCL_NOTE_MAX] = "";
	struct failure f;
	int err = context_check(ctx);

	if (err)
		return err;
	if (!cqe || (!buf && len))
		return fail(-EINVAL, "%s is NULL", cqe ? "the buffer for a sentence" : "the CQE");
	if (!note_failed(cqe, &f) &&
	    failures_get(engine_failures(ctx->engine), cqe_detail(cqe), &f))
		return explain_plainly(cqe, buf, len);
	err = explain_peer(ctx, f.peer, f.reason == REASON_PEER_RESET, name);
	if (err > 0 && f.reason == REASON_PEER_RESET)
		f.reason = REASON_PEER_GOODBYE;
	return failure_text(&f, err < 0 ? NULL : name, buf, len);
}
