/* SPDX-License-Identifier: Apache-2.0 */
/* The demo's model and trace, so that the program needs no files. MODEL and TRACE are their paths. */
	.section .rodata
	.globl builtin_model, builtin_model_end, builtin_trace, builtin_trace_end
builtin_model:
	.incbin MODEL
builtin_model_end:
	.byte 0
builtin_trace:
	.incbin TRACE
builtin_trace_end:
	.byte 0
	.section .note.GNU-stack,"",%progbits
