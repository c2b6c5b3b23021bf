/* SPDX-License-Identifier: Apache-2.0 */
/* A handle names its object and never another one, through every generation of its slot. */
#include "base/base.h"
#include "test.h"

static void test_names(void)
{
	struct handles h;
	int objects[3];
	uint32_t ids[3], i;

	CHECK_EQ(handles_init(&h, 3, HANDLE_PEER), 0);
	for (i = 0; i < 3; i++) {
		ids[i] = handles_add(&h, &objects[i]);
		CHECK(ids[i]);
	}
	CHECK_EQ(handles_add(&h, objects), 0);
	for (i = 0; i < 3; i++)
		CHECK(handles_get(&h, ids[i]) == &objects[i]);
	CHECK(!handles_get(&h, 0));
	CHECK(!handles_get(&h, ids[1] + (1u << HANDLE_SLOT_BITS)));
	CHECK(!handles_get(&h, UINT32_MAX));

	handles_del(&h, ids[1]);
	handles_del(&h, ids[1]);
	CHECK(!handles_get(&h, ids[1]));
	i = handles_add(&h, &objects[2]);
	CHECK_NE(i, ids[1]);
	CHECK_EQ(HANDLE_SLOT(i), HANDLE_SLOT(ids[1]));
	CHECK(!handles_get(&h, ids[1]));
	CHECK_EQ(handles_add(&h, objects), 0);
	handles_fini(&h);
}

/* One live object at a time, for longer than three slots last: no handle comes twice. */
static void test_retirement(enum handle_kind kind)
{
	const uint32_t generations = kind ? 1023 : 4095;
	static uint8_t seen[4][4096];
	struct handles h;
	uint32_t i, id, last = 0;
	int object;

	memset(seen, 0, sizeof(seen));
	CHECK_EQ(handles_init(&h, 1, kind), 0);
	for (i = 0; i < 3 * generations + 1; i++) {
		id = handles_add(&h, &object);
		CHECK(id);
		CHECK(HANDLE_SLOT(id) < 4);
		CHECK(!kind || HANDLE_KIND(id) == kind);
		CHECK(!seen[HANDLE_SLOT(id)][id >> HANDLE_SLOT_BITS]++);
		CHECK(!handles_get(&h, last));
		CHECK(handles_get(&h, id) == &object);
		CHECK_EQ(handles_add(&h, &object), 0);
		handles_del(&h, id);
		last = id;
	}
	CHECK_EQ(h.retired, 3);
	handles_fini(&h);
}

/* The table grows to its maximum and no further. */
static void test_growth(void)
{
	struct handles h;
	uint32_t i;

	CHECK_EQ(handles_init(&h, 5000, HANDLE_INTERNAL), 0);
	for (i = 0; i < 5000; i++)
		CHECK_EQ(HANDLE_SLOT(handles_add(&h, &h)), i);
	CHECK_EQ(handles_add(&h, &h), 0);
	handles_fini(&h);
	CHECK(!handles_get(&h, 1u << HANDLE_SLOT_BITS));
}

int case_handle(void)
{
	test_names();
	test_retirement(HANDLE_INTERNAL);
	test_retirement(HANDLE_PEER);
	test_retirement(HANDLE_REMOTE);
	test_growth();
	return 0;
}
