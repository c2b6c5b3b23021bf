/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC32C: the polynomial of Castagnoli (Castagnoli, Braeuer and Herrmann, 1993) with reflected
 * bits, and with the register complemented at both ends, as iSCSI uses it (RFC 3720, appendix B.4).
 *
 * The version with tables takes eight bytes in each step ("slicing-by-8": Kounavis and Berry,
 * 2005). If the processor has the instruction, the code computes three adjacent runs at the same
 * time and joins their results: it shifts a register over the length of the next run, by tables of
 * the effect of zero bytes (Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32
 * Instruction", Intel, 2011).
 */
#include <endian.h>
#include "base/crc32c.h"

/* A CRC is linear in its bits. So each of the 256 entries of a table is the XOR of the results for
 * the bits that are set in its index. */
/* clang-format off */
#define BIT(i, n, v)	((i) >> (n) & 1 ? (v) : 0u)
#define WORD(i, a, b, c, d, e, f, g, h)						\
	(BIT(i, 0, a) ^ BIT(i, 1, b) ^ BIT(i, 2, c) ^ BIT(i, 3, d) ^		\
	 BIT(i, 4, e) ^ BIT(i, 5, f) ^ BIT(i, 6, g) ^ BIT(i, 7, h))
#define WORDS4(i, ...)	WORD(i, __VA_ARGS__), WORD((i) + 1, __VA_ARGS__),	\
			WORD((i) + 2, __VA_ARGS__), WORD((i) + 3, __VA_ARGS__)
#define WORDS16(i, ...)	WORDS4(i, __VA_ARGS__), WORDS4((i) + 4, __VA_ARGS__),	\
			WORDS4((i) + 8, __VA_ARGS__), WORDS4((i) + 12, __VA_ARGS__)
#define WORDS64(i, ...)	WORDS16(i, __VA_ARGS__), WORDS16((i) + 16, __VA_ARGS__), \
			WORDS16((i) + 32, __VA_ARGS__), WORDS16((i) + 48, __VA_ARGS__)
#define TABLE(...)	WORDS64(0, __VA_ARGS__), WORDS64(64, __VA_ARGS__),	\
			WORDS64(128, __VA_ARGS__), WORDS64(192, __VA_ARGS__)

/* slices[k]: the result for a byte that k zero bytes follow. */
static const uint32_t slices[8][256] = {
	{TABLE(0xf26b8303u, 0xe13b70f7u, 0xc79a971fu, 0x8ad958cfu,
	       0x105ec76fu, 0x20bd8edeu, 0x417b1dbcu, 0x82f63b78u)},
	{TABLE(0x13a29877u, 0x274530eeu, 0x4e8a61dcu, 0x9d14c3b8u,
	       0x3fc5f181u, 0x7f8be302u, 0xff17c604u, 0xfbc3faf9u)},
	{TABLE(0xa541927eu, 0x4f6f520du, 0x9edea41au, 0x38513ec5u,
	       0x70a27d8au, 0xe144fb14u, 0xc76580d9u, 0x8b277743u)},
	{TABLE(0xdd45aab8u, 0xbf672381u, 0x7b2231f3u, 0xf64463e6u,
	       0xe964b13du, 0xd725148bu, 0xaba65fe7u, 0x52a0c93fu)},
	{TABLE(0x38116facu, 0x7022df58u, 0xe045beb0u, 0xc5670b91u,
	       0x8f2261d3u, 0x1ba8b557u, 0x37516aaeu, 0x6ea2d55cu)},
	{TABLE(0xef306b19u, 0xdb8ca0c3u, 0xb2f53777u, 0x6006181fu,
	       0xc00c303eu, 0x85f4168du, 0x0e045bebu, 0x1c08b7d6u)},
	{TABLE(0x68032cc8u, 0xd0065990u, 0xa5e0c5d1u, 0x4e2dfd53u,
	       0x9c5bfaa6u, 0x3d5b83bdu, 0x7ab7077au, 0xf56e0ef4u)},
	{TABLE(0x493c7d27u, 0x9278fa4eu, 0x211d826du, 0x423b04dau,
	       0x847609b4u, 0x0d006599u, 0x1a00cb32u, 0x34019664u)},
};

const uint32_t crc32c_past_long[4][256] = {
	{TABLE(0xc2a5b65eu, 0x80a71a4du, 0x04a2426bu, 0x094484d6u,
	       0x128909acu, 0x25121358u, 0x4a2426b0u, 0x94484d60u)},
	{TABLE(0x2d7cec31u, 0x5af9d862u, 0xb5f3b0c4u, 0x6e0b1779u,
	       0xdc162ef2u, 0xbdc02b15u, 0x7e6c20dbu, 0xfcd841b6u)},
	{TABLE(0xfc5cf59du, 0xfd559dcbu, 0xff474d67u, 0xfb62ec3fu,
	       0xf329ae8fu, 0xe3bf2befu, 0xc292212fu, 0x80c834afu)},
	{TABLE(0x047c1fafu, 0x08f83f5eu, 0x11f07ebcu, 0x23e0fd78u,
	       0x47c1faf0u, 0x8f83f5e0u, 0x1aeb9d31u, 0x35d73a62u)},
};

const uint32_t crc32c_past_short[4][256] = {
	{TABLE(0xdcb17aa4u, 0xbc8e83b9u, 0x7cf17183u, 0xf9e2e306u,
	       0xf629b0fdu, 0xe9bf170bu, 0xd69258e7u, 0xa8c8c73fu)},
	{TABLE(0x547df88fu, 0xa8fbf11eu, 0x541b94cdu, 0xa837299au,
	       0x558225c5u, 0xab044b8au, 0x53e4e1e5u, 0xa7c9c3cau)},
	{TABLE(0x4a7ff165u, 0x94ffe2cau, 0x2c13b365u, 0x582766cau,
	       0xb04ecd94u, 0x6571edd9u, 0xcae3dbb2u, 0x902bc195u)},
	{TABLE(0x25bbf5dbu, 0x4b77ebb6u, 0x96efd76cu, 0x2833d829u,
	       0x5067b052u, 0xa0cf60a4u, 0x4472b7b9u, 0x88e56f72u)},
};
/* clang-format on */

uint32_t crc32c_slow(uint32_t crc, const uint8_t *p, size_t len)
{
	uint64_t w;

	for (; len >= 8; p += 8, len -= 8) {
		w = le64toh(crc32c_word(p)) ^ crc;
		crc = slices[7][w & 0xff] ^ slices[6][w >> 8 & 0xff] ^ slices[5][w >> 16 & 0xff] ^
		      slices[4][w >> 24 & 0xff] ^ slices[3][w >> 32 & 0xff] ^
		      slices[2][w >> 40 & 0xff] ^ slices[1][w >> 48 & 0xff] ^ slices[0][w >> 56];
	}
	for (; len; p++, len--)
		crc = crc >> 8 ^ slices[0][(crc ^ *p) & 0xff];
	return crc;
}

uint32_t crc32c(uint32_t crc, const void *data, size_t len)
{
	return ~(crc32c_is_fast() ? crc32c_fast : crc32c_slow)(~crc, data, len);
}
