/* SPDX-License-Identifier: Apache-2.0 */
/* Text ends at a NUL where it is taken for a string, and goes on in the file: a config or a trace
 * with one is refused, and it is named. */
#include <string.h>
#include "pusher.h"
#include "test.h"

static char name[] = "/tmp/pusher_nul.XXXXXX";

static void put(const char *bytes, size_t len)
{
	FILE *f = fopen(name, "w");

	CHECK(f);
	CHECK_EQ(fwrite(bytes, 1, len, f), len);
	CHECK_EQ(fclose(f), 0);
}

static void says(const struct problem *p, const char *words)
{
	if (!strstr(p->text, words)) {
		fprintf(stderr, "\"%s\" does not say \"%s\"\n", p->text, words);
		test_end(1);
	}
}

static void config(const char *bytes, size_t len, const char *words)
{
	struct options o = {.page = 16, .kv_dtype = "bf16", .model = name};
	struct problem p;
	struct shape s;

	put(bytes, len);
	CHECK_EQ(model_load(&o, &s, &p), -1);
	says(&p, words);
}

static void trace(const char *bytes, size_t len, const char *words)
{
	struct options o = {.page = 16, .scale = 1, .requests = UINT32_MAX, .trace = name};
	struct problem p;
	struct trace t;

	put(bytes, len);
	CHECK_EQ(trace_load(&o, &t, &p), -1);
	says(&p, words);
}

#define IN_CONFIG(bytes, words) config(bytes, sizeof(bytes) - 1, words)
#define IN_TRACE(bytes, words)  trace(bytes, sizeof(bytes) - 1, words)
#define GQA "\"num_hidden_layers\": 4, \"num_attention_heads\": 8, \"hidden_size\": 512}"
#define LINE \
	"{\"timestamp\": 5, \"input_length\": 6, \"output_length\": 9, \"hash_ids\": [7]}\n"

int main(void)
{
	int fd = mkstemp(name);

	CHECK(fd >= 0);
	close(fd);
	IN_CONFIG("\0{" GQA, "not JSON: byte 1 is NUL");
	IN_CONFIG("{\0" GQA, "not JSON: byte 2 is NUL");
	IN_CONFIG("{\"\0\": 1, " GQA, "not JSON: byte 3 is NUL");
	IN_CONFIG("{" GQA "\0", " is NUL");
	IN_CONFIG("{" GQA "\n\0\0{}", " is NUL");
	IN_TRACE("\0" LINE, ":1: not JSON: byte 1 of the line is NUL");
	IN_TRACE("{\"\0\": 1}\n", ":1: not JSON: byte 3 of the line is NUL");
	IN_TRACE(LINE "\0\n", ":2: not JSON: byte 1 of the line is NUL");
	IN_TRACE(LINE LINE "\0", ":3: not JSON: byte 1 of the line is NUL");
	unlink(name);
	return 0;
}
