/* SPDX-License-Identifier: Apache-2.0 */
/* A Hugging Face config.json into the shape of the model's KV cache. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <json-c/json.h>
#include "pusher.h"

struct config {
	struct json_object *root, *text; /* text_config of a multimodal model, or NULL */
	const char *name;
};

/* Members with null are as good as none. */
static struct json_object *member(const struct config *c, const char *name)
{
	struct json_object *v;

	if (c->text && json_object_object_get_ex(c->text, name, &v) && v)
		return v;
	if (json_object_object_get_ex(c->root, name, &v))
		return v;
	return NULL;
}

/* A positive whole number up to max; 0 in *out if it is not there. */
static int number(const struct config *c, const char *name, uint32_t max, uint32_t *out,
		  struct problem *p)
{
	struct json_object *v = member(c, name);
	int64_t n;

	*out = 0;
	if (!v)
		return 0;
	if (!json_object_is_type(v, json_type_int))
		return problem(p, "%s: cannot lay out \"%s\": %s, it is not one number", c->name,
			       name,
			       json_object_is_type(v, json_type_array) ? "a list"
								       : json_object_get_string(v));
	n = json_object_get_int64(v);
	if (n < 1 || n > max)
		return problem(p, "%s: \"%s\" is %lld, not between 1 and %u", c->name, name,
			       (long long)n, max);
	*out = (uint32_t)n;
	return 0;
}

static int required(const struct config *c, const char *name, uint32_t max, uint32_t *out,
		    struct problem *p)
{
	if (number(c, name, max, out, p))
		return -1;
	return *out ? 0 : problem(p, "%s: no \"%s\"", c->name, name);
}

/* ---- what has no KV cache of one tensor a layer ---- */

#define STATE  "it has layers that keep a state and no KV cache"
#define VARIES "its layers differ in shape"
#define SHARED "some of its layers use another layer's cache"
#define HEADS  "it says by another name than \"num_key_value_heads\" how many KV heads it has"

static const struct {
	const char *name, *why;
} refused[] = {
	{"attn_layer_period", STATE},
	{"block_types", STATE},
	{"full_attention_interval", STATE},
	{"full_attn_idxs", STATE},
	{"hybrid_override_pattern", STATE},
	{"layers_block_type", STATE},
	{"linear_attn_config", STATE},
	{"linear_conv_kernel_dim", STATE},
	{"mamba_d_state", STATE},
	{"ssm_cfg", STATE},
	{"state_size", STATE},
	{"block_configs", VARIES},
	{"global_head_dim", VARIES},
	{"num_kv_heads_per_layer", VARIES},
	{"num_key_value_heads_per_layer", VARIES},
	{"swa_num_key_value_heads", VARIES},
	{"multi_query", HEADS},
	{"multi_query_group_num", HEADS},
	{"n_head_kv", HEADS},
	{"num_attention_groups", HEADS},
	{"num_kv_heads", HEADS},
	{"num_kv_shared_layers", SHARED},
	{"use_cla", SHARED},
	{"cross_attention_layers", "it has cross-attention layers, whose cache is another"},
	{"index_head_dim", "its sparse attention has an indexer cache beside the KV cache"},
};

static bool is_set(struct json_object *v)
{
	if (!v)
		return false;
	if (json_object_is_type(v, json_type_array))
		return json_object_array_length(v) > 0;
	if (json_object_is_type(v, json_type_int))
		return json_object_get_int64(v) != 0;
	return !json_object_is_type(v, json_type_boolean) || json_object_get_boolean(v);
}

static int check_layer_types(const struct config *c, struct problem *p)
{
	struct json_object *types = member(c, "layer_types");
	size_t i;

	if (!types || !json_object_is_type(types, json_type_array))
		return 0;
	for (i = 0; i < json_object_array_length(types); i++) {
		const char *type = json_object_get_string(json_object_array_get_idx(types, i));

		/* A window only limits which pages are read. */
		if (!type || (strcmp(type, "full_attention") && strcmp(type, "sliding_attention") &&
			      strcmp(type, "chunked_attention")))
			return problem(p, "%s: cannot lay out \"layer_types\": layer %zu is \"%s\"",
				       c->name, i, type ? type : "null");
	}
	return 0;
}

/* The same by numbers: 1 is attention. */
static int check_attn_types(const struct config *c, struct problem *p)
{
	struct json_object *types = member(c, "attn_type_list");
	size_t i;

	if (!types || !json_object_is_type(types, json_type_array))
		return 0;
	for (i = 0; i < json_object_array_length(types); i++)
		if (json_object_get_int64(json_object_array_get_idx(types, i)) != 1)
			return problem(p, "%s: cannot lay out \"attn_type_list\": %s", c->name,
				       STATE);
	return 0;
}

static int check_refused(const struct config *c, struct problem *p)
{
	struct json_object *v = member(c, "is_encoder_decoder");
	size_t i;

	if (v && json_object_get_boolean(v))
		return problem(
			p,
			"%s: cannot lay out \"is_encoder_decoder\": its cross-attention has a cache"
			" of its own",
			c->name);
	for (i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		if (is_set(member(c, refused[i].name)))
			return problem(p, "%s: cannot lay out \"%s\": %s", c->name, refused[i].name,
				       refused[i].why);
	return check_layer_types(c, p) || check_attn_types(c, p) ? -1 : 0;
}

/* ---- shapes ---- */

static const struct {
	const char *name;
	uint32_t bytes;
} dtypes[] = {
	{"bf16", 2},	 {"bfloat16", 2}, {"fp16", 2},		{"float16", 2},
	{"half", 2},	 {"fp32", 4},	  {"float32", 4},	{"fp8", 1},
	{"fp8_e4m3", 1}, {"fp8_e5m2", 1}, {"float8_e4m3fn", 1}, {"float8_e5m2", 1},
};

static int dtype_bytes(const char *name, uint32_t *bytes)
{
	size_t i;

	for (i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
		if (!strcmp(name, dtypes[i].name)) {
			*bytes = dtypes[i].bytes;
			return 0;
		}
	}
	return -1;
}

static int get_dtype(const struct config *c, const char *kv_dtype, uint32_t *bytes,
		     struct problem *p)
{
	struct json_object *v = member(c, "torch_dtype");
	const char *name;

	if (kv_dtype) {
		if (dtype_bytes(kv_dtype, bytes))
			return problem(p, "--kv-dtype %s: not one of bf16, fp16, fp32, fp8",
				       kv_dtype);
		return 0;
	}
	if (!v)
		v = member(c, "dtype");
	if (!v)
		return problem(p, "%s: neither \"torch_dtype\" nor \"dtype\": give --kv-dtype",
			       c->name);
	name = json_object_get_string(v);
	if (!strncmp(name, "torch.", 6))
		name += 6;
	if (dtype_bytes(name, bytes))
		return problem(p, "%s: cannot lay out the type \"%s\": give --kv-dtype", c->name,
			       name);
	return 0;
}

/* The latent of MLA: one vector a token that all heads share. */
static int get_mla(const struct config *c, uint32_t rank, struct shape *s, struct problem *p)
{
	uint32_t rope;

	if (required(c, "qk_rope_head_dim", 8192, &rope, p))
		return -1;
	s->planes = 1;
	s->heads = 1;
	s->dim = rank + rope;
	return 0;
}

static int get_heads(const struct config *c, struct shape *s, struct problem *p)
{
	uint32_t heads, hidden, v_dim;

	if (required(c, "num_attention_heads", 4096, &heads, p) ||
	    number(c, "num_key_value_heads", 4096, &s->heads, p) ||
	    number(c, "head_dim", 8192, &s->dim, p) || number(c, "v_head_dim", 8192, &v_dim, p))
		return -1;
	s->planes = 2;
	if (!s->heads)
		s->heads = heads;
	if (!s->dim) {
		if (required(c, "hidden_size", 1u << 20, &hidden, p))
			return -1;
		if (hidden % heads)
			return problem(
				p,
				"%s: no \"head_dim\", and \"hidden_size\" %u is no multiple of"
				" \"num_attention_heads\" %u",
				c->name, hidden, heads);
		s->dim = hidden / heads;
	}
	if (v_dim && v_dim != s->dim)
		return problem(p, "%s: cannot lay out \"v_head_dim\": V is %u wide and K %u",
			       c->name, v_dim, s->dim);
	return 0;
}

static int get_shape(const struct config *c, const struct options *o, struct shape *s,
		     struct problem *p)
{
	uint32_t rank;

	memset(s, 0, sizeof(*s));
	s->page = o->page;
	s->hnd = o->hnd;
	if (check_refused(c, p) || required(c, "num_hidden_layers", 1024, &s->layers, p) ||
	    get_dtype(c, o->kv_dtype, &s->elt, p) || number(c, "kv_lora_rank", 8192, &rank, p))
		return -1;
	return rank ? get_mla(c, rank, s, p) : get_heads(c, s, p);
}

/* ---- the file ---- */

static struct json_object *parse(const char *name, const char *text, size_t len, struct problem *p)
{
	struct json_tokener *tok = json_tokener_new();
	struct json_object *root = tok ? json_tokener_parse_ex(tok, text, (int)len) : NULL;
	enum json_tokener_error error = tok ? json_tokener_get_error(tok) : json_tokener_error_size;
	size_t end = tok ? json_tokener_get_parse_end(tok) : 0;
	const char *nul = memchr(text, 0, len);
	int res = 0;

	while (end < len && strchr(" \t\r\n", text[end]))
		end++;
	if (nul)
		res = problem(p, "%s: not JSON: byte %zu is NUL", name, (size_t)(nul - text) + 1);
	else if (!root)
		res = problem(p, "%s: not JSON: %s", name,
			      error == json_tokener_continue ? "it ends too early"
							     : json_tokener_error_desc(error));
	else if (end != len)
		res = problem(p, "%s: not JSON: more behind its end", name);
	else if (!json_object_is_type(root, json_type_object))
		res = problem(p, "%s: not a JSON object", name);
	if (tok)
		json_tokener_free(tok);
	if (!res)
		return root;
	json_object_put(root);
	return NULL;
}

#define CONFIG_MAX (1u << 20)

static struct json_object *parse_file(const char *name, struct problem *p)
{
	FILE *f = fopen(name, "re");
	struct json_object *root = NULL;
	char *text;
	size_t len;

	if (!f) {
		problem(p, "%s: %s", name, strerror(errno));
		return NULL;
	}
	text = malloc(CONFIG_MAX);
	len = text ? fread(text, 1, CONFIG_MAX, f) : 0;
	if (!text || ferror(f))
		problem(p, "%s: %s", name, strerror(errno));
	else if (len == CONFIG_MAX)
		problem(p, "%s: too long for a config.json", name);
	else
		root = parse(name, text, len, p);
	free(text);
	fclose(f);
	return root;
}

int model_load(const struct options *o, struct shape *s, struct problem *p)
{
	struct config c = {.name = o->model ? o->model : "the built-in model"};
	int res;

	c.root = o->model ? parse_file(o->model, p)
			  : parse(c.name, builtin_model,
				  (size_t)(builtin_model_end - builtin_model), p);
	if (!c.root)
		return -1;
	if (json_object_object_get_ex(c.root, "text_config", &c.text) &&
	    !json_object_is_type(c.text, json_type_object))
		c.text = NULL;
	res = get_shape(&c, o, s, p);
	json_object_put(c.root);
	return res;
}
