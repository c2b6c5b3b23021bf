/* SPDX-License-Identifier: Apache-2.0 */
/* tcp through somebody who flips one bit: an entry with a checksum fails with -EBADMSG, its
 * notification says so, and the next one is none the worse; a notification that is hit comes all
 * the same, as it was sent; a header that is hit ends the connection. */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "meet.h"

#define LEN   (1u << 20)
#define WAYS  16u
#define PIECE 16384u

static struct pair p;
static struct target t;
static uint8_t *local;

/* ---- the one in between: it listens beside b, at the same port, and knows data connections by
 * their first byte ---- */

static struct {
	int listener;
	uint16_t port;
	struct way {
		int from, to;
		int is_data, is_back, has_begun;
	} way[2 * WAYS]; /* those to b are even, and each is followed by its way back */
	uint32_t ways;
	pthread_t thread;
	uint32_t stop;
	uint32_t armed;	  /* test: 1 to b, 2 from b; this thread: 0 when it has flipped */
	uint32_t at;	  /* the byte of that way's data that is hit, counted from then */
	uint32_t flipped; /* bits, ever */
} between;

static struct sockaddr_in place_of(uint32_t last, uint16_t port)
{
	uint32_t pid = (uint32_t)getpid();
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};

	/* Of loopback's addresses one that no other test has. */
	in.sin_addr.s_addr = htonl(127u << 24 | (pid & 0xffff) << 8 | last);
	return in;
}

static void hit(const struct way *w, uint8_t *bytes, uint32_t n)
{
	uint32_t at = between.at;

	if (!w->is_data || __atomic_load_n(&between.armed, __ATOMIC_ACQUIRE) != 1u + !!w->is_back)
		return;
	if (at >= n) {
		between.at -= n;
		return;
	}
	bytes[at] ^= 8;
	between.flipped++;
	__atomic_store_n(&between.armed, 0, __ATOMIC_RELEASE);
}

static void way_end(struct way *w)
{
	shutdown(w->to, SHUT_WR);
	w->from = -1;
}

static void way_move(struct way *w)
{
	uint8_t bytes[PIECE];
	ssize_t n = recv(w->from, bytes, sizeof(bytes), 0), sent, k;

	if (n <= 0) {
		way_end(w);
		return;
	}
	if (!w->is_back && !w->has_begun)
		w[0].is_data = w[1].is_data = bytes[0] == 'U';
	w->has_begun = 1;
	hit(w, bytes, (uint32_t)n);
	for (sent = 0; sent < n; sent += k) {
		k = send(w->to, bytes + sent, (size_t)(n - sent), MSG_NOSIGNAL);
		if (k <= 0) {
			shutdown(w->from, SHUT_RD);
			return;
		}
	}
}

static void way_new(void)
{
	struct sockaddr_in at = place_of(2, between.port);
	int near = accept(between.listener, NULL, NULL);
	int far = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(near >= 0 && far >= 0 && between.ways + 2 <= 2 * WAYS);
	CHECK_EQ(connect(far, (struct sockaddr *)&at, sizeof(at)), 0);
	between.way[between.ways++] = (struct way){.from = near, .to = far};
	between.way[between.ways++] = (struct way){.from = far, .to = near, .is_back = 1};
}

static void *pass_on(void *arg)
{
	struct pollfd fds[1 + 2 * WAYS] = {{.fd = between.listener, .events = POLLIN}};
	uint32_t i;

	(void)arg;
	while (!__atomic_load_n(&between.stop, __ATOMIC_ACQUIRE)) {
		for (i = 0; i < between.ways; i++)
			fds[1 + i] = (struct pollfd){between.way[i].from, POLLIN, 0};
		CHECK(poll(fds, 1 + between.ways, 100) >= 0);
		for (i = between.ways; i; i--)
			if (fds[i].revents)
				way_move(&between.way[i - 1]);
		if (fds[0].revents)
			way_new();
	}
	return NULL;
}

static void get_between(uint16_t port)
{
	struct sockaddr_in in = place_of(3, port);
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	CHECK(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	CHECK_EQ(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	CHECK_EQ(listen(fd, 16), 0);
	between.listener = fd;
	between.port = port;
	CHECK_EQ(pthread_create(&between.thread, NULL, pass_on, NULL), 0);
}

static void arm(uint32_t way, uint32_t at)
{
	between.at = at;
	__atomic_store_n(&between.armed, way, __ATOMIC_RELEASE);
}

/* ---- entries ---- */

static struct urccl_sqe *entry(int reads, uint32_t len, uint64_t tag)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	if (reads)
		urccl_prep_read(sqe, t.remote, local, len, 0);
	else
		urccl_prep_write(sqe, t.remote, local, len, 0);
	urccl_sqe_add_flags(sqe, URCCL_SQE_CHECKSUM);
	urccl_sqe_set_notify(p.a.ring, sqe, tag, NULL, 0);
	return sqe;
}

static void told(uint64_t tag, int64_t res)
{
	struct urccl_cqe cqe = side_event(&p.b, &p.a, URCCL_KIND_NOTE, NULL);

	CHECK_EQ(cqe.tag, tag);
	CHECK_EQ(cqe.res, res);
}

static void hits(int reads, uint32_t len, uint32_t at)
{
	struct urccl_cqe cqe;

	pattern_fill(local, len, 0, at);
	pattern_fill(t.bytes, len, 0, at + 1);
	arm(1 + (uint32_t)reads, at);
	cqe = pair_run(&p, &p.a, entry(reads, len, at));
	CHECK_EQ(cqe.res, -EBADMSG);
	CHECK(cqe.flags & URCCL_CQE_CHECKED);
	check_sentence(&p.a, &cqe, "checksums differ");
	told(at, -EBADMSG);
	/* Once more, and nobody in between. */
	pattern_fill(local, len, 0, at);
	pattern_fill(t.bytes, len, 0, at + 1);
	CHECK_EQ(pair_run(&p, &p.a, entry(reads, len, at)).res, len);
	told(at, 0);
	CHECK(pattern_holds(local, len, 0, at + (uint32_t)reads));
	CHECK(pattern_holds(t.bytes, len, 0, at + (uint32_t)reads));
}

/* 64 bytes and their header, then the notification's header, its 24 bytes, its payload. */
static void hits_note(void)
{
	uint8_t note[URCCL_NOTE_MAX], payload[100];
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;

	pattern_fill(payload, sizeof(payload), 0, 3);
	arm(1, 32 + 64 + 32 + 24 + 50);
	sqe = entry(0, 64, 8);
	urccl_sqe_set_notify(p.a.ring, sqe, 8, payload, sizeof(payload));
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, 64);
	cqe = side_event(&p.b, &p.a, URCCL_KIND_NOTE, note);
	CHECK_EQ(cqe.tag, 8);
	CHECK_EQ(cqe.res, sizeof(payload));
	CHECK(!memcmp(note, payload, sizeof(payload)));
}

/* Where the bytes belong would be another place. */
static void hits_header(void)
{
	struct urccl_cqe cqe;

	memset(t.bytes, 0, LEN);
	pattern_fill(local, LEN, 0, 5);
	arm(1, 17);
	cqe = pair_run(&p, &p.a, entry(0, 64, 9));
	CHECK_EQ(cqe.res, -ECONNRESET);
	CHECK(t.bytes[0] == 0 && !memcmp(t.bytes, t.bytes + 1, LEN - 1));
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = place_of(2, 0);
	char listen_at[64], name[INET_ADDRSTRLEN], target[64];
	const char *port;
	uint8_t blob[URCCL_METADATA_MAX];
	struct urccl_cqe cqe;
	uint16_t control;

	pair_options(&p, argc, argv);
	local = malloc(LEN);
	CHECK(local && inet_ntop(AF_INET, &at.sin_addr, name, sizeof(name)));
	control = free_port();
	snprintf(listen_at, sizeof(listen_at), "%s:%u", name, control);
	p.params.listen = listen_at;
	side_open(&p, &p.b);
	p.params.listen = NULL;
	side_open(&p, &p.a);
	CHECK_GE(urccl_metadata(p.b.ctx, blob, sizeof(blob)), 1);
	get_between(control);
	at = place_of(3, control);
	port = strchr(listen_at, ':');
	snprintf(target, sizeof(target), "%s%s",
		 inet_ntop(AF_INET, &at.sin_addr, name, sizeof(name)), port);
	side_accept(&p.b, 1);
	cqe = side_dialled(&p.a, &p.b, target, (uint32_t)strlen(target), 0);
	CHECK_EQ(cqe.res, 0);
	p.a.peer.id = (uint32_t)cqe.handle;
	p.b.peer.id = side_event(&p.b, &p.a, URCCL_KIND_PEER, NULL).peer;
	side_watch(&p.b, p.b.peer, 2);
	target_open(&p, &t, LEN, 0);
	side_register(&p.a, local, LEN, 0);
	hits(0, LEN, 100000);
	hits(1, LEN, 100000);
	hits(0, 400, 100);
	hits(1, 400, 100);
	hits_note();
	CHECK_EQ(between.flipped, 5);
	hits_header();
	side_close(&p.a);
	side_close(&p.b);
	__atomic_store_n(&between.stop, 1, __ATOMIC_RELEASE);
	pthread_join(between.thread, NULL);
	free(local);
	return 0;
}
