/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probe points for bpftrace, perf and SystemTap. Each is one no-op instruction, and a note in the
 * library with its address and the places of its arguments. They exist if <sys/sdt.h> was available
 * when the library was built. urccl_get_stats(3) lists them.
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
