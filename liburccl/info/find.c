/* SPDX-License-Identifier: Apache-2.0 */
/* Finds contexts of other processes: each has a memory file among its process's descriptors, which
 * the same user and root can open. */
#include "info.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINK_PREFIX "/memfd:" SEGMENT_PREFIX
#define STALE_NS    1000000000ull

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* The process's PID in its own PID namespace: the last of the line. */
static uint32_t own_number(pid_t pid)
{
	char path[64], line[256], *last;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (read_field(path, "NSpid", line, sizeof(line)))
		return (uint32_t)pid;
	last = strrchr(line, '\t');
	return (uint32_t)strtoul(last ? last + 1 : line, NULL, 10);
}

/* Reads name and state from "123 (name) S ...". */
static void process_read(struct context *c)
{
	char path[64], line[512], *open, *close;

	c->state = '?';
	snprintf(c->comm, sizeof(c->comm), "?");
	snprintf(path, sizeof(path), "/proc/%d/stat", c->pid);
	if (read_line(path, line, sizeof(line)))
		return;
	open = strchr(line, '(');
	close = strrchr(line, ')');
	if (!open || !close || close < open || !close[1])
		return;
	c->state = close[2];
	*close = 0;
	segment_string(open + 1, (uint32_t)strlen(open + 1), c->comm, sizeof(c->comm));
}

/* Returns 1 if descriptor `name` of the open folder is a context of the process. Skips one that a
 * forked child inherited. */
static int context_open(int dir, const char *name, pid_t pid, struct context *c)
{
	char link[64];
	ssize_t n = readlinkat(dir, name, link, sizeof(link) - 1);
	int fd, err;

	link[n > 0 ? n : 0] = 0;
	if (strncmp(link, LINK_PREFIX, strlen(LINK_PREFIX)))
		return 0;
	fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	err = segment_view_open(fd, &c->view);
	close(fd);
	if (err == -ENOTSUP)
		fprintf(stderr,
			"urccl_info: process %d has a liburccl of another version: use the "
			"urccl_info that came with it\n",
			pid);
	if (err)
		return 0;
	if (c->view.s->head.pid != own_number(pid)) {
		segment_view_close(&c->view);
		return 0;
	}
	c->pid = pid;
	process_read(c);
	return 1;
}

static int process_find(pid_t pid, struct context *to, uint32_t n)
{
	char path[64];
	struct dirent *d;
	uint32_t found = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while (found < n && (d = readdir(dir)))
		if (isdigit((unsigned char)d->d_name[0]))
			found += (uint32_t)context_open(dirfd(dir), d->d_name, pid, &to[found]);
	closedir(dir);
	return (int)found;
}

int contexts_find(pid_t pid, struct context *to, uint32_t n)
{
	struct dirent *d;
	uint32_t found = 0;
	DIR *dir;
	int res;

	if (pid)
		return process_find(pid, to, n);
	dir = opendir("/proc");
	if (!dir)
		return -errno;
	while (found < n && (d = readdir(dir))) {
		if (!isdigit((unsigned char)d->d_name[0]))
			continue;
		res = process_find((pid_t)atoi(d->d_name), &to[found], n - found);
		found += res > 0 ? (uint32_t)res : 0;
	}
	closedir(dir);
	return (int)found;
}

void context_close(struct context *c)
{
	segment_view_close(&c->view);
}

const char *context_state(const struct context *c, uint64_t now)
{
	const struct segment_engine *e = &c->view.s->engine;
	uint64_t turned = __atomic_load_n(&e->updated_ns, __ATOMIC_RELAXED);
	uint64_t wake_at = __atomic_load_n(&e->wake_at_ns, __ATOMIC_RELAXED);

	if (c->state == 'T' || c->state == 't')
		return "stopped";
	if (c->state == 'Z' || c->state == 'X')
		return "dead";
	if (__atomic_load_n(&e->state, __ATOMIC_RELAXED) == SEGMENT_SLEEPS)
		return now > wake_at && now - wake_at > STALE_NS ? "late" : "asleep";
	if (now < turned || now - turned <= STALE_NS)
		return "busy";
	return c->view.s->head.is_inline ? "not driven" : "stuck";
}

#define DUMP_CONTEXTS 256u

int dump_process(pid_t pid)
{
	static struct context found[DUMP_CONTEXTS];
	int i, n = contexts_find(pid, found, DUMP_CONTEXTS);

	if (n < 0) {
		fprintf(stderr, "urccl_info: process %d cannot be looked at: %s\n", pid,
			n == -ENOENT ? "there is none of that number" : strerror(-n));
		return INFO_WRONG;
	}
	if (!n) {
		fprintf(stderr,
			"urccl_info: process %d has no context of liburccl that can be "
			"seen\n",
			pid);
		return INFO_WRONG;
	}
	for (i = 0; i < n; i++) {
		printf("%sprocess %d, %s: %s\n", i ? "\n" : "", pid, found[i].comm,
		       context_state(&found[i], now_ns()));
		fflush(stdout);
		segment_text(&found[i].view, now_ns(), STDOUT_FILENO);
		context_close(&found[i]);
	}
	return 0;
}
