/* SPDX-License-Identifier: Apache-2.0 */
/* The address-vector cache of the message endpoint. Eps of one peer share the entry of its message
 * endpoint. An entry stays while an ep or a message under way uses it, and for a while after: peers
 * often come back, and a provider's state for a peer is expensive to make. */
#include <stdlib.h>
#include "backend/fabric/key.h"

static struct list *list_of(struct fabric_device *d, const uint8_t *name)
{
	return &d->av_cache[crc32c(0, name, FABRIC_NAME) % FABRIC_TABLE];
}

void fabric_av_init(struct fabric_device *d)
{
	uint32_t i;

	for (i = 0; i < FABRIC_TABLE; i++)
		list_init(&d->av_cache[i]);
	list_init(&d->idle);
}

static struct fabric_av_entry *av_find(struct fabric_device *d, const uint8_t *name)
{
	struct list *head = list_of(d, name), *pos;

	list_for_each(pos, head) {
		struct fabric_av_entry *k = list_entry(pos, struct fabric_av_entry, link);

		if (!memcmp(k->name, name, FABRIC_NAME))
			return k;
	}
	return NULL;
}

struct fabric_av_entry *fabric_av_get(struct fabric_device *d, const uint8_t *name,
				      struct fabric_av_entry **spare)
{
	struct fabric_av_entry *k = av_find(d, name);

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

static void forget(struct fabric_device *d, struct fabric_av_entry *k)
{
	list_del(&k->link);
	list_del(&k->idle);
	d->nidle--;
	k->job.type = JOB_FORGET;
	k->job.reply = &d->from_helper;
	mailbox_post(&d->to_helper, &k->job);
}

void fabric_av_put(struct fabric_device *d, struct fabric_av_entry *k)
{
	if (--k->uses)
		return;
	list_add_tail(&k->idle, &d->idle);
	if (++d->nidle > FABRIC_IDLE)
		forget(d, list_first(&d->idle, struct fabric_av_entry, idle));
}

int fabric_av_insert(struct fabric_device *d, struct fabric_av_entry *k)
{
	int err = k->inserted ? 0 : fabric_peer_add(d->msg.av, k->name, &k->addr);

	k->inserted |= !err;
	return err;
}

/* If the provider does not remove it, it stays: it is not used again. */
void fabric_av_remove(struct fabric_device *d, struct fabric_av_entry *k)
{
	if (k->inserted)
		fi_av_remove(d->msg.av, &k->addr, 1, 0);
}

void fabric_av_free(struct fabric_device *d)
{
	struct msg *m = mailbox_take(&d->from_helper), *next;
	uint32_t i;

	for (; m; m = next) {
		next = m->next;
		if (m->type == JOB_FORGET)
			free(container_of(m, struct fabric_av_entry, job));
	}
	for (i = 0; i < FABRIC_TABLE; i++)
		while (!list_empty(&d->av_cache[i])) {
			struct fabric_av_entry *k =
				list_first(&d->av_cache[i], struct fabric_av_entry, link);

			list_del(&k->link);
			free(k);
		}
}
