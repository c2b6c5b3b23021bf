/* SPDX-License-Identifier: Apache-2.0 */
/* What a context has and would do: every transport is listed once with why it is used or not, and
 * the plan says the way to anybody, to a peer, and to and from a region. */
#include <sys/resource.h>
#include <sys/wait.h>
#include "meet.h"

static struct pair p;
static struct target t, ordinary;

static struct urccl_device device(struct urccl *ctx, uint32_t i, int res)
{
	struct urccl_device d = {.size = sizeof(d)};

	CHECK_EQ(urccl_devices(ctx, i, &d), res);
	return d;
}

/* Those in use first; the state of the transport, with a word of its reason. */
static uint32_t count(struct urccl *ctx, uint32_t transport, uint32_t state, const char *word)
{
	uint32_t i, seen = 0, found = 0, closed = 0;
	struct urccl_device d;

	for (i = 0; i < URCCL_TRANSPORT_TCPX; i++) {
		d = device(ctx, i, 0);
		CHECK(*d.name && *d.reason && d.state);
		CHECK(!(seen & 1u << d.transport));
		seen |= 1u << d.transport;
		closed |= d.state != URCCL_DEVICE_OPEN;
		CHECK(d.state != URCCL_DEVICE_OPEN || !closed);
		CHECK_EQ(d.error != 0, d.state == URCCL_DEVICE_FAILED);
		if (d.transport != transport)
			continue;
		CHECK_SAYS(d.reason, word);
		found += d.state == state;
	}
	device(ctx, i, -ENOENT);
	CHECK(strstr(urccl_errmsg(), "no device"));
	return found;
}

static void lists(void)
{
	struct urccl_device d = {.size = 7};

	CHECK_EQ(device(p.a.ctx, 0, 0).transport, p.transport);
	CHECK_EQ(count(p.a.ctx, p.transport, URCCL_DEVICE_OPEN, ""), 1);
	CHECK_EQ(count(p.a.ctx, URCCL_TRANSPORT_NCCL, URCCL_DEVICE_NOT_CARRIED, "carry"), 1);
	if (p.transport != URCCL_TRANSPORT_TCP)
		CHECK_EQ(count(p.a.ctx, URCCL_TRANSPORT_TCP, URCCL_DEVICE_NOT_ASKED, "transport"),
			 1);
	CHECK_EQ(urccl_devices(p.a.ctx, 0, &d), -EINVAL);
	CHECK(strstr(urccl_errmsg(), "urccl_device"));
	CHECK_EQ(urccl_devices(p.a.ctx, 0, NULL), -EINVAL);
	CHECK_EQ(urccl_devices(NULL, 0, &d), -EINVAL);
}

static void plan_has(struct urccl_peer peer, struct urccl_region region, struct side *s,
		     const char *word)
{
	char text[16384], less[8];
	int n = urccl_plan(s->ctx, peer, region, text, sizeof(text));

	CHECK_GE(n, 20);
	CHECK_EQ(strlen(text), n);
	CHECK(word);
	CHECK_SAYS(text, word);
	CHECK_EQ(text[n - 1], '\n');
	CHECK_EQ(urccl_plan(s->ctx, peer, region, less, sizeof(less)), n);
	CHECK(!strncmp(less, text, sizeof(less) - 1) && !less[sizeof(less) - 1]);
	CHECK_EQ(urccl_plan(s->ctx, peer, region, NULL, 0), n);
}

static void plans(void)
{
	struct urccl_region none = {0};
	struct urccl_peer any = {0};
	char text[8];

	plan_has(any, none, &p.a, p.name);
	plan_has(p.a.peer, none, &p.a, p.name);
	plan_has(p.b.peer, t.region, &p.b, "map it");
	plan_has(any, ordinary.region, &p.b, "ordinary memory");
	CHECK_EQ(urccl_plan(p.a.ctx, (struct urccl_peer){NO_PEER}, none, text, 8), -ESTALE);
	CHECK(strstr(urccl_errmsg(), "peer handle"));
	CHECK_EQ(urccl_plan(p.a.ctx, any, (struct urccl_region){NO_REGION}, text, 8), -ESTALE);
	CHECK(strstr(urccl_errmsg(), "region handle"));
	CHECK_EQ(urccl_plan(p.a.ctx, any, none, NULL, 8), -EINVAL);
	CHECK_EQ(urccl_plan(NULL, any, none, text, 8), -EINVAL);
}

/* The way to a peer that is gone is none. */
static void lost(void)
{
	struct urccl_cqe cqe;

	side_close(&p.b);
	do
		side_take(&p.a, NULL, &cqe, NULL);
	while (urccl_cqe_kind(&cqe) != URCCL_KIND_LOST);
	plan_has(p.a.peer, (struct urccl_region){0}, &p.a, "lost: no way");
}

/* One that may be used and does not open says why. */
static int fails(void)
{
	struct rlimit limit = {4096, 4096};
	struct urccl_params params = p.params;
	pid_t child = fork();
	struct urccl *ctx;
	int status;

	if (!child) {
		params.transport = "shm?,tcp";
		CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
		CHECK_EQ(urccl_open(&params, &ctx), 0);
		CHECK_EQ(device(ctx, 0, 0).transport, URCCL_TRANSPORT_TCP);
		CHECK_EQ(count(ctx, URCCL_TRANSPORT_SHM, URCCL_DEVICE_FAILED, "RLIMIT_FSIZE"), 1);
		urccl_close(ctx);
		test_end(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	pair_options(&p, argc, argv);
	CHECK(fails());
	pair_open(&p);
	target_open(&p, &t, 4096, 1);
	target_open(&p, &ordinary, 4096, 0);
	lists();
	plans();
	target_close(&p, &t);
	target_close(&p, &ordinary);
	lost();
	side_close(&p.a);
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
