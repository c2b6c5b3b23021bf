/* SPDX-License-Identifier: Apache-2.0 */
/* Built against a source tree of NIXL (-Dnixl_headers=PATH), a test: layouts, values and slots of
 * nixl_backend.h and plugin.h are those of NIXL's headers. */
#define __NIXL_LOG_H /* NIXL's log needs a library of its own, and nothing here logs */
#define NIXL_ASSERT(x) (void)(x)
#define NIXL_ERROR std::cerr

#include <array>
#include <cstddef>
#include <cstring>
#include <iostream>
#include <set>
#include <sstream>

#define private public
#define protected public
#include "backend_plugin.h"
#undef private
#undef protected
#include "plugin.h"

#define SAME_SIZE(a, b) static_assert(sizeof(a) == sizeof(b))
#define SAME_PLACE(a, x, b, y) static_assert(offsetof(a, x) == offsetof(b, y))

SAME_SIZE(range, nixlBasicDesc);
SAME_SIZE(blob_range, nixlBlobDesc);
SAME_PLACE(blob_range, blob, nixlBlobDesc, metaInfo);
SAME_SIZE(descriptor, nixlMetaDesc);
SAME_PLACE(descriptor, owner, nixlMetaDesc, metadataP);
SAME_SIZE(descriptors, nixl_meta_dlist_t);
SAME_PLACE(descriptors, items, nixl_meta_dlist_t, descs);
SAME_SIZE(transfer_options, nixl_opt_b_args_t);
SAME_PLACE(transfer_options, has_notification, nixl_opt_b_args_t, hasNotif);
SAME_SIZE(engine_params, nixlBackendInitParams);
SAME_PLACE(engine_params, custom, nixlBackendInitParams, customParams);
SAME_PLACE(engine_params, telemetry, nixlBackendInitParams, enableTelemetry_);
static_assert(sizeof(engine_state) + sizeof(void *) == sizeof(nixlBackendEngine));
static_assert(offsetof(engine_state, failed) + sizeof(void *) ==
	      offsetof(nixlBackendEngine, initErr));
SAME_SIZE(notifications, notif_list_t);
SAME_SIZE(answers, std::vector<nixl_query_resp_t>);
static_assert((int)IN_PROG == NIXL_IN_PROG && (int)NOT_POSTED == NIXL_ERR_NOT_POSTED &&
	      (int)NOT_SUPPORTED == NIXL_ERR_NOT_SUPPORTED && (int)CANCELED == NIXL_ERR_CANCELED &&
	      (int)REPOST_ACTIVE == NIXL_ERR_REPOST_ACTIVE && (int)DRAM == DRAM_SEG &&
	      (int)READ == NIXL_READ && API_VERSION == NIXL_PLUGIN_API_VERSION);

/* A pointer to a virtual function holds its place in the table plus 1. */
template <class F> static size_t slot(F f)
{
	size_t place;

	memcpy(&place, &f, sizeof(place));
	return place / sizeof(void *);
}

int main()
{
	using ours = urccl_engine;
	using base = nixlBackendEngine;
	const size_t pairs[][2] = {
		{slot(&ours::supports_remote), slot(&base::supportsRemote)},
		{slot(&ours::supports_local), slot(&base::supportsLocal)},
		{slot(&ours::supports_notifications), slot(&base::supportsNotif)},
		{slot(&ours::types), slot(&base::getSupportedMems)},
		{slot(&ours::register_memory), slot(&base::registerMem)},
		{slot(&ours::deregister_memory), slot(&base::deregisterMem)},
		{slot(&ours::connect), slot(&base::connect)},
		{slot(&ours::disconnect), slot(&base::disconnect)},
		{slot(&ours::unload), slot(&base::unloadMD)},
		{slot(&ours::prepare), slot(&base::prepXfer)},
		{slot(&ours::post), slot(&base::postXfer)},
		{slot(&ours::check), slot(&base::checkXfer)},
		{slot(&ours::release), slot(&base::releaseReqH)},
		{slot(&ours::release_view), slot(&base::releaseMemView)},
		{slot(&ours::public_data), slot(&base::getPublicData)},
		{slot(&ours::connection_info), slot(&base::getConnInfo)},
		{slot(&ours::load_connection), slot(&base::loadRemoteConnInfo)},
		{slot(&ours::load_remote), slot(&base::loadRemoteMD)},
		{slot(&ours::load_local), slot(&base::loadLocalMD)},
		{slot(&ours::take_notifications), slot(&base::getNotifs)},
		{slot(&ours::notify), slot(&base::genNotif)},
		{slot(&ours::query), slot(&base::queryMem)},
		{slot(&ours::estimate), slot(&base::estimateXferCost)},
	};
	int failed = slot(&base::estimateXferCost) != 26;

	for (const auto &pair : pairs)
		if (pair[0] != pair[1]) {
			std::cerr << "slot " << pair[0] << " is NIXL's " << pair[1] << "\n";
			failed = 1;
		}
	return failed;
}
