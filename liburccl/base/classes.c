/* SPDX-License-Identifier: Apache-2.0 */
/* Settings with one value per class of entries: "x" for all classes, or "bulk:x,latency:y". */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"

static const char *const names[CLASSES] = {
	[URCCL_CLASS_BULK] = "bulk",
	[URCCL_CLASS_LATENCY] = "latency",
	[URCCL_CLASS_CONTROL] = "control",
};

const char *class_name(uint32_t cls)
{
	return cls < CLASSES ? names[cls] : NULL;
}

static int class_parse(const char *text, size_t len)
{
	uint32_t i;

	for (i = 0; i < CLASSES; i++)
		if (strlen(names[i]) == len && !memcmp(names[i], text, len))
			return (int)i;
	return -EINVAL;
}

int classes_split(const char *text, struct class_words *w)
{
	size_t name, len;
	uint32_t i;
	int cls;

	memset(w, 0, sizeof(*w));
	if (!strchr(text, ':')) {
		for (i = 0; i < CLASSES; i++) {
			w->at[i] = text;
			w->len[i] = strlen(text);
		}
		return *text && !strchr(text, ',') ? 0 : -EINVAL;
	}
	for (;; text += len + 1) {
		name = strcspn(text, ":,");
		cls = text[name] == ':' ? class_parse(text, name) : -EINVAL;
		if (cls < 0 || w->at[cls])
			return -EINVAL;
		text += name + 1;
		len = strcspn(text, ":,");
		if (!len || text[len] == ':')
			return -EINVAL;
		w->at[cls] = text;
		w->len[cls] = len;
		if (!text[len])
			return 0;
	}
}

/* ---- sockets ---- */

/* Sets the traffic class for IPv4 and for IPv6. A socket of IPv4 accepts only the IPv4 option, so
 * one success is enough. */
static int set_tclass(int fd, int tclass)
{
	int v4 = setsockopt(fd, IPPROTO_IP, IP_TOS, &tclass, sizeof(tclass)) ? -errno : 0;
	int v6 = setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &tclass, sizeof(tclass)) ? -errno : 0;

	return v4 && v6 ? v4 : 0;
}

static int set_congestion(int fd, const char *name)
{
	return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) ? -errno
											  : 0;
}

/* Must come after set_tclass(), because the kernel changes the priority along with the traffic
 * class. */
static int set_priority(int fd, int priority)
{
	return setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority)) ? -errno : 0;
}

int class_socket_set(const struct class_socket *cs, int fd)
{
	int err = cs->congestion[0] ? set_congestion(fd, cs->congestion) : 0;

	if (!err && cs->tclass)
		err = set_tclass(fd, cs->tclass);
	if (!err && cs->priority)
		err = set_priority(fd, cs->priority);
	return err;
}

static int try_on(const struct class_socket *cs, const char *name, int fd)
{
	int err = cs->congestion[0] ? set_congestion(fd, cs->congestion) : 0;

	if (err == -ENOENT || err == -EPERM)
		return fail(err,
			    "the kernel does not give tcp_congestion \"%s\": see "
			    "net.ipv4.tcp_available_congestion_control and, for who is not root, "
			    "net.ipv4.tcp_allowed_congestion_control",
			    cs->congestion);
	if (err)
		return fail(err, "tcp_congestion \"%s\": %s", cs->congestion, errno_text(-err));
	err = cs->tclass ? set_tclass(fd, cs->tclass) : 0;
	if (err)
		return fail(err, "tcp_tclass %d of class %s: %s", cs->tclass, name,
			    errno_text(-err));
	err = cs->priority ? set_priority(fd, cs->priority) : 0;
	if (err)
		return fail(err, "tcp_priority %d of class %s: %s; above 6 it needs CAP_NET_ADMIN",
			    cs->priority, name, errno_text(-err));
	return 0;
}

int class_socket_read(struct class_socket *cs, const struct urccl_params *p, uint32_t cls)
{
	struct class_words w = {{NULL}, {0}};
	int fd, err;

	memset(cs, 0, sizeof(*cs));
	if (p->tcp_congestion &&
	    (classes_split(p->tcp_congestion, &w) || w.len[cls] >= sizeof(cs->congestion)))
		return fail(-EINVAL, "tcp_congestion \"%.100s\" names no congestion control",
			    p->tcp_congestion);
	if (w.at[cls])
		memcpy(cs->congestion, w.at[cls], w.len[cls]);
	cs->tclass = p->tcp_tclass[cls];
	cs->priority = p->tcp_priority[cls];
	if (!cs->congestion[0] && !cs->tclass && !cs->priority)
		return 0;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 && errno == EAFNOSUPPORT)
		fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return fail(-errno, "tcp: no socket: %s", errno_text(errno));
	err = try_on(cs, class_name(cls), fd);
	close(fd);
	return err;
}
