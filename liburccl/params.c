/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "params.h"

#define POSSIBLE "sim, shm, tcp, ib, efa, cxi and fabric:NAME are possible"
#define FABRIC	 "fabric:"

void __urccl_params_init(struct urccl_params *p, uint32_t size)
{
	struct urccl_params all;

	settings_defaults(&all);
	p->size = size;
	fill_sized(p, &all, sizeof(all), "struct urccl_params");
}

/* ---- checks outside the table ---- */

static int any_set(const uint8_t *bytes, size_t n)
{
	while (n)
		if (bytes[--n])
			return 1;
	return 0;
}

static int check_rest(const struct urccl_params *p)
{
	if (p->flags & ~(uint32_t)URCCL_OPEN_INLINE)
		return fail(-EINVAL, "flags are 0x%x: URCCL_OPEN_INLINE (0x%x) is possible",
			    p->flags, URCCL_OPEN_INLINE);
	if (any_set(p->reserved0, sizeof(p->reserved0)) ||
	    any_set(p->reserved1, sizeof(p->reserved1)) ||
	    any_set(p->reserved2, sizeof(p->reserved2)))
		return fail(-EINVAL,
			    "a reserved member of struct urccl_params is not 0: begin with "
			    "urccl_params_init()");
	if (p->hello_len > URCCL_NOTE_MAX)
		return fail(-EINVAL, "hello_len is %u: up to %u is possible", p->hello_len,
			    URCCL_NOTE_MAX);
	if (p->hello_len && !p->hello)
		return fail(-EINVAL, "hello_len is %u and hello is NULL", p->hello_len);
	return 0;
}

static int check_all(struct urccl_params *p)
{
	uint32_t i;
	int err = 0;

	for (i = 0; i < settings_count && !err; i++) {
		setting_fill(&settings_table[i], p);
		err = setting_check(&settings_table[i], p);
	}
	return err ? err : check_rest(p);
}

/* ---- transports ---- */

static int listed(const struct transports *t, uint32_t transport)
{
	uint32_t i;

	for (i = 0; i < t->n; i++)
		if (t->list[i].transport == transport)
			return 1;
	return 0;
}

/* "shm", "tcp?", "fabric:verbs": enum urccl_transport, or -EINVAL. */
static int transport_word(const char *word, size_t len)
{
	size_t fabric = strlen(FABRIC);

	if (len > fabric && !memcmp(word, FABRIC, fabric))
		return URCCL_TRANSPORT_FABRIC;
	if (transport_parse(word, len) == URCCL_TRANSPORT_FABRIC)
		return -EINVAL;
	return transport_parse(word, len);
}

static enum transport_how how_of(const char *word, size_t len)
{
	switch (len ? word[len - 1] : 0) {
	case '?':
		return TRANSPORT_MAYBE;
	case '!':
		return TRANSPORT_REQUIRED;
	default:
		return TRANSPORT_NAMED;
	}
}

int transports_parse(const char *text, struct transports *t)
{
	const char *word = text;

	for (t->n = 0;;) {
		size_t len = strcspn(word, ",");
		enum transport_how how = how_of(word, len);
		int transport = transport_word(word, len - (how != TRANSPORT_NAMED));

		if (transport < 0)
			return fail(-EINVAL,
				    "transport \"%.*s\" in \"%.100s\" is not known: " POSSIBLE,
				    (int)(len < 64 ? len : 64), word, text);
		if (listed(t, (uint32_t)transport))
			return fail(-EINVAL, "transport %s is twice in \"%.100s\"",
				    transport_name((uint32_t)transport), text);
		t->list[t->n].transport = (uint32_t)transport;
		t->list[t->n++].how = how;
		if (!word[len])
			return 0;
		word += len + 1;
	}
}

int check_transport(const char *text)
{
	struct transports t;

	return transports_parse(text, &t);
}

static int read_transports(struct settings *s)
{
	const struct urccl_params *p = &s->p;
	const char *text = p->transport ? p->transport : DEFAULT_TRANSPORTS;
	int err = transports_parse(text, &s->transports);

	if (err)
		return err;
	if (listed(&s->transports, URCCL_TRANSPORT_SIM) && !p->sim_network)
		return fail(-EINVAL, "transport sim needs a network: set sim_network to what "
				     "urccl_sim_open() gave");
	if (p->sim_network && !listed(&s->transports, URCCL_TRANSPORT_SIM))
		return fail(-EINVAL,
			    "a simulated network is given, but transport is \"%s\": name "
			    "sim in it",
			    text);
	return 0;
}

/* ---- addresses ---- */

int check_listen(const char *text)
{
	struct sockaddr_storage ss[LISTEN_MAX];
	int n = *text ? listen_parse(text, ss) : 0;

	return n < 0 ? n : 0;
}

static int read_listen(struct settings *s)
{
	const char *text = s->p.listen, *rules = s->p.socket_ifname;
	int n;

	s->listens = !text || *text;
	if (!s->listens)
		return 0;
	n = rules ? listen_choose(text, rules, s->listen)
		  : listen_parse(text ? text : DEFAULT_LISTEN, s->listen);
	if (n < 0)
		return n;
	s->nlisten = (uint32_t)n;
	return 0;
}

/* ---- copies ---- */

static int path_is_relative(const struct setting *row, const char *text)
{
	if (*text == '/')
		return 0;
	return row->path == PATH_FILE ? strcmp(text, "hwloc") != 0
				      : row->path == PATH_LIBRARY && strchr(text, '/');
}

/* Returns a copy to be freed, or NULL with errno. */
static char *path_absolute(const char *relative)
{
	char *dir = getcwd(NULL, 0), *path = NULL;

	if (dir && asprintf(&path, "%s/%s", dir, relative) < 0)
		path = NULL;
	free(dir);
	return path;
}

/* Points the member to a copy of its string. */
static int params_keep(const struct setting *row, struct urccl_params *p, char **copy)
{
	const char *text = setting_string(row, p);

	if (!text)
		return 0;
	if (!path_is_relative(row, text))
		*copy = strdup(text);
	else if (!(*copy = path_absolute(text)) && errno != ENOMEM)
		return fail(-errno, "%s \"%.100s\": the current directory has no path: %s",
			    row->name, text, errno_text(errno));
	if (!*copy)
		return fail(-ENOMEM, "no memory for the settings");
	setting_put_string(row, p, *copy);
	return 0;
}

static int keep_all(struct settings *s)
{
	struct urccl_params *p = &s->p;
	uint32_t i;
	int err = 0;

	for (i = 0; i < settings_count && !err; i++)
		if (settings_table[i].kind == SET_TEXT)
			err = params_keep(&settings_table[i], p, &s->copies[i]);
	if (err)
		return err;
	if (p->hello_len)
		memcpy(s->hello, p->hello, p->hello_len);
	p->hello = s->hello;
	return 0;
}

int settings_read(struct settings *s, const struct urccl_params *p)
{
	int err = 0;

	memset(s, 0, sizeof(*s));
	settings_defaults(&s->p);
	if (p)
		err = copy_sized(&s->p, sizeof(s->p), p, "struct urccl_params");
	if (err)
		return err;
	err = check_all(&s->p);
	if (!err)
		err = read_transports(s);
	if (!err)
		err = read_listen(s);
	if (!err)
		err = keep_all(s);
	if (err)
		settings_free(s);
	return err;
}

void settings_free(struct settings *s)
{
	uint32_t i;

	for (i = 0; i < settings_count; i++)
		free(s->copies[i]);
	memset(s, 0, sizeof(*s));
}

int ring_params_read(struct urccl_ring_params *out, const struct urccl_ring_params *p,
		     const struct settings *s)
{
	int err = 0;

	*out = (struct urccl_ring_params){.size = sizeof(*out)};
	if (p)
		err = copy_sized(out, sizeof(*out), p, "struct urccl_ring_params");
	if (!out->entries)
		out->entries = 256;
	if (!out->event_slots)
		out->event_slots = s->p.event_slots;
	return err;
}
