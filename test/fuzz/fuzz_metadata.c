/* SPDX-License-Identifier: Apache-2.0 */
/* What CONNECT is given: a metadata blob, as it is and with its check made right, and address text.
 */
#include <stdlib.h>

#include "control/private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is accepted makes the same blob again. */
static void fuzz_blob(const uint8_t *blob, uint64_t len)
{
	uint8_t again[METADATA_MAX];
	struct metadata m;

	if (metadata_get(blob, len, &m))
		return;
	if (metadata_put(again, &m) != len || memcmp(again, blob, len))
		abort();
}

static void fuzz_checked(const uint8_t *data, size_t size)
{
	static const uint8_t key[16];
	uint8_t blob[URCCL_METADATA_MAX + 8], check[16];

	memcpy(blob, data, size);
	siphash128(key, blob, size, check);
	memcpy(blob + size, check, 8);
	fuzz_blob(blob, size + 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sockaddr_storage ss;
	char host[256], port[8];

	fuzz_blob(data, size);
	if (size && size <= URCCL_METADATA_MAX)
		fuzz_checked(data, size);
	if (!address_split((const char *)data, size, host, port)) {
		if (!*host || !*port || strlen(host) > 255 || strlen(port) > 5)
			abort();
		(void)address_numeric(host, port, &ss);
	}
	return 0;
}
