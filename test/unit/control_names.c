/* SPDX-License-Identifier: Apache-2.0 */
/* Names are looked up beside the control thread, and every address they have is tried. */
#include <netdb.h>

#include "control_rig.h"

static int has_localhost(void)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *ai;

	if (getaddrinfo("localhost", "1", &hints, &ai))
		return 0;
	freeaddrinfo(ai);
	return 1;
}

int case_control_names(void)
{
	struct urccl_params p = rig_params();
	struct side a, b;
	char text[64];
	uint32_t i;

	if (!has_localhost())
		SKIP("this machine does not know the name localhost");
	side_open(&a, &p);
	side_open(&b, &p);
	side_accept(&b, 1);
	snprintf(text, sizeof(text), "localhost:%u", b.port);
	for (i = 0; i < 4; i++)
		side_connect(&a, text, (uint32_t)strlen(text), 0, 2);
	for (i = 0; i < 4; i++)
		CHECK_EQ(side_end_of(&a, 2), 0);
	/* One that nobody waits for any more when the context is closed. */
	side_connect(&a, text, (uint32_t)strlen(text), 1, 3);
	(void)side_end_of(&a, 3);
	side_close(&a);
	side_close(&b);
	return 0;
}
