/* SPDX-License-Identifier: Apache-2.0 */
/* Makes sentences of failures. */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>

#include "base/base.h"

static const char *const texts[REASON_LAST] = {
	[REASON_NONE] = "no reason was noted",
#define REASON(name, text) [REASON_##name] = text,
#include "base/reasons.h"
#undef REASON
};

static _Thread_local char errmsg[512];

int fail(int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(errmsg, sizeof(errmsg), fmt, ap);
	va_end(ap);
	return err;
}

const char *urccl_errmsg(void)
{
	return errmsg;
}

/* A sentence under construction. */
struct sentence {
	struct text text;
	/* The errno that the sentence named last. */
	int named;
};

static void text_errno(struct sentence *t, uint64_t arg)
{
	int64_t err = (int64_t)arg < 0 ? -(int64_t)arg : (int64_t)arg;
	const char *name = err > 0 && err < 4096 ? errno_name((int)err) : NULL;

	if (!name) {
		text_add(&t->text, "error %lld", (long long)(int64_t)arg);
		return;
	}
	text_add(&t->text, "%s (%s)", name, errno_text((int)err));
	t->named = (int)err;
}

/* Adds an errno of this process. If the process has met a limit, also names the limit. */
static void text_limit(struct sentence *t, uint64_t arg)
{
	struct rlimit l;

	text_errno(t, arg);
	if (t->named == EMFILE && !getrlimit(RLIMIT_NOFILE, &l))
		text_add(&t->text, ": this process may have %llu descriptors, see ulimit -n",
			 (unsigned long long)l.rlim_cur);
}

static void text_transports(struct sentence *t, uint64_t bits)
{
	const char *sep = "";
	uint32_t i;

	for (i = 0; i < 64; i++) {
		if (!(bits >> i & 1))
			continue;
		if (transport_name(i))
			text_add(&t->text, "%s%s", sep, transport_name(i));
		else
			text_add(&t->text, "%stransport %u", sep, i);
		sep = ", ";
	}
	if (!bits)
		text_add(&t->text, "none");
}

static void text_address(struct sentence *t, const uint64_t arg[3])
{
	const uint8_t *addr = (const uint8_t *)arg;
	unsigned int port = (unsigned int)(arg[2] & 0xffff);
	char text[INET6_ADDRSTRLEN];

	if (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)addr))
		text_add(&t->text, "%s:%u", inet_ntop(AF_INET, addr + 12, text, sizeof(text)),
			 port);
	else
		text_add(&t->text, "[%s]:%u", inet_ntop(AF_INET6, addr, text, sizeof(text)), port);
}

/* Adds the number of addresses if the name has more addresses than are tried. */
static void text_of_many(struct sentence *t, const uint64_t arg[3])
{
	if (arg[2] >> 48)
		text_add(&t->text, ". Its name has %u addresses, of which the first few are tried",
			 (unsigned int)(arg[2] >> 48));
}

/* Adds an errno in the low 16 bits, and above it the codes that device_code() of backend.h
 * stores. */
static void text_device(struct sentence *t, uint64_t arg)
{
	text_errno(t, arg & 0xffff);
	if (arg >> 16)
		text_add(&t->text, ", status %u and the vendor's code 0x%x",
			 (unsigned int)(arg >> 16 & 0xffff), (unsigned int)(arg >> 32));
}

/* Adds the names of the bits of enum urccl_sqe_flags that lie below the class. */
static void text_flags(struct sentence *t, uint64_t flags)
{
	static const char *const names[URCCL_SQE_CLASS_SHIFT] = {
		"LINK",	    "DRAIN", "FENCE",	  "SKIP_SUCCESS", "NO_WAKE", "NOTIFY",
		"CHECKSUM", "ACKED", "NO_REPLAY", "EXT",	  "WATCH",
	};
	const char *sep = "";
	uint32_t i;

	for (i = 0; i < URCCL_SQE_CLASS_SHIFT; i++) {
		if (!(flags >> i & 1))
			continue;
		if (names[i])
			text_add(&t->text, "%sURCCL_SQE_%s", sep, names[i]);
		else
			text_add(&t->text, "%sbit %u", sep, i);
		sep = ", ";
	}
}

/* Adds the name of the field that holds the byte at offset `place` of struct urccl_sqe or, from 64
 * on, of the struct urccl_ext behind it. */
static void text_field(struct sentence *t, uint64_t place)
{
	static const struct {
		uint8_t at;
		const char *name;
	} fields[] = {{0, "opcode"},	  {1, "dtype"},	       {2, "flags"},
		      {4, "deadline_us"}, {8, "user_data"},    {16, "remote (or peer, ring)"},
		      {20, "region"},	  {24, "addr"},	       {32, "len"},
		      {40, "off"},	  {48, "tag"},	       {56, "group"},
		      {60, "reserved"},	  {64, "reserved2"},   {68, "note_len"},
		      {72, "note"},	  {80, "wait_kind"},   {81, "signal_kind"},
		      {82, "codec"},	  {84, "reserved0"},   {88, "wait_ptr"},
		      {96, "wait_value"}, {104, "signal_ptr"}, {112, "signal_value"},
		      {120, "reserved1"}};
	size_t i = ARRAY_SIZE(fields);

	while (--i && fields[i].at > place)
		;
	text_add(&t->text, "%s%s", fields[i].name, place < 64 ? "" : " of the second half");
}

/* Adds a text that the peer or another program made, in quotes. Shows at most as many bytes as n
 * figures hold, and "?" for each byte that is not printable ASCII. */
static void text_quote(struct sentence *t, const uint64_t *arg, size_t n)
{
	const char *s = (const char *)arg;
	size_t size = n * sizeof(*arg), len = strnlen(s, size), i;

	text_add(&t->text, "\"");
	for (i = 0; i < len; i++)
		text_add(&t->text, "%c", s[i] >= ' ' && s[i] <= '~' ? s[i] : '?');
	text_add(&t->text, len == size ? "\"..." : "\"");
}

void text_args(uint64_t *arg, size_t n, const void *text, size_t len)
{
	memset(arg, 0, n * sizeof(*arg));
	memcpy(arg, text, len < n * sizeof(*arg) ? len : n * sizeof(*arg));
}

#define RAILS_NAMED 3u
#define RAIL_BITS   16u
#define ERROR_BITS  8u
/* The system's errors are below it. libfabric's own codes from FABRIC_FIRST on are stored from here
 * on. */
#define ERROR_FABRIC 200u
#define FABRIC_FIRST 256u
#define ERROR_OTHER  255u

/* Packs the last three errors into 48 bits. Each takes a transport and a rail of four bits each and
 * an error of eight; the oldest error is in the highest bits. */
uint64_t rails_arg(uint64_t before, uint32_t transport, uint32_t rail, int err)
{
	uint32_t e = (uint32_t)(err < 0 ? -err : err);
	uint64_t kept = before & ((1ull << (RAILS_NAMED - 1) * RAIL_BITS) - 1);

	if (e >= FABRIC_FIRST && e - FABRIC_FIRST < ERROR_OTHER - ERROR_FABRIC)
		e -= FABRIC_FIRST - ERROR_FABRIC;
	else if (e >= ERROR_FABRIC)
		e = ERROR_OTHER;
	return kept << RAIL_BITS | (transport & 15) << (ERROR_BITS + 4) |
	       (rail & 15) << ERROR_BITS | e;
}

static void text_rail_error(struct sentence *t, uint32_t transport, uint32_t e)
{
	t->named = 0;
	if (e == ERROR_OTHER)
		text_add(&t->text, "an unknown error");
	else
		text_errno(t, e < ERROR_FABRIC ? e : e - ERROR_FABRIC + FABRIC_FIRST);
	if (t->named == EMFILE)
		text_add(&t->text, ": raise ulimit -n %s",
			 transport ? "here and at the peer" : "there");
	if (transport == URCCL_TRANSPORT_SHM && t->named == EACCES)
		text_add(&t->text, ": enforce=owner at one end and bounce=no at the other "
				   "leave it nothing to move bytes by");
}

static void text_rails(struct sentence *t, uint64_t arg)
{
	const char *sep = "";
	uint32_t i;

	for (i = RAILS_NAMED; i-- > 0;) {
		uint32_t one = (uint32_t)(arg >> i * RAIL_BITS) & ((1u << RAIL_BITS) - 1);
		uint32_t rail = one >> ERROR_BITS & 15, transport = one >> (ERROR_BITS + 4);
		const char *name = transport_name(transport);

		if (!one)
			continue;
		text_add(&t->text, "%s%s", sep, name ? name : "the peer");
		if (rail)
			text_add(&t->text, " rail %u", rail - 1);
		text_add(&t->text, ": ");
		text_rail_error(t, transport, one & ((1u << ERROR_BITS) - 1));
		sep = ", ";
	}
	if (!arg)
		text_add(&t->text, "none is left to try");
}

/* Adds the kind of a handle, and the handle itself unless the figure has the kind alone. */
static void text_kind(struct sentence *t, uint32_t handle)
{
	static const char *const kinds[] = {
		[HANDLE_INTERNAL] = "a ring's id",
		[HANDLE_PEER] = "a peer's handle",
		[HANDLE_REGION] = "a region's handle",
		[HANDLE_REMOTE] = "a remote's handle",
	};

	text_add(&t->text, "%s", kinds[HANDLE_KIND(handle)]);
	if (handle != HANDLE_OF_KIND(HANDLE_KIND(handle)))
		text_add(&t->text, " (0x%x)", handle);
}

/* gai_strerror() depends on the locale. */
static const char *gai_text(int err)
{
	switch (err) {
	case EAI_NONAME:
		return "Name or service not known";
	case EAI_AGAIN:
		return "Temporary failure in name resolution";
	case EAI_FAIL:
		return "Non-recoverable failure in name resolution";
	case EAI_MEMORY:
		return "Memory allocation failure";
	case EAI_SYSTEM:
		return "System error";
	default:
		return "No address of the host was found";
	}
}

static void text_figure(struct sentence *t, char kind, uint64_t arg)
{
	switch (kind) {
	case 'f':
		text_flags(t, arg);
		return;
	case 'F':
		text_field(t, arg);
		return;
	case 't':
		text_transports(t, arg);
		return;
	case 'g':
		text_add(&t->text, "%s", gai_text((int)arg));
		return;
	case 'x':
		text_add(&t->text, "0x%llx", (unsigned long long)arg);
		return;
	case 'e':
		text_errno(t, arg);
		return;
	case 'd':
		text_device(t, arg);
		return;
	case 'v':
		text_add(&t->text, "ours are %u to %u, the peer's %u to %u",
			 (unsigned int)(arg & 0xffff), (unsigned int)(arg >> 16 & 0xffff),
			 (unsigned int)(arg >> 32 & 0xffff), (unsigned int)(arg >> 48));
		return;
	case 'l':
		text_limit(t, arg);
		return;
	case 'k':
		text_kind(t, (uint32_t)arg);
		return;
	case 'o':
		if (arg < URCCL_OP_LAST)
			text_add(&t->text, "%s", opcode_name((uint32_t)arg));
		else
			text_add(&t->text, "opcode %llu", (unsigned long long)arg);
		return;
	default:
		text_add(&t->text, "%llu", (unsigned long long)arg);
	}
}

/* Adds the text of the reason with the figures filled in. */
static void text_reason(struct sentence *t, uint32_t reason, const uint64_t args[3])
{
	const char *s = reason < REASON_LAST ? texts[reason] : texts[REASON_NONE];
	int is_address = 0, rails = 0;
	size_t arg = 0;

	for (; *s; s++) {
		if (*s != '%' || !s[1] || arg == 3) {
			text_add(&t->text, "%c", *s);
		} else if (*++s == 'a') {
			text_address(t, args);
			is_address = 1;
		} else if (*s == 'q') {
			text_quote(t, args + arg, 3 - arg);
			arg = 3;
		} else if (*s == 'p') {
			text_rails(t, args[2] >> 16);
			rails = 1;
		} else if (*s == 'h') {
			text_errno(t, args[2] >> 32 & 0xffff);
		} else {
			text_figure(t, *s, args[arg++]);
		}
	}
	if (is_address && !rails)
		text_of_many(t, args);
}

int fail_errno(int err, const char *what)
{
	struct sentence t = {.text = {errmsg, sizeof(errmsg), 0}};

	text_add(&t.text, "%s: ", what);
	text_limit(&t, (uint64_t) - (int64_t)err);
	return err;
}

int fail_reason(int err, uint32_t reason, const uint64_t arg[3])
{
	struct sentence t = {.text = {errmsg, sizeof(errmsg), 0}};

	text_reason(&t, reason, arg);
	return err;
}

/* Returns the noun for the record's segment. NULL: an entry of one segment need not name it. */
static const char *segment_noun(uint8_t opcode)
{
	switch (opcode) {
	case URCCL_OP_READV:
	case URCCL_OP_WRITEV:
		return "segment";
	case URCCL_OP_READ_PAGED:
	case URCCL_OP_WRITE_PAGED:
		return "block";
	default:
		return NULL;
	}
}

/* Adds the beginning of the sentence: operation, peer, transport, time, segment. For example
 * "writev, peer 10.0.0.2:7777, over tcp, after 50 us, segment 3: ". */
static void text_subject(struct sentence *t, const struct failure *f, const char *peer_name)
{
	const char *noun = segment_noun(f->opcode), *transport = transport_name(f->transport);

	/* The text of its reason has a subject of its own. */
	if (f->opcode == URCCL_OP_UNPREPARED)
		return;
	if (f->opcode < URCCL_OP_LAST)
		text_add(&t->text, "%s", opcode_name(f->opcode));
	else
		text_add(&t->text, "opcode %u", f->opcode);
	if (peer_name)
		text_add(&t->text, ", peer %s", peer_name);
	else if (f->peer)
		text_add(&t->text, ", peer handle 0x%x", f->peer);
	if (transport)
		text_add(&t->text, ", over %s", transport);
	if (f->after_us)
		text_add(&t->text, ", after %u us", f->after_us);
	if (noun && f->segment != UINT32_MAX)
		text_add(&t->text, ", %s %u", noun, f->segment);
	text_add(&t->text, ": ");
}

static int text_end(const struct text *t)
{
	if (t->size)
		t->buf[t->len < t->size ? t->len : t->size - 1] = 0;
	return (int)t->len;
}

int failure_text(const struct failure *f, const char *peer_name, char *buf, size_t len)
{
	struct sentence t = {.text = {buf, len, 0}};
	const char *name = f->res < 0 && f->res > -4096 ? errno_name(-f->res) : NULL;

	text_subject(&t, f, peer_name);
	text_reason(&t, f->reason, f->arg);
	if (name && t.named != -f->res)
		text_add(&t.text, " (%s)", name);
	return text_end(&t.text);
}

int reason_text(uint32_t reason, const uint64_t arg[3], char *buf, size_t len)
{
	struct sentence t = {.text = {buf, len, 0}};

	text_reason(&t, reason, arg);
	return text_end(&t.text);
}
