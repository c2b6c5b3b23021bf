/* SPDX-License-Identifier: Apache-2.0 */
/* Embeds the kernels; the build names their folder to the assembler. */
	.section .rodata

	.balign 64
notify:
	.incbin "notify.fatbin"
	.balign 64
dispatch:
	.incbin "dispatch.fatbin"
	.balign 64
combine:
	.incbin "combine.fatbin"
	.balign 64
ll_dispatch:
	.incbin "ll_dispatch.fatbin"
	.balign 64
ll_combine:
	.incbin "ll_combine.fatbin"

	.section .data.rel.ro, "aw"
	.globl ep_modules
	.hidden ep_modules
	.type ep_modules, %object
	.balign 8
ep_modules:
	.quad notify, dispatch, combine, ll_dispatch, ll_combine
	.size ep_modules, . - ep_modules

	.section .note.GNU-stack, "", %progbits
