/* SPDX-License-Identifier: Apache-2.0 */
/* The program's log is told what happens, each line at its level and none above what was asked for,
 * from the control thread and from open and close alone; nobody is told anything by default. */
#include <pthread.h>
#include <unistd.h>
#include "meet.h"

#define LINES 256

/* Of one context. */
struct heard {
	pthread_mutex_t lock;
	int n, highest;
	char line[LINES][300];
	int level[LINES];
	pthread_t opener;
	int strange; /* lines of a thread that is neither the opener's nor the control thread */
};

static struct pair p;

static void hear(void *arg, int level, const char *text)
{
	struct heard *h = arg;
	char name[32] = "";

	pthread_getname_np(pthread_self(), name, sizeof(name));
	pthread_mutex_lock(&h->lock);
	CHECK(h->n < LINES);
	CHECK(!strchr(text, '\n'));
	snprintf(h->line[h->n], sizeof(h->line[0]), "%s", text);
	h->level[h->n++] = level;
	if (level > h->highest)
		h->highest = level;
	h->strange += !pthread_equal(pthread_self(), h->opener) && strcmp(name, "urccl-control");
	pthread_mutex_unlock(&h->lock);
}

/* Lines at this level that have both words. */
static int lines(struct heard *h, int level, const char *a, const char *b)
{
	int i, n = 0;

	pthread_mutex_lock(&h->lock);
	for (i = 0; i < h->n; i++)
		n += h->level[i] == level && strstr(h->line[i], a) && strstr(h->line[i], b);
	pthread_mutex_unlock(&h->lock);
	return n;
}

static void told(struct heard *h, int level, const char *a, const char *b)
{
	int i;

	if (lines(h, level, a, b) == 1)
		return;
	for (i = 0; i < h->n; i++)
		fprintf(stderr, "%d: %s\n", h->level[i], h->line[i]);
	fprintf(stderr, "not once at level %d: \"%s\" with \"%s\"\n", level, a, b);
	CHECK(!"a line of the log");
}

static void open_heard(struct side *s, struct heard *h, enum urccl_log_level level)
{
	memset(h, 0, sizeof(*h));
	pthread_mutex_init(&h->lock, NULL);
	h->opener = pthread_self();
	p.params.log = hear;
	p.params.log_arg = h;
	p.params.log_level = (uint8_t)level;
	side_open(&p, s);
}

/* Two meet; one closes in order, the other hears that it is gone. */
static void meeting(const char *name)
{
	static struct heard ha, hb;

	open_heard(&p.a, &ha, URCCL_LOG_INFO);
	told(&ha, URCCL_LOG_INFO, "open: ", name);
	open_heard(&p.b, &hb, URCCL_LOG_INFO);
	pair_open(&p);
	told(&ha, URCCL_LOG_INFO, "is up over", name);
	told(&ha, URCCL_LOG_INFO, "is up over", "dialled");
	told(&hb, URCCL_LOG_INFO, "is up over", "accepted");
	side_close(&p.a);
	told(&ha, URCCL_LOG_INFO, "is gone", "being closed");
	told(&ha, URCCL_LOG_INFO, "closed: ", "incarnation");
	CHECK_EQ(side_event(&p.b, NULL, URCCL_KIND_LOST, NULL).res, 0);
	side_close(&p.b);
	told(&hb, URCCL_LOG_INFO, "is gone", "closed the connection");
	CHECK_EQ(ha.highest, URCCL_LOG_INFO);
	CHECK_EQ(ha.strange + hb.strange, 0);
}

/* What is refused, and what is left out; at the default level, and at none. */
static void refusing(void)
{
	static struct heard ha, hb;
	uint8_t blob[URCCL_METADATA_MAX];
	struct urccl_params common = p.params;
	struct urccl_cqe cqe;
	int len;

	p.params.socket_dir = "/no/such/dir";
	p.params.transport = "shm?,tcp";
	p.params.sim_network = NULL;
	open_heard(&p.a, &ha, URCCL_LOG_DEFAULT);
	told(&ha, URCCL_LOG_WARN, "transport shm is left out", "/no/such/dir");
	side_accept(&p.a, 1);
	p.params.transport = "shm";
	p.params.socket_dir = NULL;
	open_heard(&p.b, &hb, URCCL_LOG_NONE);
	len = urccl_metadata(p.a.ctx, blob, sizeof(blob));
	CHECK_GE(len, 1);
	cqe = side_dialled(&p.b, &p.a, blob, (uint32_t)len, 20000000);
	CHECK_EQ(cqe.res, -EHOSTUNREACH);
	side_close(&p.b);
	side_close(&p.a);
	told(&ha, URCCL_LOG_WARN, "refused 127.0.0.1:", "no transport is left for it");
	CHECK_EQ(ha.n, 2);
	CHECK_EQ(hb.n, 0);
	p.params = common;
}

int main(int argc, char **argv)
{
	static char transport[16];

	pair_options(&p, argc, argv);
	snprintf(transport, sizeof(transport), "%s", p.name);
	pair_sim(&p);
	refusing();
	meeting(transport);
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
