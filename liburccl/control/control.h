/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control thread of a context: listens, dials, does the handshake, keeps the tables of peers,
 * regions and remotes, and sends commands to the engine. Its state is private; calls of other
 * threads are messages that it answers.
 */
#ifndef CONTROL_H
#define CONTROL_H

#include "conn/conn.h"

struct control;

/* Reads params.secret or the file secret_file. 0 (also if neither is set), or -errno with fail()
 * text. */
int secret_open(struct secret *s, const struct urccl_params *p);

/* Opens the listener and the thread's wake-ups, and makes the mailbox. 0, or -errno with fail()
 * text. */
int control_open(const struct control_config *config, struct control **control);
struct mailbox *control_mailbox(struct control *c);
/* Starts the thread, which sends its commands to this engine. */
int control_start(struct control *c, struct engine *engine);
/* Ends the thread and frees everything. CALL_SHUTDOWN must have returned before. */
void control_close(struct control *c);
/* A device's driver call hangs: the thread ends if it can and logs nothing more; everything else
 * stays allocated. */
void control_leave(struct control *c);

/* Posts the call; the answer comes later. The caller waits for it (context.c). */
void control_call(struct control *c, struct control_call *call);

#endif
