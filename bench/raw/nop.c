/* SPDX-License-Identifier: Apache-2.0 */
/* io_uring's own floor: batches of NOP, submitted and waited for with one system call. */
#include "raw.h"

#include <liburing.h>
#include <string.h>

enum { BURST = 64 };

static void fill(struct io_uring *ring, unsigned int batch)
{
	unsigned int i;

	for (i = 0; i < batch; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

		if (!sqe)
			bench_die("io_uring gave no entry");
		io_uring_prep_nop(sqe);
		sqe->user_data = i;
	}
}

static void one_batch(struct io_uring *ring, unsigned int batch)
{
	unsigned int got = 0;
	int err;

	fill(ring, batch);
	err = io_uring_submit_and_wait(ring, batch);
	if (err < 0)
		bench_die("io_uring: %s", strerror(-err));
	while (got < batch) {
		struct io_uring_cqe *cqe;
		unsigned int head, n = 0;

		io_uring_for_each_cqe(ring, head, cqe)
		{
			n++;
		}
		io_uring_cq_advance(ring, n);
		got += n;
	}
}

static void run(struct report *report, const struct raw_options *options, const char *name,
		unsigned int flags, unsigned int batch)
{
	struct io_uring_params params = {.flags = flags};
	uint64_t start, now, count = 0;
	struct io_uring ring;
	int err, i;

	err = io_uring_queue_init_params(256, &ring, &params);
	if (err)
		bench_die("io_uring is not to be had here: %s", strerror(-err));
	start = bench_now();
	do {
		for (i = 0; i < BURST; i++)
			one_batch(&ring, batch);
		count += BURST * (uint64_t)batch;
		now = bench_now();
	} while ((double)(now - start) < options->seconds * 1e9);
	io_uring_queue_exit(&ring);
	report_metric(report, (double)count / (double)(now - start) * 1e3, "M/s",
		      "nop.%s.batch%u.rate", name, batch);
	report_metric(report, (double)(now - start) / (double)count, "ns", "nop.%s.batch%u.each",
		      name, batch);
}

int main(int argc, char **argv)
{
	static const unsigned int batches[] = {1, 8, 32, 128};
	struct raw_options options;
	struct report report;
	unsigned int i;

	raw_options(&options, argc, argv, "raw_nop: io_uring NOP in batches (--mode plain|defer)");
	report_open(&report, "raw_nop", options.json);
	bench_pin(options.cpu[0]);
	for (i = 0; i < sizeof(batches) / sizeof(batches[0]); i++) {
		if (raw_wanted(&options, "plain"))
			run(&report, &options, "plain", 0, batches[i]);
		if (raw_wanted(&options, "defer"))
			run(&report, &options, "defer",
			    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, batches[i]);
	}
	report_close(&report);
	return 0;
}
