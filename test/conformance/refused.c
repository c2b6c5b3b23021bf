/* SPDX-License-Identifier: Apache-2.0 */
/* Dialling an ep that is gone, or a device that is, ends with DOWN. */
#include <netinet/in.h>
#include "rig.h"

#define ROUNDS 10u

static void dial(struct rig *rig, const struct end *to)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_storage via;
	struct end end;

	memset(&via, 0, sizeof(via));
	memcpy(&via, &in, sizeof(in));
	end_open(&rig->node[0], &end);
	CHECK_EQ(end_connect(&end, to->addr, to->addr_len, 1, &via), 0);
	WAIT(rig, end.down);
	CHECK(!end.up && end.down_res < 0);
	rig->backend->ep_close(end.ep);
	WAIT(rig, end.closed);
	rig->backend->ep_free(end.ep);
}

void case_refused(struct rig *unused)
{
	struct settings settings = *unused->settings;
	struct rig rig, other;
	struct end gone;
	uint32_t round;

	/* So long a device may keep a caller whose ep it does not know yet. */
	settings.dead_after_ms = 100;
	rig_open(&rig, &settings);
	for (round = 0; round < rig_rounds(&rig, ROUNDS); round++) {
		end_open(&rig.node[1], &gone);
		rig.backend->ep_free(gone.ep);
		dial(&rig, &gone);
	}
	rig_close(&rig);
	/* Of a device that is gone the system knows, and says so at once. */
	settings.dead_after_ms = 600000;
	rig_open(&rig, &settings);
	rig_open(&other, &settings);
	end_open(&other.node[1], &gone);
	other.backend->ep_free(gone.ep);
	rig_close(&other);
	dial(&rig, &gone);
	rig_close(&rig);
}
