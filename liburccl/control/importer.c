/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Importers that were lost while they had memory of ours mapped and did not let go: their process
 * is stopped, or has an INLINE context that nobody calls. They may still write to that memory, so
 * its region cannot end, and its adverts cannot be said to be without effect, before the process
 * has ended or has gone on and let go. Until then the path to the importer stays, without its ep.
 */
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "control/private.h"

int importer_keep(struct control *c, struct path *path)
{
	struct epoll_event ev = {.events = EPOLLRDHUP, .data.ptr = path};
	struct ep *ep = path->rail.ep;

	if (!path->posted || !ep->dev->ops->importer)
		return 0;
	path->importer = ep->dev->ops->importer(ep);
	if (path->importer >= 0 && c->ending) {
		log_importer(c, path->peer);
		close(path->importer);
		path->importer = -1;
	}
	grants_keep(path);
	if (path->importer < 0)
		return 0;
	ep->dev->ops->ep_free(ep);
	list_add_tail(&path->left, &c->importers);
	/* An importer that cannot be watched counts as there until the context ends. */
	(void)epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, path->importer, &ev);
	return 1;
}

struct path *importer_of(struct control *c, const void *ptr)
{
	struct list *pos;

	list_for_each(pos, &c->importers)
		if (list_entry(pos, struct path, left) == ptr)
			return list_entry(pos, struct path, left);
	return NULL;
}

void importer_gone(struct control *c, struct path *path)
{
	struct peer *p = path->peer;

	list_del(&path->left);
	(void)epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, path->importer, NULL);
	close(path->importer);
	grants_free_kept(c, path);
	free(path);
	peer_step(c, p);
}

void importers_drop(struct control *c)
{
	while (!list_empty(&c->importers)) {
		struct path *path = list_first(&c->importers, struct path, left);

		log_importer(c, path->peer);
		importer_gone(c, path);
	}
}
