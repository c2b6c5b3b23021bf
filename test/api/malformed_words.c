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
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->wait_kind = URCCL_SYNC_CUDA_EVENT,
	      -EOPNOTSUPP, "byte 16");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->signal_kind = URCCL_SYNC_HIP_EVENT,
	      -EOPNOTSUPP, "byte 17");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->wait_kind = 99, -EOPNOTSUPP, "byte 16");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->wait_ptr = 8, -EINVAL, "byte 88");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->wait_value = 1, -EINVAL, "byte 96");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->signal_ptr = 8, -EINVAL, "byte 104");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->signal_value = 1, -EINVAL, "byte 112");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->reserved0 = 1, -EINVAL, "byte 84");
	WRONG(write_entry(), urccl_sqe_ext(ring, sqe)->reserved1 = 1, -EINVAL, "byte 120");
	WRONG(add_entry(), urccl_sqe_set_wait(ring, sqe, word, 0), -EINVAL, "byte 80");
	WRONG(add_entry(), urccl_sqe_set_signal(ring, sqe, word, 0), -EINVAL, "byte 81");
}

void malformed_words(int argc, char **argv)
{
	malformed_begin(argc, argv);
	words();
	malformed_end();
}
