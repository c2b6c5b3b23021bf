/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: defaults, structs of other versions, and refusals that name what is wrong. */
#include <netinet/in.h>

#include "params.h"
#include "test.h"

static struct urccl_params fresh(void)
{
	struct urccl_params p = {.size = sizeof(p)};

	urccl_params_init(&p);
	return p;
}

/* The settings are refused with err and a sentence that has the words. */
static void refused(const struct urccl_params *p, int err, const char *words)
{
	struct settings s;

	CHECK_EQ(settings_read(&s, p), err);
	CHECK_SAYS(urccl_errmsg(), words);
}

static const struct sockaddr_in *v4(const struct sockaddr_storage *ss)
{
	return (const struct sockaddr_in *)ss;
}

static void check_default(const struct settings *s)
{
	CHECK_EQ(s->p.size, sizeof(s->p));
	CHECK_EQ(s->p.deadline_ms, 30000);
	CHECK_EQ(s->p.dead_after_ms, 10000);
	CHECK_EQ(s->p.spin_us, 20);
	CHECK_EQ(s->p.max_peers, 4096);
	CHECK_EQ(s->p.max_segs, 1u << 20);
	CHECK_EQ(s->p.max_blocks, UINT32_MAX - 1);
	CHECK_EQ(s->p.tcp_streams, 1);
	CHECK_EQ(s->transports.n, 2);
	CHECK_EQ(s->transports.list[0].transport, URCCL_TRANSPORT_SHM);
	CHECK_EQ(s->transports.list[0].how, TRANSPORT_MAYBE);
	CHECK_EQ(s->transports.list[1].transport, URCCL_TRANSPORT_TCP);
	CHECK_EQ(s->transports.list[1].how, TRANSPORT_MAYBE);
	CHECK(s->listens);
	/* Nobody but this machine, where the program does not say otherwise. */
	CHECK_EQ(s->nlisten, 1);
	CHECK_EQ(s->listen[0].ss_family, AF_INET);
	CHECK_EQ(ntohl(v4(&s->listen[0])->sin_addr.s_addr), INADDR_LOOPBACK);
	CHECK_EQ(v4(&s->listen[0])->sin_port, 0);
}

static void test_defaults(void)
{
	struct urccl_params p = fresh();
	struct settings s;

	CHECK_EQ(settings_read(&s, NULL), 0);
	check_default(&s);
	settings_free(&s);
	CHECK_EQ(settings_read(&s, &p), 0);
	check_default(&s);
	settings_free(&s);
}

static void test_versions(void)
{
	struct {
		struct urccl_params p;
		uint8_t newer[64];
	} longer = {.p = fresh(), .newer = {0}};
	struct urccl_params shorter = {.size = offsetof(struct urccl_params, deadline_ms),
				       .transport = "tcp",
				       .deadline_ms = 1,
				       .tcp_streams = 99};
	struct settings s;

	CHECK_EQ(settings_read(&s, &shorter), 0);
	CHECK_EQ(s.p.deadline_ms, 30000);
	CHECK_EQ(s.transports.n, 1);
	CHECK_EQ(s.transports.list[0].how, TRANSPORT_NAMED);
	settings_free(&s);
	__urccl_params_init(&shorter, shorter.size);
	CHECK_EQ(shorter.deadline_ms, 1);
	CHECK_EQ(shorter.size, offsetof(struct urccl_params, deadline_ms));
	CHECK(!shorter.transport);

	longer.p.size = sizeof(longer);
	CHECK_EQ(settings_read(&s, &longer.p), 0);
	settings_free(&s);
	longer.newer[63] = 1;
	refused(&longer.p, -E2BIG, "struct urccl_params");
	__urccl_params_init(&longer.p, sizeof(longer));
	CHECK_EQ(longer.newer[63], 0);
	CHECK_EQ(longer.p.size, sizeof(longer));
	longer.p.size = 0;
	refused(&longer.p, -EINVAL, "size of struct urccl_params is 0");
}

static void test_refusals(void)
{
	struct urccl_params p;

#define REFUSED(field, value, err, words)    \
	do {                                 \
		p = fresh();                 \
		p.field = (value);           \
		refused(&p, (err), (words)); \
	} while (0)
	REFUSED(flags, 2, -EINVAL, "flags are 0x2");
	REFUSED(transport, "", -EINVAL, "efa, cxi and fabric:NAME are possible");
	REFUSED(transport, "tcp,udp", -EINVAL, "\"udp\"");
	REFUSED(transport, "tcp,", -EINVAL, "\"\"");
	REFUSED(transport, "tcp,shm,tcp", -EINVAL, "tcp is twice");
	REFUSED(transport, "tcp!,tcp?", -EINVAL, "tcp is twice");
	REFUSED(transport, "?", -EINVAL, "\"?\"");
	REFUSED(transport, "tcp?!", -EINVAL, "\"tcp?!\"");
	REFUSED(transport, "fabric", -EINVAL, "\"fabric\"");
	REFUSED(transport, "fabric:", -EINVAL, "\"fabric:\"");
	REFUSED(transport, "sim", -EINVAL, "urccl_sim_open()");
	REFUSED(sim_network, (struct urccl_sim *)&p, -EINVAL, "name sim");
	REFUSED(sim, "drop=2", -EINVAL, "sim \"drop=2\": drop=2: a share is wanted");
	REFUSED(tcp_streams, 9, -EINVAL, "tcp_streams is 9: from 1 to 8");
	REFUSED(max_inflight_ops, 4097, -EINVAL, "max_inflight_ops is 4097: from 1 to 4096");
	REFUSED(max_peers, UINT32_MAX, -EINVAL, "max_peers");
	REFUSED(max_blocks, UINT32_MAX, -EINVAL, "max_blocks");
	REFUSED(chunk_bytes, UINT32_MAX, -EINVAL, "chunk_bytes");
	REFUSED(tcp_driver, 3, -EINVAL, "tcp_driver is 3");
	REFUSED(log_level, 6, -EINVAL, "log_level is 6");
	REFUSED(enforce, 2, -EINVAL, "enforce is 2");
	REFUSED(bounce, 3, -EINVAL, "bounce is 3");
	REFUSED(tcp_tclass[1], 1, -EINVAL, "tcp_tclass is 1: multiples of 4 from 0 to 252");
	REFUSED(rdma_sl[2], -2, -EINVAL, "rdma_sl is -2");
	REFUSED(progress_nice, -21, -EINVAL, "progress_nice is -21");
	REFUSED(progress_cpus, "0-", -EINVAL, "progress_cpus \"0-\"");
	REFUSED(rdma_dev, "", -EINVAL, "rdma_dev \"\"");
	REFUSED(rdma_dev, "mlx5_0:0", -EINVAL, "rdma_dev \"mlx5_0:0\"");
	REFUSED(thread_name, "too long", -EINVAL, "thread_name \"too long\"");
	REFUSED(event_slots, 32769, -EINVAL, "event_slots is 32769");
	REFUSED(reserved0[2], 1, -EINVAL, "reserved");
	REFUSED(reserved1[0], 1, -EINVAL, "reserved");
	REFUSED(reserved2[6], 1, -EINVAL, "reserved");
	REFUSED(hello_len, 257, -EINVAL, "hello_len is 257");
	REFUSED(hello_len, 1, -EINVAL, "hello is NULL");
	REFUSED(listen, "localhost:7777", -EINVAL, "localhost:7777");
#undef REFUSED
}

/* What the program gave may be gone after the call. */
static void test_copies(void)
{
	char transport[] = "tcp", listen[] = "", hello[] = "hello", dir[] = "/tmp", cc[] = "cubic";
	struct urccl_params p = fresh();
	struct settings s;

	p.transport = transport;
	p.listen = listen;
	p.hello = hello;
	p.hello_len = 5;
	p.socket_dir = dir;
	p.tcp_congestion = cc;
	CHECK_EQ(settings_read(&s, &p), 0);
	memset(transport, 'x', 3);
	memset(hello, 'x', 5);
	memset(dir, 'x', 4);
	memset(cc, 'x', 5);
	CHECK(!strcmp(s.p.transport, "tcp") && !strcmp(s.p.socket_dir, "/tmp"));
	CHECK(!strcmp(s.p.tcp_congestion, "cubic") && !memcmp(s.p.hello, "hello", 5));
	CHECK(!s.listens);
	settings_free(&s);
}

int case_params(void)
{
	test_defaults();
	test_versions();
	test_refusals();
	test_copies();
	return 0;
}
