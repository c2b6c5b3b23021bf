/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a context, one row each: as member of struct urccl_params, as environment
 * variable, as text. */
#ifndef SETTING_H
#define SETTING_H

#include "base/base.h"

/* Values of settings that are not given. */
#define DEFAULT_TRANSPORTS "shm?,tcp?"
#define DEFAULT_LISTEN	   "127.0.0.1:0"

#define SETTINGS_MAX 96u

enum setting_kind {
	SET_NUMBER,
	SET_BYTES,   /* a number with an optional suffix k, m or g */
	SET_CHOICE,  /* one of the words */
	SET_TEXT,    /* a string; NULL: not given */
	SET_CLASSES, /* an int16_t for each class */
};

/* A value by name. The words of a row end with one without a name. */
struct word {
	const char *name;
	int64_t value;
};

/* Relative paths are made absolute at open: the program may change its directory later. */
enum setting_path {
	PATH_NONE,
	PATH_FILE, /* but for the word "hwloc" */
	PATH_LIBRARY, /* without a slash it is a name, which dlopen() looks for */
};

struct setting {
	const char *name;	       /* the member; in capitals after URCCL_ the variable */
	const char *uccl;	       /* UCCL's variable, or NULL */
	const struct word *uccl_words; /* words of its values; NULL: as ours */
	const char *about;
	enum setting_kind kind;
	size_t at;    /* in struct urccl_params */
	size_t width; /* bytes of it, or of one of its classes */
	int is_signed;
	int64_t least, most, normal;
	int64_t step;			/* between values; 0: 1 */
	const struct word *words;	/* choices, or names of some numbers; NULL: none */
	int (*check)(const char *text); /* SET_TEXT: 0, or -errno with fail() text */
	const char *otherwise;		/* SET_TEXT: the default, or NULL */
	const char *by_ifname;		/* the default with socket_ifname; NULL: the same */
	uint32_t asks_for;		/* enum urccl_transport that it requires; 0: none */
	enum setting_path path;		/* SET_TEXT: names a file that is used after open */
};

extern const struct setting settings_table[];
extern const uint32_t settings_count;

/* The row's variable: "URCCL_DEADLINE_MS". */
#define VARIABLE_MAX 40u
void setting_variable(const struct setting *row, char name[VARIABLE_MAX]);

/* Numbers, of class cls (0 if the row has no classes). */
int64_t setting_get(const struct setting *row, const struct urccl_params *p, uint32_t cls);
void setting_put(const struct setting *row, struct urccl_params *p, uint32_t cls, int64_t value);
const char *setting_string(const struct setting *row, const struct urccl_params *p);
void setting_put_string(const struct setting *row, struct urccl_params *p, const char *s);

/* Sets all settings to their defaults. */
void settings_defaults(struct urccl_params *p);
/* Replaces 0 by the default if 0 is below the least value. */
void setting_fill(const struct setting *row, struct urccl_params *p);
/* 0, or -EINVAL with fail() text on the possible values. */
int setting_check(const struct setting *row, const struct urccl_params *p);
int setting_is_default(const struct setting *row, const struct urccl_params *p);
/* 1: a setting of this transport alone is given. */
int settings_ask_for(const struct urccl_params *p, uint32_t transport);
/* Parses and checks a value, with UCCL's words if is_uccl. Does not copy a string. */
int setting_parse(const struct setting *row, const char *text, int is_uccl, struct urccl_params *p);
/* Writes the value as setting_parse() takes it: "" for a string that is not set and has no
 * default. */
void setting_text(const struct setting *row, const struct urccl_params *p, char *buf, size_t len);

/* Checks of two strings, in params.c. */
int check_transport(const char *text);
int check_listen(const char *text);

#endif
