/* SPDX-License-Identifier: Apache-2.0 */
/* Shows the library's version, devices, plan and settings in this environment. */
#include "info.h"

#include <stdlib.h>
#include <string.h>

static const char *const states[] = {
	[URCCL_DEVICE_OPEN] = "open",
	[URCCL_DEVICE_FAILED] = "failed",
	[URCCL_DEVICE_NOT_ASKED] = "not asked for",
	[URCCL_DEVICE_NOT_CARRIED] = "not carried out",
};

static void show_devices(struct urccl *ctx, struct json *j)
{
	struct urccl_device d = {.size = sizeof(d)};
	uint32_t i;

	if (j)
		json_open(j, "devices", '[');
	else
		printf("\nDevices\n");
	for (i = 0; !urccl_devices(ctx, i, &d); i++) {
		if (!j) {
			printf("  %-7s %-16s %s\n", d.name, states[d.state], d.reason);
			continue;
		}
		json_open(j, NULL, '{');
		json_text(j, "name", d.name);
		json_text(j, "state", states[d.state]);
		json_whole(j, "error", d.error);
		json_text(j, "reason", d.reason);
		json_close(j, '}');
	}
	if (j)
		json_close(j, ']');
}

/* The whole plan, or NULL; the caller frees it. */
static char *plan_text(struct urccl *ctx)
{
	struct urccl_peer any = {0};
	struct urccl_region none = {0};
	int n = urccl_plan(ctx, any, none, NULL, 0);
	char *text = n < 0 ? NULL : malloc((size_t)n + 1);

	if (text && urccl_plan(ctx, any, none, text, (uint32_t)n + 1) < 0)
		*text = 0;
	return text;
}

static void show_plan(struct urccl *ctx, struct json *j)
{
	char *text = plan_text(ctx), *line, *rest = text;

	if (!text)
		return;
	if (j)
		json_open(j, "plan", '[');
	else
		printf("\nPlan\n");
	while ((line = strsep(&rest, "\n"))) {
		if (*line && j)
			json_text(j, NULL, line);
		else if (*line)
			printf("  %s\n", line);
	}
	if (j)
		json_close(j, ']');
	free(text);
}

/* An empty string that is set differs from one that is not. */
static const char *setting_shown(const struct urccl_setting *s)
{
	if (*s->value)
		return s->value;
	return s->is_default ? "(not given)" : "\"\"";
}

/* Settings that are not the default are marked. */
static void show_settings(const struct urccl_params *p, struct json *j)
{
	struct urccl_setting s = {.size = sizeof(s)};
	uint32_t i;

	if (j)
		json_open(j, "settings", '[');
	else
		printf("\nSettings\n");
	for (i = 0; !urccl_settings(p, i, &s); i++) {
		if (!j) {
			printf("  %-26s %s%s\n", s.variable, setting_shown(&s),
			       s.is_default ? "" : "  (set)");
			continue;
		}
		json_open(j, NULL, '{');
		json_text(j, "name", s.name);
		json_text(j, "value", s.value);
		json_text(j, "default", s.default_value);
		json_whole(j, "is_default", s.is_default);
		json_text(j, "variable", s.variable);
		json_text(j, "uccl", s.uccl ? s.uccl : "");
		json_text(j, "about", s.about);
		json_close(j, '}');
	}
	if (j)
		json_close(j, ']');
}

int show_all(const char *transport, int plan_only, int as_json)
{
	struct urccl_params p = {.size = sizeof(p)};
	struct json out = {.to = stdout}, *j = as_json ? &out : NULL;
	struct urccl *ctx;

	urccl_params_init(&p);
	if (urccl_params_from_env(&p)) {
		fprintf(stderr, "urccl_info: %s\n", urccl_errmsg());
		return INFO_WRONG;
	}
	if (transport)
		p.transport = transport;
	if (urccl_open(&p, &ctx)) {
		fprintf(stderr, "urccl_info: no context can be opened: %s\n", urccl_errmsg());
		return INFO_WRONG;
	}
	if (j) {
		json_open(j, NULL, '{');
		json_text(j, "version", urccl_version());
	} else {
		printf("liburccl %s\n", urccl_version());
	}
	if (!plan_only)
		show_devices(ctx, j);
	if (!plan_only)
		show_gpus(j);
	show_plan(ctx, j);
	if (!plan_only)
		show_settings(&p, j);
	if (j) {
		json_close(j, '}');
		printf("\n");
	}
	urccl_close(ctx);
	return 0;
}
