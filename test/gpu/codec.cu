/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codec on a GPU beside the codec on the CPU: each chunk is compared byte by byte and decoded
 * by both; changed chunks end with the CPU's result; then rates of N(0, 1) in bf16. "quick" checks
 * less and measures nothing, for compute-sanitizer. It needs a GPU, and the build leaves it alone:
 *
 *	nvcc -O3 -std=c++17 -cudart static -Iinclude test/gpu/codec.cu \
 *		build/release/liburccl/liburccl.so -o codec_gpu
 *	./codec_gpu [quick]
 */
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#include <cuda_runtime.h>
#include <liburccl.h>
#include <liburccl/codec.h>

#define CHECK(cond)                                                                            \
	do {                                                                                   \
		if (!(cond)) {                                                                 \
			fprintf(stderr, "%s:%d: failed: %s (%s; %s)\n", __FILE__, __LINE__,     \
				#cond, cudaGetErrorString(cudaGetLastError()), urccl_errmsg()); \
			exit(1);                                                               \
		}                                                                              \
	} while (0)

#define BF16 URCCL_DTYPE_BF16

static const int budgets[] = {8, 16, 0}; /* multiprocessors; 0: all */
static struct urccl_codec_gpu *codecs[3];
static cudaStream_t stream;
static uint64_t *result; /* on the GPU */
static uint64_t state = 88172645463325252ull;
static int is_quick;

static uint64_t random_next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static double uniform(void)
{
	return ((double)(random_next() >> 11) + 0.5) / 9007199254740992.0;
}

static uint32_t element(int dtype, float value)
{
	static const uint32_t exp_bits[] = {8, 8, 5, 8, 4, 5}, mantissa[] = {23, 7, 10, 23, 3, 2};
	uint32_t v, drop = 23 - mantissa[dtype], bias = 127 - ((1u << (exp_bits[dtype] - 1)) - 1);
	uint32_t sign;

	memcpy(&v, &value, 4);
	sign = v >> 31 << (exp_bits[dtype] + mantissa[dtype]);
	v &= 0x7fffffff;
	v += (1u << drop >> 1) - !!drop;
	return v >> 23 <= bias ? sign : (v - (bias << 23)) >> drop | sign;
}

/* 0 and 1: N(0, 1); 2: random; 3: N(0, 1), then more and more random; 4: equal. */
static void fill(int kind, uint8_t *p, size_t n, int dtype)
{
	static const size_t sizes[] = {1, 2, 2, 4, 1, 1};
	size_t bytes = sizes[dtype], i;
	uint32_t v;

	for (i = 0; i < n; i += bytes) {
		v = element(dtype,
			    (float)(sqrt(-2 * log(uniform())) * cos(6.283185307 * uniform())));
		if (kind == 2 || (kind == 3 && random_next() % n < i))
			v = (uint32_t)random_next();
		if (kind == 4)
			v = 0x3f;
		memcpy(p + i, &v, std::min(bytes, n - i));
	}
}

static void prepare(void)
{
	/* It waits for the copies of cudaMemcpy(), which may return before they end. */
	CHECK(!cudaStreamCreate(&stream));
	CHECK(!cudaMalloc(&result, 8));
	for (int i = 0; i < 3; i++)
		CHECK(!urccl_codec_gpu_open(0, budgets[i], &codecs[i]));
}

static struct urccl_codec_gpu *codec_of(int sms)
{
	return codecs[std::find(budgets, budgets + 2, sms) - budgets];
}

static void encode_on_gpu(int codec, int dtype, const uint8_t *src, size_t n, uint8_t *dst, int sms)
{
	CHECK(!urccl_codec_encode_gpu(codec_of(sms), codec | URCCL_CODEC_NO_CRC, dtype, src, n, dst,
				      urccl_codec_bound(dtype, n), stream, result));
}

static void decode_on_gpu(int dtype, const uint8_t *src, size_t n, uint8_t *dst, size_t room,
			  int sms)
{
	CHECK(!urccl_codec_decode_gpu(codec_of(sms), dtype, src, n, dst, room, stream, result));
}

static int64_t wait_result(void)
{
	int64_t res;

	CHECK(!cudaMemcpyAsync(&res, result, 8, cudaMemcpyDeviceToHost, stream));
	CHECK(!cudaStreamSynchronize(stream));
	return res;
}

/* GPU and CPU give one error for a changed chunk; its data is compared by the checksum's
 * leave: without one both may give other data, and then the same. */
static void changed(int dtype, const std::vector<uint8_t> &chunk, size_t n, uint8_t *dsrc,
		    uint8_t *ddst)
{
	std::vector<uint8_t> bad, a(n), b(n);
	size_t i, at;
	int64_t res;

	for (i = 0; i < (is_quick ? 2 : 40); i++) {
		bad = chunk;
		at = 64 + random_next() % (chunk.size() - 64);
		if (i % 2)
			at = chunk.size() - 1 -
			     random_next() % std::min<size_t>(chunk.size() - 64, 6000);
		bad[at] ^= (uint8_t)(1u << random_next() % 8);
		res = urccl_codec_decode(bad.data(), bad.size(), a.data(), n);
		CHECK(!cudaMemcpy(dsrc, bad.data(), bad.size(), cudaMemcpyHostToDevice));
		decode_on_gpu(dtype, dsrc, bad.size(), ddst, n, 0);
		CHECK(wait_result() == res);
		CHECK(!cudaMemcpy(b.data(), ddst, n, cudaMemcpyDeviceToHost));
		CHECK(res < 0 || a == b);
	}
}

static void compare(int codec, int dtype, size_t n, int kind)
{
	size_t bound = urccl_codec_bound(dtype, n), shift = kind == 1 ? 3 : 0;
	std::vector<uint8_t> src(n), chunk(bound), got(bound), back(n);
	uint8_t *dsrc, *dchunk, *dback;
	int64_t size;

	fill(kind, src.data(), n, dtype);
	size = urccl_codec_encode(codec | URCCL_CODEC_NO_CRC, dtype, src.data(), n, chunk.data(),
				  bound);
	chunk.resize((size_t)size);
	CHECK(!cudaMalloc(&dsrc, n + 16) && !cudaMalloc(&dchunk, bound) &&
	      !cudaMalloc(&dback, n + 16));
	CHECK(!cudaMemcpy(dsrc + shift, src.data(), n, cudaMemcpyHostToDevice));
	CHECK(!cudaMemset(dchunk, 0xee, bound));
	encode_on_gpu(codec, dtype, dsrc + shift, n, dchunk, 0);
	CHECK(wait_result() == size);
	CHECK(!cudaMemcpy(got.data(), dchunk, (size_t)size, cudaMemcpyDeviceToHost));
	CHECK(!memcmp(got.data(), chunk.data(), (size_t)size));
	decode_on_gpu(dtype, dchunk, (size_t)size, dback + shift, n, kind == 3 ? 8 : 0);
	CHECK(wait_result() == (int64_t)n);
	CHECK(!cudaMemcpy(back.data(), dback + shift, n, cudaMemcpyDeviceToHost));
	CHECK(back == src);
	if (n > 1000 && kind < 4)
		changed(dtype, chunk, n, dchunk, dback);
	cudaFree(dsrc);
	cudaFree(dchunk);
	cudaFree(dback);
}

static void compare_all(void)
{
	static const size_t sizes[] = {0, 1, 2, 7, 200, 16384, 16385, 40001, 1000003, 5000000};
	int dtype, codec, kind, cases = 0;

	for (dtype = URCCL_DTYPE_BYTES; dtype <= URCCL_DTYPE_FP8_E5M2; dtype++)
		for (codec = URCCL_CODEC_OFF; codec <= URCCL_CODEC_N23; codec++)
			for (size_t n : sizes)
				for (kind = 0; kind < 5; kind++, cases++)
					if (is_quick ? n > 100 && n < 50000 && kind == 3
						     : n < 2000000 || kind == 3 ||
							       (kind == 0 && codec == 3))
						compare(codec, dtype, n, kind);
	printf("%d cases as on the CPU\n", cases);
}

template <class F> static double seconds(F f, int times)
{
	std::vector<double> r;
	cudaEvent_t a, b;
	float ms;
	int i, round;

	CHECK(!cudaEventCreate(&a) && !cudaEventCreate(&b));
	f();
	for (round = 0; round < 9; round++) {
		cudaEventRecord(a, stream);
		for (i = 0; i < times; i++)
			f();
		cudaEventRecord(b, stream);
		CHECK(!cudaEventSynchronize(b));
		cudaEventElapsedTime(&ms, a, b);
		r.push_back(ms / 1e3 / times);
	}
	std::sort(r.begin(), r.end());
	return r[4];
}

static void rates(void)
{
	const size_t most = 1ul << 30, part = 16ul << 20;
	std::vector<uint8_t> host(part), chunk(urccl_codec_bound(BF16, part));
	uint8_t *src, *coded, *back;
	double copy, roof, e, d, moved;
	size_t i;

	fill(0, host.data(), part, BF16);
	CHECK(!cudaMalloc(&src, most) && !cudaMalloc(&coded, most + (most >> 8)) &&
	      !cudaMalloc(&back, most));
	for (i = 0; i < most; i += part)
		CHECK(!cudaMemcpy(src + i, host.data(), part, cudaMemcpyHostToDevice));
	copy = seconds([&] { cudaMemcpyAsync(back, src, most, cudaMemcpyDeviceToDevice, stream); },
		       3);
	printf("copy of 1 GiB: %.0f GB/s moved\n", 2 * most / copy / 1e9);
	for (int codec : {URCCL_CODEC_N23, URCCL_CODEC_FW4}) {
		moved = 1 + (double)urccl_codec_encode(codec | URCCL_CODEC_NO_CRC, BF16,
						       host.data(), part, chunk.data(),
						       chunk.size()) /
				    part;
		roof = 2 * most / copy / 1e9 / moved;
		for (size_t n : {256ul << 10, 2ul << 20, 16ul << 20, 256ul << 20, most})
			for (int sms : budgets) {
				int times = n >= 256ul << 20 ? 2 : 20;

				e = seconds([&] { encode_on_gpu(codec, BF16, src, n, coded, sms); },
					    times);
				CHECK(wait_result() > 0);
				d = seconds([&] { decode_on_gpu(BF16, coded, n, back, n, sms); },
					    times);
				CHECK(wait_result() == (int64_t)n);
				printf("%s %7zu KiB %3s SMs: encode %7.1f GB/s %8.1f us, "
				       "decode %7.1f GB/s %8.1f us, of the roof %.2f and %.2f\n",
				       codec == URCCL_CODEC_N23 ? "N23" : "FW4", n >> 10,
				       sms ? std::to_string(sms).c_str() : "all", n / e / 1e9,
				       e * 1e6, n / d / 1e9, d * 1e6, n / e / 1e9 / roof,
				       n / d / 1e9 / roof);
			}
	}
}

int main(int argc, char **argv)
{
	is_quick = argc > 1 && !strcmp(argv[1], "quick");
	prepare();
	compare_all();
	if (!is_quick)
		rates();
	for (struct urccl_codec_gpu *codec : codecs)
		urccl_codec_gpu_close(codec);
	return 0;
}
