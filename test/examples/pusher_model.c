/* SPDX-License-Identifier: Apache-2.0 */
/* config.json of several kinds of models: laid out right, or refused by the name of what is in
 * the way. */
#include <string.h>
#include "pusher.h"
#include "test.h"

static const char *write_config(const char *text)
{
	static char name[] = "/tmp/pusher_model.XXXXXX";
	static int fd = -1;

	if (fd < 0)
		fd = mkstemp(name);
	CHECK(fd >= 0);
	CHECK(ftruncate(fd, 0) == 0);
	CHECK_EQ(pwrite(fd, text, strlen(text), 0), strlen(text));
	return name;
}

static int load(const char *text, const char *kv_dtype, struct shape *s, struct problem *p)
{
	struct options o = {.page = 16,
			    .kv_dtype = kv_dtype,
			    .model = text ? write_config(text) : NULL};

	return model_load(&o, s, p);
}

static void laid_out(const char *text, struct shape want)
{
	struct problem p;
	struct shape s;

	if (load(text, NULL, &s, &p)) {
		fprintf(stderr, "%s\n", p.text);
		test_end(1);
	}
	want.page = 16;
	CHECK_EQ(s.layers, want.layers);
	CHECK_EQ(s.heads, want.heads);
	CHECK_EQ(s.dim, want.dim);
	CHECK_EQ(s.elt, want.elt);
	CHECK_EQ(s.planes, want.planes);
	CHECK(shape_equal(&s, &want));
}

static void refused(const char *text, const char *kv_dtype, const char *name)
{
	struct problem p;
	struct shape s;

	CHECK_EQ(load(text, kv_dtype, &s, &p), -1);
	if (!strstr(p.text, name)) {
		fprintf(stderr, "\"%s\" does not name %s\n", p.text, name);
		test_end(1);
	}
}

#define GQA "\"num_hidden_layers\": 4, \"num_attention_heads\": 8, \"hidden_size\": 512"

int main(void)
{
	struct problem p;
	struct shape s;

	laid_out(NULL, (struct shape){.layers = 24, .planes = 2, .heads = 2, .dim = 64, .elt = 2});
	laid_out("{" GQA ", \"num_key_value_heads\": 2, \"torch_dtype\": \"float32\"}",
		 (struct shape){.layers = 4, .planes = 2, .heads = 2, .dim = 64, .elt = 4});
	laid_out("{" GQA ", \"dtype\": \"torch.bfloat16\", \"head_dim\": null}",
		 (struct shape){.layers = 4, .planes = 2, .heads = 8, .dim = 64, .elt = 2});
	laid_out("{\"torch_dtype\": \"float16\", \"num_hidden_layers\": 99, \"text_config\": {" GQA
		 ", \"head_dim\": 128, \"num_key_value_heads\": 4}}",
		 (struct shape){.layers = 4, .planes = 2, .heads = 4, .dim = 128, .elt = 2});
	laid_out("{" GQA
		 ", \"dtype\": \"bfloat16\", \"kv_lora_rank\": 512, \"qk_rope_head_dim\": 64}",
		 (struct shape){.layers = 4, .planes = 1, .heads = 1, .dim = 576, .elt = 2});
	laid_out(
		"{" GQA
		", \"dtype\": \"bfloat16\", \"layer_types\": [\"full_attention\", \"sliding_attention\"]}",
		(struct shape){.layers = 4, .planes = 2, .heads = 8, .dim = 64, .elt = 2});

	laid_out("{" GQA ", \"dtype\": \"bfloat16\", \"multi_query\": false, \"use_cla\": false,"
		 " \"attn_type_list\": [1, 1, 1, 1]}",
		 (struct shape){.layers = 4, .planes = 2, .heads = 8, .dim = 64, .elt = 2});

	CHECK_EQ(load("{" GQA ", \"dtype\": \"bfloat16\"} \r\n\n", "fp8", &s, &p), 0);
	CHECK_EQ(s.elt, 1);
	CHECK_EQ(shape_token_bytes(&s), 4 * 2 * 8 * 64);

	refused("{" GQA "}", NULL, "torch_dtype");
	refused("{" GQA ", \"dtype\": \"int4\"}", NULL, "int4");
	refused("{" GQA "}", "fp12", "fp12");
	refused("{\"num_hidden_layers\": 4}", "bf16", "num_attention_heads");
	refused("{\"num_attention_heads\": 4}", "bf16", "num_hidden_layers");
	refused("{\"num_hidden_layers\": 4, \"num_attention_heads\": 7, \"hidden_size\": 512}",
		"bf16", "hidden_size");
	refused("{" GQA ", \"num_key_value_heads\": [1, 2, 4, 8]}", "bf16", "num_key_value_heads");
	refused("{" GQA ", \"num_key_value_heads\": -1}", "bf16", "num_key_value_heads");
	refused("{" GQA ", \"layer_types\": [\"linear_attention\"]}", "bf16", "linear_attention");
	refused("{" GQA ", \"mamba_d_state\": 16}", "bf16", "mamba_d_state");
	refused("{" GQA ", \"linear_attn_config\": {\"kda_layers\": [1]}}", "bf16",
		"linear_attn_config");
	refused("{" GQA ", \"full_attn_idxs\": [2]}", "bf16", "full_attn_idxs");
	refused("{" GQA ", \"attn_type_list\": [1, 0, 0, 1]}", "bf16", "attn_type_list");
	refused("{" GQA ", \"multi_query\": true}", "bf16", "multi_query");
	refused("{" GQA ", \"multi_query_group_num\": 2}", "bf16", "multi_query_group_num");
	refused("{" GQA ", \"num_kv_heads\": 8}", "bf16", "num_kv_heads");
	refused("{" GQA ", \"n_head_kv\": 8}", "bf16", "n_head_kv");
	refused("{\"text_config\": {" GQA ", \"num_attention_groups\": 1}}", "bf16",
		"num_attention_groups");
	refused("{" GQA ", \"swa_num_key_value_heads\": 4}", "bf16", "swa_num_key_value_heads");
	refused("{" GQA ", \"use_cla\": true}", "bf16", "use_cla");
	refused("{" GQA ", \"is_encoder_decoder\": true}", "bf16", "is_encoder_decoder");
	refused("{" GQA ", \"kv_lora_rank\": 512}", "bf16", "qk_rope_head_dim");
	refused("{" GQA ", \"v_head_dim\": 128}", "bf16", "v_head_dim");
	refused("{" GQA, "bf16", "too early");
	refused("{" GQA "} x", "bf16", "not JSON");
	refused("{" GQA "}\n{" GQA "}\n", "bf16", "not JSON");
	refused("[]", "bf16", "object");
	refused("not json", "bf16", "not JSON");
	unlink(write_config(""));
	return 0;
}
