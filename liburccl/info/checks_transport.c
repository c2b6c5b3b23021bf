/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of paths to peers: loopback, RDMA devices, and the library's transports between two
 * contexts of this process. */
#include "info.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define WAIT_MS	       300
#define DEVICE_WAIT_MS 1200 /* for a transport that makes queue pairs */

/* ---- loopback ---- */

static int dial_loopback(const struct sockaddr_in *to)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err = 0;
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	socklen_t len = sizeof(err);

	if (fd < 0)
		return errno;
	if (connect(fd, (const struct sockaddr *)to, sizeof(*to)) && errno != EINPROGRESS)
		err = errno;
	else if (poll(&p, 1, WAIT_MS) != 1)
		err = ETIMEDOUT;
	else
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
	close(fd);
	return err;
}

void check_loopback(struct finding *f)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), err;

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 1) ||
	    getsockname(fd, (struct sockaddr *)&at, &len))
		err = errno;
	else
		err = dial_loopback(&at);
	if (fd >= 0)
		close(fd);
	if (!err) {
		finding_set(f, HEALTH_OK, "TCP to 127.0.0.1 works");
		return;
	}
	finding_set(f, HEALTH_WRONG, "no TCP to 127.0.0.1: %s", strerror(err));
	advise(f, "ip link set lo up; every connection begins with TCP, that of shm too");
}

/* ---- RDMA devices ---- */

static size_t count_matches(const char *pattern)
{
	glob_t g;
	size_t n = 0;

	if (!glob(pattern, 0, NULL, &g)) {
		n = g.gl_pathc;
		globfree(&g);
	}
	return n;
}

struct nodes {
	size_t n, open; /* found; that can be opened */
	int err;	/* errno of the first that cannot */
	char name[32];	/* its name */
};

/* Opens each node: a container's device cgroup may refuse it despite its permissions. */
static struct nodes nodes_open(const char *pattern)
{
	struct nodes nodes = {0};
	size_t i;
	glob_t g;
	int fd;

	if (glob(pattern, 0, NULL, &g))
		return nodes;
	nodes.n = g.gl_pathc;
	for (i = 0; i < g.gl_pathc; i++) {
		fd = open(g.gl_pathv[i], O_RDWR | O_CLOEXEC);
		if (fd >= 0) {
			nodes.open++;
			close(fd);
		} else if (!nodes.err) {
			nodes.err = errno;
			snprintf(nodes.name, sizeof(nodes.name), "%s",
				 strrchr(g.gl_pathv[i], '/') + 1);
		}
	}
	globfree(&g);
	return nodes;
}

void check_uverbs(struct finding *f)
{
	size_t devices = count_matches(path_under(f, "/sys/class/infiniband/*"));
	struct nodes nodes = nodes_open(path_under(f, "/dev/infiniband/uverbs*"));

	if (!devices && !nodes.n) {
		finding_set(f, HEALTH_NOTE,
			    "no RDMA device, and no uverbs node in /dev/infiniband");
		advise(f, "only transport ib needs one: see lspci for a NIC, and load its driver "
			  "(modprobe mlx5_ib, or rdma_rxe for an Ethernet one without RDMA)");
		return;
	}
	if (!nodes.n) {
		finding_set(f, HEALTH_WRONG,
			    "%zu RDMA devices and no uverbs node in /dev/infiniband", devices);
		advise(f, "modprobe ib_uverbs; --device=/dev/infiniband for a container");
		return;
	}
	if (!nodes.err) {
		finding_set(f, HEALTH_OK,
			    "%zu RDMA devices, %zu uverbs nodes: transport ib may use them",
			    devices, nodes.n);
		return;
	}
	finding_set(f, nodes.open ? HEALTH_NOTE : HEALTH_WRONG,
		    "%zu of %zu uverbs nodes can be opened; %s: %s", nodes.open, nodes.n,
		    nodes.name, strerror(nodes.err));
	advise(f,
	       "rights 0666 on /dev/infiniband/uverbs* (rdma-core's udev rules), or the group "
	       "that may; of a container also --device=/dev/infiniband/%s, without which its "
	       "device cgroup refuses what the rights allow",
	       nodes.name);
}

/* ---- the library ---- */

void check_settings(struct finding *f)
{
	struct urccl_params p = {.size = sizeof(p)};

	urccl_params_init(&p);
	if (!urccl_params_from_env(&p)) {
		finding_set(f, HEALTH_OK, "what the environment sets is understood");
		return;
	}
	finding_set(f, HEALTH_WRONG, "%s", urccl_errmsg());
	advise(f, "correct that variable, or unset it; here the defaults stand for all of them");
}

void check_open(struct finding *f)
{
	struct urccl_device d = {.size = sizeof(d)};
	struct urccl_params p = *f->params;
	struct urccl *ctx;
	uint32_t i, n = 0;

	p.listen = NULL; /* a running server may use that address */
	if (urccl_open(&p, &ctx)) {
		finding_set(f, HEALTH_WRONG, "no context can be opened: %s", urccl_errmsg());
		advise(f, "mend what that names, and what is wrong in the lines above; or ask for "
			  "another transport (--transport, URCCL_TRANSPORT)");
		return;
	}
	finding_set(f, HEALTH_OK, "a context opens with");
	for (i = 0; !urccl_devices(ctx, i, &d); i++) {
		size_t len = strlen(f->state);

		if (d.state == URCCL_DEVICE_OPEN)
			snprintf(f->state + len, sizeof(f->state) - len, "%s %s", n++ ? "," : "",
				 d.name);
		if (d.state != URCCL_DEVICE_FAILED)
			continue;
		f->health = HEALTH_WRONG;
		advise(f, "without transport %s: %s", d.name, d.reason);
	}
	urccl_close(ctx);
}

/* Connects two contexts within ms. Returns 0 or -errno, and sets the finding. */
static int check_meeting(struct finding *f, const struct urccl_params *p, uint32_t ms)
{
	struct end a = {0}, b = {0};
	uint64_t began = now_ns();
	char why[200] = "";
	int err;

	err = end_open(&a, p);
	if (!err)
		err = end_open(&b, p);
	if (err)
		snprintf(why, sizeof(why), "%s", urccl_errmsg());
	else
		err = ends_connect(&a, &b, ms, why, sizeof(why));
	if (err) {
		finding_set(f, HEALTH_WRONG, "two contexts of this process cannot meet: %s", why);
		advise(f,
		       "urccl_info --transport %s says whether it opens by itself; on a machine "
		       "that is very busy look once more",
		       p->transport);
	} else {
		finding_set(f, HEALTH_OK, "two contexts of this process met, all in %.1f ms",
			    (double)(now_ns() - began) / 1e6);
	}
	end_close(&a);
	end_close(&b);
	return err;
}

/* Checks the transport with the default settings. */
static void check_transport(struct finding *f, const char *transport)
{
	struct urccl_params p = {.size = sizeof(p)};

	urccl_params_init(&p);
	p.transport = transport;
	check_meeting(f, &p, WAIT_MS);
}

void check_shm(struct finding *f)
{
	check_transport(f, "shm");
}

void check_tcp(struct finding *f)
{
	check_transport(f, "tcp");
}

/* Clears listen, as two contexts cannot listen on one address. */
void check_connects(struct finding *f, const char *transport)
{
	struct urccl_params p = *f->params;
	uint64_t now = now_ns(), left_ms = now < f->until_ns ? (f->until_ns - now) / 1000000 : 0;
	int err;

	p.transport = transport;
	p.listen = NULL;
	if (left_ms >= DEVICE_WAIT_MS) {
		check_meeting(f, &p, DEVICE_WAIT_MS);
		return;
	}
	err = left_ms ? check_meeting(f, &p, (uint32_t)left_ms) : -ETIME;
	if (err != -ETIMEDOUT && err != -ETIME)
		return;
	*f->advice = 0;
	finding_set(f, HEALTH_NOTE, "not known: other transports took the time that there is");
	advise(f, "urccl_info --doctor --transport %s looks at it alone", transport);
}
