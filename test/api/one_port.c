/* SPDX-License-Identifier: Apache-2.0 */
/* A server behind a mapped port: control and data come through it. Where data is refused there, the
 * sentence names that address. */
#include "forward.h"

#define LEN (1u << 20)

static struct pair p;
static struct target t;
static struct forward f;
static uint8_t local[LEN];

/* Two contexts, of which one reaches the other by the mapped port alone: the end of CONNECT. */
static struct urccl_cqe dial(int once)
{
	char text[PLACE_MAX];

	p.params.listen = "127.0.0.1:0";
	side_open(&p, &p.b);
	CHECK_GE(urccl_listening(p.b.ctx, 0, text, sizeof(text)), 1);
	forward_begin(&f, (uint16_t)atoi(strrchr(text, ':') + 1), once);
	p.params.listen = "";
	side_open(&p, &p.a);
	side_accept(&p.b, 1);
	snprintf(text, sizeof(text), "127.0.0.2:%u", f.port);
	return side_dialled(&p.a, &p.b, text, (uint32_t)strlen(text), 20000000);
}

static void part(void)
{
	side_close(&p.a);
	side_close(&p.b);
	forward_end(&f);
}

static void data_comes_through(uint32_t driver)
{
	struct urccl_cqe cqe;
	struct urccl_sqe *sqe;

	p.params.tcp_driver = driver;
	cqe = dial(0);
	CHECK_EQ(cqe.res, 0);
	p.a.peer.id = (uint32_t)cqe.handle;
	target_open(&p, &t, LEN, 0);
	side_register(&p.a, local, LEN, 0);
	pattern_fill(local, LEN, 0, 1);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, t.remote, local, LEN, 0);
	urccl_sqe_set_data64(sqe, 2);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	CHECK_EQ(side_end(&p.a, &p.b, 2).res, LEN);
	CHECK(pattern_holds(t.bytes, LEN, 0, 1));
	part();
}

static void refusal_names_the_port(void)
{
	char text[PLACE_MAX + 64];
	struct urccl_cqe cqe = dial(1);

	CHECK_EQ(cqe.res, -EHOSTUNREACH);
	snprintf(text, sizeof(text), "reaches 127.0.0.2:%u: tcp: ECONNREFUSED", f.port);
	check_sentence(&p.a, &cqe, text);
	part();
}

static int has_io_uring(void)
{
	struct urccl_params params = p.params;
	struct urccl *ctx;

	params.tcp_driver = URCCL_TCP_IO_URING;
	if (urccl_open(&params, &ctx))
		return 0;
	urccl_close(ctx);
	return 1;
}

int main(int argc, char **argv)
{
	pair_options(&p, argc, argv);
	data_comes_through(URCCL_TCP_READINESS);
	if (has_io_uring())
		data_comes_through(URCCL_TCP_IO_URING);
	p.params.tcp_driver = URCCL_TCP_READINESS;
	refusal_names_the_port();
	return 0;
}
