/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events and words of memory of GPU 0, for the file of a test that has device.h. */
#ifndef CUDA_STREAM_H
#define CUDA_STREAM_H

#include "cuda/device.h"

static struct {
	int (*stream_new)(void **to, unsigned flags);
	int (*copy)(uint64_t dst, uint64_t src, size_t len, void *stream);
	int (*write)(void *stream, uint64_t addr, uint64_t value, unsigned flags);
	int (*wait)(void *stream, uint64_t addr, uint64_t value, unsigned flags);
	int (*sync)(void *stream);
	int (*event_new)(void **to, unsigned flags);
	int (*event_free)(void *event);
	int (*record)(void *event, void *stream);
} stream_cuda;

/* After device_load(). */
static inline void stream_load(void)
{
	DEVICE_SYMBOL(stream_cuda.stream_new, "cuStreamCreate", 1);
	DEVICE_SYMBOL(stream_cuda.copy, "cuMemcpyAsync", 1);
	DEVICE_SYMBOL(stream_cuda.write, "cuStreamWriteValue64_v2", 1);
	DEVICE_SYMBOL(stream_cuda.wait, "cuStreamWaitValue64_v2", 1);
	DEVICE_SYMBOL(stream_cuda.sync, "cuStreamSynchronize", 1);
	DEVICE_SYMBOL(stream_cuda.event_new, "cuEventCreate", 1);
	DEVICE_SYMBOL(stream_cuda.event_free, "cuEventDestroy_v2", 1);
	DEVICE_SYMBOL(stream_cuda.record, "cuEventRecord", 1);
}

static inline void *stream_open(void)
{
	void *stream;

	device_enter(0);
	CHECK_EQ(stream_cuda.stream_new(&stream, CU_STREAM_NON_BLOCKING), 0);
	device_leave();
	return stream;
}

static inline void stream_copy(void *stream, uint64_t dst, uint64_t src, uint64_t len)
{
	device_enter(0);
	CHECK_EQ(stream_cuda.copy(dst, src, len, stream), 0);
	device_leave();
}

static inline void stream_write(void *stream, uint64_t word, uint64_t value)
{
	device_enter(0);
	CHECK_EQ(stream_cuda.write(stream, word, value, 0), 0);
	device_leave();
}

/* Of memory of a GPU, or pinned. */
static inline void stream_wait(void *stream, uint64_t word, uint64_t value)
{
	device_enter(0);
	CHECK_EQ(stream_cuda.wait(stream, word, value, CU_STREAM_WAIT_VALUE_GEQ), 0);
	device_leave();
}

static inline void stream_sync(void *stream)
{
	device_enter(0);
	CHECK_EQ(stream_cuda.sync(stream), 0);
	device_leave();
}

static inline void *event_open(void)
{
	void *event;

	device_enter(0);
	CHECK_EQ(stream_cuda.event_new(&event, CU_EVENT_DISABLE_TIMING), 0);
	device_leave();
	return event;
}

static inline void event_close(void *event)
{
	device_enter(0);
	CHECK_EQ(stream_cuda.event_free(event), 0);
	device_leave();
}

static inline void event_record(void *event, void *stream)
{
	device_enter(0);
	CHECK_EQ(stream_cuda.record(event, stream), 0);
	device_leave();
}

/* The stream stops there until *gate is at least value: pinned memory. */
static inline void gate_open(uint64_t *gate, uint64_t value)
{
	__atomic_store_n(gate, value, __ATOMIC_RELEASE);
}

/* A word of memory of a GPU. */
static inline void word_put(uint64_t word, uint64_t value)
{
	device_put(word, &value, sizeof(value));
}

static inline uint64_t word_get(uint64_t word)
{
	uint64_t value;

	device_get(&value, word, sizeof(value));
	return value;
}

#endif
