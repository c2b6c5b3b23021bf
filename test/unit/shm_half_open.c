/* SPDX-License-Identifier: Apache-2.0 */
/* 10,000 that connect to an ep's socket and say nothing, or half a HELLO: few of them are kept at a
 * time, and the peer gets through. A HELLO that is cut off, or comes back to who said it, or has
 * more behind it, does no harm; one that comes byte by byte is one. */
#include <backend/shm/shm.h>
#include <errno.h>
#include "fds.h"
#include "shm_rig.h"

#define STRANGERS 10000u
#define PATIENCE  (30 * NSEC_PER_SEC)

static int fds[STRANGERS];

/* Of side 1, under its name. */
static int knock(const struct shm_rig *r)
{
	struct shm_addr a;
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	CHECK(sock >= 0);
	memcpy(&a, r->addr[1], sizeof(a));
	memcpy(sun.sun_path + 1, a.name, SHM_NAME - 1);
	if (!connect(sock, (struct sockaddr *)&sun,
		     offsetof(struct sockaddr_un, sun_path) + SHM_NAME))
		return sock;
	CHECK_EQ(errno, EAGAIN); /* many others wait */
	close(sock);
	return -1;
}

static int let_in(struct shm_rig *r)
{
	uint64_t end = rig_ns() + PATIENCE;
	int sock = knock(r);

	for (; sock < 0; sock = knock(r)) {
		rig_poll(r, 1);
		CHECK(rig_ns() < end);
	}
	return sock;
}

static void waits(struct shm_rig *r)
{
	rig_open(r, NULL);
	CHECK_EQ(backend_shm.ep_connect(r->ep[1], r->addr[0], r->addr_len[0], 0, NULL), 0);
}

/* What side 0 says to side 1, with the pages. */
static struct shm_record hello(const struct shm_rig *r, int *pages)
{
	struct shm_record rec = {.type = SHM_HELLO, .version = r->addr[1][1]};
	struct shm_pages p;

	memcpy(rec.to, r->addr[1] + r->addr_len[1] - SHM_COOKIE, SHM_COOKIE);
	memcpy(rec.from, r->addr[0] + r->addr_len[0] - SHM_COOKIE, SHM_COOKIE);
	*pages = shm_pages_make(&p);
	CHECK(*pages >= 0);
	shm_pages_drop(&p);
	return rec;
}

/* len bytes, and the descriptor if any. */
static void say(int sock, const void *bytes, size_t len, int fd)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
		control.align = (struct cmsghdr){
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
			.cmsg_len = CMSG_LEN(sizeof(int)),
		};
		memcpy(CMSG_DATA(&control.align), &fd, sizeof(int));
	}
	CHECK_EQ(sendmsg(sock, &msg, MSG_NOSIGNAL), len);
}

static int is_gone(int sock)
{
	char byte;
	ssize_t n = recv(sock, &byte, 1, MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN);
}

static void many(void)
{
	struct shm_rig r;
	struct shm_record rec;
	uint32_t before, i;
	uint64_t begin;
	int pages;

	waits(&r);
	rec = hello(&r, &pages);
	memset(rec.to, 0, SHM_COOKIE);
	before = fds_open();
	for (i = 0; i < STRANGERS; i++) {
		fds[i] = let_in(&r);
		if (i % 64) /* the others say nothing, */
			(void)send(fds[i], &rec, i % 64, MSG_NOSIGNAL);
		if (i % 1000 == 0)
			CHECK_LE(fds_open(), before + i + 1 + SHM_PENDING_MAX);
	}
	begin = rig_ns();
	CHECK_EQ(backend_shm.ep_connect(r.ep[0], r.addr[1], r.addr_len[1], 1, NULL), 0);
	RIG_UNTIL(&r, r.up[0] && r.up[1]);
	fprintf(stderr, "up after %llu ms\n", (unsigned long long)(rig_ns() - begin) / 1000000);
	for (i = 0; i < STRANGERS; i++)
		CHECK(is_gone(fds[i])); /* and none is kept once the peer is there */
	for (i = 0; i < STRANGERS; i++)
		close(fds[i]);
	close(pages);
	rig_close(&r);
}

static void cut_off(void)
{
	struct shm_rig r;
	struct shm_record rec;
	uint32_t len;
	int pages, sock, i;

	waits(&r);
	rec = hello(&r, &pages);
	for (len = 0; len < sizeof(rec); len++) {
		sock = let_in(&r);
		if (len)
			say(sock, &rec, len, pages);
		for (i = 0; i < 3; i++)
			rig_poll(&r, 1);
		close(sock);
		for (i = 0; i < 3; i++)
			rig_poll(&r, 1);
		CHECK(!r.up[1] && !r.down[1]);
	}
	CHECK_EQ(backend_shm.ep_connect(r.ep[0], r.addr[1], r.addr_len[1], 1, NULL), 0);
	RIG_UNTIL(&r, r.up[0] && r.up[1]);
	close(pages);
	rig_close(&r);
}

/* The places are full of those who say a byte now and then; the peer comes like that, too. */
static void dribbled(void)
{
	struct shm_rig r;
	struct shm_record rec;
	int pages, sock[SHM_PENDING_MAX];
	uint32_t i, k;

	waits(&r);
	rec = hello(&r, &pages);
	for (k = 0; k < SHM_PENDING_MAX; k++) {
		sock[k] = let_in(&r);
		rig_poll(&r, 1);
	}
	for (i = 0; i < sizeof(rec); i++) {
		CHECK(!r.up[1] && !r.down[1]);
		for (k = 0; k < SHM_PENDING_MAX - 1 && i < sizeof(rec) - 1; k++)
			say(sock[k], "x", 1, -1);
		say(sock[SHM_PENDING_MAX - 1], (const char *)&rec + i, 1, i ? -1 : pages);
		rig_poll(&r, 1);
	}
	RIG_UNTIL(&r, r.up[1]);
	for (k = 0; k < SHM_PENDING_MAX; k++)
		close(sock[k]);
	close(pages);
	rig_close(&r);
}

/* More behind it: of who does not know the cookie nothing is read, of the peer it is a record that
 * there is not. */
static void oversized(void)
{
	struct shm_record recs[2];
	struct shm_rig r;
	int pages, sock;

	waits(&r);
	recs[0] = hello(&r, &pages);
	memset(&recs[1], 0xff, sizeof(recs[1]));
	recs[0].to[0] ^= 1;
	sock = let_in(&r);
	say(sock, recs, sizeof(recs), pages);
	RIG_UNTIL(&r, is_gone(sock));
	CHECK(!r.up[1] && !r.down[1]);
	close(sock);
	recs[0].to[0] ^= 1;
	sock = let_in(&r);
	say(sock, recs, sizeof(recs), pages);
	RIG_UNTIL(&r, r.down[1]);
	CHECK_EQ(r.down[1], -EPROTO);
	close(sock);
	close(pages);
	rig_close(&r);
}

/* Another one's door under the name of side 1, which side 0 dials. */
static int dials_another(struct shm_rig *r)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	socklen_t len = offsetof(struct sockaddr_un, sun_path) + SHM_NAME;
	struct shm_addr a;
	int door;

	rig_open(r, NULL);
	backend_shm.ep_free(r->ep[1]);
	memcpy(&a, r->addr[1], sizeof(a));
	memcpy(sun.sun_path + 1, a.name, SHM_NAME - 1);
	door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	CHECK_EQ(bind(door, (struct sockaddr *)&sun, len), 0);
	CHECK_EQ(listen(door, 8), 0);
	CHECK_EQ(backend_shm.ep_connect(r->ep[0], r->addr[1], r->addr_len[1], 1, NULL), 0);
	return door;
}

/* Who is sent away with its HELLO unread may have met a crowd: it knocks again, and gives up where
 * that goes on. */
static void shut_out(void)
{
	uint64_t end = rig_ns() + PATIENCE;
	struct shm_rig r;
	int door = dials_another(&r), sock;
	uint32_t knocks = 0;

	while (!r.down[0]) {
		CHECK(rig_ns() < end);
		sock = accept(door, NULL, NULL);
		if (sock >= 0) {
			knocks++;
			close(sock);
		}
		rig_poll(&r, 0);
	}
	CHECK_EQ(r.down[0], -ECONNRESET);
	CHECK_GE(knocks, 2);
	close(door);
	backend_shm.close(r.dev[1]);
	rig_end(&r, 0);
}

/* Who was dialled says what it heard. */
static void reflected(void)
{
	struct shm_record rec;
	struct shm_rig r;
	int door = dials_another(&r), sock = accept(door, NULL, NULL);

	CHECK(sock >= 0);
	CHECK_EQ(recv(sock, &rec, sizeof(rec), MSG_WAITALL), sizeof(rec));
	CHECK_EQ(send(sock, &rec, sizeof(rec), MSG_NOSIGNAL), sizeof(rec));
	while (!r.down[0])
		rig_poll(&r, 0);
	CHECK_EQ(r.down[0], -EPROTO);
	close(sock);
	close(door);
	backend_shm.close(r.dev[1]);
	rig_end(&r, 0);
}

int case_shm_half_open(void)
{
	if (!fds_allow(STRANGERS + 1000))
		SKIP("RLIMIT_NOFILE does not allow 10,000 descriptors");
	cut_off();
	dribbled();
	oversized();
	reflected();
	shut_out();
	many();
	return 0;
}
