/* SPDX-License-Identifier: Apache-2.0 */
/* Settings from the environment, by name, and for tools. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "setting.h"

#define OURS	  "URCCL_"
#define NAME_MOST 128u /* bytes of a variable's name that are compared */

/* ---- obsolete variables ---- */

static const struct gone {
	const char *uccl;
	const char *ours;
	const char *why;
} gone[] = {
	{"UCCL_P2P_RDMA_CC", "URCCL_RDMA_CC",
	 "no congestion control runs over a NIC's own; what is on its way is bounded by the "
	 "measured rate"},
	{"UCCL_P2P_RDMA_LINK_GBPS", "URCCL_RDMA_LINK_GBPS", "rates are measured"},
	{"UCCL_P2P_COMPRESS_BUFFER_BYTES", "URCCL_COMPRESS_BUFFER_BYTES",
	 "compression has no arenas of a settable size"},
	{"UCCL_TCP_OOB_PORT", "URCCL_TCP_OOB_PORT", "one port serves all: set URCCL_LISTEN"},
	{"UCCL_TCPX_OOB_PORT", "URCCL_TCPX_OOB_PORT", "one port serves all: set URCCL_LISTEN"},
	{"UCCL_SECRET", "URCCL_SECRET",
	 "an environment is seen by every child, and in /proc: put the secret into a file that "
	 "others cannot read, and name that in URCCL_SECRET_FILE"},
	{"UCCL_EFA_SO", "URCCL_EFA_SO",
	 "transport efa is reached through libfabric: set URCCL_LIBFABRIC_SO"},
	{NULL, "URCCL_CMA",
	 "shm copies memory that is not of urccl_alloc() through its ring, which was as fast as "
	 "process_vm_readv or faster on most processors"},
};

static int check_gone(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(gone); i++) {
		const char *name = getenv(gone[i].ours) ? gone[i].ours : gone[i].uccl;

		if (name && getenv(name))
			return fail(-EINVAL, "%s means nothing to liburccl: %s; unset it", name,
				    gone[i].why);
	}
	return 0;
}

/* ---- unknown variables ---- */

/* The Levenshtein distance from a to b. */
static uint32_t distance(const char *a, size_t len, const char *b)
{
	uint8_t row[NAME_MOST + 1], diagonal, d;
	size_t i, j, blen = strlen(b);

	for (j = 0; j <= blen; j++)
		row[j] = (uint8_t)j;
	for (i = 0; i < len; i++) {
		diagonal = row[0];
		row[0] = (uint8_t)(i + 1);
		for (j = 0; j < blen; j++) {
			d = (uint8_t)(diagonal + (a[i] != b[j]));
			diagonal = row[j + 1];
			if (diagonal + 1 < d)
				d = (uint8_t)(diagonal + 1);
			if (row[j] + 1 < d)
				d = (uint8_t)(row[j] + 1);
			row[j + 1] = d;
		}
	}
	return row[blen];
}

/* The setting with the name nearest to a mistyped one. */
static const struct setting *nearest(const char *name, size_t len)
{
	const struct setting *best = NULL;
	uint32_t i, d, least = UINT32_MAX;
	char lower[NAME_MOST];
	size_t n;

	for (n = 0; n < len && n < NAME_MOST; n++)
		lower[n] = ascii_lower(name[n]);
	for (i = 0; i < settings_count; i++) {
		d = distance(lower, n, settings_table[i].name);
		if (d < least) {
			least = d;
			best = &settings_table[i];
		}
	}
	return best;
}

static int unknown(const char *name, size_t len)
{
	char variable[VARIABLE_MAX];

	setting_variable(nearest(name + strlen(OURS), len - strlen(OURS)), variable);
	return fail(-EINVAL, "%.*s is no setting of liburccl: did you mean %s?", (int)len, name,
		    variable);
}

static int is_setting(const char *name, size_t len)
{
	char variable[VARIABLE_MAX];
	uint32_t i;

	for (i = 0; i < settings_count; i++) {
		setting_variable(&settings_table[i], variable);
		if (strlen(variable) == len && !memcmp(variable, name, len))
			return 1;
	}
	return 0;
}

/* 1: Kubernetes sets it in every pod for a Service named urccl or urccl-something. */
static int is_service(const char *name, size_t len, const char *value)
{
	static const char *const patterns[] = {
		"*_SERVICE_HOST",      "*_SERVICE_PORT",      "*_SERVICE_PORT_*",
		"*_PORT_[0-9]*_TCP",   "*_PORT_[0-9]*_UDP",   "*_PORT_[0-9]*_SCTP",
		"*_PORT_[0-9]*_TCP_*", "*_PORT_[0-9]*_UDP_*", "*_PORT_[0-9]*_SCTP_*",
	};
	char copy[NAME_MOST];
	size_t i;

	if (len >= sizeof(copy))
		return 0;
	memcpy(copy, name, len);
	copy[len] = 0;
	for (i = 0; i < ARRAY_SIZE(patterns); i++)
		if (!fnmatch(patterns[i], copy, 0))
			return 1;
	return !fnmatch("*_PORT", copy, 0) && !fnmatch("[a-z]*://*:[0-9]*", value, 0);
}

static int check_names(void)
{
	char **e;

	for (e = environ; e && *e; e++) {
		size_t len = strcspn(*e, "=");

		if (strncmp(*e, OURS, strlen(OURS)) || is_setting(*e, len) ||
		    is_service(*e, len, *e + len + !!(*e)[len]))
			continue;
		return unknown(*e, len < NAME_MOST ? len : NAME_MOST);
	}
	return 0;
}

/* ---- settings ---- */

static int bad_value(const char *variable, const char *text)
{
	char why[400];

	snprintf(why, sizeof(why), "%s", urccl_errmsg());
	return fail(-EINVAL, "%s=\"%.60s\": %s", variable, text, why);
}

static int setting_fits(const struct setting *row, uint32_t size)
{
	return row->at + row->width * (row->kind == SET_CLASSES ? CLASSES : 1) <= size;
}

static int fail_room(const char *name, const struct setting *row, uint32_t room)
{
	return fail(-EINVAL,
		    "%s is set and cannot be passed on: this program's struct urccl_params has %u "
		    "bytes, %zu are needed: compile it with the header of this library",
		    name, room, row->at + row->width);
}

/* 1: set, 0: not, or -errno. room: size of the program's struct. */
static int from_variable(const struct setting *row, const char *variable, int is_uccl,
			 struct urccl_params *p, uint32_t room)
{
	const char *text = getenv(variable);

	if (!text)
		return 0;
	if (setting_parse(row, text, is_uccl, p))
		return bad_value(variable, text);
	if (!setting_fits(row, room))
		return fail_room(variable, row, room);
	return 1;
}

static int from_env(const struct setting *row, struct urccl_params *p, uint32_t room)
{
	char variable[VARIABLE_MAX];
	int found;

	setting_variable(row, variable);
	found = from_variable(row, variable, 0, p, room);
	if (!found && row->uccl)
		found = from_variable(row, row->uccl, 1, p, room);
	return found < 0 ? found : 0;
}

/* A log level in the environment sends the log to standard error, if it goes nowhere else. */
static void give_log(struct urccl_params *p)
{
	int asked = getenv("URCCL_LOG_LEVEL") || getenv("UCCL_P2P_LOG_LEVEL");

	if (asked && !p->log && p->log_level != URCCL_LOG_NONE)
		p->log = log_stderr;
}

int urccl_params_from_env(struct urccl_params *p)
{
	struct urccl_params all;
	uint32_t i;
	int err;

	if (!p)
		return fail(-EINVAL, "nowhere to put the settings: the pointer for them is NULL");
	settings_defaults(&all);
	err = copy_sized(&all, sizeof(all), p, "struct urccl_params");
	if (!err)
		err = check_gone();
	if (!err)
		err = check_names();
	for (i = 0; i < settings_count && !err; i++)
		err = from_env(&settings_table[i], &all, p->size);
	if (err)
		return err;
	give_log(&all);
	return fill_sized(p, &all, sizeof(all), "struct urccl_params");
}

/* ---- by name ---- */

static const struct setting *setting_of(const char *name)
{
	uint32_t i;

	for (i = 0; i < settings_count; i++)
		if (!strcmp(settings_table[i].name, name))
			return &settings_table[i];
	return NULL;
}

int urccl_params_set(struct urccl_params *p, const char *name, const char *value)
{
	const struct setting *row = name ? setting_of(name) : NULL;
	struct urccl_params all;
	int err;

	if (!p || !name || !value)
		return fail(-EINVAL, "settings, name and value must not be NULL");
	if (!row)
		return fail(-ENOENT, "\"%.60s\" is no setting of liburccl: did you mean \"%s\"?",
			    name, nearest(name, strlen(name))->name);
	settings_defaults(&all);
	err = copy_sized(&all, sizeof(all), p, "struct urccl_params");
	if (!err)
		err = setting_parse(row, value, 0, &all);
	if (!err && !setting_fits(row, p->size))
		err = fail_room(name, row, p->size);
	return err ? err : fill_sized(p, &all, sizeof(all), "struct urccl_params");
}

int urccl_settings(const struct urccl_params *p, uint32_t i, struct urccl_setting *setting)
{
	struct urccl_setting s = {.size = sizeof(s)};
	const struct setting *row;
	struct urccl_params all, defaults;
	int err;

	if (!setting)
		return fail(-EINVAL, "nowhere to put the setting: the pointer for it is NULL");
	if (i >= settings_count)
		return fail(-ENOENT, "there are %u settings", settings_count);
	settings_defaults(&all);
	defaults = all;
	err = p ? copy_sized(&all, sizeof(all), p, "struct urccl_params") : 0;
	if (err)
		return err;
	row = &settings_table[i];
	setting_fill(row, &all);
	s.is_default = (uint32_t)setting_is_default(row, &all);
	s.name = row->name;
	s.about = row->about;
	s.uccl = row->uccl;
	setting_variable(row, s.variable);
	setting_text(row, &all, s.value, sizeof(s.value));
	setting_text(row, &defaults, s.default_value, sizeof(s.default_value));
	return fill_sized(setting, &s, sizeof(s), "struct urccl_setting");
}
