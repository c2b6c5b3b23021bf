/* SPDX-License-Identifier: Apache-2.0 */
/* Traces: what a good one says, and which line of a bad one is bad. */
#include <string.h>
#include "pusher.h"
#include "test.h"

static char name[] = "/tmp/pusher_trace.XXXXXX";

static int load(const char *text, double scale, struct trace *t, struct problem *p)
{
	struct options o = {.page = 16, .scale = scale, .requests = UINT32_MAX, .trace = name};
	FILE *f = fopen(name, "w");

	CHECK(f);
	CHECK_EQ(fwrite(text, 1, strlen(text), f), strlen(text));
	CHECK_EQ(fclose(f), 0);
	return trace_load(&o, t, p);
}

#define LINE \
	"{\"timestamp\": 5, \"input_length\": 600, \"output_length\": 9, \"hash_ids\": [7, 8]}\n"

static void bad(const char *text, const char *where, const char *what)
{
	struct problem p;
	struct trace t;

	CHECK_EQ(load(text, 1, &t, &p), -1);
	if (!strstr(p.text, where) || !strstr(p.text, what)) {
		fprintf(stderr, "\"%s\" names neither %s nor %s\n", p.text, where, what);
		test_end(1);
	}
}

static void good(void)
{
	struct problem p;
	struct trace t;

	CHECK_EQ(load(LINE "\n" LINE, 1, &t, &p), 0);
	CHECK_EQ(t.n, 2);
	CHECK_EQ(t.requests[1].line, 3);
	CHECK_EQ(t.requests[0].tokens, 600);
	CHECK_EQ(t.requests[0].nblocks, 2);
	CHECK_EQ(t.requests[1].hash[0], 7);
	CHECK_EQ(t.requests[1].hash[1], 8);
	CHECK_EQ(t.block_tokens, 512);
	CHECK_EQ(block_pages(600, 512, 16, 0), 32);
	CHECK_EQ(block_pages(600, 512, 16, 1), 6);
	CHECK_EQ(tokens_pages(600, 16), 38);
	trace_free(&t);
}

#define AT(ms) \
	"{\"timestamp\": " ms ", \"input_length\": 1, \"output_length\": 9, \"hash_ids\": [7]}\n"

/* A trace that was cut out of a longer one begins late: its first request is due at once. */
static void late(void)
{
	struct problem p;
	struct trace t;

	CHECK_EQ(load(AT("4000") AT("4000.5") AT("3000") AT("9000"), 1, &t, &p), 0);
	CHECK_EQ(t.requests[0].due_ns, 0);
	CHECK_EQ(t.requests[1].due_ns, 500000);
	CHECK_EQ(t.requests[2].due_ns, 0);
	CHECK_EQ(t.requests[3].due_ns, 5 * NSEC);
	trace_free(&t);
}

/* Hashes of 64 bits stay what they are. */
static void wide(void)
{
	struct problem p;
	struct trace t;

	CHECK_EQ(load("{\"timestamp\": 0, \"input_length\": 1025, \"output_length\": 1, "
		      "\"hash_ids\": [9223372036854775807, 9223372036854775808, "
		      "18446744073709551614]}\n",
		      1, &t, &p),
		 0);
	CHECK_EQ(t.requests[0].hash[0], INT64_MAX);
	CHECK_EQ(t.requests[0].hash[1], INT64_MAX + 1ull);
	CHECK_EQ(t.requests[0].hash[2], UINT64_MAX - 1);
	trace_free(&t);
}

/* A tenth of the tokens: blocks stay blocks, of whole pages. */
static void scaled(void)
{
	struct problem p;
	struct trace t;

	CHECK_EQ(load(LINE, 0.1, &t, &p), 0);
	CHECK_EQ(t.block_tokens, 48);
	CHECK_EQ(t.requests[0].tokens, 48 + 9);
	CHECK_EQ(t.requests[0].nblocks, 2);
	trace_free(&t);
}

static void built_in(void)
{
	struct options o = {.page = 16, .scale = 1, .requests = 20};
	struct problem p;
	struct trace t;

	CHECK_EQ(trace_load(&o, &t, &p), 0);
	CHECK_EQ(t.n, 20);
	trace_free(&t);
}

int main(void)
{
	int fd = mkstemp(name);

	CHECK(fd >= 0);
	close(fd);
	good();
	late();
	wide();
	scaled();
	built_in();
	bad("", name, "no requests");
	bad(LINE "{\"timestamp\": 5", ":2:", "too early");
	bad(LINE LINE "hello\n", ":3:", "not JSON");
	bad(LINE "{} {}\n", ":2:", "not JSON");
	bad("[1]\n", ":1:", "not a JSON object");
	bad("{\"timestamp\": 5, \"output_length\": 9, \"hash_ids\": [7]}\n", ":1:", "input_length");
	bad("{\"timestamp\": 5, \"input_length\": 0, \"output_length\": 9, \"hash_ids\": []}\n",
	    ":1:", "input_length");
	bad("{\"timestamp\": \"x\", \"input_length\": 1, \"output_length\": 9, \"hash_ids\": [1]}\n",
	    ":1:", "timestamp");
	bad("{\"timestamp\": 1, \"input_length\": 513, \"output_length\": 9, \"hash_ids\": [1]}\n",
	    ":1:", "hash_ids");
	bad("{\"timestamp\": 1, \"input_length\": 2, \"output_length\": 9, \"hash_ids\": [\"a\"]}\n",
	    ":1:", "hash_ids[0]");
	bad("{\"timestamp\": 1, \"input_length\": 2, \"output_length\": 9, \"hash_ids\": [-1]}\n",
	    ":1:", "hash_ids[0]");
	bad("{\"timestamp\": 1, \"input_length\": 2, \"output_length\": 9, "
	    "\"hash_ids\": [18446744073709551615]}\n",
	    ":1:", "hash_ids[0]");
	bad("{\"timestamp\": 1, \"input_length\": 2, \"output_length\": 9}\n", ":1:", "hash_ids");
	unlink(name);
	return 0;
}
