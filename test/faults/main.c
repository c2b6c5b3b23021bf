/* SPDX-License-Identifier: Apache-2.0 */
/* faults --transport=sim|shm|tcp|ib|fabric:PROVIDER [--driver=io_uring] [--net] [--full]
 * [--only=FAULT]: runs the matrix's part for a transport and prints it. Without --full a choice of
 * it, in seconds. With --net the faults of a network are run, and no others; with RDMA devices all
 * are. */
#include "faults.h"

static const char *const kind_names[KINDS] = {
	"write", "read", "writev", "paged", "notify", "atomic",
};
static const char *const fault_names[FAULTS] = {
	[KILL] = "SIGKILL",
	[STOP_SHORT] = "SIGSTOP, deadline 300 ms",
	[STOP_DEAD] = "SIGSTOP, dead_after 1 s",
	[DROP_SHORT] = "packets dropped, deadline 300 ms",
	[DROP_DEAD] = "packets dropped, dead_after 1 s",
	[LINK_DOWN] = "our link down",
	[REVOKED] = "region revoked",
	[RESTART] = "restarted on the address",
	[RESET] = "device reset",
};

static const char *transport = "tcp", *only;
static uint32_t tcp_driver;
static int full, net, only_net;

static void options(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++) {
		if (!strncmp(argv[i], "--transport=", 12))
			transport = argv[i] + 12;
		else if (!strcmp(argv[i], "--driver=io_uring"))
			tcp_driver = URCCL_TCP_IO_URING;
		else if (!strncmp(argv[i], "--only=", 7))
			only = argv[i] + 7;
		else if (!strcmp(argv[i], "--full"))
			full = 1;
		else if (!strcmp(argv[i], "--net"))
			net = only_net = 1;
		else
			CHECK(!"an option that this test knows");
	}
}

static int breaks_net(enum fault fault)
{
	return fault == DROP_SHORT || fault == DROP_DEAD || fault == LINK_DOWN;
}

/* NULL, or why there are no such cells. */
static const char *missing(enum fault fault)
{
	if (!strcmp(transport, "sim")) {
		if (fault == STOP_DEAD)
			return "n/a: the control connection is not simulated";
		if (fault == LINK_DOWN)
			return "n/a: its links have no interface of ours";
		return NULL;
	}
	if (fault == RESET)
		return "n/a: no device of theirs can be reset by a program";
	if (!strcmp(transport, RXM) && fault == LINK_DOWN)
		return "n/a: nobody tells it of a device's link";
	if (!strcmp(transport, "shm") && breaks_net(fault))
		return "n/a: no network between them";
	return breaks_net(fault) && !net ? "by --net" : NULL;
}

/* What a simulated network calls it. */
static const char *fault_name(enum fault fault)
{
	static const char *const sims[FAULTS] = {
		[KILL] = "SIGKILL: its device is dead (kill=), dead_after 1 s",
		[STOP_SHORT] = "urccl_sim_freeze(), deadline 300 ms",
		[DROP_SHORT] = "link down (flap=), deadline 300 ms",
		[DROP_DEAD] = "its only rail is pulled, dead_after 1 s",
		[RESTART] = "closed and opened anew on the address",
		[RESET] = "device reset (restart=)",
	};

	return !strcmp(transport, "sim") && sims[fault] ? sims[fault] : fault_names[fault];
}

/* Of the short form: all kinds where a fault is quick, some where it takes its time. */
static int chosen(const struct cell *c)
{
	if (only && !strstr(fault_names[c->fault], only))
		return 0;
	if (full)
		return 1;
	switch (c->fault) {
	case KILL:
	case RESET: /* which take their time on a simulated network */
		return c->n > 1 && (strcmp(transport, "sim") || c->kind == WRITE ||
				    c->kind == NOTIFY || c->kind == ATOMIC);
	case REVOKED:
		return c->n > 1;
	case STOP_SHORT:
		return (c->n > 1) == (c->kind == WRITE || c->kind == NOTIFY);
	case RESTART:
		return c->n == 1 && c->kind != WRITEV;
	case LINK_DOWN:
	case DROP_SHORT:
		return (c->n > 1) == (c->kind == NOTIFY) && (c->kind == NOTIFY || c->kind == READ);
	default:
		return c->n > 1 && (c->kind == WRITE || c->kind == NOTIFY);
	}
}

/* Of a thousand every other one has data, and a region that is revoked is none of a bare one's. */
static int has_two_forms(const struct cell *c)
{
	return c->kind == NOTIFY && c->n == 1 && c->fault != REVOKED;
}

static void cell(const struct cell *c)
{
	char say[SAY_MAX];

	if (!chosen(c))
		return;
	printf("|   %-6s x %4u%s | ", kind_names[c->kind], c->n, c->with_data ? ", with data" : "");
	fflush(stdout);
	run_cell(c, transport, net && strcmp(transport, RXM), say);
	printf("%s |\n", say);
	fflush(stdout);
}

static void row(enum fault fault, int mapped)
{
	struct cell c = {.fault = fault, .mapped = mapped, .tcp_driver = tcp_driver};
	const char *why = missing(fault);

	if ((why && mapped) || (only_net && !breaks_net(fault)))
		return;
	printf("| %s%s | %s |\n", fault_name(fault),
	       why	? ""
	       : mapped ? ", mapped memory"
			: ", needs the peer's CPU",
	       why ? why : "");
	if (why)
		return;
	for (c.kind = WRITE; c.kind < KINDS; c.kind++) {
		/* Which go by the peer's processor however its memory is reached. */
		if (c.kind == ATOMIC && mapped)
			continue;
		for (c.n = 1; c.n <= N_MAX; c.n += N_MAX - 1)
			for (c.with_data = 0; c.with_data <= has_two_forms(&c); c.with_data++)
				cell(&c);
	}
}

/* A network for those that break one. */
static void open_net(void)
{
	const char *why = NULL;
	int rails = !strcmp(transport, "ib") || !strcmp(transport, RXM);

	if (rails)
		why = rails_open();
	else if (net)
		why = net_open();
	if (why)
		SKIP(why);
	net |= rails;
}

int main(int argc, char **argv)
{
	int mapped;
	enum fault f;

	peer_main(argc, argv);
	options(argc, argv);
	open_net();
	if (tcp_driver)
		pair_try_driver(&(struct urccl_params){.tcp_driver = (uint8_t)tcp_driver});
	canary_start();
	for (mapped = 0; mapped <= !strcmp(transport, "shm"); mapped++)
		for (f = KILL; f < FAULTS; f++)
			row(f, mapped);
	return 0;
}
