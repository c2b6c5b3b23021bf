/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codec on a GPU: the bytes of ../encode.c, and the data back. An encode is the kernels
 * begin, compare and encode_<dtype> on one stream; a decode is check and decode_<dtype>. The last
 * block to end writes the rest and the result. Nothing is allocated, nothing waits for the host.
 *
 * A tile is coded by a block of 256 threads; a thread has 64 neighbouring bytes. Blocks take tiles
 * in order from a counter in the result word. A tile's part of var begins where the one before
 * ends: "decoupled look-back" (Merrill and Garland, 2016) over the entries of the index, which hold
 * first a tile's own size and then the end of its part.
 *
 * The chunk begins at a multiple of 16 bytes, and the result word at one of 8; the data anywhere.
 * The chunk has no CRC32C of the data, and a decode does not check one.
 */
#include "decode.cuh"
#include "encode.cuh"

#define SMALL __launch_bounds__(THREADS, CODEC_BLOCKS)
#define LARGE __launch_bounds__(THREADS, 4)

extern "C" __global__ void SMALL
urccl_codec_encode_bytes(const __grid_constant__ struct codec_args g)
{
	encode<BYTES>(&g);
}

extern "C" __global__ void SMALL
urccl_codec_encode_bf16(const __grid_constant__ struct codec_args g)
{
	encode<BF16>(&g);
}

extern "C" __global__ void SMALL
urccl_codec_encode_fp16(const __grid_constant__ struct codec_args g)
{
	encode<FP16>(&g);
}

extern "C" __global__ void SMALL
urccl_codec_encode_fp32(const __grid_constant__ struct codec_args g)
{
	encode<FP32>(&g);
}

extern "C" __global__ void LARGE
urccl_codec_encode_e4m3(const __grid_constant__ struct codec_args g)
{
	encode<E4M3>(&g);
}

extern "C" __global__ void LARGE
urccl_codec_encode_e5m2(const __grid_constant__ struct codec_args g)
{
	encode<E5M2>(&g);
}

extern "C" __global__ void SMALL
urccl_codec_decode_bytes(const __grid_constant__ struct codec_args g)
{
	decode<BYTES>(&g);
}

extern "C" __global__ void SMALL
urccl_codec_decode_bf16(const __grid_constant__ struct codec_args g)
{
	decode<BF16>(&g);
}

extern "C" __global__ void SMALL
urccl_codec_decode_fp16(const __grid_constant__ struct codec_args g)
{
	decode<FP16>(&g);
}

extern "C" __global__ void SMALL
urccl_codec_decode_fp32(const __grid_constant__ struct codec_args g)
{
	decode<FP32>(&g);
}

extern "C" __global__ void LARGE
urccl_codec_decode_e4m3(const __grid_constant__ struct codec_args g)
{
	decode<E4M3>(&g);
}

extern "C" __global__ void LARGE
urccl_codec_decode_e5m2(const __grid_constant__ struct codec_args g)
{
	decode<E5M2>(&g);
}
