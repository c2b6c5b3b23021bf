/* SPDX-License-Identifier: Apache-2.0 */
/* Embeds the kernels; the build names their folder to the assembler. */
	.section .rodata
	.balign 64
kernels:
	.incbin "codec.fatbin"

	.section .data.rel.ro, "aw"
	.globl codec_kernels
	.hidden codec_kernels
	.type codec_kernels, %object
	.balign 8
codec_kernels:
	.quad kernels
	.size codec_kernels, 8

	.section .note.GNU-stack, "", %progbits
