/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of control groups, version 1 or 2. A limit applies to all groups below it, so the tightest
 * one from the process's group up to the root counts. Groups that a container does not mount are
 * skipped. */
#include "info.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOUNT	  "/sys/fs/cgroup"
#define PATH_SIZE 1024
#define NO_LIMIT  (1ull << 60) /* version 1 shows a huge number for no limit */

/* 1: the line, such as "4:cpu,memory:/group", lists the controller. */
static int line_has(const char *line, const char *controller)
{
	const char *at = strchr(line, ':'), *end = at ? strchr(at + 1, ':') : NULL;
	size_t n, len = strlen(controller);

	while (end && at < end) {
		n = strcspn(++at, ",:");
		if (n == len && !memcmp(at, controller, len))
			return 1;
		at += n;
	}
	return 0;
}

/* Writes the folder of the process's group for the controller; *top: length of its mount point. */
static void own_group(const char *root, const char *controller, char path[PATH_SIZE], size_t *top)
{
	char file[PATH_SIZE], line[512];
	int is_v1 = 0, n;
	FILE *f;

	n = snprintf(path, PATH_SIZE, "%s" MOUNT, root);
	*top = (size_t)n;
	snprintf(file, sizeof(file), "%s/proc/self/cgroup", root);
	f = fopen(file, "re");
	while (f && !is_v1 && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		is_v1 = line_has(line, controller);
		if (!is_v1 && strncmp(line, "0::", 3))
			continue;
		n = snprintf(path, PATH_SIZE, "%s" MOUNT "%s%s", root, is_v1 ? "/" : "",
			     is_v1 ? controller : "");
		*top = (size_t)n;
		snprintf(path + n, PATH_SIZE - (size_t)n, "%s",
			 strchr(strchr(line, ':') + 1, ':') + 1);
	}
	if (f)
		fclose(f);
}

/* Changes path to the parent group. 0: path is the root. */
static int parent_group(char path[PATH_SIZE], size_t top)
{
	char *slash = strrchr(path + top, '/');

	if (!slash)
		return 0;
	*slash = 0;
	return 1;
}

static int read_number(const char *path, const char *name, unsigned long long *n)
{
	char file[PATH_SIZE + 64], line[64], *end;

	snprintf(file, sizeof(file), "%s/%s", path, name);
	if (read_line(file, line, sizeof(line)))
		return -ENOENT;
	*n = strtoull(line, &end, 10);
	return end == line || *n >= NO_LIMIT ? -ENOENT : 0; /* "max" */
}

int group_limit(const char *root, const char *controller, struct group_limit *out)
{
	int is_memory = !strcmp(controller, "memory");
	const char *const max[] = {is_memory ? "memory.max" : "pids.max",
				   is_memory ? "memory.limit_in_bytes" : "pids.max"};
	const char *const now[] = {is_memory ? "memory.current" : "pids.current",
				   is_memory ? "memory.usage_in_bytes" : "pids.current"};
	unsigned long long room = NO_LIMIT, most, used;
	char path[PATH_SIZE];
	size_t top;
	int i;

	own_group(root, controller, path, &top);
	do {
		i = 0;
		if (read_number(path, max[0], &most) && read_number(path, max[++i], &most))
			continue;
		if (read_number(path, now[i], &used))
			used = 0;
		if (most - (used < most ? used : most) >= room)
			continue;
		room = most - (used < most ? used : most);
		*out = (struct group_limit){most, used};
	} while (parent_group(path, top));
	return room == NO_LIMIT ? -ENOENT : 0;
}

/* Lowers *least to the number of name in "hca_handle=2 hca_object=max". */
static void least_of(const char *words, const char *name, unsigned long long *least)
{
	const char *at = strstr(words, name);
	unsigned long long n;
	char *end;

	if (!at)
		return;
	at += strlen(name);
	n = strtoull(at, &end, 10);
	if (end != at && n < *least)
		*least = n;
}

int group_rdma(const char *root, struct group_rdma *out)
{
	char path[PATH_SIZE], file[PATH_SIZE + 64], line[256];
	size_t top;
	FILE *f;

	*out = (struct group_rdma){~0ull, ~0ull, ""};
	own_group(root, "rdma", path, &top);
	do {
		snprintf(file, sizeof(file), "%s/rdma.max", path);
		f = fopen(file, "re");
		while (f && fgets(line, sizeof(line), f)) {
			struct group_rdma before = *out;

			least_of(line, "hca_handle=", &out->handles);
			least_of(line, "hca_object=", &out->objects);
			if (out->handles != before.handles || out->objects != before.objects)
				snprintf(out->device, sizeof(out->device), "%.*s",
					 (int)strcspn(line, " "), line);
		}
		if (f)
			fclose(f);
	} while (parent_group(path, top));
	return *out->device ? 0 : -ENOENT;
}
