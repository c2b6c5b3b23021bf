/* SPDX-License-Identifier: Apache-2.0 */
/* HMAC-SHA256 by libcrypto. The library is loaded when a context that needs it is opened. */
#include <dlfcn.h>
#include "base/base.h"

#define LIBRARY "libcrypto.so.3"

/* Options of OPENSSL_init_crypto(3): the library installs no handler that runs when the program
 * ends, and reads no configuration file. */
#define NO_ATEXIT      0x00080000ull
#define NO_LOAD_CONFIG 0x00000080ull

struct hmac_functions {
	int (*init)(uint64_t opts, const void *settings);
	const void *(*sha256)(void);
	unsigned char *(*hmac)(const void *md, const void *key, int key_len,
			       const unsigned char *data, size_t len, unsigned char *out,
			       unsigned int *out_len);
};

/* Never unloads the library, because it may hold data for other threads of the program. */
int hmac_open(struct hmac *h)
{
	struct hmac_functions f = {NULL, NULL, NULL};
	const struct symbol symbols[] = {{"OPENSSL_init_crypto", &f.init},
					 {"EVP_sha256", &f.sha256},
					 {"HMAC", &f.hmac}};
	void *lib = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	const char *missing;

	if (!lib)
		return fail(-EOPNOTSUPP, "a shared secret needs " LIBRARY " (Debian: libssl3): %s",
			    dlerror());
	missing = symbols_find(lib, symbols, ARRAY_SIZE(symbols));
	if (missing)
		return fail(-EOPNOTSUPP,
			    "a shared secret needs " LIBRARY ", and the one here has "
			    "no %s",
			    missing);
	if (!f.init(NO_ATEXIT | NO_LOAD_CONFIG, NULL) || !f.sha256())
		return fail(-EOPNOTSUPP, LIBRARY " does not give SHA-256");
	h->digest = f.sha256();
	h->run = f.hmac;
	return 0;
}

int hmac_sha256(const struct hmac *h, const void *key, size_t key_len, const void *data, size_t len,
		uint8_t out[HMAC_BYTES])
{
	unsigned int n = HMAC_BYTES;

	assert(key_len <= INT32_MAX);
	return h->run(h->digest, key, (int)key_len, data, len, out, &n) && n == HMAC_BYTES
		       ? 0
		       : -ENOMEM;
}
