/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches of writes to another process, each followed by a notification that says what came:
 *	notify [BATCHES]
 *
 * What to see: everything is submitted at once. FENCE and a group put a notification behind the
 * writes of its own batch and of no other; its completion stands for theirs, which are skipped.
 * The receiver watches whom it accepts: when it hears of a batch, every byte of it is there.
 */
#include <liburccl.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCHES_MAX = 16, PARTS = 4, PART = 64 << 10, BATCH = PARTS * PART };

/* What the writer must know, in one message. */
struct invitation {
	uint8_t metadata[URCCL_METADATA_MAX];
	int len;
	struct urccl_advert advert;
};

static struct urccl *ctx;
static struct urccl_ring *ring;
static uint8_t memory[BATCHES_MAX * BATCH]; /* the receiver's, and what the writer writes */

static _Noreturn void die(const char *what, const char *why)
{
	fprintf(stderr, "notify: %s: %s\n", what, why);
	exit(1);
}

static uint8_t byte_at(uint32_t i)
{
	return (uint8_t)(i * 29 + i / 256 + 1);
}

/* Opens this process's context and ring, and registers its memory. */
static struct urccl_region begin(uint32_t rights)
{
	struct urccl_range range = {(uintptr_t)memory, sizeof(memory), 0, -1, 0};
	struct urccl_region region;

	if (urccl_open(NULL, &ctx) || urccl_ring_open(ctx, NULL, &ring) ||
	    urccl_register(ctx, &range, 1, rights, &region))
		die("cannot open", urccl_errmsg());
	return region;
}

/* The next completion, which must be a success. It stays on the ring until urccl_cqe_seen(). */
static struct urccl_cqe *next(void)
{
	struct urccl_wait_args args = {.size = sizeof(args), .timeout_ns = 10000000000};
	struct urccl_cqe *cqe;
	char why[256];

	if (urccl_wait(ring, &cqe, &args) < 0)
		die("waiting", "nothing came in 10 s");
	if (cqe->res < 0) {
		urccl_explain(ctx, cqe, why, sizeof(why));
		die("an entry failed", why);
	}
	return cqe;
}

/* Prepares the writes of a batch, in a group of their own, and the notification behind them. */
static void prepare(struct urccl_peer peer, struct urccl_remote remote, uint32_t batch)
{
	static char texts[BATCHES_MAX][64]; /* the library's until the notification's CQE */
	uint32_t i, off = batch * BATCH, group = batch + 1;
	struct urccl_sqe *sqe;
	int len;

	for (i = 0; i < PARTS; i++, off += PART) {
		sqe = urccl_get_sqe(ring);
		urccl_prep_write(sqe, remote, memory + off, PART, off);
		urccl_sqe_set_group(sqe, group);
		urccl_sqe_add_flags(sqe, URCCL_SQE_SKIP_SUCCESS);
	}
	len = snprintf(texts[batch], sizeof(texts[batch]), "%d bytes in %d writes", BATCH, PARTS);
	sqe = urccl_get_sqe(ring);
	urccl_prep_notify(sqe, peer, batch, texts[batch], (uint32_t)len);
	urccl_sqe_set_group(sqe, group);
	urccl_sqe_add_flags(sqe, URCCL_SQE_FENCE);
}

static int send_batches(int from, uint32_t batches)
{
	struct urccl_remote remote;
	struct urccl_cqe *cqe;
	struct invitation inv;
	struct urccl_peer peer;
	uint32_t i;

	if (read(from, &inv, sizeof(inv)) != sizeof(inv))
		return 1;
	begin(0);
	for (i = 0; i < sizeof(memory); i++)
		memory[i] = byte_at(i);
	urccl_prep_connect(urccl_get_sqe(ring), inv.metadata, (uint32_t)inv.len);
	urccl_submit(ring);
	cqe = next();
	peer.id = (uint32_t)cqe->handle;
	urccl_cqe_seen(ring, cqe);
	if (urccl_import(ctx, peer, &inv.advert, 1, &remote))
		die("cannot import", urccl_errmsg());
	for (i = 0; i < batches; i++)
		prepare(peer, remote, i);
	urccl_submit(ring);
	for (i = 0; i < batches; i++) /* a write has a completion only if it fails */
		urccl_cqe_seen(ring, next());
	urccl_close(ctx);
	return 0;
}

/* Is all of the batch there? */
static void look(uint64_t batch)
{
	uint64_t i;

	if (batch >= BATCHES_MAX)
		die("receiver", "a tag that is none");
	for (i = batch * BATCH; i < (batch + 1) * BATCH; i++)
		if (memory[i] != byte_at((uint32_t)i))
			die("receiver", "a byte is wrong");
}

/* Takes events until the writer is gone. Returns how many batches it told of. */
static uint32_t receive(void)
{
	uint32_t heard = 0, gone = 0;
	struct urccl_cqe *cqe;

	while (!gone) {
		cqe = next();
		gone = urccl_cqe_kind(cqe) == URCCL_KIND_LOST;
		if (urccl_cqe_kind(cqe) == URCCL_KIND_NOTE) {
			look(cqe->tag);
			printf("tag %lu says \"%.*s\": they are there\n", (unsigned long)cqe->tag,
			       (int)cqe->res, (const char *)urccl_cqe_note(ring, cqe));
			heard++;
		}
		urccl_cqe_seen(ring, cqe);
	}
	return heard;
}

int main(int argc, char **argv)
{
	struct invitation inv = {.len = 0};
	struct urccl_region region;
	struct urccl_sqe *sqe;
	unsigned long batches = 3;
	int to[2], status;
	char *end = "";

	if (argc > 1)
		batches = strtoul(argv[1], &end, 10);
	if (argc > 2 || *end || batches < 1 || batches > BATCHES_MAX) {
		fprintf(stderr, "usage: notify [BATCHES], 1 to %d of them\n", BATCHES_MAX);
		return 2;
	}
	/* A context does not live through fork(): each process opens its own afterwards. */
	if (pipe(to))
		return 1;
	if (!fork()) {
		close(to[1]);
		return send_batches(to[0], (uint32_t)batches);
	}
	region = begin(URCCL_RIGHT_WRITE);
	if (urccl_advertise(ctx, region, 0, sizeof(memory), URCCL_RIGHT_WRITE, 0, &inv.advert))
		die("cannot share memory", urccl_errmsg());
	sqe = urccl_get_sqe(ring);
	urccl_prep_accept(sqe);
	urccl_sqe_add_flags(sqe, URCCL_SQE_WATCH);
	urccl_submit(ring);
	inv.len = urccl_metadata(ctx, inv.metadata, sizeof(inv.metadata));
	if (inv.len < 0 || write(to[1], &inv, sizeof(inv)) != sizeof(inv))
		die("receiver", "cannot say where we are");
	if (receive() != batches)
		die("receiver", "a batch is missing");
	urccl_close(ctx);
	return wait(&status) < 0 || status;
}
