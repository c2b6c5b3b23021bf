/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a context, one row each: as member of struct urccl_params, as environment
 * variable, as text. */
#ifndef SETTING_H
#define SETTING_H

#include "base/base.h"

/* What is so where nothing is given. */
#define DEFAULT_TRANSPORTS "shm?,tcp?"
#define DEFAULT_LISTEN	   "127.0.0.1:0"

#define SETTINGS_MAX 96u

enum setting_kind {
	SET_NUMBER,
	SET_BYTES,   /* a number that may have k, m or g behind it */
	SET_CHOICE,  /* one of the words */
	SET_TEXT,    /* a string; NULL: not given */
	SET_CLASSES, /* an int16_t for each class */
};

/* A value by name. The words of a row end with one without a name. */
struct word {
	const char *name;
	int64_t value;
};

struct setting {
	const char *name;	       /* the member; in capitals behind URCCL_ the variable */
	const char *uccl;	       /* UCCL's variable, or NULL */
	const struct word *uccl_words; /* what its values mean; NULL: the same */
	const char *about;
	enum setting_kind kind;
	size_t at;    /* in struct urccl_params */
	size_t width; /* bytes of it, or of one of its classes */
	int is_signed;
	int64_t least, most, normal;
	int64_t step;			/* between values; 0: 1 */
	const struct word *words;	/* choices, or names of some numbers; NULL: none */
	int (*check)(const char *text); /* SET_TEXT: 0, or -errno with fail() text */
	const char *otherwise;		/* likewise: what not given means, where a text says it */
	const char *by_ifname;		/* that where socket_ifname is given; NULL: the same */
	uint32_t asks_for;		/* enum urccl_transport that giving it asks for; 0: none */
};

extern const struct setting settings_table[];
extern const uint32_t settings_count;

/* The row's variable: "URCCL_DEADLINE_MS". */
#define VARIABLE_MAX 40u
void setting_variable(const struct setting *row, char name[VARIABLE_MAX]);

/* Numbers, of class cls (0 where it has none). */
int64_t setting_get(const struct setting *row, const struct urccl_params *p, uint32_t cls);
void setting_put(const struct setting *row, struct urccl_params *p, uint32_t cls, int64_t value);
const char *setting_string(const struct setting *row, const struct urccl_params *p);
void setting_put_string(const struct setting *row, struct urccl_params *p, const char *s);

/* All of the table as it is when nobody says anything. */
void settings_defaults(struct urccl_params *p);
/* 0 where it makes no sense becomes the default. */
void setting_fill(const struct setting *row, struct urccl_params *p);
/* 0, or -EINVAL with fail() text that says what is possible. */
int setting_check(const struct setting *row, const struct urccl_params *p);
int setting_is_default(const struct setting *row, const struct urccl_params *p);
/* One that is this transport's alone is given. */
int settings_ask_for(const struct urccl_params *p, uint32_t transport);
/* Reads a value from text, words of UCCL's if is_uccl; checks it too. A string is not copied. */
int setting_parse(const struct setting *row, const char *text, int is_uccl, struct urccl_params *p);
/* The value as setting_parse() takes it; a string that is not given and means no other is "". */
void setting_text(const struct setting *row, const struct urccl_params *p, char *buf, size_t len);

/* Of some texts. */
int check_transport(const char *text);
int check_listen(const char *text);

#endif
