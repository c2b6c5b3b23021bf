/* SPDX-License-Identifier: Apache-2.0 */
/* Which transports may be used: what is named must open and what has a "?" need not, of both opening
 * says why not; a transport with a "!" is the only one towards whom it reaches, and where it does
 * not come up connecting fails with its reason, on either side; bounce=no and enforce=owner keep
 * their word. */
#include <sys/stat.h>
#include <unistd.h>
#include "meet.h"

static struct pair p;

static struct urccl_params with(const char *transport)
{
	struct urccl_params q = p.params;

	q.transport = transport;
	q.sim_network = strstr(transport, "sim") ? p.sim : NULL;
	return q;
}

static void open_with(struct side *s, const struct urccl_params *q)
{
	struct pair other = p;

	other.params = *q;
	side_open(&other, s);
}

static void refused(const struct urccl_params *q, int err, const char *words)
{
	struct urccl *ctx;

	CHECK_EQ(urccl_open(q, &ctx), err);
	CHECK_SAYS(urccl_errmsg(), words);
}

/* socket_dir that is not there keeps shm from opening on any machine. */
static void opening(void)
{
	struct urccl_params q = with("shm,tcp");
	struct urccl *ctx;

	q.socket_dir = "/no/such/dir";
	refused(&q, -ENOENT, "/no/such/dir");
	q.transport = "shm!,tcp";
	refused(&q, -ENOENT, "/no/such/dir");
	q.transport = "shm?";
	refused(&q, -ENOENT, "no transport opened: shm: ");
	q.transport = "ipc?,shm?,nccl";
	refused(&q, -EOPNOTSUPP, "transport nccl");
	q.transport = "ipc?,shm?";
	refused(&q, -ENOENT, "ipc: this version does not carry out transport ipc");
	refused(&q, -ENOENT, "/no/such/dir");
	/* Also where there is no libfabric. */
	q.transport = "fabric:no_such_provider";
	CHECK(urccl_open(&q, &ctx) < 0);
	CHECK(strstr(urccl_errmsg(), "libfabric"));
	q.transport = "shm?,tcp";
	CHECK_EQ(urccl_open(&q, &ctx), 0);
	urccl_close(ctx);
}

static struct urccl_cqe dial(struct side *from, struct side *to)
{
	uint8_t blob[URCCL_METADATA_MAX];
	int len = urccl_metadata(to->ctx, blob, sizeof(blob));

	CHECK_GE(len, 1);
	return side_dialled(from, to, blob, (uint32_t)len, 20000000);
}

static uint32_t transport_to(struct side *s, uint32_t peer)
{
	struct urccl_peer_info info = {.size = sizeof(info)};

	CHECK_EQ(urccl_get_peer_info(s->ctx, (struct urccl_peer){peer}, &info), 0);
	return info.transport;
}

/* How it ends: by which transport, or not at all with these words. */
static void meets_as(const struct urccl_params *qa, const struct urccl_params *qb,
		     uint32_t transport, const char *words)
{
	struct side a, b;
	struct urccl_cqe cqe;

	open_with(&a, qa);
	open_with(&b, qb);
	side_accept(&b, 1);
	cqe = dial(&a, &b);
	if (words) {
		CHECK_EQ(cqe.res, -EHOSTUNREACH);
		check_sentence(&a, &cqe, words);
	} else {
		CHECK_EQ(cqe.res, 0);
		CHECK_EQ(transport_to(&a, (uint32_t)cqe.handle), transport);
	}
	side_close(&a);
	side_close(&b);
}

/* Both have what is tested and one other; the rest is in a's and b's lists. */
static void meets(const char *as, const char *bs, uint32_t transport, const char *words)
{
	struct urccl_params qa = with(as), qb = with(bs);

	/* Sockets in a folder that the other side does not have: shm cannot come up. */
	if (words && strstr(bs, "shm"))
		qb.socket_dir = "/tmp";
	meets_as(&qa, &qb, transport, words);
}

static void required(void)
{
	meets("shm,tcp", "tcp,shm", URCCL_TRANSPORT_SHM, NULL);
	meets("shm!,tcp", "tcp,shm", URCCL_TRANSPORT_SHM, NULL);
	meets("tcp!,shm", "shm,tcp", URCCL_TRANSPORT_TCP, NULL);
	/* The side that is dialled has its say. */
	meets("shm,tcp", "shm,tcp!", URCCL_TRANSPORT_TCP, NULL);
	meets("tcp,shm", "shm!,tcp", URCCL_TRANSPORT_SHM, NULL);
	/* What does not come up is not replaced. */
	meets("shm!,tcp", "shm,tcp", 0, "did not come up: shm: ");
	meets("shm!,tcp", "tcp", 0, "where shm reaches, which the policy requires");
	meets("tcp", "shm!,tcp", 0, "the peer's policy requires shm with this context");
}

/* Each rail that was tried has its own reason: here those of a network that the peer is not on. */
static void rails(void)
{
	struct urccl_params qa = p.params, qb = p.params;
	struct urccl_sim *here, *there;
	struct urccl_cqe cqe;
	struct side a, b;

	CHECK_EQ(urccl_sim_open("rails=2", &here), 0);
	CHECK_EQ(urccl_sim_open("rails=2", &there), 0);
	qa.sim_network = here;
	qb.sim_network = there;
	open_with(&a, &qa);
	open_with(&b, &qb);
	cqe = dial(&a, &b);
	CHECK_EQ(cqe.res, -EHOSTUNREACH);
	check_sentence(&a, &cqe, "none of the allowed transports reaches 127.0.0.1:");
	check_sentence(&a, &cqe, "sim rail 0: ");
	check_sentence(&a, &cqe, "sim rail 1: ");
	side_close(&a);
	side_close(&b);
	CHECK_EQ(urccl_sim_close(here), 0);
	CHECK_EQ(urccl_sim_close(there), 0);
}

/* enforce=owner and bounce=no, at one end or one at each, leave shm nothing to move bytes by:
 * it is no way, whoever dials, and a context that has both, and no other transport or requires
 * shm, does not open. */
static void no_way_left(void)
{
	struct urccl_params strict = with("shm"), other = with("shm,tcp");
	struct urccl_device d = {.size = sizeof(d)};
	struct urccl *ctx;

	strict.enforce = URCCL_ENFORCE_OWNER;
	strict.bounce = URCCL_ALLOW_NO;
	refused(&strict, -EINVAL, "enforce=owner");
	refused(&strict, -EINVAL, "bounce=no");
	strict.transport = "shm!,tcp";
	refused(&strict, -EINVAL, "transport shm can move nothing");
	strict.transport = "shm,tcp";
	CHECK_EQ(urccl_open(&strict, &ctx), 0);
	CHECK_EQ(urccl_devices(ctx, 0, &d), 0);
	CHECK_EQ(d.transport, URCCL_TRANSPORT_TCP);
	CHECK_EQ(urccl_devices(ctx, 2, &d), 0); /* behind sim */
	CHECK_EQ(d.transport, URCCL_TRANSPORT_SHM);
	CHECK_EQ(d.state, URCCL_DEVICE_FAILED);
	CHECK(strstr(d.reason, "enforce=owner"));
	urccl_close(ctx);
	meets_as(&strict, &other, URCCL_TRANSPORT_TCP, NULL);
	meets_as(&other, &strict, URCCL_TRANSPORT_TCP, NULL);
	/* One of the two leaves it a way. */
	strict.bounce = URCCL_ALLOW_DEFAULT;
	meets_as(&strict, &other, URCCL_TRANSPORT_SHM, NULL);
	/* Each takes one. */
	other.bounce = URCCL_ALLOW_NO;
	meets_as(&strict, &other, URCCL_TRANSPORT_TCP, NULL);
	meets_as(&other, &strict, URCCL_TRANSPORT_TCP, NULL);
	strict.transport = "shm";
	meets_as(&strict, &other, 0, "shm: EACCES");
	meets_as(&other, &strict, 0, "bounce=no");
	other.transport = "shm!,tcp";
	meets_as(&other, &strict, 0, "did not come up: shm: EACCES");
}

static struct urccl_cqe write_to(struct target *t, uint8_t *local, uint64_t len)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t->remote, local, len, 0);
	return pair_run(&p, &p.a, sqe);
}

#define BOUNCED (URCCL_PATH_BOUNCE_LOCAL | URCCL_PATH_BOUNCE_REMOTE)

/* Memory that is mapped moves, other memory does not, on shm; nothing changes elsewhere. */
static void no_bounce(int shared)
{
	int is_shm = p.transport == URCCL_TRANSPORT_SHM;
	static uint8_t local[4096];
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	struct target t;

	pattern_fill(local, sizeof(local), 0, 1);
	target_open(&p, &t, sizeof(local), shared);
	side_register(&p.a, local, sizeof(local), 0);
	cqe = write_to(&t, local, sizeof(local));
	if (is_shm && !shared) {
		CHECK_EQ(cqe.res, -EACCES);
		check_sentence(&p.a, &cqe, "bounce=no");
		sqe = side_sqe(&p.a);
		urccl_prep_read(sqe, t.remote, local, sizeof(local), 0);
		CHECK_EQ(pair_run(&p, &p.a, sqe).res, -EACCES);
		CHECK_EQ(t.bytes[0], 0);
	} else {
		CHECK_EQ(cqe.res, (int64_t)sizeof(local));
		CHECK_EQ(cqe.path & BOUNCED, 0);
		CHECK(pattern_holds(t.bytes, sizeof(local), 0, 1));
	}
	target_close(&p, &t);
}

static uint32_t enforced(const struct target *t)
{
	struct urccl_remote_info info = {.size = sizeof(info)};

	CHECK_EQ(urccl_get_remote_info(p.a.ctx, t->remote, &info), 0);
	CHECK_EQ(info.len, t->len);
	CHECK_EQ(info.peer.id, p.a.peer.id);
	CHECK_EQ(info.rights, t->advert.rights);
	return info.enforced;
}

static uint32_t mappable(const struct target *t)
{
	struct urccl_region_info info = {.size = sizeof(info)};

	CHECK_EQ(urccl_get_region_info(p.b.ctx, t->region, &info), 0);
	return info.mappable;
}

/* Even memory that could be mapped goes by the owner's hand. */
static void by_owner(enum urccl_enforce a, enum urccl_enforce b)
{
	int is_shm = p.transport == URCCL_TRANSPORT_SHM;
	uint32_t bounced = is_shm && (a || b) ? BOUNCED : 0;
	struct urccl_params common = p.params;
	static uint8_t local[4096];
	struct urccl_cqe cqe;
	struct target t;

	p.params.enforce = (uint8_t)a;
	side_open(&p, &p.a);
	p.params.enforce = (uint8_t)b;
	side_open(&p, &p.b);
	p.params = common;
	pair_open(&p);
	pattern_fill(local, sizeof(local), 0, 2);
	target_open(&p, &t, sizeof(local), 1);
	CHECK_EQ(enforced(&t), URCCL_ENFORCED_UNKNOWN);
	side_register(&p.a, local, sizeof(local), 0);
	cqe = write_to(&t, local, sizeof(local));
	CHECK_EQ(enforced(&t),
		 is_shm && !bounced ? URCCL_ENFORCED_BY_IMPORTER : URCCL_ENFORCED_BY_OWNER);
	CHECK_EQ(mappable(&t), !b);
	CHECK_EQ(cqe.res, (int64_t)sizeof(local));
	CHECK_EQ(cqe.path & BOUNCED, bounced);
	CHECK(pattern_holds(t.bytes, sizeof(local), 0, 2));
	target_close(&p, &t);
	side_close(&p.a);
	side_close(&p.b);
}

int main(int argc, char **argv)
{
	pair_options(&p, argc, argv);
	pair_sim(&p);
	if (p.transport == URCCL_TRANSPORT_TCP) {
		opening();
		required();
		no_way_left();
	}
	if (p.transport == URCCL_TRANSPORT_SIM)
		rails();
	by_owner(URCCL_ENFORCE_ANY, URCCL_ENFORCE_ANY);
	by_owner(URCCL_ENFORCE_OWNER, URCCL_ENFORCE_ANY);
	by_owner(URCCL_ENFORCE_ANY, URCCL_ENFORCE_OWNER);
	p.params.bounce = URCCL_ALLOW_NO;
	pair_open(&p);
	no_bounce(1);
	no_bounce(0);
	pair_close(&p);
	return 0;
}
