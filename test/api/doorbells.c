/* SPDX-License-Identifier: Apache-2.0 */
/* Of 64-byte WRITEs with DEPTH under way, 16 and more go by one doorbell and have one completion
 * of the device's, also where each is submitted by itself as soon as another has ended. Over
 * devices that are made up, whose requests take their time: SHIM, and SHIM_SO, of
 * test/conformance/ibv_shim.c, which counts. */
#include <dlfcn.h>
#include <stdlib.h>
#include "pair.h"

#define DEPTH  128u
#define LEN    64u
#define WRITES 40000u

static struct pair p;
static struct target t;
static uint8_t local[DEPTH * LEN];

static unsigned long count(const char *name)
{
	void *shim = dlopen(getenv("UCCL_IBV_SO"), RTLD_NOW | RTLD_NOLOAD);
	const unsigned long *n = shim ? dlsym(shim, name) : NULL;

	CHECK(n);
	dlclose(shim);
	return __atomic_load_n(n, __ATOMIC_RELAXED);
}

static void submit(uint32_t slot)
{
	struct urccl_sqe *sqe = urccl_get_sqe(p.a.ring);

	CHECK(sqe);
	urccl_prep_write(sqe, t.remote, local + slot * LEN, LEN, slot * LEN);
	urccl_sqe_set_data64(sqe, slot);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

static void writes(uint32_t n)
{
	struct urccl_cqe cqe;
	uint32_t i, ended;

	for (i = 0; i < DEPTH; i++)
		submit(i);
	for (ended = 0; ended < n; ended++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.res, LEN);
		if (i++ < n)
			submit((uint32_t)cqe.user_data);
	}
}

int main(int argc, char **argv)
{
	unsigned long bells, requests, signalled;

	pair_begin(&p, argc, argv);
#ifdef __SANITIZE_THREAD__
	SKIP("a program that TSan slows submits each entry after the engine rang for the last");
#endif
	if (!getenv("SHIM"))
		SKIP("SHIM and UCCL_IBV_SO are not set: nobody counts doorbells here");
	target_open(&p, &t, sizeof(local), 0);
	side_register(&p.a, local, sizeof(local), 0);
	pattern_fill(local, sizeof(local), 0, 1);
	writes(DEPTH); /* keys are there */
	bells = count("shim_doorbells");
	requests = count("shim_requests");
	signalled = count("shim_signalled");
	writes(WRITES);
	bells = count("shim_doorbells") - bells;
	requests = count("shim_requests") - requests;
	signalled = count("shim_signalled") - signalled;
	printf("%u WRITEs: %lu requests, %lu doorbells, %lu signalled\n", WRITES, requests, bells,
	       signalled);
	CHECK(pattern_holds(t.bytes, sizeof(local), 0, 1));
	CHECK_GE(requests, WRITES);
	CHECK_LE(bells * 16, WRITES);
	CHECK_LE(signalled * 16, WRITES);
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
