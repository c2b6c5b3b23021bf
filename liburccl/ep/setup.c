/* SPDX-License-Identifier: Apache-2.0 */
/* The windows of a group: liburccl finds the ranks and maps their windows. */
#include "group.h"

#include <liburccl.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_MS = 100000, RIGHTS = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE };

/* A rank publishes its card; the other ranks need it to map the window. */
struct card {
	uint32_t len; /* of metadata */
	uint8_t metadata[URCCL_METADATA_MAX];
	struct urccl_advert advert;
};

struct urccl_ep_windows {
	struct urccl *ctx;
	struct urccl_ring *ring;
	struct urccl_region region; /* this rank's window */
	uint32_t timeout_ms;
	void *address[URCCL_EP_MAX_RANKS];
	struct urccl_remote mapped[URCCL_EP_MAX_RANKS]; /* id 0: not mapped */
};

static int check_attr(const struct urccl_ep_windows_attr *a)
{
	if (a->size != sizeof(*a))
		return ep_error(-EINVAL, "attr.size is %u, this library's is %zu", a->size,
				sizeof(*a));
	if (!a->ranks || a->ranks > URCCL_EP_MAX_RANKS || a->rank >= a->ranks)
		return ep_error(-EINVAL, "rank %u of %u; allowed are 1 to %d ranks", a->rank,
				a->ranks, URCCL_EP_MAX_RANKS);
	if (!a->window || !a->bytes || !a->put || !a->get)
		return ep_error(-EINVAL, "window, bytes, put or get is 0");
	return 0;
}

/* Submits the entry that was prepared and waits for its end. Returns its res, with the reason in
 * the error text. Events of peers that dial this rank are passed over. */
static int64_t run_entry(struct urccl_ep_windows *w, struct urccl_sqe *sqe, uint32_t rank,
			 const char *doing, uint64_t *handle)
{
	struct urccl_cqe *cqe;
	char why[200];
	int64_t res;
	bool ours;

	urccl_sqe_set_deadline_us(sqe, w->timeout_ms < UINT32_MAX / 1000 ? w->timeout_ms * 1000
									 : UINT32_MAX);
	urccl_sqe_set_data(sqe, w);
	urccl_submit(w->ring);
	do {
		res = urccl_wait_cqe(w->ring, &cqe);
		if (res < 0)
			return ep_error((int)res, "rank %u: %s: %s", rank, doing, urccl_errmsg());
		ours = urccl_cqe_kind(cqe) == URCCL_KIND_OP && urccl_cqe_get_data(cqe) == w;
		res = cqe->res;
		if (ours && res < 0) {
			urccl_explain(w->ctx, cqe, why, sizeof(why));
			ep_error((int)res, "rank %u: %s: %s", rank, doing, why);
		} else if (ours && handle) {
			*handle = cqe->handle;
		}
		urccl_cqe_seen(w->ring, cqe);
	} while (!ours);
	return res;
}

/* Opens the library and makes this rank's card. */
static int open_context(struct urccl_ep_windows *w, const struct urccl_ep_windows_attr *a,
			struct card *card)
{
	struct urccl_range range = {(uintptr_t)a->window, a->bytes, 0, -1, 0};
	struct urccl_params params;
	int res;

	urccl_params_init(&params);
	params.transport = "shm";
	params.cuda_so = a->cuda_so;
	params.thread_name = "urcclep";
	if ((res = urccl_open(&params, &w->ctx)) || (res = urccl_ring_open(w->ctx, NULL, &w->ring)))
		return ep_error(res, "cannot open liburccl: %s", urccl_errmsg());
	urccl_prep_accept(urccl_get_sqe(w->ring));
	urccl_submit(w->ring);
	if ((res = urccl_register(w->ctx, &range, 1, RIGHTS, &w->region)) ||
	    (res = urccl_advertise(w->ctx, w->region, 0, a->bytes, RIGHTS, 0, &card->advert)) ||
	    (res = urccl_metadata(w->ctx, card->metadata, sizeof(card->metadata))) < 0)
		return ep_error(res, "cannot share the window: %s", urccl_errmsg());
	card->len = (uint32_t)res;
	return 0;
}

static int map_rank(struct urccl_ep_windows *w, uint32_t rank, const struct card *card)
{
	struct urccl_remote remote;
	uint64_t handle, address;
	struct urccl_peer peer;
	struct urccl_sqe *sqe;
	int64_t res;

	if (card->len > sizeof(card->metadata))
		return ep_error(-EPROTO, "rank %u gave no metadata of this library", rank);
	sqe = urccl_get_sqe(w->ring);
	urccl_prep_connect(sqe, card->metadata, card->len);
	res = run_entry(w, sqe, rank, "cannot connect", &handle);
	if (res < 0)
		return (int)res;
	peer.id = (uint32_t)handle;
	res = urccl_import(w->ctx, peer, &card->advert, 1, &remote);
	if (res)
		return ep_error((int)res, "rank %u: cannot import its window: %s", rank,
				urccl_errmsg());
	sqe = urccl_get_sqe(w->ring);
	urccl_prep_warm(sqe, peer);
	res = run_entry(w, sqe, rank, "cannot fetch the key of its window", NULL);
	if (res < 0)
		return (int)res;
	res = urccl_remote_map(w->ctx, remote, &address);
	if (res)
		return ep_error((int)res, "rank %u: cannot map its window: %s", rank,
				urccl_errmsg());
	w->address[rank] = ep_pointer(address);
	w->mapped[rank] = remote;
	return 0;
}

static void unmap_ranks(struct urccl_ep_windows *w)
{
	for (uint32_t r = 0; r < URCCL_EP_MAX_RANKS; r++)
		if (w->mapped[r].id)
			urccl_remote_unmap(w->ctx, w->mapped[r]);
}

int urccl_ep_windows_open(const struct urccl_ep_windows_attr *a, struct urccl_ep_windows **out)
{
	struct card card = {.len = 0};
	struct urccl_ep_windows *w;
	int res = check_attr(a);

	if (res)
		return res;
	w = calloc(1, sizeof(*w));
	if (!w)
		return ep_error(-ENOMEM, "no memory");
	w->timeout_ms = a->timeout_ms ? a->timeout_ms : TIMEOUT_MS;
	w->address[a->rank] = a->window;
	res = open_context(w, a, &card);
	if (!res && (res = a->put(a->arg, &card, sizeof(card))) < 0)
		ep_error(res, "put: errno %d", (int)-res);
	for (uint32_t r = 0; r < a->ranks && res >= 0; r++) {
		if (r == a->rank)
			continue;
		res = a->get(a->arg, r, &card, sizeof(card));
		if (res < 0)
			ep_error(res, "rank %u did not come: errno %d", r, (int)-res);
		else
			res = map_rank(w, r, &card);
	}
	if (res < 0) {
		unmap_ranks(w);
		urccl_close(w->ctx);
		free(w);
		return res;
	}
	*out = w;
	return 0;
}

void **urccl_ep_windows_addresses(struct urccl_ep_windows *w)
{
	return w->address;
}

int urccl_ep_windows_close(struct urccl_ep_windows *w)
{
	int res;

	if (!w)
		return 0;
	unmap_ranks(w);
	res = urccl_unregister(w->ctx, w->region);
	if (res)
		ep_error(res, "a rank has not unmapped this window: %s", urccl_errmsg());
	urccl_close(w->ctx);
	free(w);
	return res;
}
