/* SPDX-License-Identifier: Apache-2.0 */
/* Settings that each class of entries has for itself: "x" for all, or "bulk:x,latency:y". */
#include "base/base.h"

static const char *const names[CLASSES] = {
	[URCCL_CLASS_BULK] = "bulk",
	[URCCL_CLASS_LATENCY] = "latency",
	[URCCL_CLASS_CONTROL] = "control",
};

const char *class_name(uint32_t cls)
{
	return cls < CLASSES ? names[cls] : NULL;
}

static int class_parse(const char *text, size_t len)
{
	uint32_t i;

	for (i = 0; i < CLASSES; i++)
		if (strlen(names[i]) == len && !memcmp(names[i], text, len))
			return (int)i;
	return -EINVAL;
}

int classes_split(const char *text, struct class_words *w)
{
	size_t name, len;
	uint32_t i;
	int cls;

	memset(w, 0, sizeof(*w));
	if (!strchr(text, ':')) {
		for (i = 0; i < CLASSES; i++) {
			w->at[i] = text;
			w->len[i] = strlen(text);
		}
		return *text && !strchr(text, ',') ? 0 : -EINVAL;
	}
	for (;; text += len + 1) {
		name = strcspn(text, ":,");
		cls = text[name] == ':' ? class_parse(text, name) : -EINVAL;
		if (cls < 0 || w->at[cls])
			return -EINVAL;
		text += name + 1;
		len = strcspn(text, ":,");
		if (!len || text[len] == ':')
			return -EINVAL;
		w->at[cls] = text;
		w->len[cls] = len;
		if (!text[len])
			return 0;
	}
}
