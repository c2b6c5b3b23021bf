/* SPDX-License-Identifier: Apache-2.0 */
/* faults --transport=sim|shm|tcp|ib [--driver=io_uring] [--full] [--only=FAULT]: runs the matrix's
 * part for a transport and prints it. Without --full a choice of it, in seconds. */
#include "faults.h"

static const char *const kind_names[KINDS] = {"write", "read", "writev", "paged", "notify"};
static const char *const fault_names[FAULTS] = {
	[KILL] = "SIGKILL",
	[STOP_SHORT] = "SIGSTOP, deadline 300 ms",
	[STOP_DEAD] = "SIGSTOP, dead_after 1 s",
	[DROP_SHORT] = "packets dropped, deadline 300 ms",
	[DROP_DEAD] = "packets dropped, dead_after 1 s",
	[LINK_DOWN] = "our link down",
	[REVOKED] = "region revoked",
	[RESTART] = "restarted on the address",
};

static const char *transport = "tcp", *only, *no_net;
static uint32_t tcp_driver;
static int full;

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
		else
			CHECK(!"an option that this test knows");
	}
}

/* NULL, or why there are no such cells. */
static const char *missing(enum fault fault)
{
	int needs_net = fault == DROP_SHORT || fault == DROP_DEAD || fault == LINK_DOWN;

	if (!strcmp(transport, "sim")) {
		if (fault == STOP_DEAD)
			return "n/a: the control connection is not simulated";
		if (fault == LINK_DOWN)
			return "n/a: its links have no interface of ours";
		return NULL;
	}
	if (!strcmp(transport, "shm") && needs_net)
		return "n/a: no network between them";
	return needs_net ? no_net : NULL;
}

/* What a simulated network calls it. */
static const char *fault_name(enum fault fault)
{
	static const char *const sims[FAULTS] = {
		[KILL] = "device reset (restart=)",
		[STOP_SHORT] = "urccl_sim_freeze(), deadline 300 ms",
		[DROP_SHORT] = "link down (flap=), deadline 300 ms",
		[DROP_DEAD] = "link down (flap=), retries over",
		[RESTART] = "closed and opened anew on the address",
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
		if (!strcmp(transport, "sim")) /* which waits for it */
			return c->n > 1 && (c->kind == WRITE || c->kind == NOTIFY);
		return c->n > 1;
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
		return c->n > 1 && c->kind == WRITE;
	}
}

static void row(enum fault fault, int mapped)
{
	struct cell c = {.fault = fault, .mapped = mapped, .tcp_driver = tcp_driver};
	const char *why = missing(fault);
	char say[SAY_MAX];

	if (why && mapped)
		return;
	printf("| %s%s | %s |\n", fault_name(fault),
	       why	? ""
	       : mapped ? ", mapped memory"
			: ", needs the peer's CPU",
	       why ? why : "");
	if (why)
		return;
	for (c.kind = WRITE; c.kind < KINDS; c.kind++)
		for (c.n = 1; c.n <= N_MAX; c.n += N_MAX - 1) {
			if (!chosen(&c))
				continue;
			printf("|   %-6s x %4u | ", kind_names[c.kind], c.n);
			fflush(stdout);
			run_cell(&c, transport, !no_net, say);
			printf("%s |\n", say);
			fflush(stdout);
		}
}

static const char *open_net(void)
{
	const char *why;

	if (!strcmp(transport, "tcp"))
		return net_open();
	if (strcmp(transport, "ib"))
		return "n/a";
	why = rails_open();
	if (why)
		SKIP(why);
	return NULL;
}

int main(int argc, char **argv)
{
	int mapped;
	enum fault f;

	peer_main(argc, argv);
	options(argc, argv);
	no_net = open_net();
	if (no_net && !strcmp(transport, "tcp"))
		printf("not run: cells that need a network of their own: %s\n", no_net);
	if (tcp_driver)
		pair_try_driver(&(struct urccl_params){.tcp_driver = (uint8_t)tcp_driver});
	canary_start();
	for (mapped = 0; mapped <= !strcmp(transport, "shm"); mapped++)
		for (f = KILL; f < FAULTS; f++)
			row(f, mapped);
	return 0;
}
