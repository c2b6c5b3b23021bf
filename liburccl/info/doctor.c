/* SPDX-License-Identifier: Apache-2.0 */
/* Each thing that the library needs or could use: what is there, and what to do where it is not. */
#include "info.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

const struct check checks[] = {
	{"loopback", check_loopback},
	{"files", check_nofile},
	{"file size", check_fsize},
	{"memfd", check_memfd},
	{"memory", check_cgroup},
	{"memlock", check_memlock},
	{"rdma", check_uverbs},
	{"huge pages", check_huge},
	{"io_uring", check_io_uring},
	{"cma", check_cma},
	{"pid namespace", check_pid_namespace},
	{"/proc", check_proc},
	{"seccomp", check_seccomp},
	{"library", check_open},
	{"shm", check_shm},
	{"tcp", check_tcp},
};
const uint32_t nchecks = sizeof(checks) / sizeof(checks[0]);

void found(struct finding *f, enum health health, const char *state, ...)
{
	va_list args;

	f->health = health;
	va_start(args, state);
	vsnprintf(f->state, sizeof(f->state), state, args);
	va_end(args);
}

void advise(struct finding *f, const char *advice, ...)
{
	va_list args;

	va_start(args, advice);
	vsnprintf(f->advice, sizeof(f->advice), advice, args);
	va_end(args);
}

int read_line(const char *path, char *to, size_t size)
{
	FILE *file = fopen(path, "re");
	int err = 0;

	if (!file)
		return -errno;
	if (!fgets(to, (int)size, file))
		err = -EIO;
	else
		to[strcspn(to, "\n")] = 0;
	fclose(file);
	return err;
}

int read_field(const char *path, const char *name, char *to, size_t size)
{
	FILE *file = fopen(path, "re");
	size_t len = strlen(name);
	char line[512];
	int err = -ENOENT;

	if (!file)
		return -errno;
	while (err && fgets(line, sizeof(line), file)) {
		if (strncmp(line, name, len) || line[len] != ':')
			continue;
		line[strcspn(line, "\n")] = 0;
		snprintf(to, size, "%s", line + len + 1 + strspn(line + len + 1, " \t"));
		err = 0;
	}
	fclose(file);
	return err;
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

int doctor(int as_json)
{
	struct json out = {.to = stdout}, *j = as_json ? &out : NULL;
	uint32_t i, wrong = 0;

	if (j) {
		json_open(j, NULL, '{');
		json_text(j, "version", urccl_version());
		json_open(j, "checks", '[');
	}
	for (i = 0; i < nchecks; i++) {
		struct finding f = {.health = HEALTH_OK};

		checks[i].run(&f);
		report(j, checks[i].name, &f);
		fflush(stdout);
		wrong += f.health == HEALTH_WRONG;
	}
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
