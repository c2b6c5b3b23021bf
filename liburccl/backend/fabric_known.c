/* SPDX-License-Identifier: Apache-2.0 */
/* The address-vector cache of the message endpoint. Eps of one peer share the entry of its message
 * endpoint. An entry stays while an ep or a message under way uses it, and for a while after: peers
 * often come back, and a provider's state for a peer is expensive to make. */
#include <stdlib.h>
#include "backend/fabric_key.h"

static struct list *list_of(struct fabric_device *d, const uint8_t *name)
{
	return &d->known[crc32c(0, name, FABRIC_NAME) % FABRIC_TABLE];
}

void fabric_known_init(struct fabric_device *d)
{
	uint32_t i;

	for (i = 0; i < FABRIC_TABLE; i++)
		list_init(&d->known[i]);
	list_init(&d->idle);
}

static struct fabric_known *find(struct fabric_device *d, const uint8_t *name)
{
	struct list *head = list_of(d, name), *pos;

	list_for_each(pos, head) {
		struct fabric_known *k = list_entry(pos, struct fabric_known, link);

		if (!memcmp(k->name, name, FABRIC_NAME))
			return k;
	}
	return NULL;
}

struct fabric_known *fabric_known_take(struct fabric_device *d, const uint8_t *name,
				       struct fabric_known **spare)
{
	struct fabric_known *k = find(d, name);

	if (!k) {
		k = *spare;
		*spare = NULL;
		memcpy(k->name, name, FABRIC_NAME);
		list_init(&k->idle);
		list_add_tail(&k->link, list_of(d, name));
	}
	if (!list_empty(&k->idle)) {
		list_del(&k->idle);
		d->nidle--;
	}
	k->uses++;
	return k;
}

static void forget(struct fabric_device *d, struct fabric_known *k)
{
	list_del(&k->link);
	list_del(&k->idle);
	d->nidle--;
	k->job.type = JOB_FORGET;
	k->job.reply = &d->from_helper;
	mailbox_post(&d->to_helper, &k->job);
}

void fabric_known_put(struct fabric_device *d, struct fabric_known *k)
{
	if (--k->uses)
		return;
	list_add_tail(&k->idle, &d->idle);
	if (++d->nidle > FABRIC_IDLE)
		forget(d, list_first(&d->idle, struct fabric_known, idle));
}

int fabric_known_insert(struct fabric_device *d, struct fabric_known *k)
{
	int err = k->inserted ? 0 : fabric_peer_add(d->talk.av, k->name, &k->addr);

	k->inserted |= !err;
	return err;
}

/* If the provider does not remove it, it stays: it is not used again. */
void fabric_known_remove(struct fabric_device *d, struct fabric_known *k)
{
	if (k->inserted)
		fi_av_remove(d->talk.av, &k->addr, 1, 0);
}

void fabric_known_free(struct fabric_device *d)
{
	struct msg *m = mailbox_take(&d->from_helper), *next;
	uint32_t i;

	for (; m; m = next) {
		next = m->next;
		if (m->type == JOB_FORGET)
			free(container_of(m, struct fabric_known, job));
	}
	for (i = 0; i < FABRIC_TABLE; i++)
		while (!list_empty(&d->known[i])) {
			struct fabric_known *k =
				list_first(&d->known[i], struct fabric_known, link);

			list_del(&k->link);
			free(k);
		}
}
