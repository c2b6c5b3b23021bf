/* SPDX-License-Identifier: Apache-2.0 */
/* Of several NICs of a transport some do not open: the others do without them, and the log and
 * urccl_devices() say which and why; but those that were named are all opened, or none is and each
 * that is at fault is in the sentence. On three domains of the test provider, of which the last two
 * cannot be opened. */
#include <errno.h>
#include <string.h>
#include <liburccl/inspect.h>
#include "test.h"

#define PROVIDER "fabric:urccl_test"

static char lines[16][512];
static int nlines;

/* On the thread that opens. */
static void hear(void *arg, int level, const char *text)
{
	(void)arg;
	CHECK(nlines < 16);
	CHECK_EQ(level, URCCL_LOG_WARN);
	snprintf(lines[nlines++], sizeof(lines[0]), "%s", text);
}

static struct urccl_params with(const char *transport)
{
	struct urccl_params p = {.size = sizeof(p)};

	urccl_params_init(&p);
	p.transport = transport;
	p.log = hear;
	nlines = 0;
	return p;
}

/* How many devices of libfabric are in this state; each says whom it is about: one of words. */
static uint32_t count(struct urccl *ctx, uint32_t state, const char *a, const char *b)
{
	struct urccl_device d = {.size = sizeof(d)};
	uint32_t i, n = 0;

	for (i = 0; !urccl_devices(ctx, i, &d); i++) {
		if (d.transport != URCCL_TRANSPORT_FABRIC || d.state != state)
			continue;
		CHECK_SAYS(d.reason, n++ ? b : a);
		CHECK_EQ(d.error, state != URCCL_DEVICE_FAILED		 ? 0
				  : strstr(d.reason, "no domain urccl_") ? -ENODEV
									 : -EACCES);
	}
	return n;
}

static struct urccl *opened(const struct urccl_params *p)
{
	struct urccl *ctx;
	int err = urccl_open(p, &ctx);

	if (err)
		fprintf(stderr, "%s\n", urccl_errmsg());
	CHECK_EQ(err, 0);
	return ctx;
}

static void not_named(void)
{
	struct urccl_params p = with(PROVIDER);
	struct urccl *ctx = opened(&p);

	CHECK_EQ(nlines, 2);
	CHECK_SAYS(lines[0], "a device of transport fabric is left out: ");
	CHECK_SAYS(lines[0], "urccl_test1");
	CHECK_SAYS(lines[1], "urccl_test2");
	CHECK_EQ(count(ctx, URCCL_DEVICE_OPEN, "urccl_test0", ""), 1);
	CHECK_EQ(count(ctx, URCCL_DEVICE_FAILED, "urccl_test1", "urccl_test2"), 2);
	urccl_close(ctx);
}

static void named(void)
{
	struct urccl_params p = with(PROVIDER "@urccl_test0@urccl_test1");
	struct urccl *ctx;

	CHECK_EQ(urccl_open(&p, &ctx), -EACCES);
	CHECK_SAYS(urccl_errmsg(), "urccl_test1");
	p = with(PROVIDER "@urccl_test2@urccl_test0@urccl_test1");
	CHECK_EQ(urccl_open(&p, &ctx), -EACCES);
	CHECK_SAYS(urccl_errmsg(), "urccl_test1");
	CHECK_SAYS(urccl_errmsg(), "urccl_test2");
	p = with(PROVIDER "@urccl_test0@urccl_test9");
	CHECK_EQ(urccl_open(&p, &ctx), -ENODEV);
	CHECK_SAYS(urccl_errmsg(), "no domain urccl_test9 here");
	p = with(PROVIDER "@urccl_test0");
	ctx = opened(&p);
	CHECK_EQ(nlines, 0);
	CHECK_EQ(count(ctx, URCCL_DEVICE_FAILED, "", ""), 0);
	urccl_close(ctx);
}

/* With "?" those that open are enough, or none where there is another transport. */
static void maybe(void)
{
	struct urccl_params p = with(PROVIDER "@urccl_test0@urccl_test1?,tcp");
	struct urccl *ctx = opened(&p);

	CHECK_EQ(nlines, 1);
	CHECK_SAYS(lines[0], "a device of transport fabric is left out: ");
	CHECK_SAYS(lines[0], "urccl_test1");
	CHECK_EQ(count(ctx, URCCL_DEVICE_OPEN, "", ""), 1);
	CHECK_EQ(count(ctx, URCCL_DEVICE_FAILED, "urccl_test1", ""), 1);
	urccl_close(ctx);
	/* Nor need each be there. */
	p = with(PROVIDER "@urccl_test9@urccl_test0@urccl_test1?");
	ctx = opened(&p);
	CHECK_EQ(nlines, 2);
	CHECK_SAYS(lines[0], "urccl_test1");
	CHECK_SAYS(lines[1], "a device of transport fabric is left out: ");
	CHECK_SAYS(lines[1], "no domain urccl_test9 here");
	CHECK_EQ(count(ctx, URCCL_DEVICE_OPEN, "urccl_test0", ""), 1);
	CHECK_EQ(count(ctx, URCCL_DEVICE_FAILED, "urccl_test1", "urccl_test9"), 2);
	urccl_close(ctx);
	p = with(PROVIDER "@urccl_test1?,tcp");
	ctx = opened(&p);
	CHECK_EQ(nlines, 1);
	CHECK_SAYS(lines[0], "transport fabric is left out: ");
	CHECK_SAYS(lines[0], "urccl_test1");
	CHECK_EQ(count(ctx, URCCL_DEVICE_OPEN, "", ""), 0);
	urccl_close(ctx);
	p = with(PROVIDER "@urccl_test1@urccl_test2?");
	CHECK_EQ(urccl_open(&p, &ctx), -EACCES);
	CHECK_SAYS(urccl_errmsg(), "no transport opened: fabric: ");
	CHECK_SAYS(urccl_errmsg(), "urccl_test1");
	CHECK_SAYS(urccl_errmsg(), "urccl_test2");
}

int main(void)
{
	struct urccl_params p = with(PROVIDER "@urccl_test1");
	struct urccl *ctx;
	int err = urccl_open(&p, &ctx);

	/* There is no libfabric, or it is not told of the provider. */
	if (err == -ELIBACC || err == -ENODATA)
		SKIP(urccl_errmsg());
	not_named();
	named();
	maybe();
	return 0;
}
