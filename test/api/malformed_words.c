/* SPDX-License-Identifier: Apache-2.0 */
/* What an entry is to wait for, or to set: words that the library may not read or write, kinds of
 * words that there are not, and words where none can be. */
#include "malformed.h"

static void words(void)
{
	static uint64_t nowhere;
	uint64_t *word = (uint64_t *)(void *)local;
	struct urccl_ring *ring = p.a.ring;

	WRONG(write_entry(), urccl_sqe_set_wait(ring, sqe, NULL, 0), -EINVAL, "address");
	WRONG(write_entry(), urccl_sqe_set_signal(ring, sqe, NULL, 0), -EINVAL, "address");
	WRONG(write_entry(), urccl_sqe_set_wait(ring, sqe, (void *)(local + 4), 0), -EINVAL,
	      "multiple of 8");
	WRONG(write_entry(), urccl_sqe_set_signal(ring, sqe, (void *)(local + 1), 0), -EINVAL,
	      "multiple of 8");
	WRONG(write_entry(), urccl_sqe_set_wait(ring, sqe, &nowhere, 0), -EFAULT, "no region");
	WRONG(write_entry(), urccl_sqe_set_signal(ring, sqe, (uint64_t *)8, 0), -EFAULT,
	      "no region");
	WRONG(write_entry(), urccl_sqe_set_wait(ring, sqe, word, 0), -EACCES, "URCCL_RIGHT_READ");
	WRONG(write_entry(), urccl_sqe_set_signal(ring, sqe, word, 0), -EACCES,
	      "URCCL_RIGHT_WRITE");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->wait_kind = URCCL_SYNC_HIP_EVENT,
	      -EOPNOTSUPP, "field wait_kind");
	WRONG(write_entry(), urccl_sqe_set_wait_event(ring, sqe, NULL), -EINVAL, "NULL");
	WRONG(write_entry(), urccl_sqe_set_wait_event(ring, sqe, word), -EINVAL, "no GPU");
	WRONG(write_entry(),
	      (urccl_sqe_set_wait_event(ring, sqe, word), urccl_sqe_ext(ring, sqe)->wait_value = 1),
	      -EINVAL, "field wait_value");
	WRONG(write_entry(),
	      (urccl_sqe_set_ready(ring, sqe), urccl_sqe_ext(ring, sqe)->wait_ptr = 8), -EINVAL,
	      "field wait_ptr");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->signal_kind = URCCL_SYNC_CUDA_EVENT,
	      -EOPNOTSUPP, "field signal_kind");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->signal_kind = URCCL_SYNC_DONE, -EOPNOTSUPP,
	      "field signal_kind");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->signal_kind = URCCL_SYNC_HIP_EVENT,
	      -EOPNOTSUPP, "field signal_kind");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->wait_kind = 99, -EOPNOTSUPP,
	      "field wait_kind");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->wait_ptr = 8, -EINVAL, "field wait_ptr");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->wait_value = 1, -EINVAL, "field wait_value");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->signal_ptr = 8, -EINVAL, "field signal_ptr");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->signal_value = 1, -EINVAL,
	      "field signal_value");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->reserved0 = 1, -EINVAL, "field reserved0");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->reserved1 = 1, -EINVAL, "field reserved1");
	WRONG(add_entry(), urccl_sqe_set_wait(ring, sqe, word, 0), -EINVAL, "field wait_kind");
	WRONG(add_entry(), urccl_sqe_set_signal(ring, sqe, word, 0), -EINVAL, "field signal_kind");
}

void malformed_words(int argc, char **argv)
{
	malformed_begin(argc, argv);
	words();
	malformed_end();
}
