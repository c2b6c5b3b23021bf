/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conformance --transport=sim|shm|tcp|ib|fabric:PROVIDER [--driver=readiness|io_uring]
 *             [--memory=shared|device] [--rdma=DEVICE,DEVICE] [--seed=N] [--case=NAME] [--long]
 *
 * What every backend promises in struct backend, one behaviour a case. Without --case all run, each
 * on devices of its own. --list names them.
 */
#include <inttypes.h>
#include "rig.h"

static const struct {
	const char *name;
	void (*run)(struct rig *rig);
} cases[] = {
#define CASE(name) {#name, case_##name},
#include "cases.h"
#undef CASE
};

static const char *value(const char *arg, const char *name)
{
	size_t len = strlen(name);

	return strncmp(arg, name, len) || arg[len] != '=' ? NULL : arg + len + 1;
}

static int parse(struct settings *s, const char *arg)
{
	const char *v;

	if ((v = value(arg, "--transport")))
		s->transport = v;
	else if ((v = value(arg, "--driver")))
		s->driver = v;
	else if ((v = value(arg, "--case")))
		s->name = v;
	else if ((v = value(arg, "--seed")))
		s->seed = strtoull(v, NULL, 0);
	else if ((v = value(arg, "--memory")))
		s->shared = !strcmp(v, "shared"), s->device = !strcmp(v, "device");
	else if ((v = value(arg, "--rdma")))
		return sscanf(v, "%31[^,],%31s", s->rdma[0], s->rdma[1]) == 2 ? 0 : -EINVAL;
	else if (!strcmp(arg, "--long"))
		s->is_long = 1;
	else
		return -EINVAL;
	return 0;
}

static int list(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		printf("%s\n", cases[i].name);
	return 0;
}

static void run(const struct settings *s, size_t i)
{
	struct rig rig;

	printf("%s: %s\n", s->transport, cases[i].name);
	fflush(stdout);
	rig_open(&rig, s);
	cases[i].run(&rig);
	rig_close(&rig);
}

/* Faults that a correct engine does not notice, and often enough to be met. */
static void set_faults(struct settings *s)
{
	snprintf(s->sim, sizeof(s->sim),
		 "seed=%" PRIu64 ",delay=500ns..20us,early=50%%,duplicate=25%%", s->seed);
}

/* What looks at a transport's own faults is for that transport, and what wants a device that is
 * less than there is, or one that pins memory, for who names it. */
static int suits(const char *name, const char *transport)
{
	if (!strncmp(name, "ib_", 3) || !strcmp(name, "read_only"))
		return 0;
	if (!strncmp(name, "fabric_", 7))
		return !strncmp(transport, "fabric:", 7);
	return strncmp(name, "sim_", 4) || !strcmp(transport, "sim");
}

int main(int argc, char **argv)
{
	struct settings s = {.transport = "sim",
			     .seed = clock_ns(),
			     .dead_after_ms = 10000,
			     .rdma = {"rxe_v0", "rxe_v1"}};
	size_t k, ran = 0;
	int i;

	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--list"))
			return list();
		if (parse(&s, argv[i])) {
			fprintf(stderr, "conformance: unknown argument %s\n", argv[i]);
			return 2;
		}
	}
	printf("seed %" PRIu64 "\n", s.seed);
	set_faults(&s);
	for (k = 0; k < ARRAY_SIZE(cases); k++) {
		if (s.name ? strcmp(s.name, cases[k].name) : !suits(cases[k].name, s.transport))
			continue;
		run(&s, k);
		ran++;
	}
	CHECK(ran);
	return 0;
}
