/* SPDX-License-Identifier: Apache-2.0 */
/* Who sleeps on a device is woken at its next deadline, also where that is the last nanosecond of a
 * second: the end of an advert. */
#include <poll.h>
#include "rig.h"

#define LEN	   64u
#define DEAD_AFTER 400u /* ms; what looks for progress does so four times in it, and soon is done */

void case_ib_timer(struct rig *unused)
{
	struct settings settings = *unused->settings;
	struct pollfd pfd = {.events = POLLIN};
	struct area local, remote;
	struct device *dev;
	struct pair pair;
	uint64_t expires;
	struct rig rig;
	struct grant g;

	settings.dead_after_ms = DEAD_AFTER;
	rig_open(&rig, &settings);
	dev = rig.node[1].dev;
	pfd.fd = dev->fd;
	pair_open(&rig, &pair);
	area_open(&rig.node[0], &local, LEN);
	area_open(&rig.node[1], &remote, LEN);
	expires = (clock_ns() / NSEC_PER_SEC + 2) * NSEC_PER_SEC - 1;
	grant_open_until(&g, &pair.end[1], &pair.end[0], &remote, 0, LEN, URCCL_RIGHT_WRITE,
			 expires);
	CHECK_EQ(piece_move(&rig, CHUNK_WRITE, &pair.end[0], &local, 0, &g, 0, LEN), 0);
	do { /* other deadlines go before it */
		while (rig_step(&rig) || dev->ops->arm(dev))
			;
		CHECK_EQ(poll(&pfd, 1, 10000), 1);
	} while (clock_ns() < expires);
	rig_step(&rig);
	CHECK_EQ(piece_move(&rig, CHUNK_WRITE, &pair.end[0], &local, 0, &g, 0, LEN), -EACCES);
	grant_close(&rig, &g);
	pair_close(&rig, &pair);
	area_close(&local);
	area_close(&remote);
	rig_close(&rig);
}
