/* SPDX-License-Identifier: Apache-2.0 */
/* 64 CONNECTs to one cold context, from four rings at once, by its text address and by metadata:
 * whoever listens there sees one connection, and all get the same peer. */
#include <poll.h>
#include <pthread.h>

#include "control_rig.h"
#include "gate.h"

#define RINGS 4u
#define EACH  16u

static int arrived; /* by the gate's lock: every CONNECT is with the control thread */
static int proxy_fd;
static uint16_t to_port;
static uint32_t connections;

/* Bytes from one to the other; 0: that side is done. */
static int pass(int from, int to)
{
	char buf[4096];
	ssize_t n = recv(from, buf, sizeof(buf), 0);

	return n > 0 && send(to, buf, (size_t)n, MSG_NOSIGNAL) == n;
}

/* Counts who comes, and lets the first one through when all have set out. */
static void *proxy(void *arg)
{
	int in = accept(proxy_fd, NULL, NULL), out, going = 1;

	(void)arg;
	CHECK(in >= 0);
	__atomic_add_fetch(&connections, 1, __ATOMIC_SEQ_CST);
	await(&arrived);
	out = stranger_dial(to_port);
	while (going) {
		struct pollfd fd[3] = {{in, POLLIN, 0}, {out, POLLIN, 0}, {proxy_fd, POLLIN, 0}};

		CHECK(poll(fd, 3, -1) > 0);
		if (fd[2].revents) {
			close(accept(proxy_fd, NULL, NULL));
			__atomic_add_fetch(&connections, 1, __ATOMIC_SEQ_CST);
		}
		if (fd[0].revents)
			going = pass(in, out);
		if (going && fd[1].revents)
			going = pass(out, in);
	}
	close(in);
	close(out);
	return NULL;
}

static void dial_all(struct side *a, struct urccl_ring **ring, const uint8_t *blob, uint32_t len,
		     const char *text)
{
	struct urccl_stats s = {.size = sizeof(s)};
	struct urccl_region_info info = {.size = sizeof(info)};
	uint32_t i, k;

	for (i = 0; i < RINGS; i++) {
		for (k = 0; k < EACH; k++) {
			struct urccl_sqe *sqe = urccl_get_sqe(ring[i]);

			if (k & 1)
				urccl_prep_connect(sqe, blob, len);
			else
				urccl_prep_connect(sqe, text, (uint32_t)strlen(text));
		}
		CHECK_EQ(urccl_submit(ring[i]), EACH);
	}
	/* The engine has posted them all, and the control thread answers this after them. */
	do
		CHECK_EQ(urccl_get_stats(a->ctx, &s), 0);
	while (s.submitted < RINGS * EACH);
	CHECK_EQ(urccl_get_region_info(a->ctx, (struct urccl_region){2u << 30 | 1}, &info),
		 -ESTALE);
	tell(&arrived);
}

static uint32_t handle_of_all(struct urccl_ring **ring)
{
	struct urccl_wait_args args = {.size = sizeof(args), .min_n = 1, .timeout_ns = RIG_NS};
	struct urccl_cqe *cqe;
	uint32_t i, k, handle = 0;

	for (i = 0; i < RINGS; i++)
		for (k = 0; k < EACH; k++) {
			CHECK(urccl_wait(ring[i], &cqe, &args) >= 1);
			CHECK_EQ(cqe->res, 0);
			CHECK(!handle || handle == cqe->handle);
			handle = (uint32_t)cqe->handle;
			urccl_cqe_seen(ring[i], cqe);
		}
	return handle;
}

int case_control_one(void)
{
	struct urccl_params p = rig_params();
	struct urccl_ring *ring[RINGS];
	uint8_t blob[METADATA_MAX];
	struct side a, b;
	struct metadata m;
	pthread_t thread;
	uint32_t len, i, handle;
	uint16_t port;
	char text[32];

	p.transport = "shm"; /* tcp would bring more connections to the port */
	side_open(&a, &p);
	side_open(&b, &p);
	side_accept(&b, 1);
	proxy_fd = stranger_listen(&port);
	to_port = b.port;
	CHECK_EQ(metadata_get(b.blob, b.blob_len, &m), 0);
	m.port = port;
	len = metadata_put(blob, &m);
	snprintf(text, sizeof(text), "127.0.0.1:%u", port);
	for (i = 0; i < RINGS; i++)
		CHECK_EQ(urccl_ring_open(a.ctx, NULL, &ring[i]), 0);
	CHECK_EQ(pthread_create(&thread, NULL, proxy, NULL), 0);
	dial_all(&a, ring, blob, len, text);
	handle = handle_of_all(ring);
	CHECK_EQ(__atomic_load_n(&connections, __ATOMIC_SEQ_CST), 1);
	CHECK_EQ(side_next(&b).user_data, 1);
	/* Each CONNECT is a reference. */
	for (i = 0; i < RINGS * EACH; i++) {
		side_hang_up(&a, handle, i);
		CHECK_EQ(side_end_of(&a, i), 0);
	}
	side_hang_up(&a, handle, 99);
	CHECK_EQ(side_end_of(&a, 99), -ESTALE);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	close(proxy_fd);
	for (i = 0; i < RINGS; i++)
		urccl_ring_close(ring[i]);
	side_close(&a);
	side_close(&b);
	return 0;
}
