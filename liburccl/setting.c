/* SPDX-License-Identifier: Apache-2.0 */
/* The table of settings. */
#include "setting.h"

#define AUTO	  URCCL_AUTO
#define MEMBER(f) .name = #f, .at = offsetof(struct urccl_params, f)
#define WIDTH(f)  sizeof(((struct urccl_params *)0)->f)
#define NUMBER(f, from, to, otherwise)                                                      \
	MEMBER(f), .width = WIDTH(f), .least = (from), .most = (to), .normal = (otherwise), \
		   .is_signed = (from) < 0
#define CHOICE(f, list, last, otherwise)                                                         \
	MEMBER(f), .kind = SET_CHOICE, .width = WIDTH(f), .most = (last), .normal = (otherwise), \
		   .words = (list)
#define TEXT(f, of) MEMBER(f), .kind = SET_TEXT, .width = WIDTH(f), .check = (of)
#define EACH_CLASS(f, from, to, otherwise)                                                         \
	MEMBER(f), .kind = SET_CLASSES, .width = sizeof(int16_t), .is_signed = 1, .least = (from), \
		   .most = (to), .normal = (otherwise)

/* ---- words ---- */

static const struct word auto_words[] = {{"auto", AUTO}, {NULL, 0}};
static const struct word spin_words[] = {{"forever", UINT32_MAX}, {NULL, 0}};
/* UCCL's threads spin unless they are told to sleep. */
static const struct word sleep_words[] = {{"0", UINT32_MAX}, {"1", 20}, {NULL, 0}};
static const struct word allow_words[] = {
	{"default", URCCL_ALLOW_DEFAULT}, {"no", URCCL_ALLOW_NO},
	{"yes", URCCL_ALLOW_YES},	  {"0", URCCL_ALLOW_NO},
	{"1", URCCL_ALLOW_YES},		  {NULL, 0},
};
/* NCCL's 2 means "if the device supports it", as our yes does. */
static const struct word ordering_words[] = {
	{"0", URCCL_ALLOW_NO},
	{"1", URCCL_ALLOW_YES},
	{"2", URCCL_ALLOW_YES},
	{NULL, 0},
};
static const struct word driver_words[] = {
	{"auto", URCCL_TCP_AUTO},
	{"readiness", URCCL_TCP_READINESS},
	{"io_uring", URCCL_TCP_IO_URING},
	{NULL, 0},
};
static const struct word level_words[] = {
	{"default", URCCL_LOG_DEFAULT}, {"none", URCCL_LOG_NONE},  {"error", URCCL_LOG_ERROR},
	{"warn", URCCL_LOG_WARN},	{"info", URCCL_LOG_INFO},  {"debug", URCCL_LOG_DEBUG},
	{"warning", URCCL_LOG_WARN},	{"fatal", URCCL_LOG_NONE}, {NULL, 0},
};
static const struct word enforce_words[] = {
	{"any", URCCL_ENFORCE_ANY},
	{"owner", URCCL_ENFORCE_OWNER},
	{NULL, 0},
};
static const struct word resident_words[] = {
	{"trusted", URCCL_RESIDENT_TRUSTED},
	{"check", URCCL_RESIDENT_CHECK},
	{NULL, 0},
};
static const struct word threading_words[] = {
	{"auto", URCCL_CXI_THREADING_AUTO},	    {"safe", URCCL_CXI_THREADING_SAFE},
	{"unspec", URCCL_CXI_THREADING_UNSPEC},	    {"fid", URCCL_CXI_THREADING_FID},
	{"domain", URCCL_CXI_THREADING_DOMAIN},	    {"completion", URCCL_CXI_THREADING_COMPLETION},
	{"endpoint", URCCL_CXI_THREADING_ENDPOINT}, {NULL, 0},
};

static const struct word order_words[] = {
	{"explicit", URCCL_DEVICE_ORDER_EXPLICIT},
	{"trusted", URCCL_DEVICE_ORDER_TRUSTED},
	{NULL, 0},
};

/* ---- checks of strings ---- */

static int check_given(const char *text)
{
	return *text ? 0 : fail(-EINVAL, "it is empty: leave it out for the default");
}

static int check_ifname(const char *text)
{
	if (!netif_rules_check(text))
		return 0;
	return fail(-EINVAL, "names of interfaces are wanted, such as \"eth,ib\" (what begins so), "
			     "\"=eth0\" (just that) or \"^docker,lo\" (all but those)");
}

static int check_nics(const char *text)
{
	if (!nic_rules_check(text))
		return 0;
	return fail(-EINVAL,
		    "names of RDMA devices are wanted, such as \"mlx5_0,mlx5_1:2\" (port 2), "
		    "\"=mlx5_0\" (just that) or \"^mlx5_2\" (all but that)");
}

static int check_cpus(const char *text)
{
	struct cpus cpus;

	if (!cpus_parse(text, &cpus))
		return 0;
	return fail(-EINVAL, "a list of CPUs is wanted, such as \"0-3,8\"");
}

static int check_name(const char *text)
{
	size_t len = strlen(text);

	if (len && len <= THREAD_NAME_MAX)
		return 0;
	return fail(-EINVAL, "from 1 to %d bytes are possible", THREAD_NAME_MAX);
}

#define CONGESTION_MAX 16u /* TCP_CA_NAME_MAX */

static int check_congestion(const char *text)
{
	struct class_words w;
	uint32_t i;

	if (classes_split(text, &w))
		return fail(-EINVAL,
			    "a congestion control is wanted, such as \"cubic\", or one for "
			    "some classes, such as \"bulk:bbr,latency:cubic,control:cubic\"");
	for (i = 0; i < CLASSES; i++)
		if (w.len[i] >= CONGESTION_MAX)
			return fail(-EINVAL,
				    "\"%.*s\" names no congestion control: they have up "
				    "to %u bytes",
				    (int)w.len[i], w.at[i], CONGESTION_MAX - 1);
	return 0;
}

static int check_sim(const char *text)
{
	struct sim_faults faults;

	faults_init(&faults);
	return faults_parse(text, 0, &faults);
}

/* ---- the table ---- */

const struct setting settings_table[] = {
	{TEXT(transport, check_transport), .uccl = "UCCL_P2P_TRANSPORT",
	 .otherwise = DEFAULT_TRANSPORTS, .about = "transports that may be used, best first"},
	{TEXT(listen, check_listen), .otherwise = DEFAULT_LISTEN, .by_ifname = "[::]:0",
	 .about = "addresses and port to listen on; empty: none"},
	{TEXT(socket_ifname, check_ifname), .uccl = "UCCL_SOCKET_IFNAME",
	 .about = "interfaces to listen on and to dial from; not given: any"},
	{TEXT(secret_file, check_given),
	 .about = "file with the secret that peers prove to share; not given: none"},
	{NUMBER(deadline_ms, 1, UINT32_MAX, 30000), .about = "of an entry that gives none, ms"},
	{NUMBER(dead_after_ms, 1, UINT32_MAX, 10000),
	 .about = "silence after which an awaited peer counts as lost, ms"},
	{NUMBER(spin_us, 0, UINT32_MAX, 20), .words = spin_words,
	 .uccl = "UCCL_RDMA_ADAPTIVE_SLEEP", .uccl_words = sleep_words,
	 .about = "how long an idle progress thread spins before it sleeps, us"},
	{NUMBER(max_peers, 1, 1u << HANDLE_SLOT_BITS, 4096), .about = "peers connected at a time"},
	{NUMBER(max_warm, 0, UINT32_MAX, 0),
	 .about = "peers with a data path at a time; 0: no limit"},
	{NUMBER(idle_after_ms, 0, UINT32_MAX, 0),
	 .about = "until an unused peer lets its data path go, ms; 0: never"},
	{NUMBER(max_segs, 1, UINT32_MAX - 1, 1u << 20), .about = "segments of a READV or WRITEV"},
	{NUMBER(max_blocks, 1, UINT32_MAX - 1, UINT32_MAX - 1), .about = "blocks of a paged entry"},
	{NUMBER(chunk_bytes, 0, 1u << 30, 0), .kind = SET_BYTES,
	 .about = "largest piece handed to a device at a time; 0: the transport's"},
	{NUMBER(event_slots, 1, 1u << 15, 256),
	 .about = "events unseen at a time, of a ring that says nothing"},
	{TEXT(tcp_congestion, check_congestion), .asks_for = URCCL_TRANSPORT_TCP,
	 .about = "congestion control of data streams and, as class control, of control "
		  "connections; not given: the system's"},
	{CHOICE(tcp_driver, driver_words, URCCL_TCP_IO_URING, URCCL_TCP_AUTO),
	 .asks_for = URCCL_TRANSPORT_TCP, .about = "how tcp moves bytes"},
	{NUMBER(tcp_streams, 1, 8, 1), .asks_for = URCCL_TRANSPORT_TCP,
	 .about = "bulk streams of tcp a peer"},
	{EACH_CLASS(tcp_tclass, 0, 252, 0), .step = 4, .asks_for = URCCL_TRANSPORT_TCP,
	 .about = "traffic class of tcp (DSCP * 4); 0: the system's"},
	{EACH_CLASS(tcp_priority, 0, 15, 0), .asks_for = URCCL_TRANSPORT_TCP,
	 .about = "SO_PRIORITY of tcp; above 6 needs CAP_NET_ADMIN; 0: the system's"},
	{CHOICE(enforce, enforce_words, URCCL_ENFORCE_OWNER, URCCL_ENFORCE_ANY),
	 .about = "who keeps a peer to an advert"},
	{CHOICE(bounce, allow_words, URCCL_ALLOW_YES, URCCL_ALLOW_DEFAULT),
	 .about = "data may go through memory of the library (yes)"},
	{CHOICE(resident, resident_words, URCCL_RESIDENT_CHECK, URCCL_RESIDENT_TRUSTED),
	 .about = "whether ranges whose pages may be slow to have are refused"},
	{TEXT(socket_dir, check_given), .asks_for = URCCL_TRANSPORT_SHM, .path = PATH_FILE,
	 .about = "where the rendezvous sockets of shm are made; not given: abstract names"},
	{TEXT(thread_name, check_name), .otherwise = THREAD_PREFIX,
	 .about = "what names of threads begin with"},
	{TEXT(progress_cpus, check_cpus),
	 .about = "CPUs of progress threads; not given: those of the thread that opens"},
	{TEXT(control_cpus, check_cpus),
	 .about = "CPUs of the control thread, of those that resolve names and of libfabric's, and "
		  "of no other; not given: those of the thread that opens"},
	{NUMBER(progress_nice, -20, 19, 0),
	 .about = "nice level of progress threads; 0: unchanged"},
	{NUMBER(control_nice, -20, 19, 0),
	 .about = "nice level of the control thread and all that it starts; 0: unchanged"},
	{CHOICE(log_level, level_words, URCCL_LOG_DEBUG, URCCL_LOG_DEFAULT),
	 .uccl = "UCCL_P2P_LOG_LEVEL", .about = "what the log is told"},
	{TEXT(rdma_dev, check_nics), .uccl = "UCCL_P2P_RDMA_DEV",
	 .about = "NICs to use; not given: those near gpu"},
	{NUMBER(rdma_port, 0, 255, 0), .about = "port of a NIC; 0: all that are active"},
	{NUMBER(rdma_gid_index, AUTO, 255, AUTO), .words = auto_words,
	 .uccl = "UCCL_P2P_RDMA_GID_INDEX", .about = "index in the port's table of GIDs"},
	{NUMBER(rdma_pkey, 0, UINT16_MAX, 0), .about = "P_Key; 0: the first of the port's table"},
	{EACH_CLASS(rdma_sl, AUTO, 15, AUTO), .words = auto_words, .uccl = "UCCL_P2P_RDMA_SL",
	 .about = "service level; auto: 3 on RoCE, 8 on EFA, else 0"},
	{EACH_CLASS(rdma_tc, AUTO, 255, AUTO), .words = auto_words, .uccl = "UCCL_P2P_RDMA_TC",
	 .about = "traffic class; auto: 104 on RoCE, else 0"},
	{NUMBER(rdma_ack_timeout, 1, 31, 14), .about = "for an acknowledgement, 4.096 us * 2^n"},
	{NUMBER(rdma_retry_count, AUTO, 7, AUTO), .words = auto_words,
	 .about = "tries before a queue pair breaks; auto: 6"},
	{NUMBER(rdma_max_rd_atomic, 1, 255, 16), .uccl = "UCCL_P2P_RDMA_MAX_RD_ATOMIC",
	 .about = "READs and atomics a queue pair has out"},
	{NUMBER(rdma_max_dest_rd_atomic, 1, 255, 16), .uccl = "UCCL_P2P_RDMA_MAX_DEST_RD_ATOMIC",
	 .about = "READs and atomics a queue pair takes"},
	{CHOICE(rdma_relaxed_ordering, allow_words, URCCL_ALLOW_YES, URCCL_ALLOW_DEFAULT),
	 .uccl = "NCCL_IB_PCI_RELAXED_ORDERING", .uccl_words = ordering_words,
	 .about = "devices may write to memory in any order (yes)"},
	{NUMBER(max_qps, 0, UINT32_MAX, 0), .about = "queue pairs of ib at a time; 0: no limit"},
	{NUMBER(max_inflight_ops, 1, 4096, 4096), .uccl = "UCCL_P2P_MAX_INFLIGHT_OPS",
	 .about = "pieces of entries that devices have at a time"},
	{TEXT(cxi_domain, check_given), .uccl = "UCCL_CXI_DOMAIN",
	 .about = "domain of provider cxi; not given: that of cxi_device_index"},
	{NUMBER(cxi_device_index, AUTO, 255, AUTO), .words = auto_words,
	 .uccl = "UCCL_CXI_DEVICE_INDEX", .about = "which cxi device; auto: of the GPU"},
	{CHOICE(cxi_threading, threading_words, URCCL_CXI_THREADING_ENDPOINT,
		URCCL_CXI_THREADING_AUTO),
	 .uccl = "UCCL_CXI_THREADING", .about = "what libfabric is told of our threads"},
	{NUMBER(cxi_tx_queue_size, 1, 1u << 20, 4096), .uccl = "UCCL_CXI_TX_QUEUE_SIZE",
	 .about = "entries of the transmit queue"},
	{NUMBER(cxi_rx_queue_size, 1, 1u << 20, 4096), .uccl = "UCCL_CXI_RX_QUEUE_SIZE",
	 .about = "entries of the receive queue"},
	{NUMBER(cxi_cq_size, 1, 1u << 20, 8192), .uccl = "UCCL_CXI_CQ_SIZE",
	 .about = "entries of the completion queue"},
	{TEXT(ibv_so, check_given), .uccl = "UCCL_IBV_SO", .otherwise = IBV_SO,
	 .path = PATH_LIBRARY, .about = "libibverbs to load"},
	{TEXT(libfabric_so, check_given), .uccl = "UCCL_LIBFABRIC_SO", .otherwise = LIBFABRIC_SO,
	 .path = PATH_LIBRARY, .about = "libfabric to load"},
	{TEXT(gpu, check_given), .about = "GPU whose NICs are used; not given: those near "
					  "the CPUs of the thread that opens"},
	{TEXT(topology, check_given), .path = PATH_FILE,
	 .about = "file that says how the machine is built; not given: /sys"},
	{TEXT(sim, check_sim),
	 .about = "what goes wrong with this context on a simulated network; not given: as the "
		  "network has it"},
	{TEXT(cuda_so, check_given), .otherwise = CUDA_SO, .path = PATH_LIBRARY,
	 .about = "CUDA driver, used if the program has loaded it"},
	{NUMBER(staging_bytes, 8 << 20, 1ll << 40, 64 << 20), .kind = SET_BYTES, .step = 2 << 20,
	 .about = "pinned memory for bytes between GPUs and peers"},
	{CHOICE(device_order, order_words, URCCL_DEVICE_ORDER_TRUSTED, URCCL_DEVICE_ORDER_DEFAULT),
	 .about = "whether entries on memory of a GPU must say when it is ready"},
	{NUMBER(gpu_sms, AUTO, 1024, AUTO), .words = auto_words, .uccl = "UCCL_DIETGPU_SM_USAGE",
	 .about = "multiprocessors of a GPU for copies; 0: copy engines alone; auto: 8"},
};

const uint32_t settings_count = ARRAY_SIZE(settings_table);
_Static_assert(ARRAY_SIZE(settings_table) <= SETTINGS_MAX, "params.c has room for its copy");
