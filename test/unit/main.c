/* SPDX-License-Identifier: Apache-2.0 */
/*
 *	unit-cases [NAME...]
 *
 * runs these cases, or all, each in a process of its own, for a case may change the whole process.
 * The environment's UNIT_WITHOUT names cases to leave out, separated by spaces. With --case=NAME
 * the case runs in this process, for a debugger.
 */
#include <stdint.h>
#include <sys/wait.h>
#include "german.h"
#include "test.h"

#define CASE(name) int case_##name(void);
#include CASES
#undef CASE

static const struct unit {
	const char *name;
	int (*run)(void);
} units[] = {
#define CASE(name) {#name, case_##name},
#include CASES
#undef CASE
};

#define UNITS (sizeof(units) / sizeof(units[0]))

static uint32_t passed, failed;

static const struct unit *find(const char *name)
{
	size_t i;

	for (i = 0; i < UNITS; i++)
		if (!strcmp(units[i].name, name))
			return &units[i];
	fprintf(stderr, "there is no case %s\n", name);
	test_end(2);
}

static int is_left_out(const char *name)
{
	const char *at = getenv("UNIT_WITHOUT");
	size_t len;

	for (; at && *at; at += len + (at[len] == ' ')) {
		len = strcspn(at, " ");
		if (len == strlen(name) && !strncmp(at, name, len))
			return 1;
	}
	return 0;
}

static void run(const struct unit *unit)
{
	int status;
	pid_t pid;

	if (is_left_out(unit->name))
		return;
	printf("%s\n", unit->name);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		exit(unit->run());
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	passed += WIFEXITED(status) && !WEXITSTATUS(status);
	if (WIFEXITED(status) && (!WEXITSTATUS(status) || WEXITSTATUS(status) == 77))
		return;
	failed++;
	fprintf(stderr, "%s: failed, %s %d\n", unit->name, WIFEXITED(status) ? "status" : "signal",
		WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

int main(int argc, char **argv)
{
	size_t i;

	german_begin();
	if (argc == 2 && !strncmp(argv[1], "--case=", 7))
		return find(argv[1] + 7)->run();
	for (i = 1; i < (size_t)argc; i++)
		run(find(argv[i]));
	for (i = 0; argc == 1 && i < UNITS; i++)
		run(&units[i]);
	printf("%u passed, %u failed\n", passed, failed);
	return failed ? 1 : passed ? 0 : 77;
}
