/* SPDX-License-Identifier: Apache-2.0 */
/*
 * URCCL_TEST_PROVIDER: words with commas between. Without it the provider is an easy one.
 *
 *	name=NAME		what it is called: cxi and efa have some of their controls, too
 *	mr=A+B..		of local, raw, virt_addr, allocated, prov_key, rma_event, endpoint
 *	key=N			bytes of a key, 1 to 8
 *	mode=A+B		of context, context2
 *	threading=domain	one call at a time
 *	order=random		pieces are placed, and operations complete, in any order
 *	ack=early		a write completes before it is placed, unless delivery is asked for
 *	delivery=none		and that is refused
 *	av_initiator		the target's own vector is to have who reads and writes there
 *	av_slow=N		microseconds at most that an insertion takes
 *	progress=auto		a call for one endpoint drives all of the domain
 *	wait=none		nothing to sleep on
 *	eagain=N%		of the posts are told to come again
 *	cqerr=N			about one of N operations fails, done or not
 *	cut=N			about one of N messages ends with FI_ECANCELED, as with a connection
 *				that was cut: it has come or not
 *	lose=N			about one of N messages completes, and never comes
 *	poison=N		a read or write that has a range of N bytes fails, always
 *	cutter=N		and with it, as FI_ECANCELED, all that is under way beside it
 *	sick=N			an endpoint fails all reads and writes behind its Nth
 *	reject=N		the errno by which it fails what has a key that is not known
 *	mute=N			one that has such a range does not begin, nor end
 *	tx_dead=N, rx_dead=N	a queue gives N completions and then errors alone: one without
 *				receives, or with them
 *	recv_dead=N		likewise fi_recv(), from the Nth of an endpoint on
 *	close_slow=N		microseconds that it takes to close an endpoint
 *	shm			endpoints are told not to go by shared memory
 *	hmem			memory of the stand-in for libcuda is registered, by fi_mr_regattr()
 *	more			what has FI_MORE begins when one without it follows
 *	busy=N			an endpoint, a region, a queue or a vector is closed when that is
 *				asked for the N+1st time: until then it goes on
 *	mr_busy=N		the same of a region alone
 *	mr_again=N		the first N regions of a domain are refused with FI_EAGAIN
 *	mr_slow=N		microseconds that it takes to make one
 *	eps=N			endpoints of a domain
 *	max_msg=N, inject=N	bytes
 *	iov=N			ranges that an operation may have at either side, 1 to 4
 *	iov_room=N		what has more of them is told to come again, always
 *	domains=N		urccl_test0, urccl_test1 ..
 *	broken=BITS		those that cannot be opened
 *	seed=N
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "prov.h"

struct bit {
	const char *name;
	uint64_t bit;
};

static const struct bit mr_bits[] = {
	{"local", FI_MR_LOCAL},		{"raw", FI_MR_RAW},
	{"virt_addr", FI_MR_VIRT_ADDR}, {"allocated", FI_MR_ALLOCATED},
	{"prov_key", FI_MR_PROV_KEY},	{"rma_event", FI_MR_RMA_EVENT},
	{"endpoint", FI_MR_ENDPOINT},	{NULL, 0},
};

static const struct bit mode_bits[] = {
	{"context", FI_CONTEXT},
	{"context2", FI_CONTEXT2},
	{NULL, 0},
};

void die(const char *where, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, PROV_NAME " provider, %s: ", where);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	/* Other providers' handlers would write files of their own. */
	signal(SIGABRT, SIG_DFL);
	abort();
}

static uint64_t bits(const struct bit *known, char *list)
{
	char *at, *word;
	uint64_t all = 0;

	for (word = strtok_r(list, "+", &at); word; word = strtok_r(NULL, "+", &at)) {
		const struct bit *b = known;

		while (b->name && strcmp(b->name, word))
			b++;
		if (!b->name)
			DIE("%s is no bit that it knows", word);
		all |= b->bit;
	}
	return all;
}

/* 1: it is one. */
static int fault(struct words *w, const char *word, uint32_t n)
{
	const struct {
		const char *word;
		uint32_t *to;
	} all[] = {
		{"eagain", &w->eagain},
		{"cqerr", &w->cqerr},
		{"cut", &w->cut},
		{"lose", &w->lose},
		{"poison", &w->poison},
		{"cutter", &w->cutter},
		{"mute", &w->mute},
		{"sick", &w->sick},
		{"reject", &w->reject},
		{"tx_dead", &w->tx_dead},
		{"rx_dead", &w->rx_dead},
		{"recv_dead", &w->recv_dead},
		{"close_slow", &w->close_slow},
		{"busy", &w->busy},
		{"mr_again", &w->mr_again},
		{"mr_slow", &w->mr_slow},
		{"mr_busy", &w->mr_busy},
		{"eps", &w->eps},
		{"iov_room", &w->iov_room},
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(all); i++) {
		if (strcmp(word, all[i].word))
			continue;
		*all[i].to = n;
		return 1;
	}
	return 0;
}

static void number(struct words *w, const char *word, const char *value)
{
	uint64_t n = strtoull(value, NULL, 0);

	if (fault(w, word, (uint32_t)n))
		return;
	if (!strcmp(word, "key"))
		w->key_bytes = (uint32_t)n;
	else if (!strcmp(word, "av_slow"))
		w->av_slow_us = (uint32_t)n;
	else if (!strcmp(word, "iov"))
		w->iov = (uint32_t)n;
	else if (!strcmp(word, "max_msg"))
		w->max_msg = n;
	else if (!strcmp(word, "inject"))
		w->inject = n;
	else if (!strcmp(word, "domains"))
		w->domains = (uint32_t)n;
	else if (!strcmp(word, "broken"))
		w->broken = (uint32_t)n;
	else if (!strcmp(word, "seed"))
		w->seed = n;
	else
		DIE("%s=%s is no word that it knows", word, value);
}

static void word_take(struct words *w, char *word)
{
	char *value = strchr(word, '=');

	if (!strcmp(word, "threading=domain"))
		w->threading = FI_THREAD_DOMAIN;
	else if (!strcmp(word, "order=random"))
		w->random = 1;
	else if (!strcmp(word, "ack=early"))
		w->early = 1;
	else if (!strcmp(word, "delivery=none"))
		w->no_delivery = 1;
	else if (!strcmp(word, "progress=auto"))
		w->progress = FI_PROGRESS_AUTO;
	else if (!strcmp(word, "av_initiator"))
		w->av_initiator = 1;
	else if (!strcmp(word, "more"))
		w->more = 1;
	else if (!strcmp(word, "shm"))
		w->shm = 1;
	else if (!strcmp(word, "hmem"))
		w->hmem = 1;
	else if (!strcmp(word, "wait=none"))
		w->no_fd = 1;
	else if (!strncmp(word, "name=", 5))
		snprintf(w->name, sizeof(w->name), "%s", value + 1);
	else if (!strncmp(word, "mr=", 3))
		w->mr_mode = bits(mr_bits, value + 1);
	else if (!strncmp(word, "mode=", 5))
		w->mode = bits(mode_bits, value + 1);
	else if (value) {
		*value = '\0';
		number(w, word, value + 1);
	} else {
		DIE("%s is no word that it knows", word);
	}
}

static struct words the_words = {
	.name = PROV_NAME,
	.key_bytes = 8,
	.reject = FI_EKEYREJECTED,
	.threading = FI_THREAD_SAFE,
	.progress = FI_PROGRESS_MANUAL,
	.max_msg = 1u << 30,
	.iov = 1,
	.domains = 1,
	.seed = 1,
};

static void words_read(void)
{
	const char *from = getenv("URCCL_TEST_PROVIDER");
	char *copy = from ? strdup(from) : NULL, *at, *word;

	for (word = copy ? strtok_r(copy, ",", &at) : NULL; word; word = strtok_r(NULL, ",", &at))
		word_take(&the_words, word);
	free(copy);
	if (!the_words.key_bytes || the_words.key_bytes > 8)
		DIE("a key has 1 to 8 bytes");
	if (!the_words.iov || the_words.iov > RANGES_MAX)
		DIE("an operation has 1 to %u ranges", RANGES_MAX);
}

const struct words *words(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, words_read);
	return &the_words;
}
