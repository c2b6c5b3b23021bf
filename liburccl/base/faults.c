/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar of simulated faults: a comma-separated list of KEY=VALUE and KEY@RAIL=VALUE, each at
 * most once. */
#include "base/base.h"

enum kind {
	KIND_NUMBER,
	KIND_BYTES,
	KIND_SHARE,
	KIND_TIME,
	KIND_RANGE,
	KIND_SOME,
	KIND_WINDOW,
	KIND_CLOCK
};

struct key {
	const char *name;
	enum kind kind;
	size_t at; /* Offset in struct sim_faults */
	uint64_t least, most;
};

#define AT(f) offsetof(struct sim_faults, f)
#define SHARE(f)                                    \
	{                                           \
#f, KIND_SHARE, AT(f), 0, SHARE_ALL \
	}
#define TIMES(f, k)                           \
	{                                     \
#f, k, AT(f), 0, FAULT_NS_MAX \
	}

static const struct key keys[] = {
	{"seed", KIND_NUMBER, AT(seed), 0, UINT64_MAX},
	{"clock", KIND_CLOCK, AT(is_simulated), 0, 1},
	TIMES(delay, KIND_RANGE),
	{"rate", KIND_BYTES, AT(bytes_per_s), 1, 1ull << 40},
	SHARE(drop),
	{"resend", KIND_TIME, AT(resend_ns), NSEC_PER_USEC, FAULT_NS_MAX},
	{"retries", KIND_NUMBER, AT(retries), 0, 30},
	{"pin", KIND_TIME, AT(pin_ns), 0, FAULT_NS_MAX},
	SHARE(duplicate),
	SHARE(early),
	SHARE(flip),
	SHARE(error),
	SHARE(partial),
	{"freeze", KIND_WINDOW, AT(freeze), NSEC_PER_USEC, FAULT_NS_MAX},
	{"flap", KIND_WINDOW, AT(flap), NSEC_PER_USEC, FAULT_NS_MAX},
	{"restart", KIND_SOME, AT(restart), NSEC_PER_USEC, FAULT_NS_MAX},
	{"kill", KIND_WINDOW, AT(kill), NSEC_PER_USEC, FAULT_NS_MAX},
	{"depth", KIND_NUMBER, AT(depth), 1, 65536},
	{"rails", KIND_NUMBER, AT(rails), 1, FAULT_RAILS},
};

#define NAMES                                                                            \
	"seed, clock, delay, rate, drop, resend, retries, pin, duplicate, early, flip, " \
	"error, partial, freeze, flap, restart, kill, depth and rails"
/* The rail of a word that names no rail. */
#define ALL FAULT_RAILS

void faults_init(struct sim_faults *f)
{
	memset(f, 0, sizeof(*f));
	f->resend_ns = 100 * NSEC_PER_USEC;
	f->retries = 7;
	f->depth = 128;
	f->rails = 1;
}

/* ---- words ---- */

/* The unread part of a value. */
struct rest {
	const char *at, *end;
};

static int rest_is(struct rest *r, const char *word)
{
	size_t len = strlen(word);

	if ((size_t)(r->end - r->at) < len || memcmp(r->at, word, len))
		return 0;
	r->at += len;
	return 1;
}

static int get_digits(struct rest *r, uint64_t *v)
{
	const char *from = r->at;
	uint64_t digit;

	for (*v = 0; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
		digit = (uint64_t)(*r->at - '0');
		if (*v > (UINT64_MAX - digit) / 10)
			return -EINVAL;
		*v = *v * 10 + digit;
	}
	return r->at == from ? -EINVAL : 0;
}

static int times(uint64_t *v, uint64_t by)
{
	if (*v > UINT64_MAX / by)
		return -EINVAL;
	*v *= by;
	return 0;
}

static int get_time(struct rest *r, const struct key *k, uint64_t *ns)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} units[] = {{"ns", 1}, {"us", NSEC_PER_USEC}, {"ms", NSEC_PER_MSEC}, {"s", NSEC_PER_SEC}};
	size_t i;

	if (get_digits(r, ns))
		return -EINVAL;
	for (i = 0; i < ARRAY_SIZE(units); i++) {
		if (!rest_is(r, units[i].unit))
			continue;
		if (times(ns, units[i].ns))
			return -EINVAL;
		return *ns >= k->least && *ns <= k->most ? 0 : -EINVAL;
	}
	return -EINVAL;
}

static int get_range(struct rest *r, const struct key *k, struct sim_range *range)
{
	if (get_time(r, k, &range->min))
		return -EINVAL;
	range->max = range->min;
	if (!rest_is(r, ".."))
		return 0;
	return get_time(r, k, &range->max) || range->max < range->min ? -EINVAL : 0;
}

/* "0.01%" */
static int get_share(struct rest *r, uint64_t *share)
{
	const char *point;
	uint64_t part;

	if (get_digits(r, share) || *share > 100)
		return -EINVAL;
	*share *= SHARE_ALL / 100;
	if (rest_is(r, ".")) {
		point = r->at;
		if (get_digits(r, &part) || r->at - point > 4)
			return -EINVAL;
		for (; point + 4 > r->at; point--)
			part *= 10;
		*share += part;
	}
	return rest_is(r, "%") && *share <= SHARE_ALL ? 0 : -EINVAL;
}

static int get_number(struct rest *r, const struct key *k, uint64_t *v)
{
	if (get_digits(r, v))
		return -EINVAL;
	if (k->kind == KIND_BYTES && rest_is(r, "k") && times(v, 1u << 10))
		return -EINVAL;
	if (k->kind == KIND_BYTES && rest_is(r, "m") && times(v, 1u << 20))
		return -EINVAL;
	if (k->kind == KIND_BYTES && rest_is(r, "g") && times(v, 1u << 30))
		return -EINVAL;
	return *v >= k->least && *v <= k->most ? 0 : -EINVAL;
}

/* ---- values ---- */

static int get_value(struct rest *r, const struct key *k, void *at)
{
	struct fault_window *window = at;

	switch (k->kind) {
	case KIND_NUMBER:
	case KIND_BYTES:
		if (k->kind == KIND_BYTES && rest_is(r, "off")) {
			*(uint64_t *)at = 0;
			return 0;
		}
		return get_number(r, k, at);
	case KIND_SHARE:
		return get_share(r, at);
	case KIND_TIME:
		return get_time(r, k, at);
	case KIND_CLOCK:
		*(uint64_t *)at = (uint64_t)rest_is(r, "simulated");
		return *(uint64_t *)at || rest_is(r, "real") ? 0 : -EINVAL;
	case KIND_SOME:
		if (rest_is(r, "off")) {
			*(struct sim_range *)at = (struct sim_range){0, 0};
			return 0;
		}
		return get_range(r, k, at);
	case KIND_WINDOW:
		if (rest_is(r, "off")) {
			*window = (struct fault_window){{0, 0}, {0, 0}};
			return 0;
		}
		if (get_range(r, k, &window->lasts) || !rest_is(r, "/"))
			return -EINVAL;
		return get_range(r, k, &window->every);
	default:
		return get_range(r, k, at);
	}
}

static const char *wanted(const struct key *k)
{
	switch (k->kind) {
	case KIND_SHARE:
		return "a share is wanted, such as 0.1%, up to 100% and with up to 4 decimals";
	case KIND_TIME:
		return "a time is wanted, such as 100us, from 1us to 3600s";
	case KIND_RANGE:
		return "a time or a range is wanted, such as 2us..50us, up to 3600s";
	case KIND_SOME:
		return "a time or a range is wanted, such as 1s..2s, from 1us to 3600s, or off";
	case KIND_WINDOW:
		return "how long / how often is wanted, such as 5ms..20ms/1s, each from 1us to "
		       "3600s, or off";
	case KIND_CLOCK:
		return "real or simulated is wanted";
	case KIND_BYTES:
		return "bytes a second are wanted, such as 100m, up to 1024g, or off";
	default:
		return k->most == 30		? "a number from 0 to 30 is wanted"
		       : k->most == 65536	? "a number from 1 to 65536 is wanted"
		       : k->most == FAULT_RAILS ? "a number from 1 to 8 is wanted"
						: "a number below 2^64 is wanted";
	}
}

static const struct key *find_key(const char *name, size_t len)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(keys); i++)
		if (strlen(keys[i].name) == len && !memcmp(keys[i].name, name, len))
			return &keys[i];
	return NULL;
}

static int shown(size_t len)
{
	return len < 60 ? (int)len : 60;
}

/* An item of the list, parsed up to its value. */
struct word {
	const struct key *key;
	uint32_t rail; /* ALL: for all rails */
	struct rest value;
};

/* Parses the rail of KEY@RAIL. The clock and the number of rails cannot differ between rails. */
static int get_rail(const char *at, size_t len, struct word *w)
{
	if (len != 1 || at[0] < '0' || at[0] >= '0' + (int)FAULT_RAILS)
		return fail(-EINVAL, "%s@%.*s: the number of a rail is wanted, from 0 to 7",
			    w->key->name, shown(len), at);
	if (w->key->kind == KIND_CLOCK || w->key->at == AT(rails))
		return fail(-EINVAL, "%s is of all rails", w->key->name);
	w->rail = (uint32_t)(at[0] - '0');
	return 0;
}

static int get_word(const char *item, size_t len, struct word *w)
{
	const char *equals = memchr(item, '=', len);
	size_t name = equals ? (size_t)(equals - item) : len;
	const char *of = memchr(item, '@', name);

	w->key = find_key(item, of ? (size_t)(of - item) : name);
	w->rail = ALL;
	w->value = (struct rest){item + name + 1, item + len};
	if (!w->key || !equals)
		return fail(-EINVAL,
			    "\"%.*s\" is no fault of a simulated network: " NAMES
			    " are, each with = and a value",
			    shown(name), item);
	return of ? get_rail(of + 1, (size_t)(item + name - of - 1), w) : 0;
}

/* Parses one item of len bytes, and applies it to *f if it is for the given rail (or ALL). seen has
 * for each rail, and for ALL, a bit for each key that has occurred. */
static int get_item(const char *item, size_t len, uint32_t rail, struct sim_faults *f,
		    uint32_t seen[FAULT_RAILS + 1])
{
	struct sim_faults other = *f;
	struct word w;
	uint32_t bit;

	if (get_word(item, len, &w))
		return -EINVAL;
	bit = 1u << (w.key - keys);
	if (seen[w.rail] & bit)
		return fail(-EINVAL, "%s is twice", w.key->name);
	seen[w.rail] |= bit;
	if (w.rail != rail)
		f = &other;
	if (get_value(&w.value, w.key, (char *)f + w.key->at) || w.value.at != w.value.end)
		return fail(-EINVAL, "%.*s: %s", shown(len), item, wanted(w.key));
	return 0;
}

static int get_all(const char *text, uint32_t rail, struct sim_faults *f)
{
	uint32_t seen[FAULT_RAILS + 1] = {0};
	size_t len;

	for (; *text; text += len + 1) {
		len = strcspn(text, ",");
		if (get_item(text, len, rail, f, seen))
			return -EINVAL;
		if (!text[len])
			break;
		if (!text[len + 1])
			return fail(-EINVAL, "nothing follows the last comma");
	}
	return 0;
}

int faults_parse(const char *text, uint32_t rail, struct sim_faults *f)
{
	struct sim_faults all = *f;

	if (get_all(text, ALL, &all) || get_all(text, rail, &all))
		return -EINVAL;
	*f = all;
	return 0;
}
