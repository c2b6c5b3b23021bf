/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends the KV cache of each layer while the next one is computed. All entries are submitted before
 * there is anything to send; from then on the thread that computes makes no call of the library:
 * it stores a word when a layer is there, and looks at another before it uses a buffer again.
 *
 * What to see: urccl_sqe_set_wait() and urccl_sqe_set_signal(). One entry a layer starts when its
 * layer is computed, and says by a word of its own when the layer has arrived; two buffers do for
 * any number of layers.
 */
#include <liburccl.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { LAYERS = 32, BUFFERS = 2, LAYER_BYTES = 1 << 20 };

/* What the two threads tell each other: ours is the one that computes. */
struct words {
	uint64_t computed;     /* layers */
	uint64_t sent[LAYERS]; /* 1: it has arrived */
};

struct side {
	struct urccl *ctx;
	struct urccl_ring *ring;
	uint8_t *memory;
	struct urccl_region region;
};

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "layers: %s: %s\n", what, urccl_errmsg());
	exit(1);
}

static void side_open(struct side *s, uint64_t bytes)
{
	struct urccl_range range = {.len = bytes, .fd = -1};
	void *memory;

	if (urccl_open(NULL, &s->ctx) || urccl_ring_open(s->ctx, NULL, &s->ring) ||
	    urccl_alloc(s->ctx, bytes, &memory))
		die("cannot open");
	s->memory = memory;
	range.addr = (uintptr_t)memory;
	/* Words that the library sets lie where it is known to be allowed to write. */
	if (urccl_register(s->ctx, &range, 1, URCCL_RIGHT_WRITE, &s->region))
		die("cannot register");
}

/* The next completion: exits if it failed. Returns its handle or bytes on the wire. */
static uint64_t take(struct side *s)
{
	struct urccl_cqe *cqe;
	uint64_t handle;
	char why[256];

	if (urccl_wait(s->ring, &cqe, NULL) < 0)
		die("cannot wait");
	if (cqe->res < 0) {
		urccl_explain(s->ctx, cqe, why, sizeof(why));
		fprintf(stderr, "layers: %s\n", why);
		exit(1);
	}
	handle = cqe->handle;
	urccl_cqe_seen(s->ring, cqe);
	return handle;
}

static struct urccl_remote meet(struct side *prefill, struct side *decode)
{
	uint8_t metadata[URCCL_METADATA_MAX];
	struct urccl_advert advert;
	struct urccl_remote remote;
	struct urccl_peer peer;
	int len = urccl_metadata(decode->ctx, metadata, sizeof(metadata));

	if (len < 0 || urccl_advertise(decode->ctx, decode->region, 0, LAYERS * LAYER_BYTES,
				       URCCL_RIGHT_WRITE, 0, &advert))
		die("cannot advertise");
	urccl_prep_accept(urccl_get_sqe(decode->ring));
	urccl_submit(decode->ring);
	urccl_prep_connect(urccl_get_sqe(prefill->ring), metadata, (uint32_t)len);
	urccl_submit(prefill->ring);
	peer.id = (uint32_t)take(prefill);
	if (urccl_import(prefill->ctx, peer, &advert, 1, &remote))
		die("cannot import");
	return remote;
}

static void submit(struct side *s, struct urccl_remote remote, struct words *words)
{
	struct urccl_sqe *sqe;
	uint64_t i;

	for (i = 0; i < LAYERS; i++) {
		sqe = urccl_get_sqe(s->ring);
		urccl_prep_write(sqe, remote, s->memory + i % BUFFERS * LAYER_BYTES, LAYER_BYTES,
				 i * LAYER_BYTES);
		urccl_sqe_set_wait(s->ring, sqe, &words->computed, i + 1);
		urccl_sqe_set_signal(s->ring, sqe, &words->sent[i], 1);
	}
	urccl_submit(s->ring);
}

static uint8_t byte_of(uint64_t layer, uint64_t i)
{
	return (uint8_t)(layer * 31 + i * 7 + (i >> 12));
}

static void compute(uint8_t *buffers, struct words *words)
{
	uint64_t layer, i;
	uint8_t *buffer;

	for (layer = 0; layer < LAYERS; layer++) {
		while (layer >= BUFFERS &&
		       !__atomic_load_n(&words->sent[layer - BUFFERS], __ATOMIC_ACQUIRE))
			sched_yield();
		buffer = buffers + layer % BUFFERS * LAYER_BYTES;
		for (i = 0; i < LAYER_BYTES; i++)
			buffer[i] = byte_of(layer, i);
		__atomic_store_n(&words->computed, layer + 1, __ATOMIC_RELEASE);
	}
}

int main(void)
{
	struct side prefill, decode;
	struct words *words;
	uint64_t i;

	side_open(&prefill, BUFFERS * LAYER_BYTES + sizeof(*words));
	side_open(&decode, LAYERS * LAYER_BYTES);
	words = (struct words *)(void *)(prefill.memory + BUFFERS * LAYER_BYTES);
	submit(&prefill, meet(&prefill, &decode), words);
	compute(prefill.memory, words);
	for (i = 0; i < LAYERS; i++)
		take(&prefill);
	for (i = 0; i < (uint64_t)LAYERS * LAYER_BYTES; i++)
		if (decode.memory[i] != byte_of(i / LAYER_BYTES, i % LAYER_BYTES)) {
			fprintf(stderr, "layers: a byte is wrong\n");
			return 1;
		}
	printf("%d layers went through %d buffers\n", LAYERS, BUFFERS);
	urccl_close(prefill.ctx);
	urccl_close(decode.ctx);
	return 0;
}
