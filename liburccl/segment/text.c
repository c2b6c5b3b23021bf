/* SPDX-License-Identifier: Apache-2.0 */
/* A segment as text, for urccl_dump() of its own context and urccl_info --dump of another's. */
#include <stdio.h>

#include "segment/segment.h"
#include "base/base.h"

#define OLDEST 32u /* entries of a ring that are listed */

typedef unsigned long long ull;

static const char *const states[SEGMENT_STATES] = {
	[SEGMENT_WAITING] = "waiting",	  [SEGMENT_MOVING] = "moving",
	[SEGMENT_FLUSHING] = "flushing",  [SEGMENT_NOTING] = "notifying",
	[SEGMENT_ATOMIC] = "at the peer", [SEGMENT_ASKING] = "asking",
	[SEGMENT_PARKED] = "parked",	  [SEGMENT_SIGNALLING] = "signalling",
};

const char *segment_state_name(uint32_t state)
{
	return state < SEGMENT_STATES && states[state] ? states[state] : "?";
}

/* "12 ns", "3.4 us", "5.6 s": into a buffer of the caller's. */
static const char *time_text(uint64_t ns, char to[24])
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"s", NSEC_PER_SEC}, {"ms", NSEC_PER_MSEC}, {"us", 1000}};
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(units); i++)
		if (ns >= units[i].ns) {
			ns = (ns + units[i].ns / 20) / (units[i].ns / 10); /* tenths, rounded */
			snprintf(to, 24, "%llu.%llu %s", (ull)ns / 10, (ull)ns % 10, units[i].name);
			return to;
		}
	snprintf(to, 24, "%llu ns", (ull)ns);
	return to;
}

static uint64_t elapsed(uint64_t now, uint64_t then)
{
	return now > then ? now - then : 0;
}

/* ---- the context ---- */

static void text_head(const struct segment *s, struct out *o)
{
	uint32_t i, n = load_relaxed(&s->head.ndevices);
	char text[sizeof(s->head.left_out)];

	out_add(o, "liburccl %s, incarnation %016llx%s\n",
		segment_string(s->head.library, sizeof(s->head.library), text, sizeof(text)),
		(ull)s->head.incarnation, s->head.is_inline ? ", inline" : "");
	for (i = 0; i < n && i < SEGMENT_DEVICES; i++)
		out_add(o, "transport %s\n",
			segment_string(s->head.devices[i].name, sizeof(s->head.devices[i].name),
				       text, sizeof(text)));
	segment_string(s->head.left_out, sizeof(s->head.left_out), text, sizeof(text));
	if (*text)
		out_add(o, "left out: %s\n", text);
	segment_string(s->head.alone, sizeof(s->head.alone), text, sizeof(text));
	if (*text)
		out_add(o, "not to be seen by other processes: %s\n", text);
}

static void text_slow(const struct segment *s, struct out *o)
{
	char text[SEGMENT_SLOW_TEXT];

	if (segment_slow(s, text))
		out_add(o, "slow: %s\n", text);
}

static void text_engine(const struct segment *s, uint64_t now, struct out *o)
{
	const struct segment_engine *e = &s->engine;
	struct urccl_stats c;
	char ago[24];

	segment_stats(s, &c);
	out_add(o, "engine: turned %s ago, %s, %llu turns, %llu sleeps, %llu wakes\n",
		time_text(elapsed(now, load_relaxed(&e->updated_ns)), ago),
		load_relaxed(&e->state) == SEGMENT_SLEEPS ? "asleep" : "awake", (ull)c.turns,
		(ull)c.sleeps, (ull)c.wakes);
	out_add(o,
		"entries: %llu submitted, %llu completed, %llu failed, %llu cancelled, "
		"%llu timed out\n",
		(ull)c.submitted, (ull)c.completed, (ull)c.failed, (ull)c.cancelled,
		(ull)c.timed_out);
	out_add(o,
		"moved: %llu bytes read, %llu bytes written, %llu chunks (%u on their way), "
		"%llu pieces merged\n",
		(ull)c.bytes_read, (ull)c.bytes_written, (ull)c.chunks, load_relaxed(&e->chunks),
		(ull)c.merged);
	out_add(o, "notifications: %llu sent, %llu received\n", (ull)c.notes_sent,
		(ull)c.notes_received);
	text_slow(s, o);
	if (load_relaxed(&e->slots))
		out_add(o, "staging: %u of %u slots of 1 MiB in use\n",
			load_relaxed(&e->slots_used), load_relaxed(&e->slots));
}

static void text_settings(const struct segment *s, struct out *o)
{
	char text[sizeof(s->head.settings[0])];
	uint32_t i;

	for (i = 0; i < SEGMENT_SETTINGS; i++) {
		segment_string(s->head.settings[i], sizeof(text), text, sizeof(text));
		if (!*text)
			return;
		out_add(o, "setting %s\n", text);
	}
}

int segment_slow(const struct segment *s, char text[SEGMENT_SLOW_TEXT])
{
	const struct segment_engine *e = &s->engine;
	uint64_t n = load_relaxed(&e->count.slow_turns);
	const char *name = opcode_name((uint8_t)load_relaxed(&e->slow_opcode));
	char time[24];
	int len;

	if (!n)
		return 0;
	len = snprintf(text, SEGMENT_SLOW_TEXT, "%llu turns took over 50 ms, the last %s", (ull)n,
		       time_text(load_relaxed(&e->slow_ns), time));
	if (!load_relaxed(&e->slow_opcode) || !name)
		snprintf(text + len, SEGMENT_SLOW_TEXT - (size_t)len,
			 ", for no entry of this side");
	else
		snprintf(text + len, SEGMENT_SLOW_TEXT - (size_t)len, ", for %s, user_data 0x%llx",
			 name, (ull)load_relaxed(&e->slow_user_data));
	return 1;
}

/* ---- latencies ---- */

static const char *latency_text(const struct segment_latency *l, double q, char to[24])
{
	uint64_t ns = segment_quantile(l, q);

	return ns ? time_text(ns, to) : "one turn";
}

static void text_flow(const struct segment *s, uint32_t flow, const char *class, const char *kind,
		      struct out *o)
{
	struct segment_latency l = {0};
	char p50[24], p99[24], most[24];

	segment_latency_add(&l, s, flow);
	if (!l.ended)
		return;
	out_add(o, "%s %s: %llu, %llu bytes; p50 %s, p99 %s, p100 %s\n", class, kind, (ull)l.ended,
		(ull)load_relaxed(&s->engine.flows[flow].bytes), latency_text(&l, 0.5, p50),
		latency_text(&l, 0.99, p99), latency_text(&l, 1, most));
}

static void text_flows(const struct segment *s, struct out *o)
{
	static const char *const classes[SEGMENT_CLASSES] = {"bulk", "latency", "control"};
	static const char *const kinds[SEGMENT_FLOWS] = {
		[SEGMENT_READ] = "reads",
		[SEGMENT_WRITE] = "writes",
		[SEGMENT_NOTIFY] = "notifications",
	};
	uint32_t i;

	for (i = 0; i < SEGMENT_ALL_FLOWS; i++)
		text_flow(s, i, classes[i / SEGMENT_FLOWS], kinds[i % SEGMENT_FLOWS], o);
}

/* ---- peers ---- */

/* Says why a better transport is not used. */
static void text_missed(uint32_t missed, struct out *o)
{
	const char *transport = transport_name(missed & 0xff);
	int err = (int)(missed >> 8);
	const char *why = err ? errno_text(err) : NULL;

	if (!transport)
		return;
	if ((missed & 0xff) == URCCL_TRANSPORT_SHM && err == EHOSTUNREACH)
		why = "its socket is not to be found here; processes of one user on one host, but of "
		      "network namespaces of their own, need a socket_dir that both have";
	else if (!err)
		why = "the peer chose so";
	out_add(o, "  not over %s: %s\n", transport, why ? why : "?");
}

/* Notifications that wait here, and so at their sender too. */
static void text_parked(const struct segment *s, const struct segment_peer *p, uint32_t handle,
			struct out *o)
{
	uint32_t n = load_relaxed(&p->parked), ring = load_relaxed(&p->watched);
	const char *noun = n == 1 ? "notification waits" : "notifications wait";

	if (!ring)
		ring = load_relaxed(&s->engine.watched);
	if (n && ring)
		out_add(o, "  %u %s for event slots of ring %u\n", n, noun, ring);
	else if (n)
		out_add(o, "  no ring watches peer 0x%x; %u %s\n", handle, n, noun);
}

static void text_peer(const struct segment *s, const struct segment_peer *p, struct out *o)
{
	static const char *const peer_states[] = {
		[URCCL_PEER_CONNECTING] = "connecting",
		[URCCL_PEER_UP] = "up",
		[URCCL_PEER_LOST] = "lost",
	};
	uint32_t handle = load_acquire(&p->handle), state = load_relaxed(&p->state);
	const char *transport = transport_name(load_relaxed(&p->transport));
	char name[sizeof(p->name)];

	if (!handle)
		return;
	out_add(o, "peer 0x%x: %s, %s, %s, incarnation %016llx, %llu bytes out, %llu bytes in\n",
		handle, segment_string(p->name, sizeof(p->name), name, sizeof(name)),
		state && state < ARRAY_SIZE(peer_states) ? peer_states[state] : "?",
		transport ? transport : "no transport yet", (ull)load_relaxed(&p->incarnation),
		(ull)load_relaxed(&p->bytes[1]), (ull)load_relaxed(&p->bytes[0]));
	text_missed(load_relaxed(&p->missed), o);
	text_parked(s, p, handle, o);
}

/* ---- rings and their entries ---- */

/* The entries that started first, in order. */
struct oldest {
	uint32_t n;
	struct segment_entry_view e[OLDEST];
};

/* An entry without a time was just taken: newest. */
static int is_older(const struct segment_entry_view *a, const struct segment_entry_view *b)
{
	return a->started_ns - 1 < b->started_ns - 1;
}

static void oldest_add(struct oldest *o, const struct segment_entry_view *v)
{
	uint32_t i;

	if (o->n == OLDEST && !is_older(v, &o->e[OLDEST - 1]))
		return;
	if (o->n < OLDEST)
		o->n++;
	for (i = o->n - 1; i && is_older(v, &o->e[i - 1]); i--)
		o->e[i] = o->e[i - 1];
	o->e[i] = *v;
}

static void text_entry(const struct segment_entry_view *v, uint32_t peer, uint64_t now,
		       struct out *o)
{
	const char *name = opcode_name(v->opcode);
	char ago[24];

	out_add(o, "  entry %u: %s, %s%s%s", v->slot, name ? name : "?",
		segment_state_name(v->state), v->awaits ? " for a word" : "",
		v->stopping ? ", stopping" : "");
	if (peer)
		out_add(o, ", peer 0x%x", peer);
	out_add(o, ", user_data 0x%llx", (ull)v->user_data);
	if (v->started_ns)
		out_add(o, ", since %s", time_text(elapsed(now, v->started_ns), ago));
	else
		out_add(o, ", just taken");
	if (v->total)
		out_add(o, ", %llu of %llu bytes", (ull)v->placed, (ull)v->total);
	out_add(o, "\n");
}

static void text_ring(const struct segment_view *v, const struct segment_ring *r, uint64_t now,
		      struct out *o)
{
	uint32_t id = load_acquire(&r->id), records = segment_ring_records(r), unfinished, i;
	struct oldest old = {.n = 0};
	uint64_t taken, ended;
	struct segment_entry_view e;

	if (!id)
		return;
	for (i = 0; i < records; i++)
		if (segment_entry_get(v, r, i, &e))
			oldest_add(&old, &e);
	segment_ring_counts(r, &taken, &ended);
	unfinished = (uint32_t)(taken - ended);
	out_add(o,
		"ring %u: of %u entries %u unfinished; %u prepared and not submitted, %u submitted "
		"and not taken, %u CQEs not seen\n",
		id, load_relaxed(&r->entries), unfinished, load_relaxed(&r->prepared),
		load_relaxed(&r->waiting), load_relaxed(&r->unseen));
	if (!records)
		out_add(o, "  its entries are not told: the context's rings have more than %u\n",
			SEGMENT_ENTRIES);
	for (i = 0; i < old.n; i++)
		text_entry(&old.e[i], segment_peer_handle(v, old.e[i].peer), now, o);
	if (records && unfinished > old.n)
		out_add(o, "  and %u later ones\n", unfinished - old.n);
}

int segment_text(const struct segment_view *v, uint64_t now_ns, int fd)
{
	uint32_t i, n = segment_npeers(v);
	struct out to = {.fd = fd}, *o = &to;

	text_head(v->s, o);
	text_engine(v->s, now_ns, o);
	text_flows(v->s, o);
	for (i = 0; i < n; i++)
		text_peer(v->s, &v->s->peers[i], o);
	for (i = 0; i < SEGMENT_RINGS; i++)
		text_ring(v, &v->s->rings[i], now_ns, o);
	text_settings(v->s, o);
	return out_end(o);
}
