/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels as machine code; the build names their folder to the assembler. */
	.section .rodata
	.balign 64
gather:
	.incbin "gather.fatbin"

	.section .data.rel.ro, "aw"
	.globl cuda_gather_binary
	.hidden cuda_gather_binary
	.type cuda_gather_binary, %object
	.balign 8
cuda_gather_binary:
	.quad gather
	.size cuda_gather_binary, 8

	.section .note.GNU-stack, "", %progbits
