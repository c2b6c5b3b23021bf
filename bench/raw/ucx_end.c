/* SPDX-License-Identifier: Apache-2.0 */
#include "ucx.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* What the second tells the first, before the bytes of both. */
struct card {
	uint64_t addr, address_len, key_len;
};

static const ucp_request_param_t none;

void end_check(ucs_status_t status, const char *what)
{
	if (status != UCS_OK)
		bench_die("%s: %s", what, ucs_status_string(status));
}

void end_wait(struct end *e, ucs_status_ptr_t request, const char *what)
{
	ucs_status_t status;

	if (!UCS_PTR_IS_PTR(request)) {
		end_check(UCS_PTR_STATUS(request), what);
		return;
	}
	while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
		ucp_worker_progress(e->worker);
	end_check(status, what);
	ucp_request_free(request);
}

static void worker_open(struct end *e, const char *transports)
{
	ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_RMA};
	ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
				      .thread_mode = UCS_THREAD_MODE_SINGLE};
	ucp_config_t *config;

	end_check(ucp_config_read(NULL, NULL, &config), "ucp_config_read");
	end_check(ucp_config_modify(config, "TLS", transports), transports);
	end_check(ucp_init(&params, config, &e->context), "ucp_init");
	ucp_config_release(config);
	end_check(ucp_worker_create(e->context, &worker, &e->worker), "ucp_worker_create");
}

/* Ordinary memory, or what UCX makes of it where it may choose: a segment that the other maps. */
static void memory_open(struct end *e, const struct raw_options *o, int which)
{
	ucp_mem_map_params_t params = {
		.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
			      UCP_MEM_MAP_PARAM_FIELD_FLAGS,
		.length = o->span,
		.flags = o->alloc ? UCP_MEM_MAP_ALLOCATE : 0,
	};
	ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};

	e->span = o->span;
	e->alloc = o->alloc;
	params.address = o->alloc ? NULL : bench_map(o->span, o->pages);
	end_check(ucp_mem_map(e->context, &params, &e->memory), "ucp_mem_map");
	end_check(ucp_mem_query(e->memory, &attr), "ucp_mem_query");
	e->buf = attr.address;
	raw_fill(e->buf, e->span, (uint64_t)which);
}

static void tell(struct end *e, int fd)
{
	struct card card = {.addr = (uintptr_t)e->buf};
	ucp_address_t *address;
	size_t address_len, key_len;
	void *key;

	end_check(ucp_worker_get_address(e->worker, &address, &address_len),
		  "ucp_worker_get_address");
	end_check(ucp_rkey_pack(e->context, e->memory, &key, &key_len), "ucp_rkey_pack");
	card.address_len = address_len;
	card.key_len = key_len;
	pair_send(fd, &card, sizeof(card));
	pair_send(fd, address, address_len);
	pair_send(fd, key, key_len);
	ucp_rkey_buffer_release(key);
	ucp_worker_release_address(e->worker, address);
}

static void hear(struct end *e, int fd)
{
	ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
	struct card card;
	uint8_t *bytes;

	pair_receive(fd, &card, sizeof(card));
	bytes = malloc(card.address_len + card.key_len);
	if (!bytes)
		bench_die("out of memory");
	pair_receive(fd, bytes, card.address_len);
	pair_receive(fd, bytes + card.address_len, card.key_len);
	params.address = (ucp_address_t *)bytes;
	end_check(ucp_ep_create(e->worker, &params, &e->ep), "ucp_ep_create");
	end_check(ucp_ep_rkey_unpack(e->ep, bytes + card.address_len, &e->key),
		  "ucp_ep_rkey_unpack");
	e->theirs = card.addr;
	free(bytes);
}

void end_open(struct end *e, const struct raw_options *o, int which, int fd)
{
	memset(e, 0, sizeof(*e));
	worker_open(e, o->provider);
	memory_open(e, o, which);
	/* Both have an endpoint: a worker without any leaves its progress to a thread of UCX's. */
	if (which == SECOND)
		tell(e, fd);
	hear(e, fd);
	if (which == FIRST)
		tell(e, fd);
}

void end_close(struct end *e)
{
	ucp_rkey_destroy(e->key);
	end_wait(e, ucp_ep_close_nbx(e->ep, &none), "ucp_ep_close_nbx");
	end_check(ucp_mem_unmap(e->context, e->memory), "ucp_mem_unmap");
	if (!e->alloc)
		munmap(e->buf, e->span);
	ucp_worker_destroy(e->worker);
	ucp_cleanup(e->context);
}
