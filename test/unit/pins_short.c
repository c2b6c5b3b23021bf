/* SPDX-License-Identifier: Apache-2.0 */
/* A device that cannot pin what a peer wants: the owner is told by its log of need, limit and what
 * to raise, once until it has succeeded; the peer's entries say where to look, and succeed when
 * there is room again. */
#include <sys/resource.h>

#include "pins_rig.h"

static struct pins_rig r;
static struct target t;
static char line[512];
static uint32_t lines;

static void told(void *arg, int level, const char *text)
{
	(void)arg;
	if (level != URCCL_LOG_WARN || !strstr(text, "cannot pin"))
		return;
	snprintf(line, sizeof(line), "%s", text);
	store_release(&lines, lines + 1);
}

static void says(const struct urccl_cqe *cqe, const char *part)
{
	char text[512];

	CHECK(urccl_explain(r.a.ctx, cqe, text, sizeof(text)) > 0);
	CHECK_SAYS(text, part);
}

int case_pins_short(void)
{
	struct rlimit limit = {32 << 10, 32 << 10};
	struct urccl_remote remote;
	struct urccl_cqe cqe;
	struct urccl_sqe *sqe;
	uint32_t i;

	CHECK_EQ(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	rig_open(&r);
	r.params.log = told;
	rig_connect(&r);
	target_open(&r, &t, 0);
	remote = imports(&r.a, r.ab, &t);
	store_release(&seen.pin_fails, -ENOMEM);
	for (i = 0; i < 3; i++) {
		cqe = writes(&r, &r.a, remote);
		CHECK_EQ(cqe.res, -EREMOTEIO);
		says(&cqe, "the peer cannot pin the memory");
		says(&cqe, "ulimit -l");
	}
	CHECK_EQ(load_acquire(&lines), 1);
	CHECK(strstr(line, "sim cannot pin 65536 bytes for peers"));
	CHECK(strstr(line, "the limit for locked memory, 32 KiB, is passed (ulimit -l"));

	sqe = urccl_get_sqe(r.a.ring);
	urccl_prep_warm(sqe, r.ab);
	CHECK_EQ(urccl_submit(r.a.ring), 1);
	cqe = side_next(&r.a);
	CHECK_EQ(cqe.res, -EREMOTEIO);
	says(&cqe, "cannot pin its memory");

	/* What was begun before there was room may fail an entry yet. */
	store_release(&seen.pin_fails, 0);
	for (i = 0; (cqe = writes(&r, &r.a, remote)).res == -EREMOTEIO; i++)
		CHECK(i < RAILS);
	CHECK_EQ(cqe.res, LEN);
	CHECK_EQ(urccl_unregister(r.b.ctx, t.region), 0);
	rig_close(&r);
	return 0;
}
