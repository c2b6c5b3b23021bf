/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory is available. A memfd has no limit of its own: filling one beyond the memory of
 * the machine or the control group does not fail but makes the kernel kill processes. So check
 * first. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/sysinfo.h>

#include "memory/memory.h"

#define LINE 4096

/* The number behind name in a file of "name number" lines; 0: not there. */
static int read_named(const char *path, const char *name, uint64_t *value)
{
	FILE *f = fopen(path, "re");
	size_t len = strlen(name);
	char line[256];
	int found = 0;

	if (!f)
		return 0;
	while (!found && fgets(line, sizeof(line), f)) {
		found = !strncmp(line, name, len) && (line[len] == ' ' || line[len] == ':');
		if (found)
			*value = strtoull(line + len + 1, NULL, 10);
	}
	fclose(f);
	return found;
}

uint64_t memory_pinned(void)
{
	uint64_t kib = 0;

	(void)read_named("/proc/self/status", "VmPin", &kib);
	return kib * 1024;
}

/* Reads a file with one number. "max" and unreadable files are no limit. */
static uint64_t read_number(const char *path)
{
	unsigned long long value;
	char line[32];

	return !file_line(path, line, sizeof(line)) && sscanf(line, "%llu", &value) == 1
		       ? value
		       : UINT64_MAX;
}

static uint64_t machine_room(void)
{
	struct sysinfo si;
	uint64_t kib;

	if (read_named("/proc/meminfo", "MemAvailable", &kib))
		return kib * 1024;
	return sysinfo(&si) ? UINT64_MAX : (uint64_t)si.freeram * si.mem_unit;
}

/* The files of a control group's memory, in versions 2 and 1. */
struct group_files {
	const char *mount, *limit, *used, *inactive, *active;
};
static const struct group_files group_v2 = {"/sys/fs/cgroup", "memory.max", "memory.current",
					    "inactive_file", "active_file"};
static const struct group_files group_v1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
					    "memory.usage_in_bytes", "total_inactive_file",
					    "total_active_file"};

/* Bytes that the group may still use: reclaimable file pages count as free. */
static uint64_t group_room(const char *root, const struct group_files *g, const char *group)
{
	uint64_t limit, used, inactive = 0, active = 0;
	char path[LINE + 256];

	snprintf(path, sizeof(path), "%s%s%s/%s", root, g->mount, group, g->limit);
	limit = read_number(path);
	snprintf(path, sizeof(path), "%s%s%s/%s", root, g->mount, group, g->used);
	used = read_number(path);
	if (limit == UINT64_MAX || used == UINT64_MAX)
		return UINT64_MAX;
	snprintf(path, sizeof(path), "%s%s%s/memory.stat", root, g->mount, group);
	read_named(path, g->inactive, &inactive);
	read_named(path, g->active, &active);
	used -= used < inactive + active ? used : inactive + active;
	return limit > used ? limit - used : 0;
}

/* A group's limit also binds the groups below it, so the least on the path to the root counts. In a
 * container the path may be the host's, which is not visible; then the visible root is the
 * container's own group. Overwrites group. */
static uint64_t groups_room(const char *root, const struct group_files *g, char *group)
{
	uint64_t room = UINT64_MAX, least;
	char *slash;

	do {
		least = group_room(root, g, group);
		room = least < room ? least : room;
		slash = strrchr(group, '/');
		if (slash)
			*slash = 0;
	} while (slash);
	return room;
}

/* A line of /proc/self/cgroup: "0::/group", or "4:memory:/group". */
static uint64_t line_room(const char *root, char *line)
{
	char *controllers = strchr(line, ':'), *group;

	group = controllers ? strchr(++controllers, ':') : NULL;
	if (!group)
		return UINT64_MAX;
	*group++ = 0;
	group[strcspn(group, "\n")] = 0;
	if (!*controllers)
		return groups_room(root, &group_v2, group);
	return strcmp(controllers, "memory") ? UINT64_MAX : groups_room(root, &group_v1, group);
}

uint64_t memory_groups_room(const char *root)
{
	uint64_t room = group_room(root, &group_v2, ""), least;
	char line[LINE];
	FILE *f;

	snprintf(line, sizeof(line), "%s/proc/self/cgroup", root);
	f = fopen(line, "re");
	while (f && fgets(line, sizeof(line), f)) {
		least = line_room(root, line);
		room = least < room ? least : room;
	}
	if (f)
		fclose(f);
	return room;
}

uint64_t memory_room(void)
{
	uint64_t room = machine_room(), groups = memory_groups_room("");

	return groups < room ? groups : room;
}
