/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and kernels. A kernel is a C function of that name; what a module's image has in it
 * beside the name is not looked at. */
#include "double.h"

#define MODULES_MAX 64
#define ARGS_MAX    16

struct module {
	const char *text; /* of PTX; NULL: a binary */
	struct context *context;
};

static struct module *modules[MODULES_MAX];
static struct {
	const struct kernel *kernel;
	struct module *module;
} functions[MODULES_MAX];

/* ---- kernels ---- */

/* Where a kernel of c may access addr, and for how many of len bytes; NULL: it may not. Memory of
 * another GPU needs cuCtxEnablePeerAccess(), unless it was opened or mapped. */
static uint8_t *reach(const struct context *c, uint64_t addr, uint64_t len, uint64_t *n)
{
	const struct span *s = span_at(addr);

	if (!s || s->kind == SPAN_FREED || (s->kind == SPAN_MAPPING && s->access[c->gpu] != 3))
		return NULL;
	if ((s->kind == SPAN_ALLOC || s->kind == SPAN_POOL) && s->gpu != c->gpu &&
	    !c->peers[s->gpu])
		return NULL;
	return span_view(addr, len, n);
}

/* A row of a table of urccl_gather(). */
struct row {
	uint64_t src, dst;
	uint32_t len, first;
};

/* The kernel's warps find their units by these numbers, so that wrong ones move wrong bytes. */
static void check_row(const struct row *r, uint32_t i, uint32_t n, uint32_t unit, uint32_t each)
{
	uint32_t units = (r->len + 4095) / 4096;

	if (!r->len || r->first != unit || (each && (units > each || (units < each && i + 1 < n))))
		die("urccl_gather: row %u of %u: %u bytes, first unit %u and not %u, each %u", i, n,
		    r->len, r->first, unit, each);
}

/* With the lock. */
static int gather_row(const struct context *c, const struct row *r)
{
	uint64_t at, n, m = 0;
	uint8_t *to, *from;

	for (at = 0; at < r->len; at += m) {
		to = reach(c, r->dst + at, r->len - at, &n);
		from = to ? reach(c, r->src + at, n, &m) : NULL;
		if (!from)
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		memcpy(to, from, m);
	}
	return 0;
}

/* The feed of urccl_gather(), as the room gpu lays it out. */
struct feed {
	uint64_t started[8];
	uint64_t taken[256];
	struct {
		uint64_t bundle, word;
	} slots[64];
	struct row rows[64][1024];
};

/* A bundle: tag:18 table:8 each:9 n:13 units:16. */
static int gather_bundle(const struct context *c, const struct feed *f, uint64_t bundle)
{
	const struct row *r = f->rows[bundle >> 38 & 0xff];
	uint32_t i, n = bundle >> 16 & 0x1fff, unit = 0, each = bundle >> 29 & 0x1ff;
	int res = 0;

	for (i = 0; i < n && !res; i++) {
		check_row(&r[i], i, n, unit, each);
		unit += (r[i].len + 4095) / 4096;
		lock();
		res = gather_row(c, &r[i]);
		unlock();
	}
	if (!res && unit != (bundle & 0xffff))
		die("urccl_gather: %u units, and not %u", unit, (uint32_t)(bundle & 0xffff));
	return res;
}

/* urccl_gather(feed, word, launch). A bundle that is posted while it runs may be left to the next
 * kernel, or not. */
static int gather(const struct launch *l)
{
	const struct context *c = l->stream->context;
	uint64_t n, m, number, bundle, looks = 0;
	struct feed *f;
	uint64_t *word;
	int res;

	lock();
	f = (void *)reach(c, l->args[0], sizeof(*f), &n);
	word = (void *)reach(c, l->args[1], 8, &m);
	unlock();
	if (!f || !word || n != sizeof(*f) || m != 8)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	number = f->taken[0];
	if (number != f->taken[l->grid[0] - 1])
		die("urccl_gather: its grid has changed");
	__atomic_store_n(f->started, l->args[2], __ATOMIC_SEQ_CST);
	while (looks < 3) {
		bundle = __atomic_load_n(&f->slots[(number + 1) % 64].bundle, __ATOMIC_SEQ_CST);
		if (bundle >> 46 != ((number + 1) & 0x3ffff)) {
			looks++;
			sched_yield();
			continue;
		}
		number++;
		res = gather_bundle(c, f, bundle);
		if (res)
			return res;
		__atomic_store_n(word, f->slots[number % 64].word, __ATOMIC_RELEASE);
	}
	for (n = 0; n < l->grid[0]; n++)
		f->taken[n] = number;
	return 0;
}

/* Makes an illegal access. */
static int fault(const struct launch *l)
{
	(void)l;
	return CUDA_ERROR_ILLEGAL_ADDRESS;
}

static int nothing(const struct launch *l)
{
	(void)l;
	return 0;
}

/* produce(buffer, word, value, n, ns) of examples/gpu_stream.c. */
static int produce(const struct launch *l)
{
	uint64_t value = l->args[2], bytes = 8 * (uint32_t)l->args[3], i, n = 0, m = 0;
	uint64_t *to, *word;

	nap_us((unsigned)(l->args[4] / 1000));
	lock();
	to = (void *)reach(l->stream->context, l->args[0], bytes, &n);
	word = (void *)reach(l->stream->context, l->args[1], 8, &m);
	unlock();
	if (n != bytes || m != 8)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	for (i = 0; i < n / 8; i++)
		to[i] = value + i;
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	return 0;
}

uint8_t *launch_reach(const struct launch *l, uint64_t addr, uint64_t len, uint64_t *n)
{
	return reach(l->stream->context, addr, len, n);
}

#define CODEC_ARGS "`" /* one struct of 48 bytes */
#define CODEC(name)                                                         \
	{"urccl_codec_encode_" #name, CODEC_ARGS, codec_encode_tiles},      \
	{                                                                   \
		"urccl_codec_decode_" #name, CODEC_ARGS, codec_decode_tiles \
	}

static const struct kernel kernels[] = {
	CODEC(bytes),
	CODEC(bf16),
	CODEC(fp16),
	CODEC(fp32),
	CODEC(e4m3),
	CODEC(e5m2),
	{"urccl_codec_begin", CODEC_ARGS, nothing},
	{"urccl_codec_compare", CODEC_ARGS, nothing},
	{"urccl_codec_check", CODEC_ARGS, nothing},
	{"produce", "88848", produce},
	{"urccl_gather", "888", gather},
	{"urccl_test_fault", "", fault},
	{"urccl_test_nothing", "", nothing},
};

int launch_run(const struct stream *s, const struct op *op)
{
	struct launch l = {.stream = s, .args = op->args, .grid = op->grid, .block = op->block};

	nap_us(words_now().kernel_us);
	return op->kernel->run(&l);
}

/* ---- modules ---- */

static struct module *module_of(void *handle)
{
	size_t i;

	for (i = 0; i < MODULES_MAX; i++)
		if (handle && modules[i] == handle)
			return handle;
	die("%p is no module, or was unloaded", handle);
}

static int image_kind(const unsigned char *image, const char **text)
{
	static const unsigned char elf[] = {0x7f, 'E', 'L', 'F'}, fat[] = {0x50, 0xed, 0x55, 0xba};

	*text = NULL;
	if (!memcmp(image, elf, 4) || !memcmp(image, fat, 4))
		return 0;
	*text = (const char *)image;
	return strstr(*text, ".version") && strstr(*text, ".target") ? 0 : CUDA_ERROR_INVALID_IMAGE;
}

EXPORT int cuModuleLoadData(void **to, const void *image)
{
	struct module *m;
	const char *text;
	size_t i;
	int res;

	ENTER(CLASS_LAUNCH, NEEDS_INIT | NEEDS_CONTEXT);
	if (words_now().nokernels)
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	res = image ? image_kind(image, &text) : CUDA_ERROR_INVALID_VALUE;
	if (res)
		return res;
	m = calloc(1, sizeof(*m));
	if (!m)
		die("no memory");
	*m = (struct module){.text = text, .context = current()};
	lock();
	for (i = 0; i < MODULES_MAX && modules[i]; i++)
		;
	if (i == MODULES_MAX)
		die("more than %d modules", MODULES_MAX);
	modules[i] = m;
	unlock();
	*to = m;
	return 0;
}

EXPORT int cuModuleUnload(void *module)
{
	size_t i;

	ENTER(CLASS_LAUNCH, NEEDS_INIT | NEEDS_CONTEXT | PASSES_STICKY);
	lock();
	module_of(module);
	for (i = 0; i < MODULES_MAX; i++) {
		if (modules[i] == module)
			modules[i] = NULL;
		if (functions[i].module == module)
			functions[i].module = NULL;
	}
	free(module);
	unlock();
	return 0;
}

/* A name that PTX does not have is not found, even if there is a C function. */
EXPORT int cuModuleGetFunction(void **to, void *module, const char *name)
{
	struct module *m;
	size_t i, k;

	ENTER(CLASS_LAUNCH, NEEDS_INIT | NEEDS_CONTEXT);
	lock();
	m = module_of(module);
	for (k = 0; k < sizeof(kernels) / sizeof(kernels[0]); k++)
		if (!strcmp(kernels[k].name, name) && (!m->text || strstr(m->text, name)))
			break;
	for (i = 0; i < MODULES_MAX && functions[i].module; i++)
		;
	if (i == MODULES_MAX)
		die("more than %d functions", MODULES_MAX);
	*to = NULL;
	if (k < sizeof(kernels) / sizeof(kernels[0])) {
		functions[i].kernel = &kernels[k];
		functions[i].module = m;
		*to = &functions[i];
	}
	unlock();
	return *to ? 0 : CUDA_ERROR_NOT_FOUND;
}

static const struct kernel *kernel_of(const void *function, const struct context *c)
{
	size_t i;

	for (i = 0; i < MODULES_MAX; i++) {
		if (function != &functions[i] || !functions[i].module)
			continue;
		if (functions[i].module->context != c)
			die("a kernel of another context is launched");
		return functions[i].kernel;
	}
	die("%p is no function, or its module was unloaded", function);
}

EXPORT int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			  unsigned by, unsigned bz, unsigned shared, void *stream, void **params,
			  void **extra)
{
	struct op op = {.kind = OP_LAUNCH, .grid = {gx, gy, gz}, .block = {bx, by, bz}};
	struct stream *s;
	size_t i;
	int res;

	ENTER(CLASS_LAUNCH, NEEDS_INIT | NEEDS_CONTEXT);
	if (!gx || !gy || !gz || !bx || !by || !bz || bx * by * bz > 1024 || shared > 227u << 10)
		return CUDA_ERROR_INVALID_VALUE;
	if (extra)
		die("cuLaunchKernel: extra parameters have no place here");
	lock();
	s = stream_of(stream);
	if (s->context != current()) {
		unlock();
		return CUDA_ERROR_INVALID_HANDLE;
	}
	op.kernel = kernel_of(function, s->context);
	for (i = 0; op.kernel->sizes[i] && i < ARGS_MAX; i++)
		memcpy(&op.args[i], params[i], (size_t)(op.kernel->sizes[i] - '0'));
	res = stream_add(s, &op, "cuLaunchKernel");
	unlock();
	return res;
}
