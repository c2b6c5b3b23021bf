/* SPDX-License-Identifier: Apache-2.0 */
/* Every word that a setting has, ours and those that users of UCCL know, means what it meant there;
 * capitals make no difference. */
#include <stdlib.h>

#include <liburccl/inspect.h>
#include "test.h"

static const struct {
	const char *variable, *word, *told; /* NULL: as it is */
} words[] = {
	{"UCCL_P2P_LOG_LEVEL", "error", NULL},
	{"UCCL_P2P_LOG_LEVEL", "warn", NULL},
	{"UCCL_P2P_LOG_LEVEL", "Warning", "warn"},
	{"UCCL_P2P_LOG_LEVEL", "info", NULL},
	{"UCCL_P2P_LOG_LEVEL", "debug", NULL},
	{"UCCL_P2P_LOG_LEVEL", "FATAL", "none"},
	{"UCCL_P2P_LOG_LEVEL", "none", NULL},
	{"UCCL_RDMA_ADAPTIVE_SLEEP", "0", "forever"},
	{"UCCL_RDMA_ADAPTIVE_SLEEP", "1", "20"},
	{"UCCL_CXI_THREADING", "safe", NULL},
	{"UCCL_CXI_THREADING", "unspec", NULL},
	{"UCCL_CXI_THREADING", "fid", NULL},
	{"UCCL_CXI_THREADING", "domain", NULL},
	{"UCCL_CXI_THREADING", "completion", NULL},
	{"UCCL_CXI_THREADING", "endpoint", NULL},
	{"UCCL_P2P_RDMA_GID_INDEX", "auto", NULL},
	{"UCCL_P2P_RDMA_SL", "auto", NULL},
	{"UCCL_P2P_RDMA_TC", "auto", NULL},
	{"URCCL_RDMA_RETRY_COUNT", "auto", NULL},
	{"URCCL_TCP_DRIVER", "auto", NULL},
	{"URCCL_TCP_DRIVER", "readiness", NULL},
	{"URCCL_TCP_DRIVER", "io_uring", NULL},
	{"URCCL_BOUNCE", "default", NULL},
	{"URCCL_BOUNCE", "0", "no"},
	{"URCCL_BOUNCE", "1", "yes"},
	{"URCCL_BOUNCE", "no", NULL},
	{"URCCL_BOUNCE", "YES", "yes"},
	{"URCCL_ENFORCE", "any", NULL},
	{"URCCL_ENFORCE", "owner", NULL},
};

static struct urccl_setting of(const struct urccl_params *p, const char *variable)
{
	struct urccl_setting s = {.size = sizeof(s)};
	uint32_t i;

	for (i = 0; !urccl_settings(p, i, &s); i++)
		if (!strcmp(s.variable, variable) || (s.uccl && !strcmp(s.uccl, variable)))
			return s;
	CHECK(!"a setting of this variable");
	return s;
}

int case_env_words(void)
{
	struct urccl_params p = {.size = sizeof(p)};
	struct urccl_setting s;
	uint32_t i;

	clearenv();
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		const char *told = words[i].told ? words[i].told : words[i].word;

		urccl_params_init(&p);
		setenv(words[i].variable, words[i].word, 1);
		CHECK_EQ(urccl_params_from_env(&p), 0);
		unsetenv(words[i].variable);
		s = of(&p, words[i].variable);
		if (strcmp(s.value, told))
			fprintf(stderr, "%s=%s is \"%s\"\n", words[i].variable, words[i].word,
				s.value);
		CHECK(!strcmp(s.value, told));
	}
	return 0;
}
