/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels as PTX, which the driver takes as a string. */
	.section .rodata
	.globl cuda_gather_ptx
	.hidden cuda_gather_ptx
	.type cuda_gather_ptx, %object
cuda_gather_ptx:
	.incbin GATHER
	.byte 0
	.size cuda_gather_ptx, . - cuda_gather_ptx

	.section .note.GNU-stack, "", %progbits
