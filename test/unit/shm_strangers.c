/* SPDX-License-Identifier: Apache-2.0 */
/* Who may come in: a name nobody listens under is another host, strangers that connect are
 * shown the door and keep nobody out, malformed addresses are refused, and no socket file stays
 * behind. */
#include <backend/shm/shm.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "shm_rig.h"

/* The name of an ep lies behind eight bytes of its address. */
static void name_of(const uint8_t *addr, struct sockaddr_un *sun, socklen_t *len)
{
	memset(sun, 0, sizeof(*sun));
	sun->sun_family = AF_UNIX;
	memcpy(sun->sun_path + 1, addr + 8, 31);
	*len = offsetof(struct sockaddr_un, sun_path) + 32;
}

static int stranger(const uint8_t *addr)
{
	struct sockaddr_un sun;
	socklen_t len;
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	name_of(addr, &sun, &len);
	CHECK(s >= 0);
	CHECK_EQ(connect(s, (struct sockaddr *)&sun, len), 0);
	return s;
}

static void nobody_there(void)
{
	struct shm_rig r;

	rig_open(&r, NULL);
	backend_shm.ep_free(r.ep[1]);
	CHECK_EQ(backend_shm.ep_connect(r.ep[0], r.addr[1], r.addr_len[1], 1, NULL), 0);
	rig_poll(&r, 0);
	CHECK_EQ(r.down[0], -EHOSTUNREACH);
	backend_shm.close(r.dev[1]);
	rig_end(&r, 0);
}

static void door(void)
{
	static const char http[sizeof(struct shm_record)] =
		"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
	struct shm_rig r;
	int silent, garbage;
	char byte;

	rig_open(&r, NULL);
	CHECK_EQ(backend_shm.ep_connect(r.ep[1], r.addr[0], r.addr_len[0], 0, NULL), 0);
	silent = stranger(r.addr[1]);
	rig_poll(&r, 1);
	garbage = stranger(r.addr[1]);
	CHECK_EQ(send(garbage, http, sizeof(http), MSG_NOSIGNAL), sizeof(http));
	while (recv(garbage, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN)
		rig_poll(&r, 1);
	CHECK(!r.up[1] && !r.down[1]);
	CHECK_EQ(backend_shm.ep_connect(r.ep[0], r.addr[1], r.addr_len[1], 1, NULL), 0);
	RIG_UNTIL(&r, r.up[0] && r.up[1]);
	close(silent);
	close(garbage);
	rig_close(&r);
}

static void malformed(void)
{
	struct shm_rig r;
	uint32_t i;

	rig_open(&r, NULL);
	CHECK_EQ(backend_shm.ep_connect(r.ep[0], r.addr[1], r.addr_len[1] - 1, 1, NULL), -EPROTO);
	for (i = 0; i < 8 + 32; i++) {
		uint8_t addr[EP_ADDR_MAX];

		/* One that speaks newer versions too is none the worse for it. */
		if (i == 1)
			continue;
		memcpy(addr, r.addr[1], sizeof(addr));
		addr[i] = '/';
		CHECK(backend_shm.ep_connect(r.ep[0], addr, r.addr_len[1], 1, NULL) < 0);
	}
	rig_connect(&r);
	rig_close(&r);
}

/* The cookie of another: the way in stays shut, however often it is tried. */
static void wrong_cookie(void)
{
	struct shm_rig r;

	rig_open(&r, NULL);
	CHECK_EQ(backend_shm.ep_connect(r.ep[1], r.addr[0], r.addr_len[0], 0, NULL), 0);
	r.addr[1][r.addr_len[1] - 1] ^= 1;
	CHECK_EQ(backend_shm.ep_connect(r.ep[0], r.addr[1], r.addr_len[1], 1, NULL), 0);
	RIG_UNTIL(&r, r.down[0]);
	CHECK_EQ(r.down[0], -ECONNRESET);
	CHECK(!r.up[0] && !r.up[1] && !r.down[1]);
	rig_close(&r);
}

/* What the other end of ep 1 would say, from a socket of the test. */
static void say_hello(const struct shm_rig *r, int sock)
{
	struct shm_ep fake = {.sock = sock};
	struct shm_record hello = {.type = SHM_HELLO, .version = r->addr[1][1]};
	int fd = shm_pages_make(&fake.pages);

	CHECK(fd >= 0);
	memcpy(hello.to, r->addr[1] + r->addr_len[1] - SHM_COOKIE, SHM_COOKIE);
	memcpy(hello.from, r->addr[0] + r->addr_len[0] - SHM_COOKIE, SHM_COOKIE);
	CHECK_EQ(shm_link_send(&fake, &hello, fd), 0);
	close(fd);
	shm_pages_drop(&fake.pages);
}

/* Those who come after the peer and before its HELLO do not take its place. */
static void crowd(void)
{
	struct shm_rig r;
	int sock[SHM_PENDING_MAX], i;

	rig_open(&r, NULL);
	CHECK_EQ(backend_shm.ep_connect(r.ep[1], r.addr[0], r.addr_len[0], 0, NULL), 0);
	for (i = 0; i < (int)SHM_PENDING_MAX; i++) {
		sock[i] = stranger(r.addr[1]);
		rig_poll(&r, 1);
	}
	say_hello(&r, sock[1]);
	RIG_UNTIL(&r, r.up[1]);
	for (i = 0; i < (int)SHM_PENDING_MAX; i++)
		close(sock[i]);
	rig_close(&r);
}

/* More than there is room for: those who say nothing give way in time. */
static void queue(void)
{
	struct shm_rig r;
	int sock[2 * SHM_PENDING_MAX], i;

	rig_open(&r, NULL);
	CHECK_EQ(backend_shm.ep_connect(r.ep[1], r.addr[0], r.addr_len[0], 0, NULL), 0);
	for (i = 0; i < (int)(2 * SHM_PENDING_MAX); i++)
		sock[i] = stranger(r.addr[1]);
	CHECK_EQ(backend_shm.ep_connect(r.ep[0], r.addr[1], r.addr_len[1], 1, NULL), 0);
	RIG_UNTIL(&r, r.up[0] && r.up[1]);
	for (i = 0; i < (int)(2 * SHM_PENDING_MAX); i++)
		close(sock[i]);
	rig_close(&r);
}

/* Somebody filled the way in: the dialler comes again. */
static void jammed(void)
{
	struct sockaddr_un sun;
	struct shm_rig r;
	socklen_t len;
	struct pollfd in = {.events = POLLIN};
	int first, door, sock, i;

	rig_open(&r, NULL);
	backend_shm.ep_free(r.ep[1]);
	name_of(r.addr[1], &sun, &len);
	door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK_EQ(bind(door, (struct sockaddr *)&sun, len), 0);
	CHECK_EQ(listen(door, 0), 0);
	first = stranger(r.addr[1]);
	CHECK_EQ(backend_shm.ep_connect(r.ep[0], r.addr[1], r.addr_len[1], 1, NULL), 0);
	rig_poll(&r, 0);
	CHECK(!r.up[0] && !r.down[0]);
	close(accept(door, NULL, NULL));
	in.fd = door;
	for (i = 0; i < 10000 && !poll(&in, 1, 1); i++)
		rig_poll(&r, 0);
	sock = accept(door, NULL, NULL);
	CHECK(sock >= 0);
	in.fd = sock;
	CHECK_EQ(poll(&in, 1, 1000), 1); /* its HELLO */
	close(sock);
	close(first);
	close(door);
	backend_shm.close(r.dev[1]);
	rig_end(&r, 0);
}

static rlim_t limit_files(rlim_t n)
{
	struct rlimit l;
	rlim_t was;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &l), 0);
	was = l.rlim_cur;
	l.rlim_cur = n;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &l), 0);
	return was;
}

/* No descriptors are left: nobody is let in, the end says so, and the device sleeps all the
 * same. */
static void no_descriptors(void)
{
	struct shm_rig r;
	struct pollfd in = {.events = POLLIN};
	rlim_t was;
	int next;

	rig_open(&r, NULL);
	CHECK_EQ(backend_shm.ep_connect(r.ep[1], r.addr[0], r.addr_len[0], 0, NULL), 0);
	CHECK_EQ(backend_shm.ep_connect(r.ep[0], r.addr[1], r.addr_len[1], 1, NULL), 0);
	next = open("/dev/null", O_RDONLY | O_CLOEXEC);
	CHECK(next >= 0);
	close(next);
	was = limit_files((rlim_t)next);
	RIG_UNTIL(&r, r.down[1]);
	CHECK_EQ(r.down[1], -EMFILE);
	CHECK(!r.up[1]);
	while (backend_shm.arm(r.dev[1]))
		rig_poll(&r, 1);
	in.fd = r.dev[1]->fd;
	CHECK_EQ(poll(&in, 1, 0), 0);
	limit_files(was);
	RIG_UNTIL(&r, r.down[0]);
	rig_close(&r);
}

static uint32_t files_in(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *d;
	uint32_t n = 0;

	CHECK(dir);
	while ((d = readdir(dir)))
		n += d->d_name[0] != '.';
	closedir(dir);
	return n;
}

static void directory(void)
{
	char path[] = "/tmp/urccl-test-XXXXXX";
	struct shm_rig r;

	CHECK(mkdtemp(path));
	rig_open(&r, path);
	CHECK_EQ(files_in(path), 2);
	rig_connect(&r);
	CHECK_EQ(files_in(path), 0);
	rig_close(&r);
	rig_open(&r, path);
	rig_close(&r);
	CHECK_EQ(files_in(path), 0);
	CHECK_EQ(rmdir(path), 0);
}

int case_shm_strangers(void)
{
	nobody_there();
	door();
	malformed();
	wrong_cookie();
	crowd();
	queue();
	jammed();
	no_descriptors();
	directory();
	return 0;
}
