/* SPDX-License-Identifier: Apache-2.0 */
/* Temporary: calls that the library does not have yet. */
#include "setting.h"
int urccl_params_set(struct urccl_params *p, const char *name, const char *value);
int urccl_listening(struct urccl *ctx, uint32_t i, char *buf, uint32_t len);
int urccl_params_set(struct urccl_params *p, const char *name, const char *value)
{
	for (uint32_t i = 0; i < settings_count; i++)
		if (!strcmp(settings_table[i].name, name))
			return setting_parse(&settings_table[i], value, 0, p);
	return fail(-ENOENT, "no setting %s", name);
}
int urccl_listening(struct urccl *ctx, uint32_t i, char *buf, uint32_t len)
{
	(void)ctx, (void)i, (void)buf, (void)len;
	return -ENOENT;
}
