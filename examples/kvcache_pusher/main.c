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
	    check_cache(s, "--cache", o->cache_bytes, p))
		return -1;
	if (o->role == ROLE_SERVE)
		return 0;
	return check_parallel(o, s, p) ? -1 : trace_load(o, &job->trace, p);
}

/* "@FILE": the metadata that --serve wrote there. */
static int read_metadata(const char *name, char *blob, size_t len, struct problem *p)
{
	FILE *f = fopen(name, "re");
	size_t n;

	if (!f)
		return problem(p, "%s: %s", name, strerror(errno));
	n = fread(blob, 1, len, f);
	fclose(f);
	return n ? (int)n : problem(p, "%s: empty", name);
}

static int push(const struct job *job, struct problem *p)
{
	char blob[URCCL_METADATA_MAX];
	const char *to = job->o->address;
	int len = (int)strlen(to);

	if (*to == '@') {
		len = read_metadata(to + 1, blob, sizeof(blob), p);
		if (len < 0) {
			say("%s", p->text);
			return EXIT_USAGE;
		}
		to = blob;
	}
	return push_run(job, to, (uint32_t)len);
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
