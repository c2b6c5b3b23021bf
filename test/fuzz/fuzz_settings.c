/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator writes into the environment: any text for any setting. What is taken is in
 * range, reads back as it was, and is taken again; what is not leaves the settings as they were. */
#include <stdio.h>
#include <stdlib.h>
#include "params.h"

#define TEXT_MAX 512u

static void check(int ok)
{
	if (!ok)
		abort();
}

static void one(const struct setting *row, const char *text, int is_uccl)
{
	struct urccl_params p, before, again;
	char shown[TEXT_MAX + 64];

	settings_defaults(&p);
	before = p;
	if (setting_parse(row, text, is_uccl, &p)) {
		check(!memcmp(&p, &before, sizeof(p)));
		check(*urccl_errmsg() != 0);
		return;
	}
	check(!setting_check(row, &p));
	setting_text(row, &p, shown, sizeof(shown));
	settings_defaults(&again);
	check(!setting_parse(row, shown, 0, &again));
	if (row->kind == SET_TEXT)
		check(!strcmp(setting_string(row, &p), setting_string(row, &again)));
	else
		check(!memcmp(&p, &again, sizeof(p)));
}

/* A device is meant or kept out; and a word that means none stands in the text. */
static void nics(const char *text)
{
	static const char *const names[] = {"mlx5_0", "mlx5_1", "mlx5_10", "rdmap79s0"};
	char word[NIC_NAME_MAX + 1], other[TEXT_MAX + 1];
	uint32_t i;

	if (nic_rules_check(text))
		return;
	snprintf(other, sizeof(other), "^%s", text);
	for (i = 0; i < ARRAY_SIZE(names) && *text != '^' && *text != ' ' && *text != '\t'; i++)
		check(nic_matches(text, names, 4, i, 1) != nic_matches(other, names, 4, i, 1));
	for (i = 0; nic_missing(text, names, 4, i, word, sizeof(word)); i++)
		check(strstr(text, word) != NULL);
}

static void parsers(const char *text)
{
	struct sockaddr_storage at[LISTEN_MAX];
	struct transports t;
	struct class_words w;
	struct cpus cpus;
	uint32_t i, n = 0;
	int listens;

	if (!cpus_parse(text, &cpus)) {
		for (i = 0; i < ARRAY_SIZE(cpus.bits); i++)
			n += cpus.bits[i] != 0;
		check(n);
		check(cpus_missing(&cpus, &cpus) == -ENOENT);
	}
	if (!classes_split(text, &w))
		for (i = 0; i < CLASSES; i++)
			check(!w.at[i] || (w.at[i] >= text && w.len[i] &&
					   w.at[i] + w.len[i] <= text + strlen(text)));
	if (!transports_parse(text, &t))
		check(t.n && t.n <= TRANSPORTS_MAX);
	nics(text);
	listens = listen_parse(text, at);
	check(listens && listens <= (int)LISTEN_MAX);
	for (; listens > 0; listens--)
		check(at[listens - 1].ss_family != AF_UNSPEC);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte chooses the setting. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct setting *row;
	char text[TEXT_MAX];

	if (size < 2 || size > TEXT_MAX)
		return 0;
	memcpy(text, data + 1, size - 1);
	text[size - 1] = 0;
	row = &settings_table[*data % settings_count];
	one(row, text, 0);
	if (row->uccl)
		one(row, text, 1);
	parsers(text);
	return 0;
}
