/* SPDX-License-Identifier: Apache-2.0 */
/* The page that calls of another process pass: it is closed for certain when nobody has hold of it,
 * a child keeps none, and its place is nobody else's. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <backend/shm.h>
#include <test.h>

static int passes(const struct shm_gate *g)
{
	uint64_t word = 0;
	struct iovec to = {&word, sizeof(word)}, from = {g->at, sizeof(word)};

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)sizeof(word) && word;
}

static int is_free(void *at)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *p =
		mmap(at, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (p != MAP_FAILED)
		munmap(p, page);
	return p == at;
}

static int fds(void)
{
	int fd = dup(0);

	CHECK(fd >= 0);
	close(fd);
	return fd;
}

static void opens_and_closes(void)
{
	int before = fds(), i;
	struct shm_gate g;
	void *at;

	CHECK_EQ(shm_gate_make(&g), 0);
	CHECK(passes(&g));
	for (i = 0; i < 3; i++) {
		CHECK_EQ(shm_gate_close(&g), 1);
		CHECK_EQ(shm_gate_close(&g), 1);
		CHECK(g.closed && !passes(&g) && !is_free(g.at));
		CHECK_EQ(shm_gate_open(&g), 0);
		CHECK(!g.closed && passes(&g));
	}
	at = g.at;
	shm_gate_drop(&g);
	CHECK(is_free(at));
	CHECK_EQ(fds(), before);
}

/* As that of a call which is under way: a pipe has the page. */
static void held(void)
{
	uint64_t word;
	struct iovec v;
	struct shm_gate g;
	int p[2];

	CHECK_EQ(shm_gate_make(&g), 0);
	CHECK(!pipe(p));
	v = (struct iovec){g.at, sizeof(word)};
	CHECK_EQ(vmsplice(p[1], &v, 1, 0), (ssize_t)sizeof(word));
	CHECK_EQ(shm_gate_close(&g), 0);
	CHECK(!passes(&g));
	CHECK_EQ(shm_gate_close(&g), 0);
	CHECK_EQ(read(p[0], &word, sizeof(word)), (ssize_t)sizeof(word));
	CHECK(word);
	CHECK_EQ(shm_gate_close(&g), 1);
	/* Who may still be stopped before it finds nothing else there. */
	v.iov_base = g.at;
	shm_gate_leave(&g);
	CHECK(!is_free(v.iov_base));
	close(p[0]);
	close(p[1]);
}

static void beside_a_child(void)
{
	struct shm_gate g;
	int p[2], status;
	pid_t pid;
	char c;

	CHECK_EQ(shm_gate_make(&g), 0);
	CHECK(!pipe(p));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		close(p[1]);
		_exit(read(p[0], &c, 1) != 0);
	}
	CHECK_EQ(shm_gate_close(&g), 1);
	close(p[1]);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	close(p[0]);
	shm_gate_drop(&g);
}

/* What cannot be opened again stays closed, and costs nothing. */
static void without_descriptors(void)
{
	int before = fds(), taken[64], n = 0, i;
	struct rlimit was, limit;
	struct shm_gate g;

	CHECK_EQ(shm_gate_make(&g), 0);
	CHECK_EQ(shm_gate_close(&g), 1);
	CHECK(!getrlimit(RLIMIT_NOFILE, &was));
	limit = was;
	limit.rlim_cur = (rlim_t)before;
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
	while (n < 64 && (taken[n] = dup(0)) >= 0)
		n++;
	CHECK_EQ(shm_gate_open(&g), -EMFILE);
	CHECK(g.closed && !passes(&g));
	for (i = 0; i < n; i++)
		close(taken[i]);
	CHECK(!setrlimit(RLIMIT_NOFILE, &was));
	CHECK_EQ(shm_gate_open(&g), 0);
	CHECK(passes(&g));
	shm_gate_drop(&g);
	CHECK_EQ(fds(), before);
}

int main(void)
{
	uint64_t from = 1, to;
	struct iovec there = {&from, sizeof(from)}, here = {&to, sizeof(to)};

	if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != (ssize_t)sizeof(from))
		SKIP("process_vm_readv is denied here");
	CHECK(shm_gate_works());
	opens_and_closes();
	held();
	beside_a_child();
	without_descriptors();
	return 0;
}
