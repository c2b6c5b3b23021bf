/* SPDX-License-Identifier: Apache-2.0 */
/* What a user writes of a simulated network: any text, and texts made of the grammar's own words.
 * What is taken is in range, and is taken again with the same result; what is not says why and
 * changes nothing. */
#include <stdlib.h>
#include "base/base.h"

#define TEXT_MAX 512u

static void check(int ok)
{
	if (!ok)
		abort();
}

static void check_range(const struct sim_range *r)
{
	check(r->min <= r->max && r->max <= FAULT_NS_MAX);
}

static void check_window(const struct fault_window *s)
{
	check_range(&s->lasts);
	check_range(&s->every);
	check(!s->lasts.min == !s->every.min); /* both or none */
}

static void one(const char *text)
{
	struct sim_faults f, before, again;

	faults_init(&f);
	before = again = f;
	if (faults_parse(text, 1, &f)) {
		check(!memcmp(&f, &before, sizeof(f)));
		check(*urccl_errmsg() != 0);
		return;
	}
	check_range(&f.delay);
	check_range(&f.restart);
	check_window(&f.freeze);
	check_window(&f.flap);
	check_window(&f.kill);
	check(f.drop <= SHARE_ALL && f.duplicate <= SHARE_ALL && f.early <= SHARE_ALL);
	check(f.error <= SHARE_ALL && f.partial <= SHARE_ALL);
	check(f.retries <= 30 && f.depth && f.depth <= 65536 && f.is_simulated <= 1);
	check(f.rails && f.rails <= FAULT_RAILS);
	check(f.resend_ns >= NSEC_PER_USEC && f.resend_ns <= FAULT_NS_MAX);
	check(!faults_parse(text, 1, &again) && !memcmp(&f, &again, sizeof(f)));
	check(!faults_parse(text, 1, &again) && !memcmp(&f, &again, sizeof(f)));
}

/* A byte is a word. */
static void made(const uint8_t *data, size_t size)
{
	static const char *const words[] = {
		"seed=",     "clock=",	   "delay=",
		"rate=",     "drop=",	   "resend=",
		"retries=",  "duplicate=", "early=",
		"error=",    "partial=",   "freeze=",
		"flip=",     "flap=",	   "restart=",
		"depth=",    ",",	   "..",
		"/",	     ".",	   "%",
		"ns",	     "us",	   "ms",
		"s",	     "k",	   "m",
		"g",	     "off",	   "real",
		"simulated", "0",	   "1",
		"7",	     "25",	   "100",
		"65536",     "3600",	   "18446744073709551615",
	};
	char text[TEXT_MAX];
	size_t i, len = 0, n;

	for (i = 0; i < size; i++) {
		n = strlen(words[data[i] % ARRAY_SIZE(words)]);
		if (len + n >= sizeof(text))
			break;
		memcpy(text + len, words[data[i] % ARRAY_SIZE(words)], n);
		len += n;
	}
	text[len] = 0;
	one(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[TEXT_MAX];

	made(data, size);
	if (size >= TEXT_MAX)
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	one(text);
	return 0;
}
