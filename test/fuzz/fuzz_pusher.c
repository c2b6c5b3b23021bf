/* SPDX-License-Identifier: Apache-2.0 */
/* What kvcache_pusher reads of a user: a model's config.json and a trace. The first byte says
 * which, and how it is asked for. What is taken can be laid out; what is not has a sentence. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pusher.h"
#include "fuzz.h"

static void said(const struct problem *p)
{
	must(p->text[0] && memchr(p->text, 0, sizeof(p->text)) != NULL);
}

static void model(struct options *o)
{
	struct problem p = {{0}};
	struct shape s;
	char text[256];

	if (model_load(o, &s, &p)) {
		said(&p);
		return;
	}
	must(s.layers && s.layers <= 1024 && s.heads && s.dim && s.elt && s.page == o->page);
	must(s.planes == 1 || s.planes == 2);
	must(shape_page_bytes(&s) / o->page == shape_token_bytes(&s));
	must(shape_equal(&s, &s));
	shape_text(&s, text, sizeof(text));
}

static void trace(struct options *o)
{
	struct problem p = {{0}};
	struct trace t;
	uint32_t i, k;

	if (trace_load(o, &t, &p)) {
		said(&p);
		return;
	}
	must(t.n && t.n <= o->requests && t.block_tokens);
	for (i = 0; i < t.n; i++) {
		const struct request *r = &t.requests[i];
		uint64_t pages = 0;

		must(r->tokens && r->nblocks);
		must(!i || r->line > t.requests[i - 1].line);
		for (k = 0; k < r->nblocks; k++)
			pages += block_pages(r->tokens, t.block_tokens, o->page, k);
		must(pages == tokens_pages(r->tokens, o->page));
	}
	trace_free(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const dtypes[] = {NULL, "fp8", "bf16", "float32"};
	static int fd = -1;
	char name[32];
	struct options o = {.page = 16, .scale = 1, .requests = 64};

	if (!size)
		return 0;
	if (fd < 0)
		fd = memfd_create("pusher", MFD_CLOEXEC);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	must(fd >= 0 && !ftruncate(fd, 0));
	must(pwrite(fd, data + 1, size - 1, 0) == (ssize_t)(size - 1));
	o.page = 1u << (data[0] >> 1 & 7);
	o.hnd = data[0] >> 4 & 1;
	if (data[0] & 1) {
		o.model = name;
		o.kv_dtype = dtypes[data[0] >> 5 & 3];
		model(&o);
	} else {
		o.trace = name;
		o.scale = data[0] & 32 ? 0.1 : 1;
		trace(&o);
	}
	return 0;
}
