/* SPDX-License-Identifier: Apache-2.0 */
/* Each errno value has the name and the text that the C library gives it. */
#include "base/base.h"
#include "test.h"

int case_errno_text(void)
{
	int err;

	for (err = 0; err < 4096; err++) {
		const char *text = strerrordesc_np(err), *name = strerrorname_np(err);

		CHECK_EQ(!text, !errno_text(err));
		CHECK(!text || !strcmp(text, errno_text(err)));
		CHECK_EQ(!name || !err, !errno_name(err));
		CHECK(!errno_name(err) || !strcmp(name, errno_name(err)));
	}
	CHECK(!errno_text(-1));
	CHECK(!errno_name(-1));
	return 0;
}
