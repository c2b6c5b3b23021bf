/* SPDX-License-Identifier: Apache-2.0 */
/* The faults, the count of calls, and the checks that every call begins with. */
#include <stdarg.h>
#include <stdatomic.h>
#include <strings.h>
#include <sys/prctl.h>
#include <time.h>
#include "control.h"
#include "double.h"

#define FUNCTIONS_MAX 128
#define WORDS_MAX     1024

struct caller {
	struct caller *next;
	char name[16];
	struct {
		_Atomic(const char *) function;
		atomic_ulong calls;
	} counts[FUNCTIONS_MAX];
};

pthread_mutex_t double_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t double_moved = PTHREAD_COND_INITIALIZER;
struct words double_words = {.gpus = 2, .driver = 13000, .memory = 16ull << 30};
bool double_started;
__thread int capture_mode;

static _Atomic(struct caller *) callers;
static __thread struct caller *me;
static atomic_bool forked; /* this is the child of a process with CUDA */
static char refused[64];
static int refused_code;

static const char *const class_names[CLASSES] = {
	[CLASS_NONE] = "none",	   [CLASS_MEMCPY] = "memcpy", [CLASS_ALLOC] = "alloc",
	[CLASS_HOST] = "host",	   [CLASS_VMM] = "vmm",	      [CLASS_IPC] = "ipc",
	[CLASS_STREAM] = "stream", [CLASS_LAUNCH] = "launch",
};

void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "libcuda stand-in: ");
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	abort();
}

void lock(void)
{
	pthread_mutex_lock(&double_lock);
}

void unlock(void)
{
	pthread_mutex_unlock(&double_lock);
}

void wait_moved(void)
{
	pthread_cond_wait(&double_moved, &double_lock);
}

double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

void nap_us(unsigned us)
{
	struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000l};

	while (us && nanosleep(&t, &t))
		;
}

/* ---- words ---- */

struct words words_now(void)
{
	struct words w;

	lock();
	w = double_words;
	unlock();
	return w;
}

static enum call_class class_of(const char *name, size_t len)
{
	int i;

	for (i = 0; i < CLASSES; i++)
		if (strlen(class_names[i]) == len && !strncmp(name, class_names[i], len))
			return (enum call_class)i;
	return len == 3 && !strncmp(name, "all", 3) ? CLASSES : CLASS_NONE;
}

static bool set_class(const char *key, const char *value)
{
	const char *colon = strchr(value, ':');
	enum call_class c = class_of(value, colon ? (size_t)(colon - value) : strlen(value));
	unsigned us = 0;
	char *end;
	int i;

	if (colon) {
		us = (unsigned)strtoul(colon + 1, &end, 10);
		us *= !strcmp(end, "ms") ? 1000 : 1;
	}
	for (i = 0; i < CLASSES; i++) {
		if (!strcmp(key, "hold"))
			double_words.hold[i] = (c == CLASSES || c == (enum call_class)i) && i;
		else if (c == CLASSES || c == (enum call_class)i || c == CLASS_NONE)
			double_words.block_us[i] = us;
	}
	return c != CLASS_NONE || !strcmp(value, "none");
}

static bool set_flag(const char *key, bool on)
{
	const struct {
		const char *name;
		bool *flag;
	} flags[] = {
		{"nopeer", &double_words.nopeer},     {"nokernels", &double_words.nokernels},
		{"novmm", &double_words.novmm},	      {"nolegacy", &double_words.nolegacy},
		{"nodmabuf", &double_words.nodmabuf}, {"reuse", &double_words.reuse},
		{"stale", &double_words.stale},	      {"capture", &double_words.capture},
		{"touch", &double_words.touch},
	};
	size_t i;

	for (i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (!strcmp(key, flags[i].name))
			return *flags[i].flag = on, true;
	return false;
}

static bool set_word(char *word)
{
	char *value = strchr(word, '=');
	unsigned long long n;

	if (value)
		*value++ = 0;
	n = value ? strtoull(value, NULL, 10) : 1;
	if (set_flag(word, n))
		return true;
	if (!value)
		return false;
	if (!strcmp(word, "block") || !strcmp(word, "hold"))
		return set_class(word, value);
	if (!strcmp(word, "refuse")) {
		snprintf(refused, sizeof(refused), "%.*s", (int)strcspn(value, ":"), value);
		refused_code = strchr(value, ':') ? atoi(strchr(value, ':') + 1) : 0;
	} else if (!strcmp(word, "fail")) {
		double_words.fail_at = (unsigned)n;
		double_words.fail_code = strchr(value, ':') ? atoi(strchr(value, ':') + 1) : 700;
	} else if (!strcmp(word, "gpus") && n <= GPUS_MAX) {
		double_words.gpus = (int)n;
	} else if (!strcmp(word, "driver")) {
		double_words.driver = (int)n;
	} else if (!strcmp(word, "memory")) {
		double_words.memory = n;
	} else if (!strcmp(word, "delay")) {
		double_words.delay_us = (unsigned)n;
	} else if (!strcmp(word, "late")) {
		double_words.late_us = (unsigned)n;
	} else if (!strcmp(word, "kernel")) {
		double_words.kernel_us = (unsigned)n;
	} else if (!strcmp(word, "hang")) {
		double_words.hang = (unsigned)n;
	} else {
		return false;
	}
	return true;
}

EXPORT int cuda_double_set(const char *words)
{
	char copy[WORDS_MAX], *at = copy, *word;
	bool fine = strlen(words) < sizeof(copy);

	snprintf(copy, sizeof(copy), "%s", words);
	lock();
	while ((word = strsep(&at, ",")))
		fine &= !*word || set_word(word);
	pthread_cond_broadcast(&double_moved);
	unlock();
	return fine ? 0 : -1;
}

static void in_child(void)
{
	atomic_store(&forked, double_started);
	pthread_mutex_init(&double_lock, NULL);
	pthread_cond_init(&double_moved, NULL);
}

__attribute__((constructor)) static void begin(void)
{
	const char *name = "URCCL_TEST_CUDA", *words = getenv(name);

	if (!words)
		words = getenv(name = "CUDA_DOUBLE");
	if (words && cuda_double_set(words))
		die("%s has an unknown word: %s", name, words);
	pthread_atfork(NULL, NULL, in_child);
}

/* ---- calls ---- */

static void count(const char *function)
{
	int i;

	if (!me) {
		me = calloc(1, sizeof(*me)); /* it outlives its thread */
		if (!me)
			die("no memory");
		prctl(PR_GET_NAME, me->name);
		me->next = atomic_load(&callers);
		while (!atomic_compare_exchange_weak(&callers, &me->next, me))
			;
	}
	for (i = 0; me->counts[i].function && me->counts[i].function != function; i++)
		if (i == FUNCTIONS_MAX - 1)
			die("more than %d functions", FUNCTIONS_MAX);
	atomic_store(&me->counts[i].function, function);
	atomic_fetch_add(&me->counts[i].calls, 1);
}

static unsigned long calls_of(struct caller *c, const char *function)
{
	unsigned long n = 0;
	const char *name;
	int i;

	for (i = 0; i < FUNCTIONS_MAX && (name = c->counts[i].function); i++)
		if (!function || !strncmp(name, function, strlen(function)))
			n += c->counts[i].calls;
	return n;
}

EXPORT unsigned long cuda_double_calls(const char *thread, const char *function)
{
	struct caller *c;
	unsigned long n = 0;

	for (c = atomic_load(&callers); c; c = c->next)
		if (!thread || !strncmp(c->name, thread, strlen(thread)))
			n += calls_of(c, function);
	return n;
}

EXPORT unsigned long cuda_double_calls_here(void)
{
	return me ? calls_of(me, NULL) : 0;
}

static bool is_refused(const char *function)
{
	size_t len = strlen(refused);

	return len && !strncmp(function, refused, len) && (!function[len] || function[len] == '_');
}

/* Another thread records a graph: by such a call it would be lost. */
static bool loses_capture(const char *function, enum call_class class)
{
	static const char *const unsafe[] = {"cuMemcpy",	"cuMemcpyHtoD_v2",
					     "cuMemcpyDtoH_v2", "cuMemcpyDtoD_v2",
					     "cuMemsetD8_v2",	"cuStreamQuery",
					     "cuEventQuery",	"cuCtxSynchronize"};
	size_t i;

	if (!double_words.capture || capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	for (i = 0; i < sizeof(unsafe) / sizeof(unsafe[0]); i++)
		if (!strcmp(function, unsafe[i]))
			return true;
	return class == CLASS_ALLOC || class == CLASS_HOST;
}

int enter(const char *function, enum call_class class, unsigned needs)
{
	struct context *c = current();
	unsigned us;
	int res = 0;

	count(function);
	if (atomic_load(&forked))
		return CUDA_ERROR_NOT_INITIALIZED;
	lock();
	us = double_words.block_us[class];
	while (double_words.hold[class])
		wait_moved();
	if (loses_capture(function, class))
		die("%s: the program records a graph, which this call ends", function);
	if (is_refused(function))
		res = refused_code;
	else if (needs && !double_started)
		res = CUDA_ERROR_NOT_INITIALIZED;
	else if (needs & NEEDS_CONTEXT && !c)
		die("%s: no context is current on this thread", function);
	else if (needs & NEEDS_CONTEXT && !(needs & PASSES_STICKY))
		res = context_of(c)->sticky;
	unlock();
	nap_us(us);
	return res;
}
