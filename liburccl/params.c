/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "params.h"

#define POSSIBLE "sim, shm and tcp are possible"

/* Numbers that have limits; 0 stands for the default. */
static const struct number {
	const char *name;
	size_t at;
	uint32_t least, most, normal;
} numbers[] = {
#define AT(field) #field, offsetof(struct urccl_params, field)
	{AT(timeout_ms), 1, UINT32_MAX, 30000},
	{AT(dead_after_ms), 1, UINT32_MAX, 10000},
	{AT(max_peers), 1, 1u << HANDLE_SLOT_BITS, 4096},
	{AT(max_segs), 1, UINT32_MAX - 1, 1u << 20},
	{AT(max_blocks), 1, UINT32_MAX - 1, UINT32_MAX - 1},
	{AT(chunk_bytes), 0, 1u << 30, 0},
	{AT(tcp_streams), 1, 8, 1},
#undef AT
};

static const struct urccl_params defaults = {
	.size = sizeof(struct urccl_params),
	.spin_us = 20,
};

static uint32_t *number_at(struct urccl_params *p, const struct number *n)
{
	return (uint32_t *)(void *)((char *)p + n->at);
}

static void fill_defaults(struct urccl_params *p)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(numbers); i++)
		if (!*number_at(p, &numbers[i]))
			*number_at(p, &numbers[i]) = numbers[i].normal;
}

void urccl_params_init(struct urccl_params *p)
{
	struct urccl_params all = defaults;

	fill_defaults(&all);
	fill_sized(p, &all, sizeof(all), "struct urccl_params");
}

static int check_numbers(struct urccl_params *p)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		const struct number *n = &numbers[i];
		uint32_t value = *number_at(p, n);

		if (value < n->least || value > n->most)
			return fail(-EINVAL, "%s is %u: from %u to %u is possible", n->name, value,
				    n->least, n->most);
	}
	return 0;
}

static int check_choices(const struct urccl_params *p)
{
	if (p->flags & ~(uint32_t)URCCL_OPEN_INLINE)
		return fail(-EINVAL, "flags are 0x%x: URCCL_OPEN_INLINE (0x%x) is possible",
			    p->flags, URCCL_OPEN_INLINE);
	if (p->reserved0)
		return fail(-EINVAL, "reserved0 is %u, not 0", p->reserved0);
	if (p->tcp_driver > URCCL_TCP_IO_URING)
		return fail(-EINVAL, "tcp_driver is %u: from %u to %u is possible", p->tcp_driver,
			    URCCL_TCP_AUTO, URCCL_TCP_IO_URING);
	if (p->cma > URCCL_ALLOW_YES)
		return fail(-EINVAL, "cma is %u: from %u to %u is possible", p->cma,
			    URCCL_ALLOW_DEFAULT, URCCL_ALLOW_YES);
	if (p->hello_len > URCCL_NOTE_MAX)
		return fail(-EINVAL, "hello_len is %u: up to %u is possible", p->hello_len,
			    URCCL_NOTE_MAX);
	if (p->hello_len && !p->hello)
		return fail(-EINVAL, "hello_len is %u and hello is NULL", p->hello_len);
	return 0;
}

static int list_has(const uint32_t *list, uint32_t n, uint32_t value)
{
	while (n--)
		if (list[n] == value)
			return 1;
	return 0;
}

int transports_parse(const char *text, uint32_t list[TRANSPORTS_MAX])
{
	const char *word = text;
	uint32_t n = 0;

	for (;;) {
		size_t len = strcspn(word, ",");
		int transport = transport_parse(word, len);

		if (transport < 0)
			return fail(-EINVAL, "transport \"%.*s\" in \"%s\" is not known: " POSSIBLE,
				    (int)(len < 64 ? len : 64), word, text);
		if (list_has(list, n, (uint32_t)transport))
			return fail(-EINVAL, "transport %s is twice in \"%s\"",
				    transport_name((uint32_t)transport), text);
		list[n++] = (uint32_t)transport;
		if (!word[len])
			return (int)n;
		word += len + 1;
	}
}

static int read_transports(struct settings *s)
{
	const struct urccl_params *p = &s->p;
	int n;

	s->is_default = !p->transport;
	n = transports_parse(p->transport ? p->transport : "shm,tcp", s->transports);
	if (n < 0)
		return n;
	s->ntransports = (uint32_t)n;
	if (list_has(s->transports, s->ntransports, URCCL_TRANSPORT_SIM) && !p->sim)
		return fail(-EINVAL, "transport sim needs a network: set sim to what "
				     "urccl_sim_open() gave");
	if (p->sim && !list_has(s->transports, s->ntransports, URCCL_TRANSPORT_SIM))
		return fail(-EINVAL,
			    "a simulated network is given, but transport is \"%s\": name "
			    "sim in it",
			    p->transport ? p->transport : "shm,tcp");
	return 0;
}

static int read_listen(struct settings *s)
{
	const char *text = s->p.listen ? s->p.listen : "127.0.0.1:0";

	s->listens = *text != 0;
	return s->listens ? listen_parse(text, &s->listen) : 0;
}

/* Points *field to a copy of its own. */
static int keep(const char **field, char **copy)
{
	if (!*field)
		return 0;
	*copy = strdup(*field);
	if (!*copy)
		return fail(-ENOMEM, "no memory for the settings");
	*field = *copy;
	return 0;
}

static int keep_all(struct settings *s)
{
	struct urccl_params *p = &s->p;
	int err;

	err = keep(&p->transport, &s->transport);
	if (!err)
		err = keep(&p->listen, &s->listen_text);
	if (!err)
		err = keep(&p->tcp_congestion, &s->tcp_congestion);
	if (!err)
		err = keep(&p->socket_dir, &s->socket_dir);
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
	s->p = defaults;
	if (p)
		err = copy_sized(&s->p, sizeof(s->p), p, "struct urccl_params");
	if (err)
		return err;
	fill_defaults(&s->p);
	err = check_numbers(&s->p);
	if (!err)
		err = check_choices(&s->p);
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
	free(s->transport);
	free(s->listen_text);
	free(s->tcp_congestion);
	free(s->socket_dir);
	memset(s, 0, sizeof(*s));
}

int ring_params_read(struct urccl_ring_params *out, const struct urccl_ring_params *p)
{
	int err = 0;

	*out = (struct urccl_ring_params){.size = sizeof(*out)};
	if (p)
		err = copy_sized(out, sizeof(*out), p, "struct urccl_ring_params");
	if (!out->entries)
		out->entries = 256;
	if (!out->event_slots)
		out->event_slots = 256;
	return err;
}
