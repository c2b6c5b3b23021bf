/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a test tells the stand-in and asks it; found by dlsym(), as the real driver has neither.
 *
 * URCCL_TEST_CUDA, and cuda_double_set() at run time, have words with commas between. Programs that
 * take their settings from the environment refuse a variable of that name: CUDA_DOUBLE serves them.
 *
 *	gpus=N			GPUs, 0 to 8; otherwise 2
 *	memory=BYTES		of each GPU; otherwise 16 GiB
 *	driver=N		version of the driver; otherwise 13000
 *	delay=US		a copy begins so much later
 *	kernel=US		a kernel begins so much later
 *	late=US			a copy's last 64 bytes land so much later than the rest
 *	block=CLASS:US		calls of a class take so long, as behind a cudaFree(); 50ms is
 *				50000
 *	hold=CLASS		calls of a class do not return until hold=none
 *	fail=N:CODE		the Nth operation of a stream from now on fails: a CODE from 700 to
 *				799 breaks its context, another one is what its call returns
 *	refuse=FUNCTION:CODE	calls of the function (without _v2) return CODE; refuse=none
 *	hang=N			the Nth stream of the process, from 1, never proceeds; 0: none
 *	nopeer			GPUs have no access to each other
 *	nokernels		modules cannot be loaded
 *	novmm, nolegacy		no cuMemCreate(); no cuIpcGetMemHandle()
 *	nodmabuf		no cuMemGetHandleForAddressRange()
 *	reuse			memory of the same length comes back at a freed address
 *	touch			memory begins where that of a later call ends
 *	capture			the program records a graph: a call that would end it aborts, unless
 *				its thread chose CU_STREAM_CAPTURE_MODE_RELAXED
 *	stale			cuMemFree() may free memory that another process has open; it
 *				aborts otherwise, as CUDA leaves that undefined
 *
 * A word with 0 behind it ("reuse=0") is taken back. The classes are memcpy (copies, sets, words),
 * alloc (cuMemAlloc, cuMemFree), host (pinned memory), vmm, ipc, stream (and events), launch (and
 * modules) and all.
 */
#ifndef CUDA_CONTROL_H
#define CUDA_CONTROL_H

/* Applies words. 0, or -1: one is unknown. */
int cuda_double_set(const char *words);

/* Calls of threads whose name at their first call began with `thread`, of functions whose name
 * begins with `function`; NULL: of all. */
unsigned long cuda_double_calls(const char *thread, const char *function);

/* The len bytes of device memory at addr, for doubles of devices of RDMA that find them as
 * nvidia_peermem does; NULL: there are none in one piece. */
unsigned char *cuda_double_view(unsigned long addr, unsigned long len);

/* Calls of the calling thread. */
unsigned long cuda_double_calls_here(void);

#endif
