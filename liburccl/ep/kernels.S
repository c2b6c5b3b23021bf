/* SPDX-License-Identifier: Apache-2.0 */
/* Embeds the kernels; the build names their folder to the assembler. PTX ends with a zero byte. */
	.section .rodata

	.balign 64
notify:
	.incbin "notify.kernel"
	.byte 0
	.balign 64
dispatch:
	.incbin "dispatch.kernel"
	.byte 0
	.balign 64
combine:
	.incbin "combine.kernel"
	.byte 0
	.balign 64
ll_dispatch:
	.incbin "ll_dispatch.kernel"
	.byte 0
	.balign 64
ll_combine:
	.incbin "ll_combine.kernel"
	.byte 0

	.section .data.rel.ro, "aw"
	.globl ep_modules
	.hidden ep_modules
	.type ep_modules, %object
	.balign 8
ep_modules:
	.quad notify, dispatch, combine, ll_dispatch, ll_combine
	.size ep_modules, . - ep_modules

	.section .note.GNU-stack, "", %progbits
