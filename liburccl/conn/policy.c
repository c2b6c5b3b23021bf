/* SPDX-License-Identifier: Apache-2.0 */
/* The policy: transports that each peer may use; and log lines about peers. */
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>

#include "conn/shared.h"

uint32_t host_id(void)
{
	static const uint8_t key[16] = "liburccl host id";
	uint32_t host = 0;
	uint8_t hash[16];

	if (!machine_hash(key, hash))
		memcpy(&host, hash, sizeof(host));
	return host;
}

uint64_t paths_possible(const struct control *c)
{
	uint64_t transports = 0;
	uint32_t i;

	for (i = 0; i < c->config.ndevices; i++)
		transports |= 1ull << c->config.devices[i]->ops->transport;
	return transports;
}

uint32_t policy_required(const struct control *c, uint32_t host)
{
	int here = host && host == c->host;
	uint32_t i;

	for (i = 0; i < c->config.ndevices; i++) {
		uint32_t transport = c->config.devices[i]->ops->transport;

		if (!(c->config.required >> transport & 1))
			continue;
		if (here || (transport != URCCL_TRANSPORT_SHM && transport != URCCL_TRANSPORT_IPC))
			return transport;
	}
	return 0;
}

int policy_allows(const struct control *c, uint32_t host, uint32_t transport)
{
	uint32_t required = policy_required(c, host);

	return !required || required == transport;
}

void down_args(const struct peer *p, uint32_t reason, uint64_t arg, uint64_t args[3])
{
	if (reason == REASON_DIAL_NO_PATH || reason == REASON_DIAL_REQUIRED_DOWN ||
	    reason == REASON_DIAL_POLICY_DOWN) {
		addr_args(&p->remote, arg, args);
		return;
	}
	args[0] = arg;
	args[1] = args[2] = 0;
}

/* ---- the log ---- */

__attribute__((format(printf, 4, 5))) static void log_of_peer(const struct control *c,
							      const struct peer *p,
							      enum urccl_log_level level,
							      const char *format, ...)
{
	char name[80], text[512];
	va_list ap;

	if (!log_wants(&c->log, level))
		return;
	addr_text(&p->remote, name, sizeof(name));
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	log_text(&c->log, level, "peer %s%s", name, text);
}

void log_peer_up(const struct control *c, const struct peer *p)
{
	log_of_peer(c, p, URCCL_LOG_INFO, " (incarnation %016llx) is up over %s, %s",
		    (unsigned long long)p->incarnation, transport_name(p->transport),
		    p->dialled ? "dialled" : "accepted");
}

void log_peer_down(const struct control *c, const struct peer *p, uint32_t reason, uint64_t arg,
		   int graceful)
{
	enum urccl_log_level level = graceful || reason == REASON_CLOSING || p->leaving
					     ? URCCL_LOG_INFO
					     : URCCL_LOG_WARN;
	uint64_t args[3];
	char why[256];

	down_args(p, reason, arg, args);
	reason_text(reason, args, why, sizeof(why));
	log_of_peer(c, p, level, " %s: %s", p->stage == STAGE_UP ? "is gone" : "did not come up",
		    why);
}

void log_rail(const struct control *c, const struct peer *p, uint32_t transport, int err)
{
	log_of_peer(c, p, URCCL_LOG_INFO, ": transport %s: %s", transport_name(transport),
		    err ? errno_text(-err) : "given back");
}

void log_device(const struct control *c, const struct peer *p, const struct path *path,
		uint64_t code)
{
	log_of_peer(c, p, URCCL_LOG_INFO,
		    ": rail %u of transport %s: its device says status %u and the vendor's code "
		    "0x%x",
		    path->rail.number, transport_name(path_transport(path)),
		    (unsigned int)(code >> 16 & 0xffff), (unsigned int)(code >> 32));
}

void log_small(const struct control *c, const struct path *path)
{
	log_of_peer(c, path->peer, URCCL_LOG_INFO, ": rail %u stays as small as it is: %s",
		    path->rail.number, path->small);
}

void log_path_state(const struct control *c, const struct peer *p)
{
	if (p->path_state == PATH_SUSPENDED)
		log_of_peer(c, p, URCCL_LOG_INFO, " is idle: its data path is closed");
	else
		log_of_peer(c, p, URCCL_LOG_INFO, " has a data path again, over %s",
			    transport_name(p->transport));
}

void log_link(const struct control *c, const struct peer *p)
{
	char why[256];

	reason_text(p->cut ? REASON_PORTS_DOWN : REASON_NONE, NULL, why, sizeof(why));
	log_of_peer(c, p, URCCL_LOG_WARN, " %s%s", p->cut ? "is cut off: " : "may be reached again",
		    p->cut ? why : "");
}

/* A second possible cause of the failure, or "". */
static void short_of_regions(struct device *dev, int err, char *text, size_t size)
{
	uint32_t most, mrs = device_mrs(dev, &most);

	*text = 0;
	if (err == -ENOMEM && most)
		snprintf(text, size,
			 ", or none is left of the %u memory regions that the device can have "
			 "(max_mr), of which this context has %u",
			 most, mrs);
}

/* The kernel limits locked memory, and reports ENOMEM if the limit is passed. */
void log_short(const struct control *c, struct device *dev, uint64_t len, int err)
{
	const char *name = transport_name(dev->ops->transport);
	struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
	char regions[160];

	short_of_regions(dev, err, regions, sizeof(regions));
	if (err != -ENOMEM || !(dev->caps & CAP_BY_PAGES) || getrlimit(RLIMIT_MEMLOCK, &limit) ||
	    limit.rlim_cur == RLIM_INFINITY)
		log_text(&c->log, URCCL_LOG_WARN,
			 "%s cannot make %llu bytes ready for peers, whose entries fail: %s%s",
			 name, (unsigned long long)len, errno_text(-err), regions);
	else
		log_text(&c->log, URCCL_LOG_WARN,
			 "%s cannot pin %llu bytes for peers, whose entries fail, beside %llu KiB "
			 "that are pinned: there is no memory, or the limit for locked memory, "
			 "%llu KiB, is passed (ulimit -l, LimitMEMLOCK= of systemd, --ulimit "
			 "memlock=-1 of a container)%s",
			 name, (unsigned long long)len, (unsigned long long)memory_pinned() / 1024,
			 (unsigned long long)limit.rlim_cur / 1024, regions);
}

void log_unpinned(const struct control *c, const struct device *dev, uint64_t len, int err)
{
	log_text(&c->log, URCCL_LOG_WARN, "%s does not give %llu bytes back that it has pinned: %s",
		 dev ? transport_name(dev->ops->transport) : "a device", (unsigned long long)len,
		 errno_text(-err));
}

void log_importer(const struct control *c, const struct peer *p)
{
	log_text(
		&c->log, URCCL_LOG_WARN,
		"peer %016llx does not answer and may still have memory of this context mapped: it "
		"stays allocated, and the peer may write to it, until its process ends",
		(unsigned long long)p->incarnation);
}

void log_refused(const struct control *c, const struct conn *n, const struct wire_refuse *r)
{
	static const char *const why[] = {
		[WIRE_NO_VERSION] = "it speaks no version of the protocol that is known here",
		[WIRE_STALE] = "it wanted an earlier incarnation",
		[WIRE_SELF] = "it is this context itself",
		[WIRE_FULL] = "max_peers is reached",
		[WIRE_EXISTS] = "it is connected already",
		[WIRE_NO_PATH] = "no transport is left for it",
		[WIRE_CLOSING] = "the context is being closed",
		[WIRE_BUSY] = "max_peers is reached by some who may not stay",
		[WIRE_SECRET] = "it has no shared secret, and this context wants one proved",
		[WIRE_NO_SECRET] = "it wants a shared secret proved, and this context has none",
		[WIRE_OTHER_SECRET] = "its shared secret is not the one of this context",
	};
	/* These two codes arise when both contexts dial at once. They report no fault. */
	enum urccl_log_level level =
		r->code == WIRE_EXISTS || r->code == WIRE_BUSY ? URCCL_LOG_DEBUG : URCCL_LOG_WARN;
	char name[80];

	if (!log_wants(&c->log, level))
		return;
	addr_text(&n->remote, name, sizeof(name));
	log_text(&c->log, level, "refused %s: %s%s%s%s%s", name,
		 r->code == WIRE_FULL && r->error ? "something ran out" : why[r->code],
		 r->required ? ", and the policy requires " : "",
		 r->required ? transport_name(r->required) : "", r->error ? ": " : "",
		 r->error ? errno_text((int)r->error) : "");
}

void log_garbage(const struct control *c, const struct conn *n)
{
	char name[80];

	if (!log_wants(&c->log, URCCL_LOG_WARN))
		return;
	addr_text(&n->remote, name, sizeof(name));
	log_text(
		&c->log, URCCL_LOG_WARN,
		"refused %s: it does not speak the protocol of liburccl; look for the program that "
		"dials this port",
		name);
}
