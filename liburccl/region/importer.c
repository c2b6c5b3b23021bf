/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Importers that were lost while they had memory of ours mapped and have not unmapped it. Their
 * process is stopped, or has an INLINE context that nobody drives. They may still write to that
 * memory. Its region therefore cannot end, and its adverts cannot be reported as revoked, until the
 * process ends or unmaps. The path to the importer is kept until then, without its ep.
 */
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "region/private.h"

int importer_keep(struct control *c, struct path *path)
{
	struct peer *p = path->peer;
	struct ep *ep = path->rail.ep;

	if (!path->posted || !ep->dev->ops->importer)
		return 0;
	path->importer = ep->dev->ops->importer(ep);
	path->importer_left = ep->gpus ? ep->dev->ops->importer_left : NULL;
	if (path->importer >= 0 && (c->ending || p->died)) {
		if (!p->died)
			log_importer(c, p);
		close(path->importer);
		path->importer = -1;
	}
	grants_keep(path);
	if (path->importer < 0)
		return 0;
	ep->dev->ops->ep_free(ep);
	list_add_tail(&path->left, &p->importers);
	/* An importer that epoll cannot watch counts as present until its process or the context
	 * ends. */
	(void)process_epoll(c, p, path->importer, EPOLLRDHUP);
	return 1;
}

static int importer_let_go(struct control *c, const struct path *path)
{
	struct pollfd fd = {.fd = path->importer, .events = POLLRDHUP};

	if (path->peer->died)
		return 1;
	if (poll(&fd, 1, 0) <= 0)
		return 0;
	if (!path->importer_left || path->importer_left(path->importer))
		return 1;
	/* Otherwise epoll would report the hang-up again and again. */
	(void)epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, path->importer, NULL);
	return 0;
}

static void importer_gone(struct control *c, struct path *path)
{
	list_del(&path->left);
	(void)epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, path->importer, NULL);
	close(path->importer);
	grants_free_kept(c, path);
	free(path);
}

void importers_step(struct control *c, struct peer *p)
{
	struct path *path;

	list_for_each_entry_safe(path, &p->importers, left) {
		if (importer_let_go(c, path))
			importer_gone(c, path);
	}
	peer_due(c, p);
}

void importers_drop(struct control *c)
{
	struct peer *p;

	list_for_each_entry_safe(p, &c->peers, link) {
		if (list_empty(&p->importers))
			continue;
		log_importer(c, p);
		while (!list_empty(&p->importers))
			importer_gone(c, list_first(&p->importers, struct path, left));
		peer_due(c, p);
	}
}
