/* SPDX-License-Identifier: Apache-2.0 */
/* Structs that begin with their size, so that programs and libraries of different versions work
 * together. */
#include "base/base.h"

#define SIZE_LEAST 8u	 /* The size and one field */
#define SIZE_MOST  4096u /* A larger value cannot be a size */

static int check_size(uint32_t size, uint32_t known, const char *what)
{
	if (size < SIZE_LEAST || size > SIZE_MOST)
		return fail(-EINVAL, "size of %s is %u: set it to sizeof, which is %u here", what,
			    size, known);
	return 0;
}

int copy_sized(void *dst, uint32_t known, const void *src, const char *what)
{
	const uint8_t *from = src;
	uint32_t size, i;
	int err;

	memcpy(&size, src, sizeof(size));
	err = check_size(size, known, what);
	if (err)
		return err;
	for (i = known; i < size; i++)
		if (from[i])
			return fail(-E2BIG,
				    "byte %u of %s is set: this version knows %u bytes of "
				    "it",
				    i, what, known);
	memcpy(dst, src, size < known ? size : known);
	memcpy(dst, &known, sizeof(known));
	return 0;
}

int fill_sized(void *dst, const void *src, uint32_t known, const char *what)
{
	uint8_t *to = dst;
	uint32_t size;
	int err;

	memcpy(&size, dst, sizeof(size));
	err = check_size(size, known, what);
	if (err)
		return err;
	memcpy(to, src, size < known ? size : known);
	if (size > known)
		memset(to + known, 0, size - known);
	memcpy(to, &size, sizeof(size));
	return 0;
}
