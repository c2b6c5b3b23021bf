/* SPDX-License-Identifier: Apache-2.0 */
/* urccl_info --doctor: checks each thing that the library needs or can use, and gives advice. */
#include "info.h"

#include <stdarg.h>
#include <string.h>

#define DOCTOR_NS 1800000000ull /* leaves time to close the last context within 2 s */

const struct check checks[] = {
	{"loopback", check_loopback},
	{"files", check_nofile},
	{"file size", check_fsize},
	{"memfd", check_memfd},
	{"memory", check_group_memory},
	{"threads", check_group_threads},
	{"memlock", check_memlock},
	{"rdma", check_uverbs},
	{"rdma limits", check_group_rdma},
	{"huge pages", check_huge},
	{"io_uring", check_io_uring},
	{"pid namespace", check_pid_namespace},
	{"/proc", check_proc},
	{"seccomp", check_seccomp},
	{"settings", check_settings},
	{"library", check_open},
	{"shm", check_shm},
	{"tcp", check_tcp},
};
const uint32_t nchecks = sizeof(checks) / sizeof(checks[0]);

const char *path_under(struct finding *f, const char *path)
{
	snprintf(f->path, sizeof(f->path), "%s%s", f->root, path);
	return f->path;
}

void finding_set(struct finding *f, enum health health, const char *state, ...)
{
	va_list args;

	f->health = health;
	va_start(args, state);
	vsnprintf(f->state, sizeof(f->state), state, args);
	va_end(args);
}

void advise(struct finding *f, const char *advice, ...)
{
	size_t len = strlen(f->advice);
	va_list args;

	if (len)
		len += (size_t)snprintf(f->advice + len, sizeof(f->advice) - len, "; ");
	if (len >= sizeof(f->advice))
		return;
	va_start(args, advice);
	vsnprintf(f->advice + len, sizeof(f->advice) - len, advice, args);
	va_end(args);
}

static const char *const words[] = {
	[HEALTH_OK] = "ok",
	[HEALTH_NOTE] = "note",
	[HEALTH_WRONG] = "wrong",
};

static void report(struct json *j, const char *name, const struct finding *f)
{
	if (!j) {
		printf("%-13s  %-5s  %s\n", name, words[f->health], f->state);
		if (*f->advice)
			printf("%-13s         -> %s\n", "", f->advice);
		return;
	}
	json_open(j, NULL, '{');
	json_text(j, "name", name);
	json_text(j, "health", words[f->health]);
	json_text(j, "state", f->state);
	json_text(j, "advice", f->advice);
	json_close(j, '}');
}

/* Prints the finding at once. Returns 1 if something is wrong. */
static uint32_t finding_report(struct json *j, const char *name, const struct finding *f)
{
	report(j, name, f);
	fflush(stdout);
	return f->health == HEALTH_WRONG;
}

static struct finding finding_begin(const struct urccl_params *p, uint64_t until_ns)
{
	return (struct finding){.health = HEALTH_OK, .params = p, .root = "", .until_ns = until_ns};
}

/* Reports each GPU, or the reason why there is none. Returns how many are wrong. */
static uint32_t check_gpus(struct json *j, const struct urccl_params *p, uint64_t until_ns)
{
	uint32_t wrong = 0;
	int i = 0, n;

	do {
		struct finding f = finding_begin(p, until_ns);

		n = check_gpu(&f, i);
		wrong += finding_report(j, "gpu", &f);
	} while (++i < n);
	return wrong;
}

/* Checks each transport that the setting names, except shm, tcp and sim. */
static uint32_t other_ways(struct json *j, const struct urccl_params *p, uint64_t until_ns)
{
	const char *at = p->transport;
	uint32_t wrong = 0;
	char word[256];
	int may_lack;
	size_t n;

	for (; at && *at; at += n + (at[n] == ',')) {
		struct finding f = finding_begin(p, until_ns);

		n = strcspn(at, ",");
		snprintf(word, sizeof(word), "%.*s", (int)n, at);
		may_lack = strchr(word, '?') != NULL;
		word[strcspn(word, "?!")] = 0;
		if (!strcmp(word, "shm") || !strcmp(word, "tcp") || !strcmp(word, "sim"))
			continue;
		check_connects(&f, word);
		if (may_lack && f.health == HEALTH_WRONG)
			f.health = HEALTH_NOTE;
		wrong += finding_report(j, word, &f);
	}
	return wrong;
}

static uint32_t all_checks(struct json *j, const char *transport)
{
	struct urccl_params p = {.size = sizeof(p)};
	uint64_t until_ns = now_ns() + DOCTOR_NS;
	uint32_t i, wrong = 0;

	urccl_params_init(&p);
	if (urccl_params_from_env(&p)) /* check_settings() reports it */
		urccl_params_init(&p);
	if (transport)
		p.transport = transport;
	for (i = 0; i < nchecks; i++) {
		struct finding f = finding_begin(&p, until_ns);

		checks[i].run(&f);
		wrong += finding_report(j, checks[i].name, &f);
	}
	wrong += check_gpus(j, &p, until_ns);
	return wrong + other_ways(j, &p, until_ns);
}

int doctor(const char *transport, int as_json)
{
	struct json out = {.to = stdout}, *j = as_json ? &out : NULL;
	uint32_t wrong;

	if (j) {
		json_open(j, NULL, '{');
		json_text(j, "version", urccl_version());
		json_open(j, "checks", '[');
	}
	wrong = all_checks(j, transport);
	if (j) {
		json_close(j, ']');
		json_whole(j, "wrong", wrong);
		json_close(j, '}');
		printf("\n");
	} else {
		printf("\n%s\n", wrong ? "Something is wrong." : "Nothing is wrong.");
	}
	return wrong ? INFO_WRONG : 0;
}
