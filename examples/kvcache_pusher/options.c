/* SPDX-License-Identifier: Apache-2.0 */
/* The command line. */
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "options.h"

static const char help[] =
	"kvcache_pusher: pushes the KV cache of disaggregated prefill from one process\n"
	"into another's pool, as inference engines do, over liburccl. The requests come\n"
	"from a trace and the shapes from a model's config.json; THE DATA ARE MADE UP: no\n"
	"model runs, computing is simulated by waiting, and a page's bytes are a function\n"
	"of (block hash, layer, page), so that decode can check every one of them.\n"
	"\n"
	"  kvcache_pusher --demo                     both roles, on this machine\n"
	"  kvcache_pusher --serve [HOST:PORT]        decode: a pool for many pushers\n"
	"  kvcache_pusher --push [HOST:PORT|@FILE]   prefill: replays the trace into it\n"
	"HOST:PORT is " DEFAULT_ADDRESS " where none is given.\n"
	"\n"
	"Shape, the same at both ends:\n"
	"  --model FILE        a Hugging Face config.json\n"
	"                      (built in: 24 layers, 2 KV heads of 64, bf16)\n"
	"  --kv-dtype TYPE     bf16, fp16, fp32 or fp8 (the model's)\n"
	"  --page-size N       tokens of a page, of which 512 are a multiple (16)\n"
	"  --layout nhd|hnd    [page, heads, dim] or [heads, page, dim] in a page (nhd)\n"
	"  --tp P:D            ranks of prefill and decode, which share the heads (1:1)\n"
	"Replay (push, demo):\n"
	"  --trace FILE        requests in the Mooncake format (built in: 235 of them)\n"
	"  --requests N        at most N of them\n"
	"  --speed X           X times the trace's own pace; 0: as fast as possible (0)\n"
	"  --scale X           X times the trace's token counts, each 512 of them rounded\n"
	"                      to whole pages (1)\n"
	"  --prefill-rate N    tokens computed a second; 0: as fast as possible (0)\n"
	"  --parallel N        requests under way at a time, up to 64 (4)\n"
	"  --pull              decode reads each layer, instead of prefill writing it\n"
	"  --abort PERCENT     cancels that share of the requests in mid-transfer\n"
	"  --cache SIZE        of prefill's own cache (1G)\n"
	"Pool (serve, demo):\n"
	"  --pool SIZE         of decode's pool (1G)\n"
	"  --once              end when the last pusher has left\n"
	"  --metadata FILE     write there how to be dialled, for --push @FILE;\n"
	"                      HOST:0 takes any port\n"
	"All:\n"
	"  --transport LIST    shm, tcp, or several in order (every one that there is)\n"
	"  --device KIND       memory of this end: host, pinned (by CUDA), gpu or gpu:N;\n"
	"                      --demo: of both, or KIND,KIND of prefill and decode (host)\n"
	"  --contexts N        contexts of this end, each moves bytes by a CPU (1);\n"
	"                      prefill's share its --cache and --parallel, decode's\n"
	"                      listen on ports in a row\n"
	"  --no-verify         neither make nor check page bytes; at both ends\n"
	"  --json              the result as one JSON object on stdout\n"
	"  --quiet             no bar, no remarks\n"
	"\n"
	"Exit status: 0 every page right; 1 one was wrong, or the run failed; 2 options,\n"
	"model or trace are no good; 130 interrupted, and no page was wrong.\n";

enum option_id {
	OPT_HELP = 1,
	OPT_SERVE,
	OPT_PUSH,
	OPT_DEMO,
	OPT_MODEL,
	OPT_KV_DTYPE,
	OPT_PAGE,
	OPT_LAYOUT,
	OPT_TP,
	OPT_TRACE,
	OPT_REQUESTS,
	OPT_SPEED,
	OPT_SCALE,
	OPT_RATE,
	OPT_PARALLEL,
	OPT_PULL,
	OPT_ABORT,
	OPT_CACHE,
	OPT_POOL,
	OPT_ONCE,
	OPT_METADATA,
	OPT_TRANSPORT,
	OPT_DEVICE,
	OPT_CONTEXTS,
	OPT_NO_VERIFY,
	OPT_JSON,
	OPT_QUIET,
};

/* Who an option is for. */
enum { FOR_SERVE = 1, FOR_PUSH = 2, FOR_ALL = 3 };

static const struct option long_options[] = {
	{"help", no_argument, NULL, OPT_HELP},
	{"serve", no_argument, NULL, OPT_SERVE},
	{"push", no_argument, NULL, OPT_PUSH},
	{"demo", no_argument, NULL, OPT_DEMO},
	{"model", required_argument, NULL, OPT_MODEL},
	{"kv-dtype", required_argument, NULL, OPT_KV_DTYPE},
	{"page-size", required_argument, NULL, OPT_PAGE},
	{"layout", required_argument, NULL, OPT_LAYOUT},
	{"tp", required_argument, NULL, OPT_TP},
	{"trace", required_argument, NULL, OPT_TRACE},
	{"requests", required_argument, NULL, OPT_REQUESTS},
	{"speed", required_argument, NULL, OPT_SPEED},
	{"scale", required_argument, NULL, OPT_SCALE},
	{"prefill-rate", required_argument, NULL, OPT_RATE},
	{"parallel", required_argument, NULL, OPT_PARALLEL},
	{"pull", no_argument, NULL, OPT_PULL},
	{"abort", required_argument, NULL, OPT_ABORT},
	{"cache", required_argument, NULL, OPT_CACHE},
	{"pool", required_argument, NULL, OPT_POOL},
	{"once", no_argument, NULL, OPT_ONCE},
	{"metadata", required_argument, NULL, OPT_METADATA},
	{"transport", required_argument, NULL, OPT_TRANSPORT},
	{"device", required_argument, NULL, OPT_DEVICE},
	{"contexts", required_argument, NULL, OPT_CONTEXTS},
	{"no-verify", no_argument, NULL, OPT_NO_VERIFY},
	{"json", no_argument, NULL, OPT_JSON},
	{"quiet", no_argument, NULL, OPT_QUIET},
	{NULL, 0, NULL, 0},
};

static int whose(int id)
{
	switch (id) {
	case OPT_POOL:
	case OPT_ONCE:
	case OPT_METADATA:
		return FOR_SERVE;
	case OPT_TRACE:
	case OPT_REQUESTS:
	case OPT_SPEED:
	case OPT_SCALE:
	case OPT_RATE:
	case OPT_PARALLEL:
	case OPT_PULL:
	case OPT_ABORT:
	case OPT_CACHE:
		return FOR_PUSH;
	default:
		return FOR_ALL;
	}
}

/* ---- values ---- */

static int get_real(const char *text, double min, double max, double *out)
{
	char *end;

	*out = strtod(text, &end);
	return *end || end == text || !(*out >= min && *out <= max) ? -1 : 0;
}

static int get_whole(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	return *end || end == text || *text == '-' || errno || *out < min || *out > max ? -1 : 0;
}

static int get_u32(const char *text, uint32_t min, uint32_t max, uint32_t *out)
{
	uint64_t v;

	if (get_whole(text, min, max, &v))
		return -1;
	*out = (uint32_t)v;
	return 0;
}

/* A block of a trace is whole pages. */
static int get_page(const char *text, uint32_t *out)
{
	return get_u32(text, 1, BLOCK_TOKENS, out) || BLOCK_TOKENS % *out ? -1 : 0;
}

/* "1G", "512M", "65536" */
static int get_size(const char *text, uint64_t *out)
{
	static const char units[] = "KMGT";
	char *end;
	const char *unit;
	double v = strtod(text, &end);

	if (end == text || !(v > 0))
		return -1;
	unit = *end ? strchr(units, *end) : NULL;
	if (*end && (!unit || end[1]))
		return -1;
	if (unit)
		v = ldexp(v, 10 * (int)(unit - units + 1));
	if (v < 1 || v > ldexp(1, 50))
		return -1;
	*out = (uint64_t)v;
	return 0;
}

/* "2:4" */
static int get_tp(const char *text, struct options *o)
{
	char copy[32], *colon;

	if (strlen(text) >= sizeof(copy))
		return -1;
	strcpy(copy, text);
	colon = strchr(copy, ':');
	if (!colon)
		return -1;
	*colon = 0;
	return get_u32(copy, 1, 64, &o->tp_prefill) || get_u32(colon + 1, 1, 64, &o->tp_decode) ? -1
												: 0;
}

static int get_layout(const char *text, struct options *o)
{
	o->hnd = !strcmp(text, "hnd");
	return o->hnd || !strcmp(text, "nhd") ? 0 : -1;
}

/* One kind of memory, of len characters. */
static int get_memory(const char *text, size_t len, struct memory *m)
{
	char copy[16];

	if (len >= sizeof(copy))
		return -1;
	memcpy(copy, text, len);
	copy[len] = 0;
	*m = (struct memory){.kind = MEMORY_HOST, .gpu = GPU_ANY};
	if (!strcmp(copy, "host"))
		return 0;
	m->kind = strcmp(copy, "pinned") ? MEMORY_GPU : MEMORY_PINNED;
	if (m->kind == MEMORY_PINNED || !strcmp(copy, "gpu"))
		return 0;
	return strncmp(copy, "gpu:", 4) ? -1 : get_u32(copy + 4, 0, GPU_ANY - 1, &m->gpu);
}

/* "gpu", "gpu:0,host" */
static int get_memories(const char *text, struct options *o)
{
	const char *comma = strchr(text, ',');

	if (get_memory(text, comma ? (size_t)(comma - text) : strlen(text), &o->prefill))
		return -1;
	o->decode = o->prefill;
	return comma ? get_memory(comma + 1, strlen(comma + 1), &o->decode) : 0;
}

/* ---- parsing ---- */

static int set_role(struct options *o, enum role role, struct problem *p)
{
	if (o->role != ROLE_NONE && o->role != role)
		return problem(p, "one of --serve, --push and --demo, not two");
	o->role = role;
	return 0;
}

static int set_flag(struct options *o, int id, struct problem *p)
{
	switch (id) {
	case OPT_SERVE:
		return set_role(o, ROLE_SERVE, p);
	case OPT_PUSH:
		return set_role(o, ROLE_PUSH, p);
	case OPT_DEMO:
		return set_role(o, ROLE_DEMO, p);
	case OPT_PULL:
		o->pull = true;
		break;
	case OPT_ONCE:
		o->once = true;
		break;
	case OPT_NO_VERIFY:
		o->verify = false;
		break;
	case OPT_JSON:
		o->json = true;
		break;
	case OPT_QUIET:
		o->quiet = true;
		break;
	}
	return 0;
}

static int set_value(struct options *o, int id, const char *text)
{
	switch (id) {
	case OPT_MODEL:
		o->model = text;
		return 0;
	case OPT_KV_DTYPE:
		o->kv_dtype = text;
		return 0;
	case OPT_PAGE:
		return get_page(text, &o->page);
	case OPT_LAYOUT:
		return get_layout(text, o);
	case OPT_TP:
		return get_tp(text, o);
	case OPT_TRACE:
		o->trace = text;
		return 0;
	case OPT_REQUESTS:
		return get_whole(text, 1, UINT32_MAX, &o->requests);
	case OPT_SPEED:
		return get_real(text, 0, 1e6, &o->speed);
	case OPT_SCALE:
		return get_real(text, 1e-3, 1e3, &o->scale);
	case OPT_RATE:
		return get_real(text, 0, 1e12, &o->prefill_rate);
	case OPT_PARALLEL:
		return get_u32(text, 1, 64, &o->parallel);
	case OPT_ABORT:
		return get_real(text, 0, 100, &o->abort_percent);
	case OPT_CACHE:
		return get_size(text, &o->cache_bytes);
	case OPT_POOL:
		return get_size(text, &o->pool_bytes);
	case OPT_METADATA:
		o->metadata = text;
		return 0;
	case OPT_TRANSPORT:
		o->transport = text;
		return 0;
	case OPT_CONTEXTS:
		return get_u32(text, 1, CONTEXTS_MAX, &o->contexts);
	case OPT_DEVICE:
		return get_memories(text, o);
	default:
		return 0;
	}
}

static bool ends_in(const char *text, const char *end)
{
	size_t len = strlen(text), n = strlen(end);

	return len >= n && !strcmp(text + len - n, end);
}

/* The contexts of decode have ports in a row. */
static bool has_ports(const struct options *o)
{
	const char *colon = strrchr(o->address, ':');

	return colon && !strchr(o->address, ',') &&
	       strtoul(colon + 1, NULL, 10) + o->contexts <= UINT16_MAX + 1ul;
}

/* Options of the other role are refused, not ignored. */
static int check_roles(const struct options *o, uint32_t seen, struct problem *p)
{
	const struct option *opt;
	int role = o->role == ROLE_SERVE ? FOR_SERVE : o->role == ROLE_PUSH ? FOR_PUSH : FOR_ALL;

	if (o->role == ROLE_NONE)
		return problem(p, "give --demo, --serve or --push (--help says more)");
	for (opt = long_options; opt->name; opt++)
		if (seen & 1u << opt->val && !(whose(opt->val) & role))
			return problem(p, "--%s is for %s", opt->name,
				       role == FOR_SERVE ? "--push" : "--serve");
	if (o->role == ROLE_DEMO && (o->address || o->once || o->metadata))
		return problem(p, "--demo takes no address, no --once and no --metadata");
	if (o->role == ROLE_SERVE && o->address && !o->metadata && ends_in(o->address, ":0"))
		return problem(p, "%s takes any port: --metadata FILE, or nobody knows which",
			       o->address);
	if (o->contexts > 1 && o->address && *o->address != '@' && !has_ports(o))
		return problem(p, "%s: %u contexts want one HOST:PORT, and the ports behind it",
			       o->address, o->contexts);
	return 0;
}

static void set_defaults(struct options *o)
{
	*o = (struct options){
		.page = 16,
		.tp_prefill = 1,
		.tp_decode = 1,
		.pool_bytes = 1ull << 30,
		.cache_bytes = 1ull << 30,
		.scale = 1,
		.requests = UINT32_MAX,
		.parallel = 4,
		.contexts = 1,
		.verify = true,
	};
	(void)getrandom(&o->run, sizeof(o->run), 0);
	o->run |= 1;
}

int options_parse(int argc, char **argv, struct options *o, struct problem *p)
{
	uint32_t seen = 0;
	int id, index = 0;

	set_defaults(o);
	opterr = 0;
	while ((id = getopt_long(argc, argv, "h", long_options, &index)) != -1) {
		if (id == 'h' || id == OPT_HELP) {
			fputs(help, stdout);
			return 1;
		}
		if (id == '?')
			return problem(p, "%s: no such option, or it lacks its value (--help)",
				       argv[optind - 1]);
		seen |= 1u << id;
		if (set_flag(o, id, p))
			return -1;
		if (set_value(o, id, optarg))
			return problem(p, "--%s: %s cannot be (--help)", long_options[index].name,
				       optarg);
	}
	if (optind < argc)
		o->address = argv[optind++];
	if (optind < argc)
		return problem(p, "%s: one address is enough", argv[optind]);
	if (check_roles(o, seen, p))
		return -1;
	if (!o->address)
		o->address = o->role == ROLE_DEMO ? "127.0.0.1:0" : DEFAULT_ADDRESS;
	return 0;
}
