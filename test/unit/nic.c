/* SPDX-License-Identifier: Apache-2.0 */
/* Which RDMA devices and ports a text of rdma_dev means. */
#include "base/base.h"
#include "test.h"

/* With mlx5_1 and mlx5_10, which begin alike. */
static const char *const names[] = {"mlx5_0", "mlx5_1", "mlx5_10", "mlx5_bond_0", "rdmap79s0", "7"};
#define N 6u

/* expected: a letter for each device, '1' or '2' if that port alone is meant, 'x' if both, '.'
 * none. */
static void means(const char *rules, const char *expected)
{
	char got[N + 1] = "";
	uint32_t i;

	CHECK_EQ(nic_rules_check(rules), 0);
	for (i = 0; i < N; i++) {
		int one = nic_matches(rules, names, N, i, 1),
		    two = nic_matches(rules, names, N, i, 2);

		got[i] = one && two ? 'x' : one ? '1' : two ? '2' : '.';
	}
	if (strcmp(got, expected))
		fprintf(stderr, "\"%s\" means %s, not %s\n", rules, got, expected);
	CHECK(!strcmp(got, expected));
}

static void missing_at(const char *rules, uint32_t k, const char *word)
{
	char got[NIC_NAME_MAX + 1] = "";

	CHECK_EQ(nic_missing(rules, names, N, k, got, sizeof(got)), word != NULL);
	CHECK(!strcmp(got, word ? word : ""));
}

static void missing(const char *rules, const char *word)
{
	missing_at(rules, 0, word);
	missing_at(rules, 1, NULL);
}

static void test_words(void)
{
	means("mlx5_0", "x.....");
	/* A whole name is one device, though another begins so. */
	means("mlx5_1", ".x....");
	means("mlx5", "xxxx..");
	means("mlx5_1:2", ".2....");
	means("mlx5:1", "1111..");
	means("mlx5_0:1,mlx5_0:2", "x.....");
	means("mlx5_0, rdmap", "x...x.");
	means(" mlx5_bond_0 ", "...x..");
	means("=mlx5", "......");
	means("=mlx5_10,mlx5_0:2", "2.x...");
	means("^mlx5_1", "x.xxxx");
	means("^mlx5_1:1", "x2xxxx");
	means("^=mlx5", "xxxxxx");
	means("^mlx5", "....xx");
	/* Places, but where a device is called so. */
	means("0,4", "x...x.");
	means("4:1", "....1.");
	means("7", ".....x");
	means("=0", "......");
	means("mlx4", "......");
}

static void test_missing(void)
{
	missing("mlx5_0,mlx5", NULL);
	missing("mlx5_0,mlx4_0:1", "mlx4_0");
	missing("mlx5_0,9", "9");
	missing("=mlx5", "mlx5");
	missing_at("mlx4_1,mlx5_0,9:2", 0, "mlx4_1");
	missing_at("mlx4_1,mlx5_0,9:2", 1, "9");
	missing_at("mlx4_1,mlx5_0,9:2", 2, NULL);
	/* What is not there needs no keeping out. */
	missing("^mlx4_0", NULL);
	CHECK(nic_places("mlx5_0,4") && nic_places("^4:1") && !nic_places("mlx5_0:1"));
	CHECK(!nic_places(NULL) && !nic_places("=4"));
	CHECK(nic_names("mlx5_0") && !nic_names("^mlx5_0") && !nic_names(NULL));
}

/* Letters as above: 'x' for a device that a word means alone. */
static void named(const char *rules, const char *expected)
{
	uint32_t i;

	for (i = 0; i < N; i++)
		CHECK_EQ(nic_named(rules, names, N, i), expected[i] == 'x');
}

static void test_named(void)
{
	named("mlx5_0,mlx5_1:2", "xx....");
	named("mlx5,rdmap79s0", "....x.");
	named("=mlx5_10", "..x...");
	named("0,4:1", "x...x.");
	named("7,=0", ".....x");
	named("^mlx5_1", "......");
}

static void test_refused(void)
{
	static const char *const bad[] = {"",	      ",",	  "mlx5_0,",	"mlx5_0:",
					  "mlx5_0:0", "mlx5_0:x", "mlx5_0:256", "mlx5_0:1:2",
					  ":1",	      "^",	  "=",		"^=",
					  "=^mlx5",   "a b",	  "a/b",	"a,^b",
					  "mlx5_0 :1"};
	char name[NIC_NAME_MAX + 2];
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_EQ(nic_rules_check(bad[i]), -EINVAL);
	memset(name, 'x', sizeof(name));
	name[NIC_NAME_MAX] = 0;
	CHECK_EQ(nic_rules_check(name), 0);
	name[NIC_NAME_MAX] = 'x';
	name[NIC_NAME_MAX + 1] = 0;
	CHECK_EQ(nic_rules_check(name), -EINVAL);
}

int case_nic(void)
{
	test_words();
	test_missing();
	test_named();
	test_refused();
	return 0;
}
