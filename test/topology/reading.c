/* SPDX-License-Identifier: Apache-2.0 */
/* A machine as text: what is written is read again as it was, and a line that is wrong is refused
 * by its number. */
#include <dirent.h>
#include "load.h"

/* Of all machines; the caller frees it. */
static char *text_of(const struct machine *m, size_t *len)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, len);

	CHECK(f);
	machine_write(m, f);
	CHECK_EQ(fclose(f), 0);
	return text;
}

static void check_same(const char *name)
{
	size_t len, len_again;
	struct machine m, again;
	char *text, *text_again;

	load_machine(&m, name);
	text = text_of(&m, &len);
	CHECK_EQ(machine_init(&again), 0);
	CHECK_EQ(machine_read_text(&again, text, len), 0);
	CHECK_EQ(again.nplaces, m.nplaces);
	CHECK_EQ(again.nports, m.nports);
	text_again = text_of(&again, &len_again);
	CHECK(len == len_again && !memcmp(text, text_again, len));
	free(text);
	free(text_again);
	machine_fini(&m);
	machine_fini(&again);
}

static void test_round_trip(void)
{
	DIR *dir = opendir(MACHINES);
	struct dirent *e;
	uint32_t n = 0;

	CHECK(dir);
	while ((e = readdir(dir))) {
		char name[64];
		size_t len = strlen(e->d_name);

		if (len < 5 || len >= sizeof(name) || strcmp(e->d_name + len - 4, ".txt"))
			continue;
		memcpy(name, e->d_name, len - 4);
		name[len - 4] = 0;
		check_same(name);
		n++;
	}
	closedir(dir);
	printf("%u machines\n", n);
	CHECK_GE(n, 12);
}

static void refused(const char *text, const char *words)
{
	struct machine m;

	CHECK_EQ(machine_init(&m), 0);
	CHECK_EQ(machine_read_text(&m, text, strlen(text)), -EINVAL);
	CHECK_SAYS(urccl_errmsg(), words);
	machine_fini(&m);
}

static void test_refused(void)
{
	refused("\n\nchip 0000:00\n", "line 3: node, host");
	refused("node\n", "line 1: a node's number");
	refused("node 0\nnode 0\n", "line 2: this node was there");
	refused("node 0 cpus 3-1\n", "line 1: cpus");
	refused("node 0 distance 10 256\n", "line 1: distances");
	refused("host 0000:00 node 1\n", "line 1: there is no line");
	refused("gpu 0000:01:00.0\n", "line 1: this has to hang on a host");
	refused("host 0000:00\n host 0000:01\n", "line 2: a host bridge hangs on nothing");
	refused("host 0000:00\n gpu 0000:01:00.0\n  gpu 0000:02:00.0\n",
		"line 3: nothing but ports");
	refused("host 0000:00\n gpu 0000:01:00.0 warm\n", "line 2: node or hidden");
	refused("host 0000:00\n gpu 0000:0G:00.0\n", "line 2: a PCI address");
	refused("host 0000:00\n nic 0000:01:00.0\n", "line 2: a NIC's name");
	refused("host 0000:00\n\tport 1 up\n", "line 2: a port has to stand below");
	refused("host 0000:00\n nic 0000:01:00.0 a\n  port 0\n", "line 3: a port's number");
	refused("host 0000:00\n nic 0000:01:00.0 a\n  port 1 fast\n", "line 3: up, down");
	refused("host 0000:00\n nic 0000:01:00.0 a\n  port 1 nan\n", "line 3: up, down");
}

/* Addresses are put in order, tabs and blanks go together, remarks and empty lines are nothing. */
static void test_loose(void)
{
	static const char text[] = "# a machine\nnode 0 cpus 0-3\n\nnode 1\n"
				   "host 0000:80 node 1 # the second\n"
				   "  bridge 0000:80:02.0\n\tgpu 0000:82:00.0\n"
				   "  bridge 0000:80:01.0\n    nic 0000:81:00.0 mlx5_0 node 0\r\n"
				   "host 0000:00";
	static const char written[] = "node 0 cpus 0-3\nnode 1\n"
				      "host 0000:00 node 0\nhost 0000:80 node 1\n"
				      "\tbridge 0000:80:01.0\n\t\tnic 0000:81:00.0 mlx5_0 node 0\n"
				      "\tbridge 0000:80:02.0\n\t\tgpu 0000:82:00.0\n";
	struct machine m;
	size_t len;
	char *got;

	CHECK_EQ(machine_init(&m), 0);
	CHECK_EQ(machine_read_text(&m, text, strlen(text)), 0);
	got = text_of(&m, &len);
	if (strcmp(got, written))
		fprintf(stderr, "%s", got);
	CHECK(!strcmp(got, written));
	free(got);
	machine_fini(&m);
}

static void test_files(void)
{
	struct machine m;

	CHECK_EQ(machine_init(&m), 0);
	CHECK_EQ(machine_read_file(&m, MACHINES "/nowhere.txt"), -ENOENT);
	CHECK(strstr(urccl_errmsg(), "nowhere.txt\" cannot be read"));
	CHECK_EQ(machine_read_file(&m, MACHINES), -EINVAL);
	CHECK_EQ(machine_read_file(&m, MACHINES "/../meson.build"), -EINVAL);
	CHECK(strstr(urccl_errmsg(), "meson.build\": line 3: "));
	machine_fini(&m);
}

int main(void)
{
	test_round_trip();
	test_refused();
	test_loose();
	test_files();
	return 0;
}
