/* SPDX-License-Identifier: Apache-2.0 */
/* Before the endpoint of an old libfabric's tcp is closed its connections fail, so that the
 * provider, which is played here, ends them itself: whatever came on them, also while the peer goes
 * on sending, or has reset them, and where no descriptor is free. Others' connections are left
 * alone. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include "backend/fabric/key.h"
#include "test.h"

#define FILES 64u
#define WAYS  2u

/* Between an endpoint of ours and one of the peer's. */
static struct connection {
	int ours, theirs; /* -1: closed */
} endpoints[WAYS], others[WAYS];

static ssize_t provider_read(struct fid_cq *from, void *buf, size_t n);

static struct fi_ops_cq cq_ops = {.size = sizeof(cq_ops), .read = provider_read};
static struct fid_cq cq = {.ops = &cq_ops};
static struct fi_fabric_attr fabric_attr = {.prov_name = "tcp;ofi_rxm"};
static struct fi_info info = {.fabric_attr = &fabric_attr};
static struct fabric_device d = {.info = &info, .lib = {.version = FI_VERSION(1, 17)}};
static struct fabric_ep e = {.ep.dev = &d.dev, .endpoint.cq = &cq};

/* ---- sockets ---- */

static struct sockaddr_in listen_at(const char *host, uint16_t port, int *fd)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = port};
	socklen_t len = sizeof(at);

	CHECK_EQ(inet_pton(AF_INET, host, &at.sin_addr), 1);
	*fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(*fd >= 0);
	CHECK_EQ(bind(*fd, (struct sockaddr *)&at, sizeof(at)), 0);
	CHECK_EQ(listen(*fd, 8), 0);
	CHECK_EQ(getsockname(*fd, (struct sockaddr *)&at, &len), 0);
	return at;
}

/* Returns who dials; *other: who accepts. */
static int meet(int listener, const struct sockaddr_in *at, int *other)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(fd >= 0);
	CHECK_EQ(connect(fd, (const struct sockaddr *)at, sizeof(*at)), 0);
	*other = accept(listener, NULL, NULL);
	CHECK(*other >= 0);
	return fd;
}

/* Those of two endpoints, dialled from either side, and two that are neither's: of another address
 * that has the same port, and of two ports of their own. */
static void meet_all(void)
{
	struct sockaddr_in ours, theirs, same, own;
	int fds[4];
	uint32_t i;

	ours = listen_at("127.0.0.1", 0, &fds[0]);
	theirs = listen_at("127.0.0.1", 0, &fds[1]);
	same = listen_at("127.0.0.2", ours.sin_port, &fds[2]);
	own = listen_at("127.0.0.1", 0, &fds[3]);
	endpoints[0].theirs = meet(fds[0], &ours, &endpoints[0].ours);
	endpoints[1].ours = meet(fds[1], &theirs, &endpoints[1].theirs);
	others[0].theirs = meet(fds[2], &same, &others[0].ours);
	others[1].theirs = meet(fds[3], &own, &others[1].ours);
	/* In the place of the endpoints' sockets, which are the provider's. */
	memcpy(e.endpoint.address, &ours, sizeof(ours));
	memcpy(e.join_address, &theirs, sizeof(theirs));
	e.endpoint.name_len = e.join_len = sizeof(ours);
	for (i = 0; i < 4; i++)
		close(fds[i]);
}

/* ---- the provider ---- */

static void send_some(const struct connection *c)
{
	static const char bytes[4096];

	if (c->theirs >= 0)
		send(c->theirs, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* It looks at what there is to be read, takes far less than comes, and ends what fails. */
static void take_some(struct connection *c)
{
	struct pollfd pfd = {.fd = c->ours, .events = POLLIN};
	char bytes[16];
	ssize_t came;

	if (poll(&pfd, 1, 0) != 1 || !(pfd.revents & POLLIN))
		return;
	came = recv(c->ours, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (came > 0 || (came < 0 && errno == EAGAIN))
		return;
	close(c->ours);
	c->ours = -1;
}

static ssize_t provider_read(struct fid_cq *from, void *buf, size_t n)
{
	uint32_t i;

	(void)from, (void)buf, (void)n;
	for (i = 0; i < WAYS; i++) {
		send_some(&endpoints[i]);
		if (endpoints[i].ours >= 0)
			take_some(&endpoints[i]);
	}
	return -FI_EAGAIN;
}

/* ---- cases ---- */

static void check_others(void)
{
	char byte;
	uint32_t i;

	for (i = 0; i < WAYS; i++) {
		CHECK_EQ(send(others[i].theirs, "a", 1, MSG_NOSIGNAL), 1);
		CHECK_EQ(recv(others[i].ours, &byte, 1, 0), 1);
		CHECK_EQ(send(others[i].ours, "b", 1, MSG_NOSIGNAL), 1);
		CHECK_EQ(recv(others[i].theirs, &byte, 1, 0), 1);
		CHECK_EQ(byte, 'b');
		close(others[i].ours);
		close(others[i].theirs);
	}
}

static void settle(void)
{
	uint32_t i;

	provider_read(NULL, NULL, 0);
	for (i = 0; i < WAYS; i++)
		CHECK(endpoints[i].ours >= 0);
	fabric_tcp_settle(&e);
	for (i = 0; i < WAYS; i++) {
		CHECK_EQ(endpoints[i].ours, -1);
		close(endpoints[i].theirs);
	}
	check_others();
}

/* The peer ends with something that it did not take: what it sent before is there to be taken. */
static void reset(void)
{
	uint32_t i;

	for (i = 0; i < WAYS; i++) {
		CHECK_EQ(send(endpoints[i].ours, "a", 1, MSG_NOSIGNAL), 1);
		send_some(&endpoints[i]);
		close(endpoints[i].theirs);
		endpoints[i].theirs = -1;
	}
	settle();
}

/* Takes all descriptors that are left. */
static uint32_t take_files(int *files)
{
	uint32_t n = 0;

	while ((files[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		CHECK(++n < FILES);
	CHECK_EQ(errno, EMFILE);
	return n;
}

static void no_files(void)
{
	struct rlimit limit;
	int files[FILES];
	uint32_t n;

	meet_all();
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = FILES;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	n = take_files(files);
	settle();
	while (n)
		close(files[--n]);

	/* Where there is none when it begins, that is said. */
	fabric_tcp_close(&d);
	n = take_files(files);
	CHECK_EQ(fabric_tcp_open(&d), -EMFILE);
	CHECK(!d.tcp);
	close(files[--n]);
	CHECK_EQ(fabric_tcp_open(&d), -EMFILE);
	CHECK(!d.tcp);
	close(files[--n]);
	CHECK_EQ(fabric_tcp_open(&d), 0);
	CHECK(d.tcp);
	while (n)
		close(files[--n]);
}

int case_fabric_tcp(void)
{
	CHECK_EQ(fabric_tcp_open(&d), 0);
	if (!d.tcp)
		SKIP("there is no /proc");
	meet_all();
	settle();
	meet_all();
	reset();
	no_files();
	fabric_tcp_close(&d);
	d.lib.version = FI_VERSION(1, 18);
	CHECK_EQ(fabric_tcp_open(&d), 0);
	CHECK(!d.tcp);
	return 0;
}
