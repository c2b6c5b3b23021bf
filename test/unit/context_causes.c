/* SPDX-License-Identifier: Apache-2.0 */
/* Several causes make one call fail: the sentence names the one that the errno tells, and not one
 * that is guessed from the call. A filter gives each errno, in a process of its own. */
#include <liburccl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "seccomp.h"
#include "test.h"

/* Calls of number nr whose argument has one of these bits fail with the errno. */
static void deny(uint32_t nr, uint32_t arg, uint32_t bits, uint32_t with)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * arg),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | with),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	seccomp_set(code, sizeof(code) / sizeof(code[0]));
}

static void says(int err, int wanted, const char *word, const char *not)
{
	const char *why = urccl_errmsg();

	if (err != wanted || !strstr(why, word) || strstr(why, not))
		fprintf(stderr, "%d: %s\n", err, why);
	CHECK_EQ(err, wanted);
	CHECK(strstr(why, word));
	CHECK(!strstr(why, not));
}

static void opens(int wanted, const char *word, const char *not)
{
	struct urccl *ctx;

	says(urccl_open(NULL, &ctx), wanted, word, not);
}

static void no_more_mappings(void)
{
	deny(SYS_madvise, 2, 2, ENOMEM); /* MADV_WIPEONFORK and few others */
	opens(-ENOMEM, "vm.max_map_count", "Linux 4.14");
}

static void no_wipe_on_fork(void)
{
	_Static_assert(MADV_WIPEONFORK & 2, "as said");
	deny(SYS_madvise, 2, 2, EINVAL);
	opens(-EINVAL, "Linux 4.14", "vm.max_map_count");
}

static void ring_without_mappings(void)
{
	struct urccl_ring *ring;
	struct urccl *ctx;

	CHECK_EQ(urccl_open(NULL, &ctx), 0);
	deny(SYS_madvise, 2, 2, ENOMEM);
	says(urccl_ring_open(ctx, NULL, &ring), -ENOMEM, "vm.max_map_count", "Linux 4.14");
	urccl_close(ctx);
}

static void no_stack(void)
{
	deny(SYS_mmap, 3, MAP_STACK, ENOMEM);
	opens(-EAGAIN, "no memory for its stack", "RLIMIT_NPROC");
}

static void no_more_threads(void)
{
	deny(SYS_clone, 0, CLONE_THREAD, EAGAIN);
	deny(SYS_clone3, 1, ~0u, EAGAIN);
	opens(-EAGAIN, "RLIMIT_NPROC", "stack");
}

int case_context_causes(void)
{
	static void (*const all[])(void) = {no_more_mappings, no_wipe_on_fork,
					    ring_without_mappings, no_stack, no_more_threads};
	int status;
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (!fork()) {
			all[i]();
			_exit(0);
		}
		CHECK(wait(&status) > 0);
		CHECK(WIFEXITED(status));
		if (WEXITSTATUS(status))
			return WEXITSTATUS(status);
	}
	return 0;
}
