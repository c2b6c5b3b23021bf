/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads another process's memory while that process sleeps: 1 MiB in 16 reads, all in flight at
 * once, told apart by their user_data.
 *
 * What to see: the owner's program takes no part after it has said where its memory is. Metadata
 * and advert go through a pipe here; any way to carry bytes will do.
 */
#include <liburccl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEN = 1 << 20, READS = 16, EACH = LEN / READS };

/* What the reader must know, in one message. */
struct invitation {
	uint8_t metadata[URCCL_METADATA_MAX];
	int len;
	struct urccl_advert advert;
};

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "read: %s: %s\n", what, urccl_errmsg());
	exit(1);
}

static uint8_t byte_at(uint32_t i)
{
	return (uint8_t)(i * 31 + i / 256);
}

/* The owner: shares its memory, lets peers in, and sleeps until the reader closes the pipe. */
static int own(int say, int stay)
{
	struct urccl_range range = {.len = LEN, .fd = -1};
	struct invitation inv = {.len = 0};
	struct urccl_region region;
	struct urccl_ring *ring;
	struct urccl *ctx;
	void *memory;
	uint32_t i;

	if (urccl_open(NULL, &ctx) || urccl_ring_open(ctx, NULL, &ring))
		die("cannot open");
	if (urccl_alloc(ctx, LEN, &memory))
		die("cannot allocate");
	for (i = 0; i < LEN; i++)
		((uint8_t *)memory)[i] = byte_at(i);
	range.addr = (uintptr_t)memory;
	if (urccl_register(ctx, &range, 1, URCCL_RIGHT_READ, &region) ||
	    urccl_advertise(ctx, region, 0, LEN, URCCL_RIGHT_READ, 0, &inv.advert))
		die("cannot share memory");
	urccl_prep_accept(urccl_get_sqe(ring));
	urccl_submit(ring);
	inv.len = urccl_metadata(ctx, inv.metadata, sizeof(inv.metadata));
	if (inv.len < 0 || write(say, &inv, sizeof(inv)) != sizeof(inv))
		die("cannot say where we are");
	while (read(stay, &i, sizeof(i)) > 0)
		;
	urccl_close(ctx);
	return 0;
}

/* Takes one completion: exits if it is a failure. Returns its user_data; *handle has its handle. */
static uint64_t take(struct urccl *ctx, struct urccl_ring *ring, uint64_t *handle)
{
	struct urccl_cqe *cqe;
	uint64_t data;
	char why[256];

	if (urccl_wait(ring, &cqe, NULL) < 0)
		die("cannot wait");
	if (cqe->res < 0) {
		urccl_explain(ctx, cqe, why, sizeof(why));
		fprintf(stderr, "read: %s\n", why);
		exit(1);
	}
	data = cqe->user_data;
	if (handle)
		*handle = cqe->handle;
	urccl_cqe_seen(ring, cqe);
	return data;
}

static void read_all(struct urccl *ctx, const struct invitation *inv)
{
	static uint8_t copy[LEN];
	struct urccl_range range = {(uintptr_t)copy, LEN, 0, -1, 0};
	struct urccl_region region;
	struct urccl_remote remote;
	struct urccl_ring *ring;
	struct urccl_sqe *sqe;
	uint64_t peer;
	uint32_t i;

	if (urccl_ring_open(ctx, NULL, &ring) || urccl_register(ctx, &range, 1, 0, &region))
		die("cannot prepare");
	urccl_prep_connect(urccl_get_sqe(ring), inv->metadata, (uint32_t)inv->len);
	urccl_submit(ring);
	take(ctx, ring, &peer);
	if (urccl_import(ctx, (struct urccl_peer){(uint32_t)peer}, &inv->advert, 1, &remote))
		die("cannot import");
	for (i = 0; i < READS; i++) {
		sqe = urccl_get_sqe(ring);
		urccl_prep_read(sqe, remote, copy + i * EACH, EACH, i * EACH);
		urccl_sqe_set_data64(sqe, i);
	}
	urccl_submit(ring);
	printf("the reads ended in this order:");
	for (i = 0; i < READS; i++)
		printf(" %lu", (unsigned long)take(ctx, ring, NULL));
	for (i = 0; i < LEN; i++)
		if (copy[i] != byte_at(i)) {
			fprintf(stderr, "\nread: byte %u is wrong\n", i);
			exit(1);
		}
	printf("\n%u bytes read, all right\n", LEN);
}

int main(void)
{
	struct invitation inv;
	int say[2], stay[2], status;
	struct urccl *ctx;
	pid_t child;

	/* A context does not live through fork(): each process opens its own afterwards. */
	if (pipe(say) || pipe(stay) || (child = fork()) < 0)
		return 1;
	if (!child) {
		close(say[0]);
		close(stay[1]);
		return own(say[1], stay[0]);
	}
	close(say[1]);
	if (read(say[0], &inv, sizeof(inv)) != sizeof(inv))
		return 1;
	if (urccl_open(NULL, &ctx))
		die("cannot open");
	read_all(ctx, &inv);
	urccl_close(ctx);
	close(stay[1]);
	waitpid(child, &status, 0);
	return status != 0;
}
