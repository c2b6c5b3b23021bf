/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens go from one GPU to another, and from there to its neighbours, as for experts that lie on
 * several GPUs of a node: gpu_forward [LIBCUDA [TOKENS]]. Four processes share the GPUs there are.
 *
 * What to see: a WRITE with a notification tells the receiver of each token, in memory of its GPU.
 * It writes the token on, by the copy engine, to the neighbours that want it, and acknowledges it
 * to the sender when it is in all of them. No byte of a token is in memory of the host on a node.
 */
#include <liburccl.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	NEIGHBOURS = 2,
	TOKENS_MAX = 256,
	TOKEN = 7168,
	LEN = TOKENS_MAX * TOKEN,
	RIGHTS = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE
};

#define CUDA_FUNCTIONS(X)                                             \
	X(cuInit, (unsigned flags))                                   \
	X(cuDeviceGetCount, (int *n))                                 \
	X(cuDevicePrimaryCtxRetain, (void **ctx, int device))         \
	X(cuCtxSetCurrent, (void *ctx))                               \
	X(cuMemAlloc_v2, (uint64_t * to, size_t len))                 \
	X(cuMemcpyHtoD_v2, (uint64_t to, const void *from, size_t n)) \
	X(cuMemcpyDtoH_v2, (void *to, uint64_t from, size_t n))

#define X(name, args) static int(*name) args;
CUDA_FUNCTIONS(X)
#undef X

/* What another process must know of one that is reached. */
struct invitation {
	uint8_t metadata[URCCL_METADATA_MAX];
	int len;
	struct urccl_advert advert;
};

static const char *libcuda = "libcuda.so.1";
static uint32_t tokens = 64;
static uint64_t memory; /* of this process's GPU: a slot a token */
static struct urccl *ctx;
static struct urccl_ring *ring;
static struct urccl_region region;
static uint8_t bytes[TOKEN];

static void check(int failed, const char *what)
{
	if (failed && fprintf(stderr, "gpu_forward: %s: %s\n", what, urccl_errmsg()))
		exit(1);
}

/* Where token i goes: to each neighbour of these bits. */
static uint32_t wanted_by(uint32_t token)
{
	return 1 + token % ((1 << NEIGHBOURS) - 1);
}

static void token_make(uint32_t token)
{
	for (uint32_t i = 0; i < TOKEN; i++)
		bytes[i] = (uint8_t)(token * 31 + i * 7 + i / 256);
}

/* ---- A process and its GPU ---- */

static void start(int number)
{
	struct urccl_range range;
	void *so = dlopen(libcuda, RTLD_NOW | RTLD_GLOBAL), *p;
	int gpus;

	check(!so, "no CUDA driver");
#define X(name, args) check(!(p = dlsym(so, #name)), #name), memcpy(&name, &p, sizeof(p));
	CUDA_FUNCTIONS(X)
#undef X
	check(cuInit(0) || cuDeviceGetCount(&gpus) || gpus < 1 ||
		      cuDevicePrimaryCtxRetain(&p, number % gpus) || cuCtxSetCurrent(p) ||
		      cuMemAlloc_v2(&memory, LEN),
	      "no GPU");
	range = (struct urccl_range)URCCL_RANGE(memory, LEN);
	check(urccl_open(NULL, &ctx) || urccl_ring_open(ctx, NULL, &ring) ||
		      urccl_register(ctx, &range, 1, RIGHTS, &region),
	      "open");
}

/* The next completion, which must be a success unless it tells that a peer has left. */
static struct urccl_cqe next(void)
{
	struct urccl_wait_args args = {.size = sizeof(args), .timeout_ns = 60000000000};
	struct urccl_cqe *cqe, out;
	char why[512] = "";

	check(urccl_wait(ring, &cqe, &args) < 0, "wait");
	out = *cqe;
	check(urccl_cqe_kind(cqe) == URCCL_KIND_OP && cqe->res < 0 &&
		      urccl_explain(ctx, cqe, why, sizeof(why)),
	      why);
	urccl_cqe_seen(ring, cqe);
	return out;
}

static void invite(int to)
{
	struct urccl_sqe *sqe = urccl_get_sqe(ring);
	struct invitation inv;

	urccl_prep_accept(sqe);
	urccl_sqe_add_flags(sqe, URCCL_SQE_WATCH);
	urccl_submit(ring);
	check(urccl_advertise(ctx, region, 0, LEN, RIGHTS, 0, &inv.advert), "advertise");
	inv.len = urccl_metadata(ctx, inv.metadata, sizeof(inv.metadata));
	check(inv.len < 0 || write(to, &inv, sizeof(inv)) != sizeof(inv), "invite");
}

static struct urccl_remote join(int from)
{
	struct urccl_sqe *sqe = urccl_get_sqe(ring);
	struct urccl_remote remote;
	struct invitation inv;
	struct urccl_cqe cqe;

	check(read(from, &inv, sizeof(inv)) != sizeof(inv), "no invitation");
	urccl_prep_connect(sqe, inv.metadata, (uint32_t)inv.len);
	urccl_sqe_add_flags(sqe, URCCL_SQE_WATCH);
	urccl_submit(ring);
	cqe = next();
	check(urccl_import(ctx, urccl_cqe_peer(&cqe), &inv.advert, 1, &remote), "import");
	return remote;
}

/* A token's WRITE, and the notification behind it. */
static void token_send(struct urccl_remote to, uint32_t token, uint32_t flags)
{
	uint64_t off = (uint64_t)token * TOKEN;
	struct urccl_sqe *sqe;

	while (!(sqe = urccl_get_sqe(ring)))
		check(urccl_wait_room(ring, 1, 10000000000) < 0, "room");
	urccl_prep_write(sqe, to, (void *)(uintptr_t)(memory + off), TOKEN, off);
	urccl_sqe_set_notify(ring, sqe, token, NULL, 0);
	urccl_sqe_add_flags(sqe, flags);
	urccl_sqe_set_data64(sqe, token);
	urccl_submit(ring);
}

/* ---- The three kinds of processes ---- */

static int neighbour(uint32_t number, int to)
{
	uint32_t token, got = 0, due = 0;
	uint8_t came[TOKEN];
	struct urccl_cqe cqe = {0};

	start(2 + (int)number);
	invite(to);
	for (token = 0; token < tokens; token++)
		due += wanted_by(token) >> number & 1;
	while (got < due || urccl_cqe_kind(&cqe) != URCCL_KIND_LOST) {
		cqe = next();
		if (urccl_cqe_kind(&cqe) != URCCL_KIND_NOTE)
			continue;
		token = (uint32_t)cqe.tag;
		check(token >= tokens || !(wanted_by(token) >> number & 1), "not for us");
		check(cuMemcpyDtoH_v2(came, memory + (uint64_t)token * TOKEN, TOKEN), "copy");
		token_make(token);
		check(memcmp(came, bytes, TOKEN) != 0, "a byte is wrong");
		got++;
	}
	urccl_close(ctx);
	return got != due;
}

static void acknowledge(struct urccl_peer sender, uint32_t token)
{
	struct urccl_sqe *sqe = urccl_get_sqe(ring);

	urccl_prep_notify(sqe, sender, token, NULL, 0);
	urccl_sqe_add_flags(sqe, URCCL_SQE_SKIP_SUCCESS);
	urccl_submit(ring);
}

static int receiver(int from[NEIGHBOURS], int to)
{
	struct urccl_remote neighbours[NEIGHBOURS];
	uint32_t left[TOKENS_MAX] = {0}, done = 0, i, token;
	struct urccl_peer sender = {0};
	struct urccl_cqe cqe;

	start(1);
	for (i = 0; i < NEIGHBOURS; i++)
		neighbours[i] = join(from[i]);
	invite(to);
	do {
		cqe = next();
		if (urccl_cqe_kind(&cqe) == URCCL_KIND_NOTE) {
			token = (uint32_t)cqe.tag;
			check(token >= tokens, "no token");
			sender = urccl_cqe_peer(&cqe);
			for (i = 0; i < NEIGHBOURS; i++) {
				if (!(wanted_by(token) >> i & 1))
					continue;
				left[token]++;
				token_send(neighbours[i], token, 0);
			}
		} else if (urccl_cqe_kind(&cqe) == URCCL_KIND_OP && --left[cqe.user_data] == 0) {
			acknowledge(sender, (uint32_t)cqe.user_data);
			done++;
		}
	} while (urccl_cqe_kind(&cqe) != URCCL_KIND_LOST);
	urccl_close(ctx);
	return done != tokens;
}

static int sender(int from)
{
	uint8_t acknowledged[TOKENS_MAX] = {0};
	struct urccl_remote remote;
	uint32_t token, n = 0;
	struct urccl_cqe cqe;

	start(0);
	remote = join(from);
	for (token = 0; token < tokens; token++) {
		token_make(token);
		check(cuMemcpyHtoD_v2(memory + (uint64_t)token * TOKEN, bytes, TOKEN), "copy");
		token_send(remote, token, URCCL_SQE_SKIP_SUCCESS);
	}
	while (n < tokens) {
		cqe = next();
		check(urccl_cqe_kind(&cqe) == URCCL_KIND_LOST, "the receiver has left");
		if (urccl_cqe_kind(&cqe) != URCCL_KIND_NOTE)
			continue;
		check(cqe.tag >= tokens || acknowledged[cqe.tag]++, "acknowledged twice");
		n++;
	}
	printf("%u tokens of %d bytes are at the neighbours that want them\n", n, TOKEN);
	urccl_close(ctx);
	return 0;
}

int main(int argc, char **argv)
{
	int of_neighbour[NEIGHBOURS], fds[2], failed, status;
	uint32_t i;

	libcuda = argc > 1 ? argv[1] : libcuda;
	tokens = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : tokens;
	check(tokens < 1 || tokens > TOKENS_MAX, "TOKENS: from 1 to 256");
	for (i = 0; i < NEIGHBOURS; i++) {
		check(pipe(fds), "pipe");
		if (!fork())
			_exit(neighbour(i, fds[1]));
		close(fds[1]);
		of_neighbour[i] = fds[0];
	}
	check(pipe(fds), "pipe");
	if (!fork())
		_exit(receiver(of_neighbour, fds[1]));
	close(fds[1]);
	failed = sender(fds[0]);
	while (wait(&status) > 0)
		failed |= status != 0;
	return failed;
}
