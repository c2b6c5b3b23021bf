/* SPDX-License-Identifier: Apache-2.0 */
/* The importer's side of a revocation: a REVOKE came. */
#include "region/private.h"

static int remote_is_of(const struct remote *r, uint32_t region)
{
	uint32_t i;

	for (i = 0; i < r->n; i++)
		if (r->adverts[i].region == region)
			return 1;
	return 0;
}

/* Sends REVOKED with the number of the last REVOKE up to which no entry uses revoked keys. */
static void revoke_answer(struct control *c, struct peer *p)
{
	uint64_t number = p->revokes_seen;

	if (!list_empty(&p->revoking))
		number = list_first(&p->revoking, struct remote, revoking)->number - 1;
	if (number == p->revokes_answered || p->stage != STAGE_UP)
		return;
	p->revokes_answered = number;
	peer_send(c, p, WIRE_REVOKED, number);
}

static void revoke_back(struct control *c, struct cmd *cmd)
{
	struct remote *r = cmd->e.owner;
	struct peer *p = r->peer;

	list_del(&r->revoking);
	revoke_answer(c, p);
	remote_step(c, r);
}

/* A later entry asks for the revoked keys again, and so learns the owner's reason. */
static void keys_revoked(struct remote *r, uint32_t region)
{
	uint32_t i;

	for (i = 0; i < r->n; i++)
		r->has[i] = r->adverts[i].region != region ? UINT8_MAX : 0;
}

static void remote_revoke(struct control *c, struct remote *r, uint32_t region)
{
	r->revoked = 1;
	keys_revoked(r, region);
	remote_refuse(c, r, -EACCES);
	r->number = r->peer->revokes_seen;
	list_add_tail(&r->revoking, &r->peer->revoking);
	r->revoke.e.remote = r->engine;
	r->revoke.e.owner = r;
	cmd_post(c, &r->revoke, ENGINE_REMOTE_REVOKE, revoke_back);
}

/* Ends only keys requested up to rev->upto, the last KEY_REQ that the owner had received. Later
 * requests name newer adverts, or the owner will refuse them. */
int revoke_come(struct control *c, struct peer *p, const struct wire_revoke *rev)
{
	struct remote *r;

	if (rev->number != p->revokes_seen + 1)
		return -EPROTO;
	p->revokes_seen = rev->number;
	list_for_each_entry(r, &p->remotes, of_peer) {
		if (r->deleting || r->revoked || !r->first_id || r->first_id > rev->upto ||
		    !remote_is_of(r, rev->region))
			continue;
		remote_revoke(c, r, rev->region);
	}
	revoke_answer(c, p);
	return 0;
}
