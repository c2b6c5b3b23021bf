/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A 64-bit C11 fetch_add on memory that two processes share: by one of them while the other leaves
 * it alone, by both at once, and by one that is asked by the other: a line of the cache says what,
 * another has the word before, and both ends spin. Up to 64 are asked for at a time.
 */
#include "raw.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

enum { WINDOW = 64, BURST = 1024 };

struct line {
	_Alignas(128) uint64_t number; /* of the request or answer, written last; 0: none yet */
	uint64_t value;
};

struct shared {
	_Alignas(128) uint64_t word;
	_Alignas(128) uint64_t ready, stop;
	uint64_t others; /* adds of the second process */
	struct line asked[WINDOW], answered[WINDOW];
};

static struct raw_options options;
static struct shared *sh;

static void add_all(void)
{
	uint64_t i;

	while (!__atomic_load_n(&sh->stop, __ATOMIC_ACQUIRE)) {
		for (i = 0; i < BURST; i++)
			__atomic_fetch_add(&sh->word, 1, __ATOMIC_SEQ_CST);
		sh->others += BURST;
	}
}

static void serve(void)
{
	uint64_t next = 1, old;
	struct line *q;

	while (!__atomic_load_n(&sh->stop, __ATOMIC_RELAXED)) {
		q = &sh->asked[next % WINDOW];
		if (__atomic_load_n(&q->number, __ATOMIC_ACQUIRE) != next) {
			bench_relax();
			continue;
		}
		old = __atomic_fetch_add(&sh->word, q->value, __ATOMIC_SEQ_CST);
		sh->answered[next % WINDOW].value = old;
		__atomic_store_n(&sh->answered[next % WINDOW].number, next, __ATOMIC_RELEASE);
		next++;
	}
}

/* The second process does this until it is told to stop. */
static pid_t begin(void (*what)(void))
{
	pid_t child;

	memset(sh, 0, sizeof(*sh));
	child = fork();
	if (child < 0)
		bench_die("fork: %s", strerror(errno));
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		bench_pin(options.cpu[1]);
		__atomic_store_n(&sh->ready, 1, __ATOMIC_RELEASE);
		what();
		_exit(0);
	}
	while (!__atomic_load_n(&sh->ready, __ATOMIC_ACQUIRE))
		bench_relax();
	return child;
}

static void end(pid_t child)
{
	__atomic_store_n(&sh->stop, 1, __ATOMIC_RELEASE);
	waitpid(child, NULL, 0);
}

static void adds(struct report *report, const char *name, int both)
{
	pid_t child = both ? begin(add_all) : 0;
	uint64_t start = bench_now(), done = 0, ns, i;

	do {
		for (i = 0; i < BURST; i++)
			__atomic_fetch_add(&sh->word, 1, __ATOMIC_SEQ_CST);
		done += BURST;
		ns = bench_now() - start;
	} while ((double)ns < options.seconds * 1e9);
	if (both) {
		end(child);
		done += sh->others;
	}
	report_metric(report, (double)done / (double)ns * 1e3, "M/s", "atomic.%s.rate", name);
}

static void ask(uint64_t number)
{
	sh->asked[number % WINDOW].value = 1;
	__atomic_store_n(&sh->asked[number % WINDOW].number, number, __ATOMIC_RELEASE);
}

static void await(uint64_t number)
{
	while (__atomic_load_n(&sh->answered[number % WINDOW].number, __ATOMIC_ACQUIRE) != number)
		bench_relax();
}

static void asked(struct report *report, const char *name, uint64_t depth)
{
	pid_t child = begin(serve);
	uint64_t start = bench_now(), posted = 0, ended = 0, ns;

	do {
		while (posted - ended < depth)
			ask(++posted);
		await(++ended);
		ns = ended % 64 ? 0 : bench_now() - start;
	} while ((double)ns < options.seconds * 1e9);
	end(child);
	report_metric(report, (double)ended / (double)ns * 1e3, "M/s", "atomic.%s.rate", name);
	report_metric(report, (double)ns / (double)ended * (double)depth, "ns", "atomic.%s.mean",
		      name);
}

int main(int argc, char **argv)
{
	struct report report;

	raw_options(&options, argc, argv,
		    "raw_atomic: fetch_add between two processes (--mode "
		    "alone|both|asked|asked_many)");
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sh == MAP_FAILED)
		bench_die("cannot map shared memory: %s", strerror(errno));
	bench_pin(options.cpu[0]);
	report_open(&report, "raw_atomic", options.json);
	if (raw_wanted(&options, "alone"))
		adds(&report, "alone", 0);
	if (raw_wanted(&options, "both"))
		adds(&report, "both", 1);
	if (raw_wanted(&options, "asked"))
		asked(&report, "asked", 1);
	if (raw_wanted(&options, "asked_many"))
		asked(&report, "asked_many", WINDOW);
	report_close(&report);
	return 0;
}
