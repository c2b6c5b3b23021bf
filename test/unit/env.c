/* SPDX-License-Identifier: Apache-2.0 */
/* Settings from the environment: each name is read, a bad value is refused by the name and the
 * value with what is possible, and what came from where is told. */
#include <stdlib.h>
#include <unistd.h>
#include "context.h"
#include "params.h"
#include "test.h"

static struct urccl_params fresh(void)
{
	struct urccl_params p = {.size = sizeof(p)};

	urccl_params_init(&p);
	return p;
}

/* name, value: a good one; a bad one; NULL: any text is good. The setting reads back as value, or
 * as `told` where that is another way to say it. */
static const struct name {
	const char *name, *good, *bad, *told;
} names[] = {
	{"transport", "tcp,shm?", "udp", NULL},
	{"listen", "127.0.0.1:7777", "localhost", NULL},
	{"deadline_ms", "1500", "0", NULL},
	{"dead_after_ms", "0x10", "soon", "16"},
	{"spin_us", "forever", "-1", NULL},
	{"max_peers", "17", "1048577", NULL},
	{"max_warm", "4", "-1", NULL},
	{"max_qps", "12", "-1", NULL},
	{"idle_after_ms", "60000", "4294967296", NULL},
	{"max_segs", "4", "4294967295", NULL},
	{"max_blocks", "4294967294", "4294967295", NULL},
	{"chunk_bytes", "64k", "2g", "65536"},
	{"event_slots", "32", "32769", NULL},
	{"tcp_congestion", "bulk:bbr,latency:cubic", "bulk:", NULL},
	{"tcp_driver", "io_uring", "epoll", NULL},
	{"tcp_streams", "8", "9", NULL},
	{"tcp_tclass", "bulk:8,latency:0xb8", "3", "bulk:8,latency:184,control:0"},
	{"tcp_priority", "6", "16", NULL},
	{"enforce", "owner", "me", NULL},
	{"resident", "check", "yes", NULL},
	{"bounce", "no", "2", NULL},
	{"socket_dir", "/run/urccl", "", NULL},
	{"socket_ifname", "^docker,veth", "eth0,,eth1", NULL},
	{"secret_file", "/run/secrets/urccl", "", NULL},
	{"thread_name", "kv", "12345678", NULL},
	{"progress_cpus", "0-3,8", "3-1", NULL},
	{"control_cpus", "1", "all", NULL},
	{"progress_nice", "-5", "20", NULL},
	{"control_nice", "19", "-21", NULL},
	{"log_level", "INFO", "loud", "info"},
	{"rdma_dev", "mlx5_0,mlx5_1", "", NULL},
	{"rdma_port", "2", "256", NULL},
	{"rdma_gid_index", "3", "256", NULL},
	{"rdma_pkey", "0xffff", "65536", "65535"},
	{"rdma_sl", "bulk:3", "16", "bulk:3,latency:auto,control:auto"},
	{"rdma_tc", "104", "bulk:1,bulk:2", NULL},
	{"rdma_ack_timeout", "20", "32", NULL},
	{"rdma_retry_count", "0", "8", NULL},
	{"rdma_max_rd_atomic", "1", "0", NULL},
	{"rdma_max_dest_rd_atomic", "255", "256", NULL},
	{"rdma_relaxed_ordering", "no", "2", NULL},
	{"max_inflight_ops", "4096", "4097", NULL},
	{"cxi_domain", "cxi0", "", NULL},
	{"cxi_device_index", "auto", "256", NULL},
	{"cxi_threading", "endpoint", "none", NULL},
	{"cxi_tx_queue_size", "64", "0", NULL},
	{"cxi_rx_queue_size", "64", "many", NULL},
	{"cxi_cq_size", "64", "1048577", NULL},
	{"ibv_so", "libibverbs.so.1", "", NULL},
	{"libfabric_so", "/opt/lib/libfabric.so.1", "", NULL},
	{"sim", "seed=7,delay=2us..50us,drop=0.1%", "drop=0.1", NULL},
	{"gpu", "0000:1b:00.0", "", NULL},
	{"topology", "/machine.txt", "", NULL},
	{"cuda_so", "/opt/lib/libcuda.so", "", NULL},
	{"staging_bytes", "32m", "9m", "33554432"},
	{"device_order", "explicit", "strict", NULL},
	{"gpu_sms", "0", "1025", NULL},
};

/* UCCL's names, and what a value of theirs is here. */
static const struct name uccl[] = {
	{"transport", "tcp", "rdma", NULL},
	{"spin_us", "0", "2", "forever"},
	{"socket_ifname", "=lo", "", NULL},
	{"log_level", "WARNING", "loud", "warn"},
	{"rdma_dev", "rdmap0", "", NULL},
	{"rdma_gid_index", "0", "first", NULL},
	{"rdma_sl", "8", "16", NULL},
	{"rdma_tc", "0", "256", NULL},
	{"rdma_max_rd_atomic", "16", "0", "16"},
	{"rdma_max_dest_rd_atomic", "16", "0", NULL},
	{"rdma_relaxed_ordering", "2", "3", "yes"},
	{"max_inflight_ops", "32", "x", NULL},
	{"cxi_domain", "cxi1", "", NULL},
	{"cxi_device_index", "3", "-2", NULL},
	{"cxi_threading", "safe", "unsafe", NULL},
	{"cxi_tx_queue_size", "4096", "0", NULL},
	{"cxi_rx_queue_size", "4096", "0", NULL},
	{"cxi_cq_size", "8192", "0", NULL},
	{"ibv_so", "libibverbs.so", "", NULL},
	{"libfabric_so", "libfabric.so", "", NULL},
	{"gpu_sms", "24", "many", NULL},
};

static const char *const uccl_names[] = {
	"UCCL_P2P_TRANSPORT",
	"UCCL_RDMA_ADAPTIVE_SLEEP",
	"UCCL_SOCKET_IFNAME",
	"UCCL_P2P_LOG_LEVEL",
	"UCCL_P2P_RDMA_DEV",
	"UCCL_P2P_RDMA_GID_INDEX",
	"UCCL_P2P_RDMA_SL",
	"UCCL_P2P_RDMA_TC",
	"UCCL_P2P_RDMA_MAX_RD_ATOMIC",
	"UCCL_P2P_RDMA_MAX_DEST_RD_ATOMIC",
	"NCCL_IB_PCI_RELAXED_ORDERING",
	"UCCL_P2P_MAX_INFLIGHT_OPS",
	"UCCL_CXI_DOMAIN",
	"UCCL_CXI_DEVICE_INDEX",
	"UCCL_CXI_THREADING",
	"UCCL_CXI_TX_QUEUE_SIZE",
	"UCCL_CXI_RX_QUEUE_SIZE",
	"UCCL_CXI_CQ_SIZE",
	"UCCL_IBV_SO",
	"UCCL_LIBFABRIC_SO",
	"UCCL_DIETGPU_SM_USAGE",
};
_Static_assert(ARRAY_SIZE(uccl) == ARRAY_SIZE(uccl_names), "a name each");

static void says(const char *words)
{
	CHECK_SAYS(urccl_errmsg(), words);
}

static struct urccl_setting find(const struct urccl_params *p, const char *name)
{
	struct urccl_setting s = {.size = sizeof(s)};
	uint32_t i;

	for (i = 0; !urccl_settings(p, i, &s); i++)
		if (!strcmp(s.name, name))
			return s;
	fprintf(stderr, "no setting %s\n", name);
	CHECK(!"a setting of this name");
	return s;
}

/* A string that is not NULL, also where it says the default. */
static int is_given(const struct urccl_params *p, const char *name)
{
	uint32_t i;

	for (i = 0; i < settings_count; i++)
		if (!strcmp(settings_table[i].name, name))
			return !setting_is_default(&settings_table[i], p);
	return 0;
}

static void is(const struct urccl_params *p, const char *name, const char *value)
{
	struct urccl_setting s = find(p, name);

	CHECK(value != NULL);
	if (strcmp(s.value, value))
		fprintf(stderr, "%s is \"%s\", not \"%s\"\n", name, s.value, value);
	CHECK(!strcmp(s.value, value));
	CHECK_EQ(s.is_default, !is_given(p, name));
}

/* A good value by variable and by name; a bad one is refused and changes nothing. */
static void one(const struct name *n, const char *variable)
{
	struct urccl_params p = fresh(), before;
	struct settings s;

	setenv(variable, n->good, 1);
	CHECK_EQ(urccl_params_from_env(&p), 0);
	is(&p, n->name, n->told ? n->told : n->good);
	CHECK_EQ(settings_read(&s, &p), 0);
	is(&s.p, n->name, n->told ? n->told : n->good);
	settings_free(&s);
	setenv(variable, n->bad, 1);
	before = p;
	CHECK_EQ(urccl_params_from_env(&p), -EINVAL);
	CHECK(!memcmp(&p, &before, sizeof(p)));
	says(variable);
	says(n->bad);
	CHECK_GE(strlen(urccl_errmsg()), strlen(variable) + strlen(n->bad) + 10);
	unsetenv(variable);
}

static int listed(const char *name)
{
	uint32_t i, n = 0;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		n += !strcmp(names[i].name, name);
	return n == 1;
}

static void every_name(void)
{
	char variable[VARIABLE_MAX];
	uint32_t i;

	CHECK_EQ(settings_count, ARRAY_SIZE(names));
	for (i = 0; i < settings_count; i++) {
		CHECK(listed(settings_table[i].name));
		setting_variable(&settings_table[i], variable);
		CHECK(!strcmp(find(NULL, settings_table[i].name).variable, variable));
	}
	for (i = 0; i < ARRAY_SIZE(names); i++)
		one(&names[i], find(NULL, names[i].name).variable);
}

static void every_name_of_uccl(void)
{
	uint32_t i, n = 0;

	for (i = 0; i < settings_count; i++)
		n += settings_table[i].uccl != NULL;
	CHECK_EQ(n, ARRAY_SIZE(uccl));
	for (i = 0; i < ARRAY_SIZE(uccl); i++) {
		CHECK(!strcmp(find(NULL, uccl[i].name).uccl, uccl_names[i]));
		one(&uccl[i], uccl_names[i]);
	}
}

/* Without listen p listens where it does with the text. */
static void stands_for(struct urccl_params *p, const char *text)
{
	struct settings without, with;

	CHECK_EQ(settings_read(&without, p), 0);
	p->listen = text;
	CHECK_EQ(settings_read(&with, p), 0);
	p->listen = NULL;
	CHECK_EQ(with.nlisten, without.nlisten);
	CHECK(!memcmp(with.listen, without.listen, sizeof(with.listen)));
	settings_free(&without);
	settings_free(&with);
}

/* A variable of ours goes before UCCL's; members that no variable sets keep their values. */
static void values(void)
{
	struct urccl_params p = fresh();

	p.max_segs = 7;
	p.socket_dir = "/tmp";
	setenv("URCCL_DEADLINE_MS", "123", 1);
	setenv("UCCL_P2P_RDMA_SL", "1", 1);
	setenv("URCCL_RDMA_SL", "2", 1);
	CHECK_EQ(urccl_params_from_env(&p), 0);
	CHECK_EQ(p.deadline_ms, 123);
	is(&p, "rdma_sl", "2");
	is(&p, "max_segs", "7");
	is(&p, "socket_dir", "/tmp");
	is(&p, "spin_us", "20");
	is(&p, "transport", "shm?,tcp?");
	is(&p, "listen", "127.0.0.1:0");
	is(&p, "ibv_so", "libibverbs.so.1");
	is(&p, "libfabric_so", "libfabric.so.1");
	is(&p, "secret_file", "");
	is(&p, "thread_name", "urccl");
	p.listen = "";
	is(&p, "listen", "");
	p.listen = NULL;
	p.socket_ifname = "lo";
	is(&p, "listen", "[::]:0");
	stands_for(&p, "[::]:0");
	p.socket_ifname = NULL;
	stands_for(&p, "127.0.0.1:0");
	unsetenv("URCCL_DEADLINE_MS");
	unsetenv("UCCL_P2P_RDMA_SL");
	unsetenv("URCCL_RDMA_SL");
	CHECK(*find(&p, "rdma_sl").about);
}

/* The same table by name, without the environment. */
static void by_name(void)
{
	struct urccl_params p = fresh(), before;

	CHECK_EQ(urccl_params_set(&p, "deadline_ms", "250"), 0);
	CHECK_EQ(p.deadline_ms, 250);
	CHECK_EQ(urccl_params_set(&p, "tcp_priority", "bulk:1,latency:2"), 0);
	CHECK_EQ(p.tcp_priority[URCCL_CLASS_LATENCY], 2);
	CHECK_EQ(urccl_params_set(&p, "chunk_bytes", "64k"), 0);
	CHECK_EQ(p.chunk_bytes, 65536);
	before = p;
	CHECK_EQ(urccl_params_set(&p, "deadline", "250"), -ENOENT);
	says("\"deadline_ms\"");
	CHECK_EQ(urccl_params_set(&p, "tcp_streams", "9"), -EINVAL);
	says("from 1 to 8");
	CHECK_EQ(urccl_params_set(&p, "transport", "carrier-pigeon"), -EINVAL);
	says("carrier-pigeon");
	CHECK_EQ(urccl_params_set(&p, "transport", NULL), -EINVAL);
	CHECK_EQ(urccl_params_set(&p, NULL, "1"), -EINVAL);
	CHECK_EQ(urccl_params_set(NULL, "transport", "tcp"), -EINVAL);
	CHECK(!memcmp(&p, &before, sizeof(p)));
}

static void refused(const char *variable, const char *value, const char *words)
{
	struct urccl_params p = fresh();

	setenv(variable, value, 1);
	CHECK_EQ(urccl_params_from_env(&p), -EINVAL);
	unsetenv(variable);
	says(variable);
	says(words);
}

static void what_is_none(void)
{
	struct urccl_params p = fresh();

	refused("URCCL_DEADLINE", "1", "did you mean URCCL_DEADLINE_MS?");
	refused("URCCL_TCP_STREAM", "1", "did you mean URCCL_TCP_STREAMS?");
	refused("URCCL_P2P_TRANSPORT", "tcp", "did you mean URCCL_TRANSPORT?");
	refused("UCCL_P2P_RDMA_CC", "timely", "no congestion control");
	refused("URCCL_RDMA_CC", "swift", "no congestion control");
	refused("UCCL_P2P_COMPRESS_BUFFER_BYTES", "1", "arenas");
	refused("UCCL_P2P_RDMA_LINK_GBPS", "400", "measured");
	refused("UCCL_TCP_OOB_PORT", "1", "URCCL_LISTEN");
	refused("UCCL_TCPX_OOB_PORT", "1", "URCCL_LISTEN");
	refused("UCCL_EFA_SO", "x", "URCCL_LIBFABRIC_SO");
	refused("URCCL_CMA", "yes", "process_vm_readv");
	/* Those of UCCL's other parts are not ours to judge. */
	setenv("UCCL_EP_TRANSPORT", "cxi", 1);
	CHECK_EQ(urccl_params_from_env(&p), 0);
	unsetenv("UCCL_EP_TRANSPORT");
	CHECK_EQ(urccl_params_from_env(NULL), -EINVAL);
	p.size = 4;
	CHECK_EQ(urccl_params_from_env(&p), -EINVAL);
}

/* A program of an older header has no member for a newer setting: that is said. */
static void an_older_program(void)
{
	struct urccl_params p;

	__urccl_params_init(&p, offsetof(struct urccl_params, log_level));
	p.log_level = 77;
	setenv("URCCL_DEADLINE_MS", "5", 1);
	CHECK_EQ(urccl_params_from_env(&p), 0);
	CHECK_EQ(p.deadline_ms, 5);
	CHECK_EQ(p.log_level, 77);
	setenv("URCCL_THREAD_NAME", "x", 1);
	CHECK_EQ(urccl_params_from_env(&p), -EINVAL);
	says("URCCL_THREAD_NAME");
	CHECK_EQ(urccl_params_set(&p, "thread_name", "x"), -EINVAL);
	says("thread_name");
	unsetenv("URCCL_DEADLINE_MS");
	unsetenv("URCCL_THREAD_NAME");
}

static void heard(void *arg, int level, const char *text)
{
	(void)arg, (void)level, (void)text;
}

/* Silence, unless somebody asks. */
static void a_log(void)
{
	struct urccl_params p = fresh();

	CHECK_EQ(urccl_params_from_env(&p), 0);
	CHECK(!p.log);
	setenv("URCCL_LOG_LEVEL", "none", 1);
	CHECK_EQ(urccl_params_from_env(&p), 0);
	CHECK(!p.log);
	setenv("URCCL_LOG_LEVEL", "info", 1);
	CHECK_EQ(urccl_params_from_env(&p), 0);
	CHECK(p.log == log_stderr);
	p.log = heard;
	CHECK_EQ(urccl_params_from_env(&p), 0);
	CHECK(p.log == heard);
	unsetenv("URCCL_LOG_LEVEL");
}

/* What the log for want of one writes: a line, to standard error. */
static void the_printer(void)
{
	char line[100] = "";
	int ends[2], old = dup(2);

	CHECK(old >= 0);
	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(dup2(ends[1], 2), 2);
	log_stderr(NULL, URCCL_LOG_WARN, "a peer is lost");
	CHECK_EQ(dup2(old, 2), 2);
	CHECK_GE(read(ends[0], line, sizeof(line) - 1), 1);
	CHECK(!strcmp(line, "liburccl: warning: a peer is lost\n"));
	close(ends[0]);
	close(ends[1]);
	close(old);
}

/* Every word of UCCL's and ours is read; what is not carried out is refused by name when a context
 * is opened with it, rather than left out. */
static void transport_words(void)
{
	static const char all[] = "ib,efa?,nccl,tcp,tcpx?,cxi,shm!,ipc,sim,fabric:tcp;ofi_rxm";
	static const char *const words[] = {"ib",  "efa", "nccl", "tcp", "tcpx",
					    "cxi", "shm", "ipc",  "sim", "fabric:tcp;ofi_rxm"};
	static const char *const variables[] = {"URCCL_TRANSPORT", "UCCL_P2P_TRANSPORT"};
	struct urccl_params p;
	struct urccl *ctx;
	uint32_t i, k;

	for (k = 0; k < ARRAY_SIZE(variables); k++) {
		for (i = 0; i <= ARRAY_SIZE(words); i++) {
			const char *text = i < ARRAY_SIZE(words) ? words[i] : all;

			p = fresh();
			setenv(variables[k], text, 1);
			CHECK_EQ(urccl_params_from_env(&p), 0);
			is(&p, "transport", text);
		}
		unsetenv(variables[k]);
	}
	p = fresh();
	for (i = 0; i < ARRAY_SIZE(words); i++) {
		uint32_t t = (uint32_t)transport_parse(words[i], strcspn(words[i], ":"));

		if (context_backend(t))
			continue;
		p.transport = words[i];
		CHECK_EQ(urccl_open(&p, &ctx), -EOPNOTSUPP);
		says("does not carry out transport");
		says(words[i]);
	}
	CHECK(!context_backend(URCCL_TRANSPORT_NCCL) && context_backend(URCCL_TRANSPORT_TCP));
	refused("URCCL_TRANSPORT", "fabric", "fabric:NAME");
	refused("URCCL_TRANSPORT", "fabric:", "fabric:NAME");
	refused("URCCL_TRANSPORT", "tcp,tcp", "twice");
	refused("URCCL_TRANSPORT", "TCP", "is not known");
}

static void the_list(void)
{
	struct urccl_setting s = {.size = sizeof(s)};

	CHECK_EQ(urccl_settings(NULL, settings_count, &s), -ENOENT);
	CHECK_EQ(urccl_settings(NULL, UINT32_MAX, &s), -ENOENT);
	CHECK_EQ(urccl_settings(NULL, 0, NULL), -EINVAL);
	s.size = 4;
	CHECK_EQ(urccl_settings(NULL, 0, &s), -EINVAL);
}

int case_env(void)
{
	clearenv();
	every_name();
	every_name_of_uccl();
	values();
	by_name();
	what_is_none();
	an_older_program();
	a_log();
	the_printer();
	transport_words();
	the_list();
	return 0;
}
