/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places that bpftrace, perf and SystemTap can watch: each is one instruction that does nothing,
 * and a note in the library that says where it is and where its arguments are. They are there where
 * <sys/sdt.h> was when the library was built; urccl_get_stats(3) lists them.
 */
#ifndef PROBE_H
#define PROBE_H

#ifndef URCCL_PROBES
#define URCCL_PROBES 0
#endif

#if URCCL_PROBES
#include <sys/sdt.h>
#define PROBE(name, a, b, c) STAP_PROBE3(urccl, name, a, b, c)
#else
#define PROBE(name, a, b, c) ((void)sizeof(a), (void)sizeof(b), (void)sizeof(c))
#endif

#endif
