/* SPDX-License-Identifier: Apache-2.0 */
/*
 * liburccl-ffi.so is for bindings that cannot compile C: it has each inline function of liburccl.h
 * as a symbol, and for each macro a program needs a function that does the same. C programs have no
 * use for it.
 */
#ifndef LIBURCCL_FFI_H
#define LIBURCCL_FFI_H

#include <liburccl.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* The i-th CQE not yet taken, counted from 0, or NULL: urccl_for_each_cqe() step by step. */
struct urccl_cqe *urccl_cqe_at(const struct urccl_ring *ring, uint32_t i);

/* The constants of the same names, from the header that the library was built with. */
uint32_t urccl_version_major(void);
uint32_t urccl_version_minor(void);
uint32_t urccl_version_patch(void);
uint32_t urccl_metadata_max(void);
uint32_t urccl_note_max(void);
uint32_t urccl_dims_max(void);
uint32_t urccl_deadline_default(void);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
