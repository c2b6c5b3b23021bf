/* SPDX-License-Identifier: Apache-2.0 */
/* UCX: a worker that sends tagged messages to itself. */
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

#include "neighbours.h"
#include "test.h"

struct ucx {
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_ep_h ep;
};

static void *ucx_open(void)
{
	ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
			       .features = UCP_FEATURE_TAG | UCP_FEATURE_RMA};
	ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
				      .thread_mode = UCS_THREAD_MODE_SINGLE};
	ucp_ep_params_t ep = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
	struct ucx *x = calloc(1, sizeof(*x));
	ucp_address_t *address;
	ucp_config_t *config;
	size_t len;

	CHECK(x);
	CHECK_EQ(ucp_config_read(NULL, NULL, &config), UCS_OK);
	CHECK_EQ(ucp_init(&params, config, &x->context), UCS_OK);
	ucp_config_release(config);
	CHECK_EQ(ucp_worker_create(x->context, &worker, &x->worker), UCS_OK);
	CHECK_EQ(ucp_worker_get_address(x->worker, &address, &len), UCS_OK);
	ep.address = address;
	CHECK_EQ(ucp_ep_create(x->worker, &ep, &x->ep), UCS_OK);
	ucp_worker_release_address(x->worker, address);
	return x;
}

static void finish(struct ucx *x, ucs_status_ptr_t request)
{
	CHECK(!UCS_PTR_IS_ERR(request));
	if (!request)
		return;
	while (ucp_request_check_status(request) == UCS_INPROGRESS)
		ucp_worker_progress(x->worker);
	CHECK_EQ(ucp_request_check_status(request), UCS_OK);
	ucp_request_free(request);
}

static void ucx_use(void *self)
{
	static const ucp_request_param_t none;
	char text[] = "a message of UCX", got[sizeof(text)] = "";
	struct ucx *x = self;
	ucs_status_ptr_t receive;

	receive = ucp_tag_recv_nbx(x->worker, got, sizeof(got), 7, ~0ull, &none);
	finish(x, ucp_tag_send_nbx(x->ep, text, sizeof(text), 7, &none));
	finish(x, receive);
	CHECK_EQ(memcmp(got, text, sizeof(text)), 0);
}

static void ucx_close(void *self)
{
	static const ucp_request_param_t none;
	struct ucx *x = self;

	finish(x, ucp_ep_close_nbx(x->ep, &none));
	ucp_worker_destroy(x->worker);
	ucp_cleanup(x->context);
	free(x);
}

const struct neighbour neighbour_ucx = {"UCX", ucx_open, ucx_use, ucx_close};
