/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of ours and of peers, as the control thread keeps it: regions, exports to peers, and
 * remotes. */
#ifndef REGION_H
#define REGION_H

#include "conn/shared.h"

/* ---- region.c: regions of the program and of the library ---- */

void region_register(struct control *c, struct control_req *req);
void region_unregister(struct control *c, struct control_req *req);
void region_revoke(struct control *c, struct control_req *req);
void region_drop(struct control *c, struct control_req *req); /* the entry no longer waits */
void region_info(struct control *c, struct control_call *call);
void region_alloc(struct control *c, struct control_call *call);
void region_free(struct control *c, struct control_call *call);
void regions_step(struct control *c); /* the next steps of those that are due */
void regions_end(struct control *c);  /* ends all of them */

/* ---- staging.c: the staging buffer for memory of GPUs ---- */

void staging_request(struct control *c, struct control_req *req); /* CONTROL_STAGE */
void run_leave(struct control *c, struct control_req *req); /* CONTROL_RUN_END */
void runs_step(struct control *c); /* answers CONTROL_RUN_ENDs whose grants have ended */
void staging_init(struct control *c);
void staging_fini(struct control *c); /* after the engine has ended */

/* ---- prefault.c: touches the pages of a region ---- */

#define MSG_PREFAULTED 202 /* differs from all types of commands, requests and calls */
void prefault_back(struct control *c, struct msg *msg);

/* ---- importer.c: peers that were lost and may still have memory of ours mapped ---- */

/* 1: the peer of this path may have memory mapped. Its ep, which is closed, is freed; the path
 * stays. */
int importer_keep(struct control *c, struct path *path);
/* Releases the importers that have unmapped, or all of them if the process died. The peer is due
 * afterwards. */
void importers_step(struct control *c, struct peer *p);
void importers_drop(struct control *c); /* all, since the context ends */

/* ---- revoke.c and revoked.c: frames, 0 or -EPROTO ---- */

int revoke_heard(struct control *c, struct peer *p, uint64_t number); /* REVOKED, at the owner */
int revoke_come(struct control *c, struct peer *p, const struct wire_revoke *rev); /* REVOKE */

/* ---- advert.c and grant.c: adverts, and what peers may touch by them ---- */

void advert_make(struct control *c, struct control_call *call);
int grant_request(struct control *c, struct peer *p, const struct wire_key_req *req); /* KEY_REQ */
/* Called when the engine no longer uses the peer's exports. Frees those that no command and no
 * importer uses. 1: some are left. */
int grants_free_peer(struct control *c, struct peer *p);
void grants_detach(struct peer *p, uint32_t number); /* the rail is closed */

#define PIN_HASH 4096u /* buckets of control.pins */

/* ---- remote.c and keys.c: memory of peers, and its keys ---- */

void remote_import(struct control *c, struct control_req *req);
void remote_forget(struct control *c, struct control_req *req);
void remote_info(struct control *c, struct control_call *call);
void remote_map(struct control *c, struct control_call *call); /* or unmaps it */
void remote_keys(struct control *c, struct control_req *req);  /* CONTROL_KEYS */
int remote_key(struct control *c, struct peer *p, const struct wire_key_rep *rep);
void remotes_pump(struct control *c, struct peer *p);
void remotes_end(struct control *c, struct peer *p);

void keys_forget(struct peer *p); /* all of them, as its data path is suspended */
void keys_lose(struct peer *p, const struct path *path); /* drops the keys of a closed rail */
/* A rail came up: requests its keys for all remotes in use. */
void keys_of_rail(struct control *c, struct peer *p);
void warm_req(struct control *c, struct control_req *req);
void warm_drop(struct control *c, struct control_req *req);

#endif
