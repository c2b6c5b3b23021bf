/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One trainer, many replicas: each version of the weights is published by a notification; then the
 * replicas read every layer, check it, and report.
 *	weight_sync [--replicas N] [--layers L] [--size BYTES] [--versions V]
 *
 * What to see: the trainer moves no byte. Its memory begins with a table that names the tensors and
 * says where they are and what their sums must be; one advert lets replicas reach all of it.
 */
#include <liburccl.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REPLICAS_MAX = 32, LAYERS_MAX = 128 };

/* How to dial the trainer. */
struct dial {
	int len;
	uint8_t metadata[URCCL_METADATA_MAX];
};

struct tensor {
	char name[40];
	uint64_t off, len, version, sum;
};

/* The payload of the notification for a version, its tag, and of the answer. */
struct note {
	struct urccl_advert advert;
	uint64_t published_ns; /* one host, so one clock */
	uint64_t read_ns;      /* how long the replica read */
	uint64_t since_ns;     /* from the publication to the end of that */
	uint64_t right;	       /* tensors whose sums are */
};

static uint64_t replicas = 4, layers = 8, size = 4 << 20, versions = 3;
static uint64_t memory_len, pending, gone; /* our entries under way; peers that left */
static struct urccl *ctx;
static struct urccl_ring *ring;
static struct tensor *memory; /* the table, and behind it what it tells of */

static _Noreturn void die(const char *what, const char *why)
{
	fprintf(stderr, "weight_sync: %s: %s\n", what, why);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Opens this process's context, ring and memory. */
static struct urccl_region begin(uint32_t rights)
{
	struct urccl_range range = {.len = layers * (sizeof(*memory) + size), .fd = -1};
	struct urccl_region region;
	void *addr;

	if (urccl_open(NULL, &ctx) || urccl_ring_open(ctx, NULL, &ring) ||
	    urccl_alloc(ctx, range.len, &addr))
		die("cannot open", urccl_errmsg());
	memory = addr;
	memory_len = range.len;
	range.addr = (uintptr_t)addr;
	if (urccl_register(ctx, &range, 1, rights, &region))
		die("cannot register", urccl_errmsg());
	return region;
}

static struct urccl_sqe *entry(void)
{
	pending++;
	return urccl_get_sqe(ring); /* a version takes fewer than the 256 of a ring */
}

/* Submits, waits for one CQE and takes it. Returns a copy; *note has a notification's payload. */
static struct urccl_cqe take(struct note *note)
{
	struct urccl_wait_args args = {.size = sizeof(args), .timeout_ns = 60000000000};
	struct urccl_cqe *cqe, copy;
	char why[256];

	urccl_submit(ring);
	if (urccl_wait(ring, &cqe, &args) < 0)
		die("waiting", "nothing came in 60 s");
	copy = *cqe;
	if (copy.res < 0) {
		urccl_explain(ctx, cqe, why, sizeof(why));
		die("an entry failed", why);
	}
	if (note && urccl_cqe_kind(cqe) == URCCL_KIND_NOTE && cqe->res == sizeof(*note))
		memcpy(note, urccl_cqe_note(ring, cqe), sizeof(*note));
	pending -= urccl_cqe_kind(cqe) == URCCL_KIND_OP;
	gone += urccl_cqe_kind(cqe) == URCCL_KIND_LOST;
	urccl_cqe_seen(ring, cqe);
	return copy;
}

static uint64_t sum_of(const struct tensor *t)
{
	const uint64_t *words = (const uint64_t *)((const uint8_t *)memory + t->off);
	uint64_t i, sum = t->version;

	for (i = 0; i < t->len / sizeof(*words); i++)
		sum = (sum ^ words[i]) * 0x9e3779b97f4a7c15;
	return sum;
}

/* A step of the trainer: every weight is another one afterwards. */
static void train(uint64_t version)
{
	struct tensor *t = memory;
	uint64_t layer, i, *words;

	for (layer = 0; layer < layers; layer++, t++) {
		snprintf(t->name, sizeof(t->name), "layers.%lu.weight", (unsigned long)layer);
		t->off = layers * sizeof(*t) + layer * size;
		t->len = size;
		t->version = version;
		words = (uint64_t *)((uint8_t *)memory + t->off);
		for (i = 0; i < size / sizeof(*words); i++)
			words[i] = (i + layer + 1) * (2 * version + 1);
		t->sum = sum_of(t);
	}
}

/* Tells every replica and waits for the reports. Returns how many tensors arrived right. */
static uint64_t publish(uint64_t version, const struct urccl_peer *peers, struct note *note)
{
	uint64_t right = 0, slowest = 0, n;
	struct note report = {.read_ns = 1};
	struct urccl_cqe cqe;

	note->published_ns = now_ns();
	for (n = 0; n < replicas; n++)
		urccl_prep_notify(entry(), peers[n], version, note, sizeof(*note));
	printf("version %lu: GB/s of each", (unsigned long)version);
	for (n = 0; n < replicas || pending;) {
		cqe = take(&report);
		if (gone > n) /* who has reported the last version may */
			die("trainer", "a replica went away");
		if (urccl_cqe_kind(&cqe) != URCCL_KIND_NOTE)
			continue;
		n++;
		right += report.right;
		slowest = report.since_ns > slowest ? report.since_ns : slowest;
		printf(" %.2f", (double)memory_len / (double)report.read_ns);
		fflush(stdout);
	}
	printf(", total %.2f\n", (double)(memory_len * replicas) / (double)slowest);
	return right;
}

static int trainer(int to)
{
	struct urccl_region region = begin(URCCL_RIGHT_READ);
	struct urccl_peer peers[REPLICAS_MAX];
	uint64_t version, n, right = 0, all = replicas * layers * versions;
	struct dial dial = {.len = 0};
	struct note note = {.right = 0};
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;

	dial.len = urccl_metadata(ctx, dial.metadata, sizeof(dial.metadata));
	if (dial.len < 0 ||
	    urccl_advertise(ctx, region, 0, memory_len, URCCL_RIGHT_READ, 0, &note.advert))
		die("cannot share", urccl_errmsg());
	sqe = urccl_get_sqe(ring);
	urccl_prep_accept(sqe);
	urccl_sqe_add_flags(sqe, URCCL_SQE_WATCH);
	for (n = 0; n < replicas; n++)
		if (write(to, &dial, sizeof(dial)) != sizeof(dial))
			die("trainer", "cannot say where we are");
	for (n = 0; n < replicas;) {
		cqe = take(NULL);
		if (urccl_cqe_kind(&cqe) == URCCL_KIND_PEER)
			peers[n++].id = cqe.peer;
	}
	for (version = 1; version <= versions; version++) {
		train(version);
		right += publish(version, peers, &note);
	}
	while (gone < replicas) /* they leave when they know that their reports are here */
		take(NULL);
	urccl_close(ctx);
	printf("%lu of %lu tensors arrived right\n", (unsigned long)right, (unsigned long)all);
	return right != all;
}

/* Reads the table, then all that it names; the trainer leaves both alone until our report. */
static void fetch(struct urccl_remote remote, uint64_t version, struct note *note)
{
	uint64_t start = now_ns(), i;
	const struct tensor *t;

	urccl_prep_read(entry(), remote, memory, layers * sizeof(*t), 0);
	while (pending)
		take(NULL);
	for (i = 0, t = memory; i < layers; i++, t++)
		urccl_prep_read(entry(), remote, (uint8_t *)memory + t->off, t->len, t->off);
	while (pending)
		take(NULL);
	note->read_ns = now_ns() - start;
	note->since_ns = now_ns() - note->published_ns;
	note->right = 0;
	for (i = 0, t = memory; i < layers; i++, t++)
		note->right += t->version == version && t->sum == sum_of(t);
}

static int replica(int from)
{
	struct urccl_remote remote = {0};
	struct note note, report;
	struct urccl_peer peer;
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	struct dial dial;
	uint64_t n;

	if (read(from, &dial, sizeof(dial)) != sizeof(dial))
		return 1;
	begin(0);
	sqe = entry();
	urccl_prep_connect(sqe, dial.metadata, (uint32_t)dial.len);
	urccl_sqe_add_flags(sqe, URCCL_SQE_WATCH);
	peer.id = (uint32_t)take(NULL).handle;
	for (n = 0; n < versions && !gone;) {
		cqe = take(&note);
		if (urccl_cqe_kind(&cqe) != URCCL_KIND_NOTE)
			continue;
		n++;
		if (!remote.id && urccl_import(ctx, peer, &note.advert, 1, &remote))
			die("cannot import", urccl_errmsg());
		fetch(remote, cqe.tag, &note);
		report = note; /* the last one's end was among what fetch() waited for */
		urccl_prep_notify(entry(), peer, cqe.tag, &report, sizeof(report));
	}
	while (pending)
		take(NULL);
	urccl_close(ctx);
	return n != versions;
}

static void options(int argc, char **argv)
{
	static const struct option names[] = {{"replicas", 1, NULL, 0},
					      {"layers", 1, NULL, 1},
					      {"size", 1, NULL, 2},
					      {"versions", 1, NULL, 3},
					      {NULL, 0, NULL, 0}};
	static const uint64_t most[] = {REPLICAS_MAX, LAYERS_MAX, 1 << 30, 1000000};
	static uint64_t *const values[] = {&replicas, &layers, &size, &versions};
	uint64_t step;
	char *end;
	int c;

	while ((c = getopt_long(argc, argv, "", names, NULL)) >= 0 && c < 4) {
		step = values[c] == &size ? sizeof(uint64_t) : 1;
		*values[c] = strtoull(optarg, &end, 10);
		if (!*end && *values[c] && *values[c] <= most[c] && *values[c] % step == 0)
			continue;
		fprintf(stderr, "weight_sync: --%s takes %lu to %lu by %lu, not %s\n",
			names[c].name, (unsigned long)step, (unsigned long)most[c],
			(unsigned long)step, optarg);
		exit(2);
	}
	if (c >= 0 || optind < argc) {
		fprintf(stderr, "usage: weight_sync [--replicas N] [--layers L] [--size BYTES] "
				"[--versions V]\n");
		exit(2);
	}
}

int main(int argc, char **argv)
{
	int to[2], status, failed;
	uint64_t i;

	options(argc, argv);
	if (pipe(to))
		return 1;
	/* A context does not live through fork(): each process opens its own afterwards. */
	for (i = 0; i < replicas; i++)
		if (!fork()) {
			close(to[1]);
			return replica(to[0]);
		}
	failed = trainer(to[1]);
	for (i = 0; i < replicas; i++)
		failed |= wait(&status) < 0 || status;
	return failed;
}
