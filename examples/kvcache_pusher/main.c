/* SPDX-License-Identifier: Apache-2.0 */
/* What is refused before anything starts; then one of the roles. */
#include <string.h>
#include "options.h"

/* Every rank has the same number of heads. */
static int check_heads(const struct shape *s, const char *who, uint32_t ranks, struct problem *p)
{
	if (ranks > 1 && s->planes == 1)
		return problem(
			p, "--tp: the latent of MLA has no heads to be dealt out to %u ranks of %s",
			ranks, who);
	if (s->heads % ranks)
		return problem(p, "--tp: %u KV heads cannot be dealt out evenly to %u ranks of %s",
			       s->heads, ranks, who);
	return 0;
}

static int check_cache(const struct shape *s, const char *option, uint64_t bytes, struct problem *p)
{
	uint64_t page = shape_page_bytes(s);

	if (bytes < page)
		return problem(p, "%s: %llu bytes hold no page of %llu bytes", option,
			       (unsigned long long)bytes, (unsigned long long)page);
	if (bytes / page >= 1u << 28)
		return problem(p, "%s: more than 2^28 pages", option);
	return 0;
}

static int check_contexts(const struct options *o, struct problem *p)
{
	if (o->contexts > o->parallel)
		return problem(
			p, "--contexts %u: each has a request under way: --parallel %u at least",
			o->contexts, o->contexts);
	/* CUDA has a current context for each thread. */
	if (o->contexts > 1 && o->prefill.kind == MEMORY_GPU)
		return problem(p, "--contexts: several contexts move memory of the host alone");
	return 0;
}

static int check_parallel(const struct options *o, const struct shape *s, struct problem *p)
{
	if (o->parallel > push_requests_max(s))
		return problem(p, "--parallel %u: of %u layers each it can be %u requests at most",
			       o->parallel, s->layers, push_requests_max(s));
	return 0;
}

static int load(const struct options *o, struct job *job, struct problem *p)
{
	const struct shape *s = &job->shape;

	memset(job, 0, sizeof(*job));
	job->o = o;
	if (model_load(o, &job->shape, p) || check_heads(s, "prefill", o->tp_prefill, p) ||
	    check_heads(s, "decode", o->tp_decode, p) ||
	    check_cache(s, "--pool", o->pool_bytes, p) ||
	    check_cache(s, "--cache", o->cache_bytes / o->contexts, p))
		return -1;
	if (o->role == ROLE_SERVE)
		return 0;
	return check_parallel(o, s, p) || check_contexts(o, p) ? -1 : trace_load(o, &job->trace, p);
}

/* "@FILE": the metadata that --serve wrote there: a blob, or a struct dial of each context. */
static int read_metadata(const char *name, struct dial *dials, struct problem *p)
{
	char bytes[CONTEXTS_MAX * sizeof(*dials)];
	FILE *f = fopen(name, "re");
	size_t n, i;

	if (!f)
		return problem(p, "%s: %s", name, strerror(errno));
	n = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	if (!n || (n > sizeof(dials->to) && n % sizeof(*dials)))
		return problem(p, "%s: no metadata of decode", name);
	if (n > sizeof(dials->to)) {
		memcpy(dials, bytes, n);
		for (i = 0; i < n / sizeof(*dials); i++)
			if (!dials[i].len || dials[i].len > sizeof(dials->to))
				return problem(p, "%s: no metadata of decode", name);
		return (int)(n / sizeof(*dials));
	}
	dials->len = (uint32_t)n;
	memcpy(dials->to, bytes, n);
	return 1;
}

static int push(const struct job *job, struct problem *p)
{
	struct dial dials[CONTEXTS_MAX];
	const char *to = job->o->address;
	int n = (int)job->o->contexts, i;

	for (i = 0; *to != '@' && i < n; i++)
		address_of(to, (uint32_t)i, &dials[i]);
	if (*to == '@')
		n = read_metadata(to + 1, dials, p);
	if (n < 0) {
		say("%s", p->text);
		return EXIT_USAGE;
	}
	return push_run(job, dials, (uint32_t)n);
}

int main(int argc, char **argv)
{
	struct problem p;
	struct options o;
	struct job job;
	int res = options_parse(argc, argv, &o, &p);

	if (res > 0)
		return EXIT_FINE;
	if (res < 0 || load(&o, &job, &p)) {
		say("%s", p.text);
		return EXIT_USAGE;
	}
	if (o.role == ROLE_SERVE)
		res = serve_run(&job, -1);
	else if (o.role == ROLE_PUSH)
		res = push(&job, &p);
	else
		res = demo_run(&job);
	trace_free(&job.trace);
	return res;
}
