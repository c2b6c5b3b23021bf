/* SPDX-License-Identifier: Apache-2.0 */
/* Where libcrypto is not to be had, or is not what it should be, a context with a secret is refused
 * by name, and everything else works. The library that is here is covered up in a mount namespace
 * of the test's own. */
#include <dlfcn.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>
#include "pair.h"
#include "ns.h"

static const char secret[] = "nobody can prove this here";
static struct pair p;

/* The file that has the function, or "". */
static void file_of(void *function, char path[PATH_MAX])
{
	Dl_info info;

	path[0] = 0;
	if (!function || !dladdr(function, &info) || !realpath(info.dli_fname, path))
		path[0] = 0;
}

/* Another process loads it, so that this one has not. */
static void find_libcrypto(char path[PATH_MAX])
{
	int fds[2];
	void *lib;
	pid_t pid;

	CHECK_EQ(pipe(fds), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		lib = dlopen("libcrypto.so.3", RTLD_NOW);
		file_of(lib ? dlsym(lib, "HMAC") : NULL, path);
		_exit(write(fds[1], path, PATH_MAX) != PATH_MAX);
	}
	close(fds[1]);
	memset(path, 0, PATH_MAX);
	CHECK_GE(read(fds[0], path, PATH_MAX - 1), 0);
	close(fds[0]);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

/* Mounts of our own; who may not have them as it is, is root of a user namespace. */
static int enter(void)
{
	if (unshare(CLONE_NEWNS) && ns_enter(CLONE_NEWNS, 1))
		return -1;
	return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

static void refused(const char *words)
{
	struct urccl *ctx = NULL;

	p.params.secret = secret;
	p.params.secret_len = sizeof(secret) - 1;
	CHECK_EQ(urccl_open(&p.params, &ctx), -EOPNOTSUPP);
	CHECK(!ctx);
	CHECK_SAYS(urccl_errmsg(), words);
	CHECK_SAYS(urccl_errmsg(), "a shared secret needs");
	printf("%s\n", urccl_errmsg());
	p.params.secret = NULL;
	p.params.secret_len = 0;
}

static void works_without(void)
{
	static uint8_t local[64] = {1, 2, 3};
	struct urccl_sqe *sqe;
	struct target t;

	pair_open(&p);
	target_open(&p, &t, sizeof(local), 0);
	side_register(&p.a, local, sizeof(local), 0);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, t.remote, local, sizeof(local), 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, sizeof(local));
	CHECK(!memcmp(t.bytes, local, sizeof(local)));
	target_close(&p, &t);
	pair_close(&p);
}

int main(int argc, char **argv)
{
	char crypto[PATH_MAX], other[PATH_MAX];

	find_libcrypto(crypto);
	if (crypto[0] && enter())
		SKIP("mount namespaces are denied here");
	if (crypto[0] && mount("/dev/null", crypto, NULL, MS_BIND, NULL))
		SKIP("nothing may be mounted over a library here");
	pair_options(&p, argc, argv);
	refused("libcrypto.so.3 (Debian: libssl3)");
	works_without();
	if (!crypto[0])
		return 0;
	/* Some other library by its name. */
	file_of(dlsym(RTLD_DEFAULT, "strlen"), other);
	CHECK(other[0]);
	CHECK_EQ(umount2(crypto, MNT_DETACH), 0);
	CHECK_EQ(mount(other, crypto, NULL, MS_BIND, NULL), 0);
	refused("has no OPENSSL_init_crypto");
	return 0;
}
