/* SPDX-License-Identifier: Apache-2.0 */
/* Failure records: kept until overwritten, never read half-written, and told in one sentence. */
#include <pthread.h>

#include "base/base.h"
#include "test.h"

#define ROUNDS 300000u

static struct failures failures;
static uint32_t newest;

/* Each word of the record follows from n, so that a mixture shows. */
static struct failure record(uint32_t n)
{
	struct failure f = {
		.reason = n % REASON_LAST,
		.res = -(int)(n % 100),
		.peer = n,
		.segment = ~n,
		.arg = {n, ~(uint64_t)n, (uint64_t)n << 32},
		.user_data = n * 3ull,
	};

	return f;
}

static void *write_all(void *unused)
{
	uint32_t i;

	for (i = failures.last + 1; i < ROUNDS; i++) {
		struct failure f = record(i);

		CHECK_EQ(failures_add(&failures, &f), i);
		store_release(&newest, i);
	}
	return unused;
}

static void check_record(const struct failure *got, uint32_t detail)
{
	struct failure f = record(detail);

	f.id = detail;
	CHECK(!memcmp(got, &f, sizeof(f)));
}

static void test_records(void)
{
	struct failure f = record(1);
	uint32_t i;

	CHECK_EQ(failures_get(&failures, 0, &f), -ENOENT);
	CHECK_EQ(failures_get(&failures, 1, &f), -ENOENT);
	for (i = 1; i <= FAILURES + 1; i++) {
		f = record(i);
		CHECK_EQ(failures_add(&failures, &f), i);
	}
	CHECK_EQ(failures_get(&failures, 1, &f), -ENOENT);
	CHECK_EQ(failures_get(&failures, FAILURES + 2, &f), -ENOENT);
	for (i = 2; i <= FAILURES + 1; i++) {
		CHECK_EQ(failures_get(&failures, i, &f), 0);
		check_record(&f, i);
	}
}

static void test_reader(void)
{
	uint32_t found = 0, turn = 0, detail;
	struct failure f;
	pthread_t writer;

	CHECK_EQ(pthread_create(&writer, NULL, write_all, NULL), 0);
	do {
		/* In turn the oldest one, which is about to be overwritten, and the newest. */
		detail = load_acquire(&newest);
		if (turn++ & 1)
			detail = detail > FAILURES ? detail - FAILURES + 1 : 2;
		if (!failures_get(&failures, detail, &f)) {
			check_record(&f, detail);
			found++;
		}
	} while (load_acquire(&newest) != ROUNDS - 1);
	pthread_join(writer, NULL);
	CHECK(found);
}

static void text_is(const struct failure *f, const char *peer, const char *expected)
{
	char text[512], cut[8];

	CHECK_EQ(failure_text(f, peer, text, sizeof(text)), strlen(text));
	if (strcmp(text, expected))
		fprintf(stderr, "\"%s\"\nis not \"%s\"\n", text, expected);
	CHECK(!strcmp(text, expected));
	CHECK_EQ(failure_text(f, peer, cut, sizeof(cut)), strlen(text));
	CHECK_EQ(strlen(cut), sizeof(cut) - 1);
	CHECK(!memcmp(cut, text, sizeof(cut) - 1));
	CHECK_EQ(failure_text(f, peer, NULL, 0), strlen(text));
}

static void test_texts(void)
{
	uint64_t rails;
	struct failure f = {.reason = REASON_REMOTE_RANGE,
			    .res = -ERANGE,
			    .peer = 0x100002,
			    .segment = 3,
			    .opcode = URCCL_OP_WRITEV,
			    .transport = URCCL_TRANSPORT_TCP,
			    .arg = {4096, 65535, 65536}};

	text_is(&f, "10.0.0.2:7777",
		"writev, peer 10.0.0.2:7777, over tcp, segment 3: 4096 bytes at offset 65535 pass "
		"the end of the remote, which has 65536: shorten it, or import an advert of more "
		"(ERANGE)");
	f = (struct failure){.reason = REASON_KEYS,
			     .res = -EACCES,
			     .peer = 0x100002,
			     .segment = UINT32_MAX,
			     .opcode = URCCL_OP_READ,
			     .arg = {EACCES, 0x300007}};
	text_is(&f, NULL,
		"read, peer handle 0x100002: the peer answered EACCES (Permission denied) instead "
		"of keys for the advert of remote 0x300007: it was revoked, has expired, or was "
		"never the peer's. Ask the peer for a newer one");
	f.res = -EIO;
	text_is(&f, "[::1]:1",
		"read, peer [::1]:1: the peer answered EACCES (Permission denied) instead of keys "
		"for the advert of remote 0x300007: it was revoked, has expired, or was never the "
		"peer's. Ask the peer for a newer one (EIO)");
	f = (struct failure){.reason = REASON_DIAL_NO_PATH,
			     .res = -EHOSTUNREACH,
			     .opcode = URCCL_OP_CONNECT,
			     .segment = UINT32_MAX};
	memcpy(f.arg, (const uint8_t[16]){[10] = 0xff, 0xff, 10, 0, 0, 2}, 16);
	rails = rails_arg(0, URCCL_TRANSPORT_SHM, 0, -ENOENT);
	rails = rails_arg(rails, URCCL_TRANSPORT_IB, 1, -ETIMEDOUT);
	rails = rails_arg(rails, URCCL_TRANSPORT_IB, 8, -EIO);
	f.arg[2] = rails << 16 | 7777;
	text_is(&f, NULL,
		"connect: none of the allowed transports reaches 10.0.0.2:7777: shm: ENOENT (No "
		"such file or directory), ib rail 0: ETIMEDOUT (Connection timed out), ib rail 7: "
		"EIO (Input/output error) (EHOSTUNREACH)");
	/* The oldest of more than three is not told. libfabric has errors beyond the system's. */
	rails = rails_arg(rails, URCCL_TRANSPORT_FABRIC, 2, -265);
	rails = rails_arg(rails, URCCL_TRANSPORT_NONE, 0, 0x7fffffff);
	f.arg[2] = rails << 16 | 7777;
	text_is(&f, NULL,
		"connect: none of the allowed transports reaches 10.0.0.2:7777: ib rail 7: EIO "
		"(Input/output error), fabric rail 1: error 265, the peer: an unknown error "
		"(EHOSTUNREACH)");
	f = (struct failure){.reason = 9999, .res = 0, .opcode = 200};
	text_is(&f, NULL, "opcode 200: no reason was noted");
}

int case_failure(void)
{
	CHECK(!strcmp(urccl_errmsg(), ""));
	CHECK_EQ(fail(-EBADF, "fd %d", 7), -EBADF);
	CHECK(!strcmp(urccl_errmsg(), "fd 7"));
	test_records();
	test_reader();
	test_texts();
	return 0;
}
