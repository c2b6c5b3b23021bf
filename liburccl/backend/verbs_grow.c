/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets up further queue pairs of an ep. A queue pair keeps the size that it was made with, and a
 * busy one cannot be replaced by a larger one without breaking it. So an ep begins with the first
 * queue pair, which is small. Another one is added when there is the first large request for it,
 * or, for small requests, when the first queue pair is full.
 *
 * To make a queue pair and to connect it to the peer's may take the kernel a while: ep_grow does
 * both, for one queue pair after the other. When ours is made, WAY tells the peer its number. The
 * peer makes its own unless it has, connects it to ours, answers with WAY, and sends READY. We
 * connect ours to the peer's, and send READY. A side that has sent and received READY uses the
 * queue pair. Both sides may begin.
 *
 * A side that cannot make one (-ENOMEM, the completion queue is full) continues with the first
 * queue pair, and so does its peer.
 *
 * WAY, little-endian: index of the queue pair u32, its number u32, its initial sequence number u32.
 * READY: index u32.
 */
#include <endian.h>
#include <stdlib.h>
#include "backend/verbs.h"

struct way_word {
	uint32_t which, qpn, psn;
};

/* ---- ep_grow: any thread ---- */

static int way_make(struct verbs_way *w)
{
	int rc = verbs_room(verbs_ep_device(w->ep), w, verbs_way_cqes(w));

	if (rc)
		return rc;
	w->grow.made = 1;
	w->slots = calloc(w->depth, sizeof(*w->slots));
	if (!w->slots)
		return fail(-ENOMEM, "no memory for an ib connection's requests");
	return verbs_qp_make(w->ep, w);
}

/* Gives its room in the completion queue to others. */
static void way_unmake(struct verbs_way *w)
{
	if (!w->grow.made)
		return;
	verbs_qp_destroy(w);
	verbs_room_free(verbs_ep_device(w->ep), verbs_way_cqes(w));
	free(w->slots);
	w->slots = NULL;
	w->grow.made = 0;
}

int verbs_ep_grow(struct ep *ep)
{
	struct verbs_ep *e = verbs_ep(ep);
	struct verbs_way *w = e->growing;
	int rc = w->grow.made ? 0 : way_make(w);

	if (!rc && e->meets) {
		rc = verbs_qp_meet(w, w->grow.qpn, w->grow.psn);
		if (rc)
			fail(rc, "ib: %s does not lead a queue pair to its peer's: %s",
			     verbs_ep_device(e)->port.name, errno_text(-rc));
	}
	if (rc)
		way_unmake(w);
	return rc;
}

void verbs_grow_free(struct verbs_ep *e)
{
	uint32_t i;

	for (i = WAY_FIRST + 1; i < WAYS; i++)
		way_unmake(&e->way[i]);
}

/* ---- engine ---- */

/* 1: ours must be made, or connected to theirs. */
static int is_due(const struct verbs_grow *g)
{
	if (g->gave_up || g->met)
		return 0;
	return g->heard || (g->wanted && !g->told);
}

static void step(struct verbs_ep *e)
{
	uint32_t i;

	if (e->growing || e->state != EP_UP)
		return;
	for (i = WAY_FIRST + 1; i < WAYS && !is_due(&e->way[i].grow); i++)
		;
	if (i == WAYS)
		return;
	e->growing = &e->way[i];
	e->meets = e->growing->grow.heard;
	verbs_ep_tell(e, NEWS_GROW);
}

void verbs_grow(struct verbs_way *w)
{
	if (w->grow.wanted)
		return;
	w->grow.wanted = 1;
	step(w->ep);
}

void verbs_grow_off(struct verbs_ep *e)
{
	if (!(e->news & NEWS_GROW))
		return;
	e->news &= ~(uint32_t)NEWS_GROW;
	e->growing = NULL;
}

static void owe(struct verbs_way *w, enum verbs_owed word)
{
	w->grow.owes |= (uint8_t)word;
	verbs_ep_kick(w->ep);
}

/* Copies the content of WAY now: ep_grow may have the queue pair again before WAY is sent. */
static int way_made(struct verbs_way *w, int meets)
{
	struct verbs_grow *g = &w->grow;
	int rc;

	if (!g->told) {
		g->ours = w->qp->qp_num;
		g->told = 1;
		owe(w, OWES_WAY);
	}
	if (!meets)
		return 0;
	rc = verbs_way_start(w);
	g->gave_up = rc == -ENOMEM; /* it was not started, and the first queue pair continues */
	if (rc)
		return g->gave_up ? 0 : rc;
	g->met = 1;
	owe(w, OWES_READY);
	return 0;
}

void verbs_ep_grown(struct ep *ep, int res)
{
	struct verbs_ep *e = verbs_ep(ep);
	struct verbs_way *w = e->growing;
	int rc;

	e->growing = NULL;
	if (res) {
		w->grow.gave_up = 1;
		w->grow.owes = 0;
	} else if (e->state == EP_UP) {
		rc = way_made(w, e->meets);
		if (rc)
			verbs_ep_down(e, rc);
	}
	step(e);
}

/* ---- control messages ---- */

uint32_t verbs_grow_say(const struct verbs_way *w, uint8_t *data)
{
	const struct verbs_ep *e = w->ep;
	uint32_t which = (uint32_t)(w - e->way);
	struct way_word word = {htole32(which), htole32(w->grow.ours), htole32(e->psn[which])};

	memcpy(data, &word, sizeof(word));
	return sizeof(word);
}

/* NULL: the index is invalid now. */
static struct verbs_way *way_named(struct verbs_ep *e, const uint8_t *data)
{
	uint32_t which;

	memcpy(&which, data, sizeof(which));
	which = le32toh(which);
	return which > WAY_FIRST && which < WAYS && e->state == EP_UP ? &e->way[which] : NULL;
}

int verbs_grow_way(struct verbs_ep *e, const uint8_t *data, uint32_t len)
{
	struct way_word word;
	struct verbs_way *w;

	if (len != sizeof(word))
		return -EPROTO;
	memcpy(&word, data, sizeof(word));
	w = way_named(e, data);
	if (!w || w->grow.heard || le32toh(word.qpn) >> 24 || le32toh(word.psn) >> 24)
		return -EPROTO;
	w->grow.qpn = le32toh(word.qpn);
	w->grow.psn = le32toh(word.psn);
	w->grow.heard = 1;
	step(e);
	return 0;
}

int verbs_grow_ready(struct verbs_ep *e, const uint8_t *data, uint32_t len)
{
	struct verbs_way *w = len == sizeof(uint32_t) ? way_named(e, data) : NULL;

	if (!w || !w->grow.heard || w->grow.ready)
		return -EPROTO;
	w->grow.ready = 1;
	return 0;
}
