/* SPDX-License-Identifier: Apache-2.0 */
/* Several addresses to listen on, and interfaces to choose from: each address answers, metadata
 * lists them all, dials come from the interface that was chosen, data as well; what cannot be is an
 * error that names it. With interfaces of its own where the system lets the test have a network
 * namespace. */
#include <arpa/inet.h>
#include <sched.h>
#include <sys/wait.h>
#include "meet.h"
#include "ns.h"

#define US 10000000u

static struct pair p;

/* As the kernel lists it: in words of its own order. */
static void listed(const char *host, char hex[33])
{
	uint32_t words[4], i, n = strchr(host, ':') ? 4 : 1;

	CHECK_EQ(inet_pton(n == 4 ? AF_INET6 : AF_INET, host, words), 1);
	for (i = 0; i < n; i++)
		snprintf(hex + 8 * i, 9, "%08X", words[i]);
}

/* Connections of this process's network to an address, from one (NULL: any). */
static uint32_t connections(const char *from, const char *to)
{
	FILE *file = fopen(strchr(to, ':') ? "/proc/self/net/tcp6" : "/proc/self/net/tcp", "r");
	char line[512], local[33], remote[33], f[33] = "", t[33];
	uint32_t state, n = 0;

	CHECK(file);
	listed(to, t);
	if (from)
		listed(from, f);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "%*d: %32[^:]:%*x %32[^:]:%*x %x", local, remote, &state) == 3)
			n += state == 1 && !strcmp(remote, t) && (!from || !strcmp(local, f));
	fclose(file);
	return n;
}

/* The data's, where it goes over tcp, beside the control connection. */
static void check_streams(const char *from, const char *to)
{
	uint32_t least = p.transport == URCCL_TRANSPORT_TCP ? 3 : 1;

	if (from) /* none comes from elsewhere */
		CHECK_EQ(connections(from, to), connections(NULL, to));
	CHECK_GE(connections(from, to), least);
}

/* "10.0.0.1:7777", "[fd00::1]:7777" */
static int is_at(const char *address, const char *host)
{
	address += *address == '[';
	return !strncmp(address, host, strlen(host)) && strchr(":]", address[strlen(host)]);
}

static void come_and_go(const void *target, uint32_t len, const char *from, const char *to)
{
	struct urccl_peer_info info = {.size = sizeof(info)};
	struct urccl_cqe cqe = side_dialled(&p.a, &p.b, target, len, US);
	uint32_t a = (uint32_t)cqe.handle, b;

	if (cqe.res)
		check_sentence(&p.a, &cqe, "no sentence can excuse it");
	b = side_event(&p.b, &p.a, URCCL_KIND_PEER, NULL).peer;
	CHECK_EQ(urccl_get_peer_info(p.b.ctx, (struct urccl_peer){b}, &info), 0);
	if (from && !is_at(info.address, from))
		fprintf(stderr, "it came from %s, not %s\n", info.address, from);
	CHECK(!from || is_at(info.address, from));
	CHECK_EQ(side_tell(&p.a, &p.b, a, 7), 0);
	CHECK_EQ(side_event(&p.b, &p.a, URCCL_KIND_NOTE, NULL).tag, 7);
	if (to)
		check_streams(from, to);
	CHECK_EQ(side_drop(&p.a, &p.b, a), 0);
	CHECK_EQ(side_event(&p.b, &p.a, URCCL_KIND_LOST, NULL).peer, b);
	CHECK_EQ(side_drop(&p.b, &p.a, b), 0);
}

/* A context at `listen` and `ifname`, and what its metadata says: how many hosts. */
static int serve(const char *listen, const char *ifname, uint8_t *blob, uint16_t *port)
{
	int len;

	p.params.listen = listen;
	p.params.socket_ifname = ifname;
	side_open(&p, &p.b);
	side_accept(&p.b, 1);
	side_watch(&p.b, (struct urccl_peer){0}, 2);
	len = urccl_metadata(p.b.ctx, blob, URCCL_METADATA_MAX);
	CHECK_GE(len, 1);
	*port = (uint16_t)(blob[2] | blob[3] << 8);
	return len;
}

static void text(const char *host, uint16_t port, const char *from)
{
	char at[PLACE_MAX];

	snprintf(at, sizeof(at), strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
	come_and_go(at, (uint32_t)strlen(at), from, host);
}

static void refused(const char *listen, const char *ifname, int res, const char *word)
{
	struct urccl_params params = p.params;
	struct urccl *ctx;

	params.listen = listen;
	params.socket_ifname = ifname;
	CHECK_EQ(urccl_open(&params, &ctx), res);
	CHECK_SAYS(urccl_errmsg(), word);
}

static void several(void)
{
	uint8_t blob[URCCL_METADATA_MAX];
	uint16_t port;
	int len = serve("127.0.0.1:0,127.0.0.2:0", NULL, blob, &port);

	CHECK_EQ(blob[4], 2);
	text("127.0.0.1", port, NULL);
	text("127.0.0.2", port, NULL);
	come_and_go(blob, (uint32_t)len, NULL, NULL);
	side_close(&p.b);
	(void)serve(NULL, "lo", blob, &port);
	text("127.0.0.1", port, NULL);
	side_close(&p.b);
}

static void wrong(void)
{
	refused("127.0.0.1:1,127.0.0.2:2", NULL, -EINVAL, "127.0.0.2:2");
	refused("127.0.0.1:1,127.0.0.1:1", NULL, -EINVAL, "twice");
	refused("127.0.0.1:1,nonsense", NULL, -EINVAL, "nonsense");
	refused(NULL, "nosuchthing", -EADDRNOTAVAIL, "nosuchthing");
	refused(NULL, "a,,b", -EINVAL, "socket_ifname");
	refused("127.0.0.1:0", "^lo", -EADDRNOTAVAIL, "socket_ifname");
}

static int run(const char *command)
{
	return system(command) == 0;
}

/* A namespace with two pairs of interfaces, each with an address of a network of its own. */
static int own_network(void)
{
	if (ns_enter(CLONE_NEWNET, 1))
		return 0;
	return run(
		"{ ip link set lo up && ip link add uv0 type veth peer name uv1 && "
		"ip addr add 10.77.0.1/24 dev uv0 && ip link set uv0 up && ip link set uv1 up && "
		"ip link add uw0 type veth peer name uw1 && ip addr add 10.78.0.1/24 dev uw0 && "
		"ip link set uw0 up && ip link set uw1 up; } 2>/dev/null");
}

/* Two networks of IPv6 at each, whose numbers differ in a part of a byte. */
static int own_v6(void)
{
	return run("{ ip addr add fd00:77:0:8::1/61 dev uv0 nodad && "
		   "ip addr add fd00:77:0:10::1/61 dev uv0 nodad && "
		   "ip addr add fd00:77:0:9::2/61 dev uw0 nodad && "
		   "ip addr add fd00:77:0:11::2/61 dev uw0 nodad; } 2>/dev/null");
}

static void interfaces(void)
{
	uint8_t blob[URCCL_METADATA_MAX];
	uint16_t port;
	int len = serve(NULL, "=uv0", blob, &port);

	/* One address, and not that of uw0 or lo. */
	CHECK_EQ(blob[4], 1);
	CHECK_EQ(blob[16], 4);
	CHECK(!memcmp(blob + 17, (const uint8_t[]){10, 77, 0, 1}, 4));
	come_and_go(blob, (uint32_t)len, "10.78.0.1", "10.77.0.1");
	text("10.77.0.1", port, "10.78.0.1");
	side_close(&p.b);
	len = serve("0.0.0.0:0", "^lo", blob, &port);
	CHECK_EQ(blob[4], 2);
	come_and_go(blob, (uint32_t)len, NULL, NULL);
	side_close(&p.b);
}

/* Who dials an address has one of its interfaces' that is of the same network. */
static void interfaces_v6(void)
{
	uint8_t blob[URCCL_METADATA_MAX];
	uint16_t port;
	int len = serve(NULL, "=uv0", blob, &port);

	CHECK_EQ(blob[4], 3);
	CHECK_EQ(blob[16], 4);
	CHECK_EQ(blob[21], 6);
	come_and_go(blob, (uint32_t)len, NULL, NULL);
	text("10.77.0.1", port, "10.78.0.1");
	text("fd00:77:0:8::1", port, "fd00:77:0:9::2");
	text("fd00:77:0:10::1", port, "fd00:77:0:11::2");
	side_close(&p.b);
}

static void dialling_from_uw(void (*what)(void))
{
	p.params.listen = NULL;
	p.params.socket_ifname = "uw";
	side_open(&p, &p.a);
	what();
	side_close(&p.a);
}

/* In a process of its own, made before there are threads. */
static pid_t apart(void)
{
	pid_t child = fork();

	if (child)
		return child;
	if (!own_network())
		test_end(77);
	if (p.transport == URCCL_TRANSPORT_SIM)
		pair_sim(&p);
	dialling_from_uw(interfaces);
	if (own_v6())
		dialling_from_uw(interfaces_v6);
	else
		printf("no IPv6 here\n");
	test_end(0);
}

int main(int argc, char **argv)
{
	pid_t child;
	int status;

	pair_options(&p, argc, argv);
	child = apart();
	if (p.transport == URCCL_TRANSPORT_SIM)
		pair_sim(&p);
	wrong();
	side_open(&p, &p.a);
	several();
	side_close(&p.a);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		SKIP("interfaces: no network namespace, or no ip(8) to make interfaces with");
	return WEXITSTATUS(status);
}
