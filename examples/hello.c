/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One write, in one process: a context owns 64 bytes, another one writes a greeting into them.
 *
 * What to see: a region and its advert (the 64 bytes that let a peer reach memory), CONNECT and
 * ACCEPT as entries like any other, and a write whose notification arrives after its bytes. Two
 * machines differ only in how the metadata and the advert travel: here by two variables.
 */
#include <liburccl.h>

#include <stdio.h>
#include <string.h>

static const char greeting[] = "hello, other memory";

/* One side: a context and a ring. */
struct side {
	struct urccl *ctx;
	struct urccl_ring *ring;
};

static int side_open(struct side *s)
{
	int err = urccl_open(NULL, &s->ctx);

	if (!err)
		err = urccl_ring_open(s->ctx, NULL, &s->ring);
	if (err)
		fprintf(stderr, "hello: %s\n", urccl_errmsg());
	return err;
}

static void side_close(struct side *s)
{
	urccl_ring_close(s->ring);
	urccl_close(s->ctx);
}

/* The next completion, which must be a success. It stays on the ring until urccl_cqe_seen(). */
static struct urccl_cqe *next(struct side *s, const char *what)
{
	struct urccl_wait_args args = {.size = sizeof(args), .timeout_ns = 5000000000};
	struct urccl_cqe *cqe = NULL;
	char why[256];

	if (urccl_wait(s->ring, &cqe, &args) < 0) {
		fprintf(stderr, "hello: %s: nothing came in 5 s\n", what);
		return NULL;
	}
	if (cqe->res < 0) {
		urccl_explain(s->ctx, cqe, why, sizeof(why));
		fprintf(stderr, "hello: %s: %s\n", what, why);
		return NULL;
	}
	return cqe;
}

/* The owner lets peers in and, by WATCH, wants to hear their notifications. */
static void owner_listen(struct side *owner)
{
	struct urccl_sqe *sqe = urccl_get_sqe(owner->ring);

	urccl_prep_accept(sqe);
	urccl_sqe_add_flags(sqe, URCCL_SQE_WATCH);
	urccl_submit(owner->ring);
}

static int write_greeting(struct side *writer, const void *metadata, uint32_t len,
			  const struct urccl_advert *advert)
{
	struct urccl_remote remote;
	struct urccl_region region;
	struct urccl_range range = {(uintptr_t)greeting, sizeof(greeting), 0, -1, 0};
	struct urccl_cqe *cqe;
	struct urccl_peer peer;
	struct urccl_sqe *sqe;

	urccl_prep_connect(urccl_get_sqe(writer->ring), metadata, len);
	urccl_submit(writer->ring);
	cqe = next(writer, "connect");
	if (!cqe)
		return -1;
	peer.id = (uint32_t)cqe->handle;
	urccl_cqe_seen(writer->ring, cqe);

	/* Our own buffer is registered too: no access is asked for, so no peer can have any. */
	if (urccl_register(writer->ctx, &range, 1, 0, &region) < 0 ||
	    urccl_import(writer->ctx, peer, advert, 1, &remote) < 0) {
		fprintf(stderr, "hello: %s\n", urccl_errmsg());
		return -1;
	}
	sqe = urccl_get_sqe(writer->ring);
	urccl_prep_write(sqe, remote, greeting, sizeof(greeting), 0);
	urccl_sqe_set_notify(writer->ring, sqe, 42, NULL, 0);
	urccl_submit(writer->ring);
	cqe = next(writer, "write");
	if (!cqe)
		return -1;
	printf("writer: %ld bytes are placed\n", (long)cqe->res);
	urccl_cqe_seen(writer->ring, cqe);
	return 0;
}

/* Takes the owner's events until the notification is there, and with it what was written. */
static int owner_hear(struct side *owner, const char *memory)
{
	struct urccl_cqe *cqe;
	int heard = 0;

	while (!heard) {
		cqe = next(owner, "owner");
		if (!cqe)
			return -1;
		if (urccl_cqe_kind(cqe) == URCCL_KIND_PEER)
			printf("owner: a peer came\n");
		if (urccl_cqe_kind(cqe) == URCCL_KIND_NOTE) {
			printf("owner: notification %lu, and my memory says \"%s\"\n",
			       (unsigned long)cqe->tag, memory);
			heard = 1;
		}
		urccl_cqe_seen(owner->ring, cqe);
	}
	return strcmp(memory, greeting);
}

int main(void)
{
	static char memory[64];
	struct urccl_range range = {(uintptr_t)memory, sizeof(memory), 0, -1, 0};
	struct side owner, writer;
	struct urccl_advert advert;
	struct urccl_region region;
	uint8_t metadata[URCCL_METADATA_MAX];
	int len;

	if (side_open(&owner) || side_open(&writer))
		return 1;
	len = urccl_metadata(owner.ctx, metadata, sizeof(metadata));
	if (len < 0 || urccl_register(owner.ctx, &range, 1, URCCL_RIGHT_WRITE, &region) < 0 ||
	    urccl_advertise(owner.ctx, region, 0, sizeof(memory), URCCL_RIGHT_WRITE, 0, &advert)) {
		fprintf(stderr, "hello: %s\n", urccl_errmsg());
		return 1;
	}
	owner_listen(&owner);
	if (write_greeting(&writer, metadata, (uint32_t)len, &advert) || owner_hear(&owner, memory))
		return 1;
	side_close(&writer);
	side_close(&owner);
	return 0;
}
