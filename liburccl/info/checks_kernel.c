/* SPDX-License-Identifier: Apache-2.0 */
/* Checks for limits by the kernel, a container or a seccomp filter. */
#include "info.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIRST_PID_NAMESPACE "pid:[4026531836]"

static int is_filtered(struct finding *f)
{
	char mode[16];

	return !read_field(path_under(f, "/proc/self/status"), "Seccomp", mode, sizeof(mode)) &&
	       *mode == '2';
}

void check_seccomp(struct finding *f)
{
	if (!is_filtered(f)) {
		finding_set(f, HEALTH_OK, "no filter");
		return;
	}
	finding_set(f, HEALTH_NOTE, "a filter says which system calls this process may make");
	advise(f, "the lines of io_uring and memfd say what of it matters; a container's is "
		  "chosen by --security-opt seccomp=PROFILE");
}

void check_io_uring(struct finding *f)
{
	char params[120] = {0}, disabled[16] = "";
	long fd = syscall(SYS_io_uring_setup, 1, params);
	int err = errno;

	if (fd >= 0) {
		close((int)fd);
		finding_set(f, HEALTH_OK, "permitted");
		return;
	}
	read_line(path_under(f, "/proc/sys/kernel/io_uring_disabled"), disabled, sizeof(disabled));
	if (err == ENOSYS && !is_filtered(f))
		finding_set(f, HEALTH_NOTE, "this kernel has none: tcp uses epoll");
	else if (*disabled == '2' || (*disabled == '1' && err == EPERM && !is_filtered(f)))
		finding_set(f, HEALTH_NOTE,
			    "denied by the sysctl kernel.io_uring_disabled, which is %s: "
			    "tcp uses epoll",
			    disabled);
	else if (is_filtered(f))
		finding_set(f, HEALTH_NOTE, "denied by a seccomp filter (%s): tcp uses epoll",
			    strerror(err));
	else
		finding_set(f, HEALTH_NOTE, "denied: %s: tcp uses epoll", strerror(err));
	advise(f, "only tcp_driver io_uring needs it: sysctl kernel.io_uring_disabled=0, or a "
		  "container's seccomp profile that permits io_uring_*");
}

void check_pid_namespace(struct finding *f)
{
	char link[64];
	ssize_t n = readlink(path_under(f, "/proc/self/ns/pid"), link, sizeof(link) - 1);

	if (n < 0) {
		finding_set(f, HEALTH_NOTE, "not to be told: %s", strerror(errno));
		advise(f, "mount -t proc proc /proc: --top and --dump look there for processes");
		return;
	}
	link[n] = 0;
	if (!strcmp(link, FIRST_PID_NAMESPACE)) {
		finding_set(f, HEALTH_OK, "the host's");
		return;
	}
	finding_set(f, HEALTH_NOTE, "one of its own: --top and --dump see the processes inside");
	advise(f, "shm meets peers outside all the same where the network namespace or the "
		  "setting socket_dir is shared");
}

void check_proc(struct finding *f)
{
	struct stat st;

	if (stat(path_under(f, "/proc/self/status"), &st)) {
		finding_set(f, HEALTH_WRONG, "not mounted: %s", strerror(errno));
		advise(f, "mount -t proc proc /proc");
		return;
	}
	if (stat(path_under(f, "/proc/1"), &st)) {
		finding_set(f, HEALTH_NOTE, "other users' processes are hidden (hidepid)");
		advise(f, "--top and --dump see your own processes, which is mostly enough");
		return;
	}
	finding_set(f, HEALTH_OK, "mounted");
}
