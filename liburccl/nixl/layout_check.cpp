/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled against a source tree of NIXL (-Dnixl_headers=PATH): what nixl_backend.h and plugin.h say
 * of layouts, values and slots is what its headers say. */
#include <sstream>

/* NIXL's log needs a library of which this check needs nothing. */
#define NIXL_ERROR std::ostringstream()
#define NIXL_ASSERT(x) (void)(x)
#define NIXL_SRC_UTILS_COMMON_NIXL_LOG_H

#define private public
#define protected public
#include "backend_engine.h"
#include "backend_plugin.h"
#undef private
#undef protected

namespace ours
{
#include "plugin.h"
}

using namespace ours;

#define SAME_SIZE(a, b) static_assert(sizeof(a) == sizeof(b))
#define SAME_PLACE(a, x, b, y) static_assert(offsetof(a, x) == offsetof(b, y))
#define SAME_VALUE(a, b) static_assert((int)(a) == (int)(b))

/* A pointer to a virtual function holds its slot in the table, times 8, plus 1. */
template <class F> static size_t slot(F f)
{
	size_t value;

	memcpy(&value, &f, sizeof(value));
	return value;
}
