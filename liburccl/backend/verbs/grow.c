/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets up further queue pairs of an ep. A queue pair keeps the size that it was made with, and a
 * busy one cannot be replaced by a larger one without breaking it. So an ep begins with the first
 * queue pair, which is small. Another one is added when there is the first large request for it,
 * or, for small requests, when the first queue pair is full.
 *
 * To make a queue pair and to connect it to the peer's may take the kernel a while: ep_add_qps does
 * both, for one queue pair after the other. When ours is made, QP tells the peer its number. The
 * peer makes its own unless it has, connects it to ours, answers with QP, and sends READY. We
 * connect ours to the peer's, and send READY. A side that has sent and received READY uses the
 * queue pair. Both sides may begin.
 *
 * A side that cannot make one (-ENOMEM, the completion queue is full) continues with the first
 * queue pair, and so does its peer.
 *
 * QP, little-endian: index of the queue pair u32, its number u32, its initial sequence number u32.
 * READY: index u32.
 */
#include <endian.h>
#include <stdlib.h>
#include "backend/verbs/verbs.h"

struct qp_word {
	uint32_t which, qpn, psn;
};

/* ---- ep_add_qps: any thread ---- */

static int qp_add(struct verbs_qp *w)
{
	int rc = verbs_room(verbs_ep_device(w->ep), w, verbs_qp_cqes(w));

	if (rc)
		return rc;
	w->grow.made = 1;
	w->slots = calloc(w->depth, sizeof(*w->slots));
	if (!w->slots)
		return fail(-ENOMEM, "no memory for an ib connection's requests");
	return verbs_qp_make(w->ep, w);
}

/* Gives its room in the completion queue to others. */
static void qp_remove(struct verbs_qp *w)
{
	if (!w->grow.made)
		return;
	verbs_qp_destroy(w);
	verbs_room_free(verbs_ep_device(w->ep), verbs_qp_cqes(w));
	free(w->slots);
	w->slots = NULL;
	w->grow.made = 0;
}

int verbs_ep_add_qps(struct ep *ep)
{
	struct verbs_ep *e = verbs_ep(ep);
	struct verbs_qp *w = e->growing;
	int rc = w->grow.made ? 0 : qp_add(w);

	if (!rc && e->connects) {
		rc = verbs_qp_connect(w, w->grow.qpn, w->grow.psn);
		if (rc)
			fail(rc, "ib: %s does not lead a queue pair to its peer's: %s",
			     verbs_ep_device(e)->port.name, errno_text(-rc));
	}
	if (rc)
		qp_remove(w);
	return rc;
}

void verbs_grow_free(struct verbs_ep *e)
{
	uint32_t i;

	for (i = QP_FIRST + 1; i < QPS; i++)
		qp_remove(&e->qps[i]);
}

/* ---- engine ---- */

/* 1: ours must be made, or connected to theirs. */
static int is_due(const struct verbs_grow *g)
{
	if (g->gave_up || g->connected)
		return 0;
	return g->heard || (g->wanted && !g->announced);
}

static void grow_step(struct verbs_ep *e)
{
	uint32_t i;

	if (e->growing || e->state != EP_UP)
		return;
	for (i = QP_FIRST + 1; i < QPS && !is_due(&e->qps[i].grow); i++)
		;
	if (i == QPS)
		return;
	e->growing = &e->qps[i];
	e->connects = e->growing->grow.heard;
	verbs_ep_report(e, NEWS_GROW);
}

void verbs_grow(struct verbs_qp *w)
{
	if (w->grow.wanted)
		return;
	w->grow.wanted = 1;
	grow_step(w->ep);
}

void verbs_grow_off(struct verbs_ep *e)
{
	if (!(e->news & NEWS_GROW))
		return;
	e->news &= ~(uint32_t)NEWS_GROW;
	e->growing = NULL;
}

static void due_add(struct verbs_qp *w, enum verbs_due word)
{
	w->grow.due |= (uint8_t)word;
	verbs_ep_kick(w->ep);
}

/* Copies the content of QP now: ep_add_qps may have the queue pair again before QP is sent. */
static int qp_added(struct verbs_qp *w, int connects)
{
	struct verbs_grow *g = &w->grow;
	int rc;

	if (!g->announced) {
		g->ours = w->qp->qp_num;
		g->announced = 1;
		due_add(w, DUE_QP);
	}
	if (!connects)
		return 0;
	rc = verbs_qp_start(w);
	g->gave_up = rc == -ENOMEM; /* it was not started, and the first queue pair continues */
	if (rc)
		return g->gave_up ? 0 : rc;
	g->connected = 1;
	due_add(w, DUE_READY);
	return 0;
}

void verbs_ep_qps_added(struct ep *ep, int res)
{
	struct verbs_ep *e = verbs_ep(ep);
	struct verbs_qp *w = e->growing;
	int rc;

	e->growing = NULL;
	if (res) {
		w->grow.gave_up = 1;
		w->grow.due = 0;
	} else if (e->state == EP_UP) {
		rc = qp_added(w, e->connects);
		if (rc)
			verbs_ep_down(e, rc);
	}
	grow_step(e);
}

/* ---- control messages ---- */

uint32_t verbs_grow_say(const struct verbs_qp *w, uint8_t *data)
{
	const struct verbs_ep *e = w->ep;
	uint32_t which = (uint32_t)(w - e->qps);
	struct qp_word word = {htole32(which), htole32(w->grow.ours), htole32(e->psn[which])};

	memcpy(data, &word, sizeof(word));
	return sizeof(word);
}

/* NULL: the index is invalid now. */
static struct verbs_qp *qp_named(struct verbs_ep *e, const uint8_t *data)
{
	uint32_t which;

	memcpy(&which, data, sizeof(which));
	which = le32toh(which);
	return which > QP_FIRST && which < QPS && e->state == EP_UP ? &e->qps[which] : NULL;
}

int verbs_grow_qp(struct verbs_ep *e, const uint8_t *data, uint32_t len)
{
	struct qp_word word;
	struct verbs_qp *w;

	if (len != sizeof(word))
		return -EPROTO;
	memcpy(&word, data, sizeof(word));
	w = qp_named(e, data);
	if (!w || w->grow.heard || le32toh(word.qpn) >> 24 || le32toh(word.psn) >> 24)
		return -EPROTO;
	w->grow.qpn = le32toh(word.qpn);
	w->grow.psn = le32toh(word.psn);
	w->grow.heard = 1;
	grow_step(e);
	return 0;
}

int verbs_grow_ready(struct verbs_ep *e, const uint8_t *data, uint32_t len)
{
	struct verbs_qp *w = len == sizeof(uint32_t) ? qp_named(e, data) : NULL;

	if (!w || !w->grow.heard || w->grow.ready)
		return -EPROTO;
	w->grow.ready = 1;
	return 0;
}
