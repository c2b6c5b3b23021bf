/* SPDX-License-Identifier: Apache-2.0 */
/* Many contexts that dial one at the same moment, each several times: each has one connection to
 * it, by one handshake, however often and by what name it dialled. Control connections are counted
 * by a relay that they all go through, and that begins when all have dialled. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include "meet.h"

#define GUESTS 24u
#define DIALS  4u /* of each */
#define US     (PAIR_SLOW ? 120000000u : 20000000u)

static struct pair p;
static struct side guests[GUESTS];

/* ---- the relay ---- */

#define TICK_MS 10

static struct relay {
	pthread_t thread;
	struct pollfd ends[1 + 2 * GUESTS * DIALS]; /* who listens, both ends of each connection */
	uint8_t begun[1 + 2 * GUESTS * DIALS];
	uint32_t n;
	uint32_t handshakes; /* those that began as control connections do, and not as data's */
	uint32_t stop;
	uint16_t to;
} relay;

static void relay_add(int fd)
{
	CHECK(fd >= 0);
	CHECK(relay.n < sizeof(relay.ends) / sizeof(relay.ends[0]));
	relay.ends[relay.n++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

static void relay_pass(uint32_t i)
{
	struct pollfd *from = &relay.ends[i], *to = &relay.ends[i % 2 ? i + 1 : i - 1];
	char bytes[4096];
	ssize_t n = recv(from->fd, bytes, sizeof(bytes), 0);

	if (n > 0 && i % 2 && !relay.begun[i]++)
		relay.handshakes += (uint8_t)bytes[0] == 0x8e;
	if (n > 0 && send(to->fd, bytes, (size_t)n, MSG_NOSIGNAL) == n)
		return;
	shutdown(to->fd, SHUT_RDWR);
	close(from->fd);
	from->fd = -1; /* poll() leaves it out */
}

/* All that wait, also those that were given up since. */
static void relay_accept(void)
{
	int fd;

	while ((fd = accept(relay.ends[0].fd, NULL, NULL)) >= 0) {
		relay_add(fd);
		relay_add(raw_dial(relay.to));
	}
	CHECK_EQ(errno, EAGAIN);
}

static void *relay_run(void *arg)
{
	uint32_t i, stop;

	(void)arg;
	do {
		stop = __atomic_load_n(&relay.stop, __ATOMIC_ACQUIRE);
		CHECK_GE(poll(relay.ends, relay.n, TICK_MS), 0);
		for (i = 1; i < relay.n; i++)
			if (relay.ends[i].fd >= 0 && relay.ends[i].revents)
				relay_pass(i);
		relay_accept();
	} while (!stop);
	return NULL;
}

static void relay_open(char place[PLACE_MAX])
{
	uint16_t port;

	relay_add(raw_listen(&port));
	CHECK_EQ(fcntl(relay.ends[0].fd, F_SETFL, O_NONBLOCK), 0);
	place_v4(place, port);
}

static void relay_begin(void)
{
	CHECK_EQ(pthread_create(&relay.thread, NULL, relay_run, NULL), 0);
}

/* How many control connections there were. */
static uint32_t relay_count(void)
{
	__atomic_store_n(&relay.stop, 1, __ATOMIC_RELEASE);
	CHECK_EQ(pthread_join(relay.thread, NULL), 0);
	return relay.handshakes;
}

/* ---- those that dial ---- */

static void dial(struct side *s, const char *place, uint64_t user_data)
{
	side_dial(s, place, (uint32_t)strlen(place), US, user_data);
}

/* By two names of the one address. The end of what is dialled last, and fails, says that all before
 * it was begun. */
static void dial_all(const char *place)
{
	char mapped[PLACE_MAX], nobody[PLACE_MAX];
	uint32_t i, k;

	snprintf(mapped, sizeof(mapped), "[::ffff:127.0.0.1]%s", strchr(place, ':'));
	place_v4(nobody, free_port());
	for (i = 0; i < GUESTS; i++) {
		for (k = 0; k < DIALS; k++)
			dial(&guests[i], k % 2 ? mapped : place, 1);
		dial(&guests[i], nobody, 2);
	}
	for (i = 0; i < GUESTS; i++)
		CHECK_EQ(side_end(&guests[i], NULL, 2).res, -ECONNREFUSED);
}

static void take_all(void)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	uint32_t left = GUESTS * DIALS, i;
	struct urccl_cqe cqe;

	for (i = 0; left; i = (i + 1) % GUESTS) {
		CHECK(!is_late(late));
		if (!side_take_within(&guests[i], &p.b, 100000, &cqe, NULL))
			continue;
		left--;
		CHECK_EQ(cqe.res, 0);
		CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
		CHECK(!guests[i].peer.id || guests[i].peer.id == cqe.handle);
		guests[i].peer.id = (uint32_t)cqe.handle;
	}
}

static void are_peers(void)
{
	uint32_t peers[GUESTS], i, k;

	for (i = 0; i < GUESTS; i++) {
		peers[i] = side_event(&p.b, NULL, URCCL_KIND_PEER, NULL).peer;
		for (k = 0; k < i; k++)
			CHECK_NE(peers[i], peers[k]);
	}
	side_silent(&p.b, NULL, 1000000);
	CHECK_EQ(relay_count(), GUESTS);
}

static void b_open(void)
{
	struct pair at = p;
	char place[PLACE_MAX];

	relay.to = free_port();
	place_v4(place, relay.to);
	at.params.listen = place;
	side_open(&at, &p.b);
	side_accept(&p.b, 1);
}

int main(int argc, char **argv)
{
	char place[PLACE_MAX];
	uint32_t i;

	pair_options(&p, argc, argv);
	pair_sim(&p);
	b_open();
	relay_open(place);
	for (i = 0; i < GUESTS; i++)
		side_open(&p, &guests[i]);
	dial_all(place);
	relay_begin();
	take_all();
	are_peers();
	for (i = 0; i < GUESTS; i++)
		side_close(&guests[i]);
	side_close(&p.b);
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
