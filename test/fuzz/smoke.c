/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target where libFuzzer is not there: on each file named, and on inputs made of them
 * and of random bytes by a fixed seed. It finds what is near the surface; `./dev fuzz` digs.
 */
#include <stdint.h>
#include <string.h>
#include "test.h"

#define INPUT_MAX 4096u
#define ROUNDS 5000u
#define SEEDS_MAX 256

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	size_t size;
	uint8_t data[INPUT_MAX];
};

static struct input seeds[SEEDS_MAX];
static uint64_t state = 0x9e3779b97f4a7c15ull;

static uint32_t next(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)((state >> 32) % below);
}

/* The target gets an allocation of exactly the input's size, so that a sanitizer sees its end. */
static void run(const struct input *in)
{
	uint8_t *exact = malloc(in->size ? in->size : 1);

	CHECK(exact);
	memcpy(exact, in->data, in->size);
	CHECK_EQ(LLVMFuzzerTestOneInput(exact, in->size), 0);
	free(exact);
}

static void read_seed(struct input *in, const char *path)
{
	FILE *f = fopen(path, "rb");

	CHECK(f);
	in->size = fread(in->data, 1, sizeof(in->data), f);
	fclose(f);
}

/* Values at the edges of what a length or a count may be. */
static void set_edge(struct input *in)
{
	static const uint64_t edges[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff,
					 0xffffffff, INT64_MAX, UINT64_MAX};
	uint64_t v = edges[next(sizeof(edges) / sizeof(edges[0]))];
	size_t width = (size_t)1 << next(4);

	if (in->size >= width)
		memcpy(in->data + next((uint32_t)(in->size - width + 1)), &v, width);
}

/* A few bytes out of it, now and then all to the end. */
static void cut(struct input *in)
{
	size_t at = next((uint32_t)in->size + 1), n = in->size - at, few = next(8);

	if (n > few && next(8))
		n = few;
	in->size -= n;
	memmove(in->data + at, in->data + at + n, in->size - at);
}

static void mutate(struct input *in)
{
	uint32_t times = 1 + next(4);

	while (times--) {
		switch (next(5)) {
		case 0:
			if (in->size)
				in->data[next((uint32_t)in->size)] ^= (uint8_t)(1u << next(8));
			break;
		case 1:
			if (in->size)
				in->data[next((uint32_t)in->size)] = (uint8_t)next(256);
			break;
		case 2:
			cut(in);
			break;
		case 3:
			while (in->size < INPUT_MAX && next(8))
				in->data[in->size++] = (uint8_t)next(256);
			break;
		default:
			set_edge(in);
			break;
		}
	}
}

static void make_random(struct input *in)
{
	size_t i;

	in->size = 1 + next(8u << next(8));
	for (i = 0; i < in->size; i++)
		in->data[i] = (uint8_t)next(256);
}

int main(int argc, char **argv)
{
	static struct input in;
	uint32_t n = 1, empty = 0, i;
	uint64_t bytes = 0;

	/* seeds[0] is the empty input, and later random bytes. */
	for (; (int)n < argc && n < SEEDS_MAX; n++)
		read_seed(&seeds[n], argv[n]);
	for (i = 0; i < n; i++)
		run(&seeds[i]);
	for (i = 0; i < ROUNDS; i++) {
		/* Mostly on from the one before: what a parser falls for may be steps away. */
		if (!next(4)) {
			make_random(&seeds[0]);
			in = seeds[next(n)];
		}
		mutate(&in);
		run(&in);
		empty += !in.size;
		bytes += in.size;
	}
	printf("%u seeds, %u inputs made of them, %u empty, of %u bytes\n", n - 1, ROUNDS, empty,
	       (uint32_t)(bytes / ROUNDS));
	CHECK_LE(empty, ROUNDS / 20);
	return 0;
}
