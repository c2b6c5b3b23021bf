/* SPDX-License-Identifier: Apache-2.0 */
/* Describes a context's devices and routes to people and tools. */
#include <stdio.h>

#include "context.h"
#include "nics.h"

/* ---- devices ---- */

static void device_open_info(const struct device *dev, struct urccl_device *out)
{
	out->transport = dev->ops->transport;
	out->state = URCCL_DEVICE_OPEN;
	snprintf(out->name, sizeof(out->name), "%s", dev->ops->name);
	snprintf(out->reason, sizeof(out->reason), "%s", dev->about ? dev->about : "");
}

static int is_open(const struct urccl *ctx, uint32_t transport)
{
	uint32_t i;

	for (i = 0; i < ctx->ndevices; i++)
		if (ctx->devices[i]->ops->transport == transport)
			return 1;
	return 0;
}

/* The k-th refusal of the transport, or NULL. */
static const struct refusal *refusal_of(const struct urccl *ctx, uint32_t transport, uint32_t k)
{
	uint32_t i;

	for (i = 0; i < ctx->nrefused && context_backend(transport); i++)
		if (ctx->refused[i].transport == transport && !k--)
			return &ctx->refused[i];
	return NULL;
}

/* Number of entries of urccl_devices() for the transport after the open devices. */
static uint32_t closed(const struct urccl *ctx, uint32_t transport)
{
	uint32_t n = 0;

	while (refusal_of(ctx, transport, n))
		n++;
	return n || is_open(ctx, transport) ? n : 1;
}

/* Fills in the k-th of these entries. */
static void device_closed_info(const struct urccl *ctx, uint32_t transport, uint32_t k,
			       struct urccl_device *out)
{
	const struct refusal *r = refusal_of(ctx, transport, k);
	const char *why;

	out->transport = transport;
	snprintf(out->name, sizeof(out->name), "%s", transport_name(transport));
	if (!context_backend(transport)) {
		out->state = URCCL_DEVICE_NOT_CARRIED;
		why = "this version does not carry it out";
	} else if (r) {
		out->state = URCCL_DEVICE_FAILED;
		out->error = r->err;
		why = r->why;
	} else {
		out->state = URCCL_DEVICE_NOT_ASKED;
		why = transport == URCCL_TRANSPORT_SIM
			      ? "simulated networks are used where a program gives one"
			      : "the setting transport does not name it";
	}
	snprintf(out->reason, sizeof(out->reason), "%.255s", why);
}

int urccl_devices(struct urccl *ctx, uint32_t i, struct urccl_device *device)
{
	struct urccl_device all = {.size = sizeof(all)};
	uint32_t transport, left;
	int err = context_check_out(ctx, device);

	if (err)
		return err;
	if (i < ctx->ndevices) {
		device_open_info(ctx->devices[i], &all);
		return fill_sized(device, &all, sizeof(all), "struct urccl_device");
	}
	left = i - ctx->ndevices;
	for (transport = 1; transport_name(transport); transport++) {
		uint32_t n = closed(ctx, transport);

		if (left < n)
			break;
		left -= n;
	}
	if (!transport_name(transport))
		return fail(-ENOENT, "there is no device %u", i);
	device_closed_info(ctx, transport, left, &all);
	return fill_sized(device, &all, sizeof(all), "struct urccl_device");
}

/* ---- plan ---- */

static const char *transport_about(const struct urccl *ctx, uint32_t transport)
{
	uint32_t i;

	for (i = 0; i < ctx->ndevices; i++)
		if (ctx->devices[i]->ops->transport == transport && ctx->devices[i]->about)
			return ctx->devices[i]->about;
	return "no device";
}

static int plan_peer(struct urccl *ctx, struct urccl_peer peer, struct text *t)
{
	struct urccl_peer_info info = {.size = sizeof(info)};
	struct control_call call = {.msg.type = CALL_PEER_INFO, .handle = peer.id, .info = &info};
	int err = context_call(ctx, &call, 0);
	const char *name;

	if (err)
		return err;
	name = transport_name(info.transport);
	if (info.state == URCCL_PEER_UP && name)
		text_add(t, "peer 0x%x, %s: %s: %s\n", peer.id, info.address, name,
			 transport_about(ctx, info.transport));
	else
		text_add(t, "peer 0x%x, %s: %s\n", peer.id, info.address,
			 info.state == URCCL_PEER_LOST ? "lost: no way"
						       : "connecting: the way is not known yet");
	return 0;
}

static void plan_any(const struct urccl *ctx, struct text *t)
{
	size_t room;
	uint32_t i;
	char *to;

	for (i = 0; i < ctx->ndevices; i++)
		text_add(t, "%u. %s: %s\n", i + 1, ctx->devices[i]->ops->name,
			 ctx->devices[i]->about ? ctx->devices[i]->about : "");
	text_add(t, "Of those that both ends have, the first that reaches the peer is taken.\n");
	to = text_room(t, &room);
	t->len += (size_t)nics_text(&ctx->settings.p, to, room);
}

/* The route of GPU memory over the device, for entries of this context. */
static const char *gpu_route(const struct device *dev, int is_staged)
{
	if (dev->caps & CAP_GPU)
		return "CUDA IPC to and from memory of GPUs, staged to and from other memory of the "
		       "peer";
	return is_staged ? "staged, as the device does not reach it" : "direct";
}

/* The same for entries of peers. */
static const char *gpu_peers_route(const struct device *dev, int is_staged, int may_bounce)
{
	if (dev->caps & CAP_GPU)
		return may_bounce ? "peers reach it by CUDA IPC, or by relay where CUDA does not "
				    "share it"
				  : "peers reach it by CUDA IPC if CUDA shares it";
	if (!is_staged)
		return "peers reach it by the device";
	return may_bounce ? "peers reach it by relay"
			  : "peers do not reach it, as bounce=no forbids the relay";
}

static void plan_gpu(struct urccl *ctx, const struct urccl_region_info *info, struct text *t)
{
	int may_bounce = ctx->settings.p.bounce != URCCL_ALLOW_NO;
	uint32_t i, transport, last = URCCL_TRANSPORT_NONE;
	int is_staged;

	text_add(t, "memory of GPU %u", info->device - 1);
	for (i = 0; i < ctx->ndevices; i++) {
		const struct device *dev = ctx->devices[i];

		transport = dev->ops->transport;
		is_staged = info->staged >> transport & 1;
		if (transport != last)
			text_add(t, "; %s: %s; %s", dev->ops->name, gpu_route(dev, is_staged),
				 gpu_peers_route(dev, is_staged, may_bounce));
		last = transport;
	}
	text_add(t, "\n");
}

static int plan_region(struct urccl *ctx, struct urccl_region region, struct text *t)
{
	struct urccl_region_info info = {.size = sizeof(info)};
	struct control_call call = {.msg.type = CALL_REGION_INFO,
				    .handle = region.id,
				    .info = &info};
	int err = context_call(ctx, &call, 0);

	if (err)
		return err;
	text_add(t, "region 0x%x: ", region.id);
	if (info.device)
		plan_gpu(ctx, &info, t);
	else
		text_add(t, "%s\n",
			 info.mappable ? "peers of this host map it: no copy and no work of this "
					 "process"
				       : "ordinary memory: what peers do to it goes through this "
					 "process");
	return 0;
}

int urccl_plan(struct urccl *ctx, struct urccl_peer peer, struct urccl_region region, char *buf,
	       uint32_t len)
{
	struct text t = {buf, len, 0};
	int err = context_check(ctx);

	if (!err && !buf && len)
		err = fail(-EINVAL, "the buffer for a plan is NULL");
	if (err)
		return err;
	if (peer.id)
		err = plan_peer(ctx, peer, &t);
	else
		plan_any(ctx, &t);
	if (!err && region.id)
		err = plan_region(ctx, region, &t);
	return err ? err : (int)t.len;
}
