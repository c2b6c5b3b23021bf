/* SPDX-License-Identifier: Apache-2.0 */
/* Who may come in: a name nobody listens under is another host, strangers that connect are
 * shown the door and keep nobody out, malformed addresses are refused, and no socket file stays
 * behind. */
#include <dirent.h>
#include <errno.h>
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
	static const char http[64] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
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

/* The cookie of another: the way in stays shut. */
static void wrong_cookie(void)
{
	struct shm_rig r;
	uint32_t i;

	rig_open(&r, NULL);
	CHECK_EQ(backend_shm.ep_connect(r.ep[1], r.addr[0], r.addr_len[0], 0, NULL), 0);
	r.addr[1][r.addr_len[1] - 1] ^= 1;
	CHECK_EQ(backend_shm.ep_connect(r.ep[0], r.addr[1], r.addr_len[1], 1, NULL), 0);
	for (i = 0; i < 1000 && !r.down[0]; i++) {
		rig_poll(&r, 0);
		rig_poll(&r, 1);
	}
	CHECK_EQ(r.down[0], -ECONNRESET);
	CHECK(!r.up[0] && !r.up[1] && !r.down[1]);
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

int main(void)
{
	nobody_there();
	door();
	malformed();
	wrong_cookie();
	directory();
	return 0;
}
