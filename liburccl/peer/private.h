/* SPDX-License-Identifier: Apache-2.0 */
/* Calls between the files of the room. */
#ifndef PEER_PRIVATE_H
#define PEER_PRIVATE_H

#include "peer/peer.h"
#include "region/region.h"

/* ---- path.c ---- */

struct path *path_next(const struct peer *p); /* the first one not tried yet, or NULL */
/* Dialler: connects the path, and all untried paths of its transport that can be rails of the peer
 * beside it. */
void paths_try(struct control *c, struct peer *p, struct path *path);
/* Sets p->path to the peer's path with this id. 0: there is none. */
int path_choose(struct peer *p, uint64_t id);
/* The paths being tried; returns their number. */
uint32_t paths_trying(const struct peer *p, struct path **paths);
/* All but those of the transport in use. */
void path_close_others(struct control *c, struct peer *p);
/* Dialler: the path came up first and becomes the peer's; PATH says so. */
void path_announce(struct control *c, struct path *path);
void path_connect(struct control *c, struct path *path, int active);
/* Frees it, at once or after the engine has closed it; the peer is due in the second case. */
void path_close(struct control *c, struct path *path);
void paths_close(struct control *c, struct peer *p); /* all of them */
int paths_reaching(const struct peer *p);	     /* 1: ep_prepare() of one is running */
/* Sends RAIL_ACK when the engine has the path. */
void path_await(struct control *c, struct path *path);
/* Gives the path to the peer. */
void path_take(const struct control *c, struct peer *p, struct path *path);

/* ---- offer.c: eps are opened, and offered as rails by HELLO and HELLO_ACK ---- */

/* Opens an ep of a device. NULL with fail() text and *err. */
struct path *path_open(struct device *dev, uint32_t id, int *err);
/* Sends HELLO_ACK, after the proof that is due. 0 or -ENOMEM. */
int accept_answer(struct control *c, struct peer *p);

/* ---- rails.c: the rails of a peer that has its data path ---- */

/* Records a rail that both sides have a device for. */
void rails_known(struct peer *p, const struct path *path);
void rails_agree(struct peer *p); /* the first rail, p->path, is up */
void rails_end(struct peer *p);	  /* stops until the next rails_begin() */
void rails_came(struct control *c, struct path *path);
void rails_missed(struct control *c, struct path *path);
void rails_broke(struct control *c, struct path *path, int err);
/* A rail that was up has closed. If it was up only briefly, the next try waits for the backoff. */
void rails_backoff(struct peer *p, const struct path *path);
void rails_closed(struct control *c, struct peer *p, uint32_t number);
void rails_say(struct control *c, const struct path *path, uint32_t type);
void rails_timer(struct control *c, struct control_timer *a);

void peer_disconnect(struct control *c, struct peer *p);

void peer_delay(struct control *c, struct control_timer *a);

void suspend_leave(struct control *c, struct peer *p); /* the peer has no data path any more, or is
						        * down */

/* setup.c */
void setup_path_up(struct control *c, struct path *path);
void setup_path_failed(struct control *c, struct path *path);
void setup_reached(struct control *c, struct peer *p); /* ep_prepare() of a path is done */
/* Acceptor: ends a peer whose rails do not come up. */
void setup_refuse(struct control *c, struct peer *p, int err);
void resume_step(struct control *c, struct peer *p); /* suspended: continues if it can and should */
int resume_asked(struct control *c, struct peer *p); /* RESUME came */
void resume_refused(struct control *c, struct peer *p); /* SUSPENDED came during the resume */
void resume_timer(struct control *c, struct control_timer *a);

/* link.c: local ports that lose their link. */
int port_is_cut(struct control *c, struct device *dev); /* 1: no link, up to 10 ms ago */
/* Cuts the peer off if that is due, by peer.unlinked. Returns the time of the next look. */
uint64_t link_look(struct control *c, struct peer *p);
void link_back(struct control *c, struct peer *p); /* it has a rail again, or needs none */

#endif
