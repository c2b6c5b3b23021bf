/* SPDX-License-Identifier: Apache-2.0 */
/*
 * urccl_zip: compresses a file of floats or a safetensors file, and says for each tensor how small
 * and how fast. The output is chunks of the codec one after the other, 4 MiB of data each, or 64
 * MiB with a GPU; urccl_zip -d restores the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "gpu.h"

#define PIECE (4ull << 20)
#define PEERS 2

struct zip {
	int decompress, compare, codec, dtype, quiet, gpu;
	const char *in, *out;
	const uint8_t *file;
	uint64_t len, done, piece;
	uint8_t *chunk, *back;
	size_t room;
	FILE *to;
	double begin, ideal; /* ideal: bytes that the limits of the parts allow */
	struct score all, peers[PEERS], nvcomp;
};

static void die(const char *what, int err)
{
	fprintf(stderr, "urccl_zip: %s: %s\n", what, strerror(err));
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void show_progress(const struct zip *z, uint64_t done)
{
	static const char bar[] = "##############################";
	double part = z->len ? (double)done / (double)z->len : 1;
	int full = (int)(part * 30);

	if (z->quiet || !isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "\r[%.*s%*s] %3.0f %%  %.2f GB/s%s", full, bar, 30 - full, "", part * 100,
		(double)done / (now() - z->begin) / 1e9, done == z->len ? "\n" : "");
}

static void put(struct zip *z, const void *data, size_t n)
{
	if (fwrite(data, 1, n, z->to) != n)
		die(z->out, errno);
}

/* Maps a file that may be empty. */
static void map_input(struct zip *z)
{
	int fd = open(z->in, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *file;

	if (fd < 0 || fstat(fd, &st))
		die(z->in, errno);
	z->len = (uint64_t)st.st_size;
	if (z->len) {
		file = mmap(NULL, z->len, PROT_READ, MAP_PRIVATE, fd, 0);
		if (file == MAP_FAILED)
			die(z->in, errno);
		z->file = file;
	}
	close(fd);
}

static size_t code_piece(struct zip *z, int dtype, const uint8_t *src, size_t n, struct score *s)
{
	double begin = now(), middle;
	int64_t size = urccl_codec_encode(z->codec, dtype, src, n, z->chunk, z->room), res;

	if (size < 0)
		die("encode", (int)-size);
	middle = now();
	res = urccl_codec_decode(z->chunk, (size_t)size, z->back, z->piece);
	if (res != (int64_t)n)
		die("decode", EBADMSG);
	s->decode += now() - middle;
	s->encode += middle - begin;
	return (size_t)size;
}

static void check_back(const struct zip *z, const uint8_t *src, size_t n)
{
	if (memcmp(src, z->back, n))
		die("the decoded data differs", EBADMSG);
}

static void score_piece(struct zip *z, int dtype, const uint8_t *src, size_t n, struct score *s)
{
	size_t size = z->gpu ? gpu_piece(z->codec, dtype, src, n, z->chunk, z->back, s)
			     : code_piece(z, dtype, src, n, s);

	check_back(z, src, n);
	s->raw += n;
	s->coded += size;
	put(z, z->chunk, size);
	if (z->gpu && z->compare && nvcomp_piece(dtype, n, z->back, &z->nvcomp))
		check_back(z, src, n);
}

static void score_peer(struct zip *z, const struct peer *p, const uint8_t *src, size_t n,
		       struct score *s)
{
	size_t room = p->bound(n), size;
	uint8_t *buf = malloc(room);
	double begin = now(), middle;

	if (!buf)
		die("memory", ENOMEM);
	size = p->encode(src, n, buf, room);
	middle = now();
	if (!size || p->decode(buf, size, z->back, z->piece) != n)
		die(p->name, EBADMSG);
	s->decode += now() - middle;
	s->encode += middle - begin;
	s->raw += n;
	s->coded += size;
	free(buf);
}

static void show(const char *name, const char *type, const struct score *s, double limit)
{
	if (!s->raw)
		return;
	printf("%-40.40s %-5s %10.3f MiB  ratio %6.3f", name, type, (double)s->raw / (1 << 20),
	       (double)s->raw / (double)s->coded);
	if (limit > 0)
		printf(" of %6.3f", limit);
	else
		printf("          ");
	printf("  encode %6.2f  decode %6.2f GB/s\n", (double)s->raw / s->encode / 1e9,
	       (double)s->raw / s->decode / 1e9);
}

static void add(struct score *to, const struct score *s)
{
	to->raw += s->raw;
	to->coded += s->coded;
	to->encode += s->encode;
	to->decode += s->decode;
}

static void compress_part(struct zip *z, const struct part *p)
{
	const uint8_t *src = z->file + p->at;
	double limit = entropy_limit(p->dtype, src, p->len);
	struct score s = {0};
	uint64_t at, n;
	uint32_t i;

	for (at = 0; at < p->len; at += n) {
		n = p->len - at < z->piece ? p->len - at : z->piece;
		score_piece(z, p->dtype, src + at, n, &s);
		for (i = 0; z->compare && i < PEERS && peer_find(i); i++)
			score_peer(z, peer_find(i), src + at, n, &z->peers[i]);
		show_progress(z, z->done += n);
	}
	add(&z->all, &s);
	z->ideal += (double)p->len / limit;
	if (!z->quiet)
		show(p->name, dtype_name(p->dtype), &s, limit);
}

static void compress_file(struct zip *z)
{
	struct part whole = {.name = "(file)", .len = z->len}, *parts = NULL;
	int n = z->dtype < 0 && z->len ? safetensors_parts(z->file, z->len, &parts) : 0, i;

	if (n < 0)
		die("memory", -n);
	if (!n && z->dtype < 0 && !z->quiet)
		fprintf(stderr, "urccl_zip: %s is no safetensors file: name its type with -t\n",
			z->in);
	whole.dtype = z->dtype < 0 ? URCCL_DTYPE_BYTES : z->dtype;
	for (i = 0; i < n; i++)
		compress_part(z, &parts[i]);
	if (!n)
		compress_part(z, &whole);
	free(parts);
	show("all", "", &z->all, (double)z->all.raw / z->ideal);
	for (i = 0; z->compare && i < PEERS && peer_find((uint32_t)i); i++)
		show(peer_find((uint32_t)i)->name, "", &z->peers[i], 0);
	show("nvCOMP ANS, GPU", "", &z->nvcomp, 0);
}

static void decompress_file(struct zip *z)
{
	struct urccl_codec_info info = {.size = sizeof(info)};
	uint64_t at, raw = 0;
	int64_t n;
	int err;

	for (at = 0; at < z->len; at += info.coded_bytes) {
		err = urccl_codec_info(z->file + at, z->len - at, &info);
		if (err || info.raw_bytes > z->piece)
			die(z->in, EBADMSG);
		n = urccl_codec_decode(z->file + at, z->len - at, z->back, z->piece);
		if (n < 0)
			die(z->in, (int)-n);
		put(z, z->back, (size_t)n);
		raw += (uint64_t)n;
		show_progress(z, at + info.coded_bytes);
	}
	if (!z->quiet)
		printf("%llu bytes to %llu, %.2f GB/s\n", (unsigned long long)z->len,
		       (unsigned long long)raw, (double)raw / (now() - z->begin) / 1e9);
}

static void usage(void)
{
	fprintf(stderr,
		"usage: urccl_zip [-g] [-p] [-q] [-c n23|fw4|off] [-t TYPE] IN OUT\n"
		"       urccl_zip -d [-q] IN OUT\n"
		"  -c  codec (n23)\n"
		"  -t  type of a file that is not safetensors: bytes, bf16, fp16, fp32, e4m3, e5m2\n"
		"  -g  compress on GPU 0; speeds are those of its kernels\n"
		"  -p  also compress with zstd -1 and lz4, and on a GPU with nvCOMP's ANS, if their\n"
		"      libraries are found\n"
		"  -q  say less\n");
	exit(2);
}

static void parse(struct zip *z, int argc, char **argv)
{
	int opt;

	z->codec = URCCL_CODEC_N23;
	z->dtype = -1;
	while ((opt = getopt(argc, argv, "dgpqc:t:")) != -1) {
		if (opt == 'd')
			z->decompress = 1;
		else if (opt == 'g')
			z->gpu = 1;
		else if (opt == 'p')
			z->compare = 1;
		else if (opt == 'q')
			z->quiet = 1;
		else if (opt == 'c' && !strcmp(optarg, "fw4"))
			z->codec = URCCL_CODEC_FW4;
		else if (opt == 'c' && !strcmp(optarg, "off"))
			z->codec = URCCL_CODEC_OFF;
		else if (opt == 't' && dtype_of(optarg) >= 0)
			z->dtype = dtype_of(optarg);
		else if (opt != 'c' || strcmp(optarg, "n23"))
			usage();
	}
	if (argc - optind != 2 || (z->gpu && z->decompress))
		usage();
	z->in = argv[optind];
	z->out = argv[optind + 1];
}

int main(int argc, char **argv)
{
	struct zip z = {0};

	parse(&z, argc, argv);
	map_input(&z);
	z.piece = z.gpu || z.decompress ? PIECE_GPU : PIECE;
	z.room = urccl_codec_bound(URCCL_DTYPE_BYTES, z.piece);
	z.chunk = malloc(z.room);
	z.back = malloc(z.piece);
	if (!z.chunk || !z.back)
		die("memory", ENOMEM);
	if (z.gpu)
		gpu_open(z.room);
	z.to = fopen(z.out, "wb");
	if (!z.to)
		die(z.out, errno);
	z.begin = now();
	if (z.decompress)
		decompress_file(&z);
	else
		compress_file(&z);
	if (fclose(z.to))
		die(z.out, errno);
	if (z.gpu)
		gpu_close();
	free(z.chunk);
	free(z.back);
	if (z.len)
		munmap((void *)(uintptr_t)z.file, z.len);
	return 0;
}
